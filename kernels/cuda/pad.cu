// SPDX-License-Identifier: Apache-2.0
// Picking entries by one map per dimension (ops/grid_axes.h): padding at edges, nearest neighbours. A thread an element
// of the result; blocks walk their part when there are more than a grid holds.
#include <tenon/kernels/cuda/divider.h>
#include <tenon/kernels/cuda/launch.h>
#include <tenon/kernels/grid_axes.h>
#include <tenon/ops/pad.h>
#include <tenon/kernels/cuda/vector.cuh>

#include <algorithm>

namespace tenon {
namespace {

constexpr int kThreads = 256;

struct PickArgs {
  Grid grid;
  cuda::Divider sizes[4];  // innermost first: inner, axes 2, 1, 0 of the result
};

// kWide: 2^31 elements or more.
template <class Word, bool kWide>
__global__ void __launch_bounds__(kThreads)
    pick_kernel(Word* out, const Word* self, const int64_t count, const __grid_constant__ PickArgs p) {
  const GridAxis(&a)[3] = p.grid.axes;
  const int64_t step = int64_t(gridDim.x) * kThreads;
  for (int64_t i = int64_t(blockIdx.x) * kThreads + threadIdx.x; i < count; i += step) {
    int64_t at[4], rest = i;
    const int64_t sizes[4] = {p.grid.inner, a[2].out, a[1].out, a[0].out};
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const int64_t quotient = kWide ? rest / sizes[k] : int64_t(p.sizes[k].quotient(static_cast<uint32_t>(rest)));
      at[k] = rest - quotient * sizes[k];
      rest = quotient;
    }
    const int64_t z = grid::picked(a[0], at[3]), y = grid::picked(a[1], at[2]), x = grid::picked(a[2], at[1]);
    out[i] = self[(((rest * a[0].in + z) * a[1].in + y) * a[2].in + x) * p.grid.inner + at[0]];
  }
}

template <class W>
void pad_edges_cuda(const Tensor& out, const Tensor& self, const Grid& grid) {
  using Word = cuda::word_t<sizeof(W)>;
  const int64_t count = out.numel();
  PickArgs p{grid, {}};
  const bool wide = count >= int64_t(1) << 31;
  const int64_t sizes[4] = {grid.inner, grid.axes[2].out, grid.axes[1].out, grid.axes[0].out};
  if (!wide)
    for (int k = 0; k < 4; ++k) p.sizes[k] = cuda::Divider(static_cast<uint32_t>(sizes[k]));
  const auto blocks = static_cast<unsigned>(std::min<int64_t>(cuda::ceil_div(count, kThreads), int64_t(1) << 22));
  cuda::launch(wide ? pick_kernel<Word, true> : pick_kernel<Word, false>, blocks, kThreads, 0,
               static_cast<Word*>(out.data_ptr()), static_cast<const Word*>(self.data_ptr()), count, p);
}
TENON_REGISTER_KERNEL(op::pad_edges, cuda, Widths, pad_edges_cuda);

}  // namespace
}  // namespace tenon
