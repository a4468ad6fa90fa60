// SPDX-License-Identifier: Apache-2.0
// Joining tensors (ops/cat.h): runs of bytes from contiguous tensors, strided copies from the others.
#include <tenon/dispatch/make_tensor.h>
#include <tenon/kernels/cpu/parallel.h>
#include <tenon/ops/cat.h>

#include <cstring>

namespace tenon::cpu {
namespace {

template <class W>
void cat_cpu(const Tensor& out, TensorList tensors, int64_t dim) {
  const auto d = static_cast<std::size_t>(dim);
  int64_t outer = 1, inner = static_cast<int64_t>(sizeof(W));  // bytes of one step of `dim`, when contiguous
  for (std::size_t i = 0; i < out.sizes().size(); ++i) {
    if (i < d) outer *= out.sizes()[i];
    if (i > d) inner *= out.sizes()[i];
  }
  constexpr int64_t kPiece = 1 << 18;  // bytes a thread takes at a time
  const int64_t line = out.sizes()[d] * inner;
  int64_t at = 0;
  for (const Tensor& t : tensors) {
    const int64_t length = t.sizes()[d], run = length * inner;
    if (out.is_contiguous() && t.is_contiguous()) {
      char* const to = static_cast<char*>(out.data_ptr()) + at * inner;
      const char* const from = static_cast<const char*>(t.data_ptr());
      if (outer == 1) {
        parallel_for(0, run, kPiece, [&](int64_t begin, int64_t end) {
          std::memcpy(to + begin, from + begin, static_cast<std::size_t>(end - begin));
        });
      } else {
        parallel_for(0, outer, kPiece / run + 1, [&](int64_t begin, int64_t end) {
          for (int64_t o = begin; o < end; ++o)
            std::memcpy(to + o * line, from + o * run, static_cast<std::size_t>(run));
        });
      }
    } else {
      Tensor part = dispatch::make_view(out, t.sizes(), out.strides(), out.storage_offset() + at * out.strides()[d]);
      part.copy_(t);
    }
    at += length;
  }
}
TENON_REGISTER_KERNEL(op::cat, cpu, Widths, cat_cpu);

}  // namespace
}  // namespace tenon::cpu
