// SPDX-License-Identifier: Apache-2.0
// Triangles and diagonals of matrices, batches of them in leading dimensions. Diagonal `offset` lies that many columns to
// the right of the main one, to the left when negative.
//
//   tril, triu                   self with zeros above (below) diagonal `diagonal`, in place too
//   tril_indices, triu_indices   int64 [2, n]: rows and columns of the triangle of a row x col matrix, row by row
//   diag                         the diagonal of a matrix, copied, or a matrix with that diagonal from a vector
//   diag_embed                   vectors in the last dimension as the diagonals of matrices in dimensions dim1 and dim2
//   diagflat                     diag of all elements
//   trace                        the sum of a matrix's diagonal, int64 for integers
#pragma once

#include <tenon/dispatch/loop_plan.h>
#include <tenon/dispatch/register.h>
#include <tenon/dispatch/registry.h>

namespace tenon {

// The kernel, keyed on the element width, serves triu too: out, self, and an operand without memory whose strides make its
// addresses column - row. Elements stay where that is at most `diagonal` (upper: at least), the others become zero.
// clang-format off
#define TENON_TRIANGLE(name, kind, flags, schema, kernel_type, types, parameters, ...) \
  TENON_OP(name, schema, kind, flags, Tensor types, kernel_type) \
  inline Tensor name parameters { return op::name(__VA_ARGS__); }
#define TENON_TRIANGLE_INDICES(name) \
  TENON_TRIANGLE(name, composite, kNoInplace | kNonDifferentiable, #name "(int row, int col, int offset=0, *, dtype? dtype=int64, device? device=None) -> Tensor", void(), (int64_t, int64_t, int64_t, std::optional<DType>, std::optional<Device>), (int64_t rows, int64_t columns, int64_t offset = 0, const TensorOptions& o = {}), rows, columns, offset, o.dtype(), o.device())
TENON_TRIANGLE(tril, kernel, kPlain, "tril(Tensor self, int diagonal=0) -> Tensor", void(const LoopPlan&, int64_t, bool upper), (const Tensor&, int64_t), (const Tensor& self, int64_t diagonal = 0), self, diagonal)
TENON_TRIANGLE(triu, kernel, kPlain, "triu(Tensor self, int diagonal=0) -> Tensor", void(), (const Tensor&, int64_t), (const Tensor& self, int64_t diagonal = 0), self, diagonal)
TENON_TRIANGLE_INDICES(tril_indices)
TENON_TRIANGLE_INDICES(triu_indices)
TENON_TRIANGLE(diag, composite, kNoInplace, "diag(Tensor self, int diagonal=0) -> Tensor", void(), (const Tensor&, int64_t), (const Tensor& self, int64_t diagonal = 0), self, diagonal)
TENON_TRIANGLE(diag_embed, kernel, kNoInplace, "diag_embed(Tensor self, int offset=0, int dim1=-2, int dim2=-1) -> Tensor", void(), (const Tensor&, int64_t, int64_t, int64_t), (const Tensor& self, int64_t offset = 0, int64_t dim1 = -2, int64_t dim2 = -1), self, offset, dim1, dim2)
TENON_TRIANGLE(diagflat, composite, kNoInplace, "diagflat(Tensor self, int offset=0) -> Tensor", void(), (const Tensor&, int64_t), (const Tensor& self, int64_t offset = 0), self, offset)
TENON_TRIANGLE(trace, composite, kNoInplace, "trace(Tensor self) -> Tensor", void(), (const Tensor&), (const Tensor& self), self)
// clang-format on
#undef TENON_TRIANGLE
#undef TENON_TRIANGLE_INDICES

}  // namespace tenon
