// SPDX-License-Identifier: Apache-2.0
// Positions of true elements (ops/nonzero.h): pieces of the mask count theirs, then write from where the ones before end.
#include <tenon/kernels/cpu/parallel.h>
#include <tenon/ops/nonzero.h>

#include <algorithm>

namespace tenon::cpu {
namespace {

template <class T>
void nonzero_cpu(const Tensor& places, const Tensor& mask) {
  constexpr int64_t kPiece = 1 << 16;
  const int64_t n = mask.numel(), pieces = (n + kPiece - 1) / kPiece;
  const auto* const values = static_cast<const uint8_t*>(mask.data_ptr());
  std::vector<int64_t> starts(static_cast<std::size_t>(pieces) + 1, 0);
  parallel_for(0, pieces, 1, [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) {
      int64_t count = 0;
      for (int64_t i = p * kPiece; i < std::min(n, (p + 1) * kPiece); ++i) count += values[i] != 0;
      starts[static_cast<std::size_t>(p) + 1] = count;
    }
  });
  for (std::size_t p = 0; p < static_cast<std::size_t>(pieces); ++p) starts[p + 1] += starts[p];
  const IntArrayRef sizes = mask.sizes();
  const std::size_t dims = sizes.size();
  const int64_t width = sizes.back();
  parallel_for(0, pieces, 1, [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) {
      auto* to = static_cast<int64_t*>(places.data_ptr()) + starts[static_cast<std::size_t>(p)] * places.stride(0);
      for (int64_t i = p * kPiece, last = std::min(n, i + kPiece); i < last;) {
        // One row, or what of it lies in the piece: its leading numbers are worked out once.
        DimVector at(dims, 0);
        int64_t row = i / width, column = i % width;
        for (std::size_t d = dims - 1; d-- > 0; row /= sizes[d]) at[d] = row % sizes[d];
        for (const int64_t stop = std::min(last, i - column + width); i < stop;) {
          int64_t found[256], count = 0;  // without a branch on what is found
          for (const int64_t end_of_block = std::min(stop, i + 256); i < end_of_block; ++i, ++column) {
            found[count] = column;
            count += values[i] != 0 ? 1 : 0;
          }
          for (int64_t k = 0; k < count; ++k) {
            for (std::size_t d = 0; d + 1 < dims; ++d) *to++ = at[d];
            *to++ = found[k];
          }
        }
      }
    }
  });
}

TENON_REGISTER_KERNEL(op::nonzero, cpu, Bools, nonzero_cpu);

}  // namespace
}  // namespace tenon::cpu
