// SPDX-License-Identifier: Apache-2.0
// Sums, means and maxima of rows by index: a block takes a bag and a tile of columns, a thread a column, in the order of the
// indices. Offsets and indices out of range are noted, and left out.
#include <tenon/kernels/cuda/device_error.h>
#include <tenon/kernels/cuda/launch.h>
#include <tenon/ops/embedding_bag.h>
#include <tenon/streams/guard.h>
#include <tenon/kernels/cuda/vector.cuh>

namespace tenon {
namespace {

using cuda::compute_t;
constexpr int kThreads = 128;

template <class T>
struct Bags {
  const T *weight, *scales;  // scales may be null
  const int64_t *indices, *offsets;
  T* out;
  int64_t *bag_of, *counts, *places;  // places: of maxima only
  int64_t n, columns, offset_count, padding;
  bool mean;
  cuda::IndexCheck check_row, check_offset;
};

template <class T>
__global__ void __launch_bounds__(kThreads) bag_kernel(const __grid_constant__ Bags<T> p) {
  using C = compute_t<T>;
  const int64_t bag = blockIdx.x, column = int64_t(blockIdx.y) * kThreads + threadIdx.x;
  int64_t begin = p.offsets[bag], end = bag + 1 < p.offset_count ? p.offsets[bag + 1] : p.n;
  if (!p.check_offset(begin, bag) || !p.check_offset(end, bag + 1)) begin = end = 0;
  if (blockIdx.y == 0)
    for (int64_t i = begin + threadIdx.x; i < end; i += kThreads)
      if (p.indices[i] != p.padding && p.check_row(p.indices[i], i)) p.bag_of[i] = bag;
  const bool has_column = column < p.columns;
  C sum = 0;
  int64_t used = 0, place = -1;
  for (int64_t i = begin; i < end; ++i) {
    const int64_t row = p.indices[i];
    if (row == p.padding || static_cast<uint64_t>(row) >= static_cast<uint64_t>(p.check_row.size)) continue;
    ++used;
    if (!has_column) continue;
    C v = static_cast<C>(p.weight[row * p.columns + column]);
    if (p.places != nullptr) {
      if (used == 1 || v > sum) sum = v, place = row;
      continue;
    }
    if (p.scales != nullptr) v *= static_cast<C>(p.scales[i]);
    sum += v;
  }
  if (blockIdx.y == 0 && threadIdx.x == 0) p.counts[bag] = used;
  if (!has_column) return;
  if (p.mean && used > 1) sum /= static_cast<C>(used);
  p.out[bag * p.columns + column] = static_cast<T>(sum);
  if (p.places != nullptr) p.places[bag * p.columns + column] = place;
}

template <class T>
void embedding_bag_cuda(const Tensor& output, const Tensor& bag_of, const Tensor& counts, const Tensor& places,
                        const Tensor& weight, const Tensor& indices, const Tensor& offsets,
                        const Tensor& per_sample_weights, int64_t mode, int64_t padding_idx) {
  const DeviceGuard guard(output.device());
  const int64_t n = indices.numel(), rows = weight.size(0), columns = weight.size(1), bags = output.size(0);
  TENON_CHECK(bags < (int64_t(1) << 31), ShapeError, "embedding_bag: offsets: expected fewer than 2^31 bags, got ",
              bags);
  const auto list = [](const Tensor& t) { return static_cast<int64_t*>(t.data_ptr()); };
  const Bags<T> p{static_cast<const T*>(weight.data_ptr()),
                  per_sample_weights.defined() ? static_cast<const T*>(per_sample_weights.data_ptr()) : nullptr,
                  list(indices),
                  list(offsets),
                  static_cast<T*>(output.data_ptr()),
                  list(bag_of),
                  list(counts),
                  mode == kBagMax ? list(places) : nullptr,
                  n,
                  columns,
                  offsets.numel(),
                  padding_idx,
                  mode == kBagMean,
                  cuda::index_check("embedding_bag", "input", rows, 0),
                  cuda::index_check("embedding_bag", "offsets", n + 1, -1)};
  const int64_t tiles = cuda::ceil_div(columns > 0 ? columns : 1, kThreads);
  TENON_CHECK(tiles < 65536, ShapeError, "embedding_bag: weight: expected fewer than 2^23 columns, got ", columns);
  cuda::launch(bag_kernel<T>, dim3(static_cast<unsigned>(bags), static_cast<unsigned>(tiles)), kThreads, 0, p);
}

TENON_REGISTER_KERNEL(op::embedding_bag_forward, cuda, FloatsAndHalves, embedding_bag_cuda);

}  // namespace
}  // namespace tenon
