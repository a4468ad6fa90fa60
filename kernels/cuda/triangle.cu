// SPDX-License-Identifier: Apache-2.0
// tril and triu (ops/triangle.h): a copy that writes zeros where the third operand's address, column - row, lies beyond
// the diagonal. Nothing is read there.
#include <tenon/ops/triangle.h>
#include <tenon/kernels/cuda/loops.cuh>

namespace tenon {
namespace {

constexpr int kTriangleUnroll = 4;

template <class Word>
__global__ void __launch_bounds__(cuda::kLoopThreads)
    triangle_kernel(const __grid_constant__ cuda::LoopArgs<3> p, const int64_t diagonal, const bool upper) {
  constexpr int U = kTriangleUnroll;
  const cuda::detail::Walk<1, U, 3> walk(p);
  Word x[U];
#pragma unroll
  for (int u = 0; u < U; ++u) {
    const int64_t right = reinterpret_cast<int64_t>(p.data[2]) + walk.offset[u][2];
    const bool stays = walk.index[u] < p.vectors && (upper ? right >= diagonal : right <= diagonal);
    x[u] = stays ? *reinterpret_cast<const Word*>(p.data[1] + walk.offset[u][1]) : Word{};
  }
#pragma unroll
  for (int u = 0; u < U; ++u)
    if (walk.index[u] < p.vectors) *reinterpret_cast<Word*>(p.data[0] + walk.offset[u][0]) = x[u];
}

template <class W>
void triangle_cuda(const LoopPlan& plan, int64_t diagonal, bool upper) {
  cuda::for_each_32bit(plan, [&](const cuda::LoopRange& range) {
    cuda::LoopArgs<3> p;
    cuda::make_args(p, range, 1);
    cuda::launch(triangle_kernel<cuda::word_t<sizeof(W)>>, cuda::detail::walk_blocks(p, kTriangleUnroll),
                 cuda::kLoopThreads, 0, p, diagonal, upper);
  });
}
TENON_REGISTER_KERNEL(op::tril, cuda, Widths, triangle_cuda);

}  // namespace
}  // namespace tenon
