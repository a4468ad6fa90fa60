// SPDX-License-Identifier: Apache-2.0
// Picking entries by one map per dimension (ops/grid_axes.h): padding at edges, nearest neighbours. Rows are copied in
// runs of neighbours where the map has them, entry by entry where not, and whole where the row before came from the same place.
#include <tenon/kernels/cpu/parallel.h>
#include <tenon/kernels/grid_axes.h>
#include <tenon/ops/pad.h>

#include <cstring>

namespace tenon::cpu {
namespace {

struct CopyRun {
  int64_t to, from, length;  // elements of a row
};

template <class W>
void pad_edges_cpu(const Tensor& out, const Tensor& self, const Grid& grid) {
  const GridAxis(&a)[3] = grid.axes;
  std::vector<int64_t> index[3];
  for (int k = 0; k < 3; ++k)
    for (int64_t i = 0; i < a[k].out; ++i) index[k].push_back(grid::picked(a[k], i));
  std::vector<CopyRun> runs;
  for (int64_t i = 0; i < a[2].out; ++i) {
    const int64_t from = index[2][static_cast<std::size_t>(i)] * grid.inner;
    if (!runs.empty() && runs.back().from + runs.back().length == from)
      runs.back().length += grid.inner;
    else
      runs.push_back({i * grid.inner, from, grid.inner});
  }
  const int64_t in_row = a[2].in * grid.inner, out_row = a[2].out * grid.inner, rows = grid.outer * a[0].out * a[1].out;
  const bool scattered = static_cast<int64_t>(runs.size()) * 4 > out_row;  // then inner is small as well
  if (scattered && grid.inner > 1) {
    runs.clear();
    std::vector<int64_t> wide;
    for (const int64_t i : index[2])
      for (int64_t c = 0; c < grid.inner; ++c) wide.push_back(i * grid.inner + c);
    index[2] = std::move(wide);
  }
  const W* const from = static_cast<const W*>(self.data_ptr());
  W* const to = static_cast<W*>(out.data_ptr());
  const int64_t* const column = index[2].data();
  parallel_for(0, rows, (1 << 15) / out_row + 1, [&](int64_t begin, int64_t end) {
    int64_t previous = -1;
    for (int64_t row = begin; row < end; ++row) {
      const int64_t y = row % a[1].out, rest = row / a[1].out, z = rest % a[0].out, n = rest / a[0].out;
      const int64_t source =
          (n * a[0].in + index[0][static_cast<std::size_t>(z)]) * a[1].in + index[1][static_cast<std::size_t>(y)];
      W* const __restrict target = to + row * out_row;
      const W* const __restrict x = from + source * in_row;
      if (source == previous) {
        std::memcpy(target, target - out_row, static_cast<std::size_t>(out_row) * sizeof(W));
      } else if (scattered) {
        for (int64_t i = 0; i < out_row; ++i) target[i] = x[column[i]];
      } else {
        for (const CopyRun& r : runs) {
          if (r.length < 4)
            for (int64_t i = 0; i < r.length; ++i) target[r.to + i] = x[r.from + i];
          else
            std::memcpy(target + r.to, x + r.from, static_cast<std::size_t>(r.length) * sizeof(W));
        }
      }
      previous = source;
    }
  });
}
TENON_REGISTER_KERNEL(op::pad_edges, cpu, Widths, pad_edges_cpu);

}  // namespace
}  // namespace tenon::cpu
