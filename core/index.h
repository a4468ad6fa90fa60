// SPDX-License-Identifier: Apache-2.0
// What may stand between the brackets: x.index({Slice(0, 5), None, Ellipsis, 2, mask}).
#pragma once

#include <tenon/core/tensor.h>

namespace tenon {

struct NoneIndex {};
struct EllipsisIndex {};
inline constexpr NoneIndex None{};          ///< a new dimension of size 1
inline constexpr EllipsisIndex Ellipsis{};  ///< as many full slices as are missing

/// start:stop:step with Python's clamping; step must be positive.
struct Slice {
  std::optional<int64_t> start, stop;
  int64_t step = 1;
  Slice() = default;
  Slice(std::optional<int64_t> from, std::optional<int64_t> to = {}, int64_t by = 1)
      : start(from), stop(to), step(by) {}
  Slice(NoneIndex, std::optional<int64_t> to, int64_t by = 1) : stop(to), step(by) {}
  Slice(std::optional<int64_t> from, NoneIndex, int64_t by = 1) : start(from), step(by) {}
  Slice(NoneIndex, NoneIndex, int64_t by = 1) : step(by) {}
};

struct TensorIndex {
  enum class Kind : uint8_t { none, ellipsis, integer, boolean, slice, tensor };
  TensorIndex(NoneIndex) : kind(Kind::none) {}                                     // NOLINT
  TensorIndex(EllipsisIndex) : kind(Kind::ellipsis) {}                             // NOLINT
  TensorIndex(Slice s) : kind(Kind::slice), range(s) {}                            // NOLINT
  TensorIndex(Tensor t) : kind(Kind::tensor), tensor(static_cast<Tensor&&>(t)) {}  // NOLINT
  template <class T, class = std::enable_if_t<std::is_integral_v<T>>>
  TensorIndex(T v)  // NOLINT
      : kind(std::is_same_v<T, bool> ? Kind::boolean : Kind::integer), integer(static_cast<int64_t>(v)) {}

  Kind kind;
  int64_t integer = 0;
  Slice range;
  Tensor tensor;
};

}  // namespace tenon
