// SPDX-License-Identifier: Apache-2.0
// Copies whose result is contiguous along one dimension and whose source is contiguous along another: tiles pass
// through shared memory, so that both sides are read and written along their own rows, 16 bytes a thread.
//
// Note [Tile order]. Tiles are walked in bands eight tiles wide: the blocks that run at one time then cover a compact
// patch of both sides, and neither is reduced to short pieces of very many rows.
#pragma once

#include <tenon/kernels/cuda/divider.h>
#include <tenon/kernels/cuda/launch.h>
#include <tenon/kernels/cuda/vector.cuh>

#include <tenon/dispatch/loop_plan.h>

namespace tenon::cuda {

/// x: contiguous in the result; y: contiguous in the source; the other dimensions are a batch.
struct TransposeArgs {
  char* out;
  const char* in;
  uint32_t x, y;              ///< sizes
  int64_t out_step, in_step;  ///< bytes from one y to the next in the result, one x to the next in the source
  uint32_t tiles_x, tiles_y;
  Divider tiles;  ///< in one batch entry
  int batch_ndim;
  Divider batch_sizes[kMaxDims];
  int64_t out_strides[kMaxDims], in_strides[kMaxDims];
};

namespace detail {

template <int Bytes>
inline constexpr int kTile = Bytes <= 4 ? 64 : 32;
inline constexpr int kTransposeThreads = 256;

template <int Bytes, int V>
__global__ void __launch_bounds__(kTransposeThreads) transpose_kernel(const __grid_constant__ TransposeArgs p) {
  using Word = word_t<Bytes>;
  constexpr int kSide = kTile<Bytes>, kLanes = kSide / V, kRows = kTransposeThreads / kLanes;
  // A row pitch of an odd number of 4-byte words (or of whole words, for wide elements) spreads columns over banks.
  constexpr int kPitch = kSide + (Bytes >= 4 ? 1 : 4 / Bytes);
  __shared__ Word tile[kSide * kPitch];

  const uint32_t batch = p.tiles.quotient(blockIdx.x);
  uint32_t rest = blockIdx.x - batch * p.tiles.size;
  const uint32_t band = rest / (8 * p.tiles_y);
  rest -= band * 8 * p.tiles_y;
  const uint32_t width = ::min(8u, p.tiles_x - band * 8);
  const uint32_t x0 = (band * 8 + rest % width) * kSide, y0 = rest / width * kSide;
  const char* in = p.in + find_offset(p.batch_ndim, p.batch_sizes, p.in_strides, batch);
  char* out = p.out + find_offset(p.batch_ndim, p.batch_sizes, p.out_strides, batch);
  const uint32_t lane = threadIdx.x % kLanes * V, row = threadIdx.x / kLanes;

  // With V > 1, sizes are multiples of V: a vector is inside or outside as a whole.
  Vector<Word, V> v[kSide / kRows];
#pragma unroll
  for (int k = 0; k < kSide / kRows; ++k) {
    const uint32_t x = x0 + row + k * kRows, y = y0 + lane;
    if (x < p.x && y < p.y) v[k] = load_vector<Word, V>(in + x * p.in_step + int64_t(y) * Bytes);
  }
#pragma unroll
  for (int k = 0; k < kSide / kRows; ++k)
#pragma unroll
    for (int i = 0; i < V; ++i) tile[(row + k * kRows) * kPitch + lane + i] = v[k].v[i];
  __syncthreads();
#pragma unroll
  for (int k = 0; k < kSide / kRows; ++k) {
    const uint32_t across = row + k * kRows, x = x0 + lane, y = y0 + across;
    Vector<Word, V> w;
#pragma unroll
    for (int i = 0; i < V; ++i) w.v[i] = tile[(lane + i) * kPitch + across];
    if (x < p.x && y < p.y) store_vector<Word, V>(out + y * p.out_step + int64_t(x) * Bytes, w);
  }
}

template <int Bytes>
void launch_transpose(const TransposeArgs& p, unsigned blocks, bool vectors) {
  if (vectors)
    launch(transpose_kernel<Bytes, 16 / Bytes>, blocks, kTransposeThreads, 0, p);
  else
    launch(transpose_kernel<Bytes, 1>, blocks, kTransposeThreads, 0, p);
}

}  // namespace detail
}  // namespace tenon::cuda
