// SPDX-License-Identifier: Apache-2.0
// Padding: a tensor made larger, or where a number is negative smaller, at the ends of its last dimensions. `pad` lists two
// numbers per dimension, before and after, the last dimension first.
//
//   pad(x, {1, 1})                       zeros around the last dimension; any number of dimensions
//   pad(x, {1, 1, 2, 2}, "reflect")      mirrored at the edges; also "replicate" and "circular": the last 1, 2 or 3
//                                        dimensions of tensors with one or two more than that
#pragma once

#include <tenon/dispatch/register.h>
#include <tenon/dispatch/registry.h>
#include <tenon/ops/grid_axes.h>

namespace tenon {

/// self with `value`, converted to its dtype, around it.
TENON_OP(constant_pad_nd, "constant_pad_nd(Tensor self, int[] pad, Scalar value=0) -> Tensor", kernel, kNoInplace,
         Tensor(const Tensor&, IntArrayRef, const Scalar&), void())
inline Tensor constant_pad_nd(const Tensor& self, IntArrayRef pad, const Scalar& value = 0) {
  return op::constant_pad_nd(self, pad, value);
}
/// Padding by what lies at or near the edges. Kernels pick: cells by width, tensors dense in the order of the grid.
TENON_OP(pad_edges, "_pad_edges(Tensor self, int[] pad, str mode) -> Tensor", kernel, kNoInplace,
         Tensor(const Tensor&, IntArrayRef, std::string_view),
         void(const Tensor& out, const Tensor& self, const Grid& grid))
/// Its gradient: what was copied from an entry added up there. 16-bit floats are added in float32.
TENON_OP(pad_edges_backward, "_pad_edges_backward(Tensor grad_output, int[] pad, str mode) -> Tensor", kernel,
         kNoInplace, Tensor(const Tensor&, IntArrayRef, std::string_view), void())

/// "constant" (with value, else 0), "reflect", "replicate" or "circular".
TENON_OP(pad, "pad(Tensor self, int[] pad, str mode='constant', Scalar? value=None) -> Tensor", composite, kNoInplace,
         Tensor(const Tensor&, IntArrayRef, std::string_view, const std::optional<Scalar>&), void())
inline Tensor pad(const Tensor& self, IntArrayRef padding, std::string_view mode = "constant",
                  const std::optional<Scalar>& value = {}) {
  return op::pad(self, padding, mode, value);
}
/// The modes by number: 0 reflect, 1 replicate, 2 circular, 3 constant.
TENON_OP(pad_enum, "_pad_enum(Tensor self, int[] pad, int mode, Scalar? value=None) -> Tensor", composite, kNoInplace,
         Tensor(const Tensor&, IntArrayRef, int64_t, const std::optional<Scalar>&), void())
TENON_OP(pad_circular, "_pad_circular(Tensor self, int[] pad) -> Tensor", composite, kNoInplace,
         Tensor(const Tensor&, IntArrayRef), void())

// clang-format off
#define TENON_PAD_OPS(name) \
  TENON_OP(name, #name "(Tensor self, int[] padding) -> Tensor", composite, kNoInplace, Tensor(const Tensor&, IntArrayRef), void()) \
  TENON_OP(name##_backward, #name "_backward(Tensor grad_output, Tensor self, int[] padding) -> Tensor", composite, kNoInplace, Tensor(const Tensor&, const Tensor&, IntArrayRef), void()) \
  inline Tensor name(const Tensor& self, IntArrayRef padding) { return op::name(self, padding); }
TENON_PAD_OPS(reflection_pad1d)   ///< Mirrored at both ends of the last dimension; the padding is less than its size.
TENON_PAD_OPS(reflection_pad2d)   ///< The same for the last two.
TENON_PAD_OPS(reflection_pad3d)   ///< The same for the last three.
TENON_PAD_OPS(replication_pad1d)  ///< The first and last entry of the last dimension repeated.
TENON_PAD_OPS(replication_pad2d)  ///< The same for the last two.
TENON_PAD_OPS(replication_pad3d)  ///< The same for the last three.
#undef TENON_PAD_OPS
// clang-format on

}  // namespace tenon
