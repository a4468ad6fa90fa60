// SPDX-License-Identifier: Apache-2.0
// The two ways a tensor comes into being below the operators: fresh memory, or a view of a present one.
#pragma once

#include <tenon/core/tensor.h>

namespace tenon::dispatch {

/// Uninitialised tensor on `device` (index resolved), contiguous unless strides are given. Sizes must be checked.
TENON_API Tensor make_tensor(IntArrayRef sizes, DType dtype, Device device, IntArrayRef strides = {},
                             bool pinned = false);
/// A view of `self`: same storage, other geometry (strides and offset in elements of `dtype`, self's if undefined).
/// Remembers its base, so that autograd can follow writes through it; its dtype may differ from the base's only as a
/// complex number differs from its parts. ShapeError when it would reach outside the storage.
TENON_API Tensor make_view(const Tensor& self, IntArrayRef sizes, IntArrayRef strides, int64_t offset,
                           bool multi_output = false, DType dtype = DType::undefined);
/// The same data without any relation to `self`'s history (detach): shares storage and version.
TENON_API Tensor make_alias(const Tensor& self);

/// Whether two elements of `t` may lie at one address (expanded tensors); overlap within such is an error to write.
TENON_API bool overlaps_itself(const Tensor& t);
enum class Overlap : uint8_t { none, full, partial };
/// Whether memory of `a` and `b` intersects: full means element i of one is element i of the other.
TENON_API Overlap overlap(const Tensor& a, const Tensor& b);
/// AliasError unless `out` may be written while `inputs` are read element by element.
TENON_API void check_writable(std::string_view who, const Tensor& out, std::span<const Tensor* const> inputs);
/// No gaps, no overlap, in some order of dimensions.
TENON_API bool is_dense(const Tensor& t);
/// Gives `t` new sizes, contiguous; grows the storage if needed (contents up to the old size are kept only within it).
TENON_API void resize(const Tensor& t, IntArrayRef sizes);
/// Sizes two shapes broadcast to; ShapeError naming `who` and both.
TENON_API DimVector broadcast_sizes(IntArrayRef a, IntArrayRef b, std::string_view who);

}  // namespace tenon::dispatch
