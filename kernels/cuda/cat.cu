// SPDX-License-Identifier: Apache-2.0
// cat, and with it stack: contiguous inputs are blocks of bytes that repeat `outer` times, so one kernel per width of
// access serves every dtype. Up to kInputs tensors a launch.
#include <tenon/dispatch/make_tensor.h>
#include <tenon/kernels/cuda/divider.h>
#include <tenon/kernels/cuda/launch.h>
#include <tenon/ops/cat.h>
#include <tenon/streams/guard.h>
#include <tenon/kernels/cuda/vector.cuh>

#include <algorithm>
#include <vector>

namespace tenon {
namespace {

constexpr int kInputs = 64, kThreads = 256;

// Lengths in words of the access.
struct Piece {
  const char* from;
  int64_t to;      // where its first row lies in the output's
  int64_t length;  // of a row
  int64_t words;   // length * outer
  cuda::Divider divider;
};
struct CatArgs {
  char* out;
  int64_t row;  // of the output
  Piece pieces[kInputs];
};

// A block walks the input blockIdx.y; kWide: more than 2^31 words.
template <int Bytes, bool kWide>
__global__ void __launch_bounds__(kThreads) cat_kernel(const __grid_constant__ CatArgs p) {
  using Word = cuda::word_t<Bytes>;
  constexpr int U = 4;
  const Piece& piece = p.pieces[blockIdx.y];
  const auto* from = reinterpret_cast<const Word*>(piece.from);
  auto* out = reinterpret_cast<Word*>(p.out) + piece.to;
  const int64_t step = int64_t(gridDim.x) * kThreads * U;
  for (int64_t first = int64_t(blockIdx.x) * kThreads * U + threadIdx.x; first < piece.words; first += step) {
    Word x[U];
#pragma unroll
    for (int u = 0; u < U; ++u)
      if (first + u * kThreads < piece.words) x[u] = from[first + u * kThreads];
#pragma unroll
    for (int u = 0; u < U; ++u) {
      const int64_t i = first + u * kThreads;
      if (i >= piece.words) break;
      const int64_t row = kWide ? i / piece.length : int64_t(piece.divider.quotient(static_cast<uint32_t>(i)));
      out[row * p.row + (i - row * piece.length)] = x[u];
    }
  }
}

template <int Bytes>
void launch_cat(const CatArgs& p, int count, int64_t most) {
  constexpr int64_t kTile = kThreads * 4;
  const int64_t enough =
      std::max<int64_t>(1, cuda::ceil_div(int64_t(cuda::device_limits().multiprocessors) * 64, count));
  const dim3 grid(static_cast<unsigned>(std::min(cuda::ceil_div(most, kTile), enough)), static_cast<unsigned>(count));
  if (most < (int64_t(1) << 31))
    cuda::launch(cat_kernel<Bytes, false>, grid, kThreads, 0, p);
  else
    cuda::launch(cat_kernel<Bytes, true>, grid, kThreads, 0, p);
}

void cat_bytes(const Tensor& out, TensorList tensors, int64_t dim) {
  const DeviceGuard guard(out.device());
  const Tensor to = out.is_contiguous() ? out : dispatch::make_tensor(out.sizes(), out.dtype(), out.device());
  std::vector<Tensor> copies;  // of strided inputs, kept until everything is queued
  const int64_t size = out.itemsize();
  int64_t outer = 1, inner = size;
  for (int64_t d = 0; d < out.dim(); ++d) {
    if (d < dim) outer *= out.size(d);
    if (d > dim) inner *= out.size(d);
  }
  const int64_t row = inner * out.size(dim);
  CatArgs p;
  int count = 0;
  int64_t at = 0;
  uint64_t bits = 0;  // what the widest access must divide
  const auto flush = [&] {
    if (count == 0) return;
    bits |= reinterpret_cast<uintptr_t>(to.data_ptr()) | static_cast<uint64_t>(row) | 16u;
    const auto width = static_cast<int64_t>(bits & (~bits + 1));
    p.out = static_cast<char*>(to.data_ptr());
    p.row = row / width;
    int64_t most = 0;
    for (int i = 0; i < count; ++i) {
      Piece& piece = p.pieces[i];
      piece.to /= width, piece.length /= width;
      piece.words = piece.length * outer;
      most = std::max(most, piece.words);
    }
    if (most < (int64_t(1) << 31))
      for (int i = 0; i < count; ++i) p.pieces[i].divider = cuda::Divider(static_cast<uint32_t>(p.pieces[i].length));
    switch (width) {
      case 1:
        launch_cat<1>(p, count, most);
        break;
      case 2:
        launch_cat<2>(p, count, most);
        break;
      case 4:
        launch_cat<4>(p, count, most);
        break;
      case 8:
        launch_cat<8>(p, count, most);
        break;
      default:
        launch_cat<16>(p, count, most);
    }
    count = 0;
    bits = 0;
  };
  for (const Tensor& t : tensors) {
    if (t.numel() == 0) continue;
    if (!t.is_contiguous()) copies.push_back(t.contiguous());
    const Tensor& from = t.is_contiguous() ? t : copies.back();
    const int64_t length = inner * t.size(dim);
    p.pieces[count++] = {static_cast<const char*>(from.data_ptr()), at, length, 0, cuda::Divider(1)};
    bits |= reinterpret_cast<uintptr_t>(from.data_ptr()) | static_cast<uint64_t>(length) | static_cast<uint64_t>(at);
    at += length;
    if (count == kInputs) flush();
  }
  flush();
  if (!to.is_same(out)) Tensor(out).copy_(to);
}

template <class T>
void cat_cuda(const Tensor& out, TensorList tensors, int64_t dim) {
  cat_bytes(out, tensors, dim);
}

TENON_REGISTER_KERNEL(op::cat, cuda, Widths, cat_cuda);

}  // namespace
}  // namespace tenon
