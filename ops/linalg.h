// SPDX-License-Identifier: Apache-2.0
// Linear algebra made of matrix products. Arguments of one product have one dtype unless said otherwise.
//
//   outer        [m] x [n] -> [m, n]; dtypes promote.
//   inner        Sums of products over the last dimension of both; a 0-dim tensor multiplies.
//   vdot         [k] x [k] -> 0-dim, self conjugated.
//   kron         The Kronecker product; the smaller rank is padded in front with ones. Up to 8 dimensions.
//   addmv        beta * self + alpha * mat @ vec; self broadcasts and is not read when beta is 0.
//   addr         beta * self + alpha * outer(vec1, vec2) likewise; dtypes promote, bool is "or" of "and".
//   addbmm       beta * self + alpha * the sum of batch1 @ batch2 over the batch, likewise.
//   linalg_vecdot  Sums of conj(x) * y over `dim` of tensors that broadcast; floating and complex dtypes.
//   linalg_cross   The cross product of the vectors of size 3 along `dim`; other dimensions broadcast, ranks agree.
//   cross        The same along the first dimension of self with size 3 unless `dim` is given.
//   tensordot    Sums of products over pairs of dimensions, or over the last `dims` of self and the first `dims` of
//                other; of a pair either may have size 1.
//   einsum       Sums of products over dimensions named by letters, "ij,jk->ik". "..." stands for all others, which
//                broadcast; a letter twice in one operand is its diagonal. Without "->" the result has "..." and then
//                the letters that occur once, A-Z before a-z. Operands are contracted in pairs, in the order that costs
//                the fewest multiplications (searched exhaustively up to 6 operands, beyond that the cheapest first).
//   linalg_multi_dot     The product of a chain of matrices in the cheapest order; the ends may be vectors.
//   linalg_matrix_power  Square matrices to the power n; a negative one inverts first.
//   cov          Covariances of variables (rows) over observations (columns), as NumPy. Frequency weights are integers,
//                `aweights` are floats. Integers are computed in the default float.
//   corrcoef     Correlations: cov divided by the deviations of both variables.
//   cdist        p-norms of differences of rows, [..., n, k] and [..., m, k] -> [..., n, m]; at distance 0 the gradient
//                is 0. compute_mode, for p = 2: "use_mm_for_euclid_dist" goes through a matrix product, which loses
//                digits of small distances, "donot_use_mm_for_euclid_dist" does not, the default does beyond 25 rows.
//
// ShapeError, DtypeError, ValueError, IndexError.
#pragma once

#include <tenon/dispatch/register.h>
#include <tenon/dispatch/registry.h>

namespace tenon {

// clang-format off
#define TENON_LINALG(name, schema, flags, types, function, parameters, ...) \
  TENON_OP(name, schema " -> Tensor", composite, flags, Tensor types, void()) \
  inline Tensor function parameters { return op::name(__VA_ARGS__); }
#define TENON_PRODUCT(name, a, b) \
  TENON_LINALG(name, #name "(Tensor " #a ", Tensor " #b ")", kNoInplace, (const Tensor&, const Tensor&), name, (const Tensor& a, const Tensor& b), a, b)
#define TENON_ADD_PRODUCT(name, a, b) \
  TENON_LINALG(name, #name "(Tensor self, Tensor " #a ", Tensor " #b ", *, Scalar beta=1, Scalar alpha=1)", kPlain, (const Tensor&, const Tensor&, const Tensor&, const Scalar&, const Scalar&), name, (const Tensor& self, const Tensor& a, const Tensor& b, const Scalar& beta = 1, const Scalar& alpha = 1), self, a, b, beta, alpha)

TENON_PRODUCT(outer, self, vec2)
TENON_ALIAS("ger", "outer")
TENON_PRODUCT(inner, self, other)
TENON_PRODUCT(vdot, self, other)
TENON_PRODUCT(kron, self, other)
TENON_ADD_PRODUCT(addmv, mat, vec)
TENON_ADD_PRODUCT(addr, vec1, vec2)
TENON_ADD_PRODUCT(addbmm, batch1, batch2)
TENON_LINALG(linalg_vecdot, "linalg_vecdot(Tensor x, Tensor y, *, int dim=-1)", kNoInplace, (const Tensor&, const Tensor&, int64_t), vecdot, (const Tensor& x, const Tensor& y, int64_t dim = -1), x, y, dim)
TENON_OP(linalg_cross, "linalg_cross(Tensor self, Tensor other, *, int dim=-1) -> Tensor", composite, kNoInplace, Tensor(const Tensor&, const Tensor&, int64_t), void())
TENON_LINALG(cross, "cross(Tensor self, Tensor other, int? dim=None)", kNoInplace, (const Tensor&, const Tensor&, std::optional<int64_t>), cross, (const Tensor& self, const Tensor& other, std::optional<int64_t> dim = {}), self, other, dim)
TENON_LINALG(tensordot, "tensordot(Tensor self, Tensor other, int[] dims_self, int[] dims_other)", kNoInplace, (const Tensor&, const Tensor&, IntArrayRef, IntArrayRef), tensordot, (const Tensor& self, const Tensor& other, IntArrayRef dims_self, IntArrayRef dims_other), self, other, dims_self, dims_other)
TENON_LINALG(tensordot_dims, "tensordot.dims(Tensor self, Tensor other, int dims=2)", kNoInplace, (const Tensor&, const Tensor&, int64_t), tensordot, (const Tensor& self, const Tensor& other, int64_t dims = 2), self, other, dims)
TENON_LINALG(einsum, "einsum(str equation, Tensor[] tensors)", kNoInplace, (std::string_view, TensorList), einsum, (std::string_view equation, TensorList tensors), equation, tensors)
inline Tensor einsum(std::string_view equation, std::initializer_list<Tensor> t) { return op::einsum(equation, TensorList(t.begin(), t.size())); }
TENON_LINALG(linalg_multi_dot, "linalg_multi_dot(Tensor[] tensors)", kNoInplace, (TensorList), multi_dot, (TensorList tensors), tensors)
inline Tensor multi_dot(std::initializer_list<Tensor> t) { return op::linalg_multi_dot(TensorList(t.begin(), t.size())); }
TENON_ALIAS("chain_matmul", "linalg_multi_dot")
TENON_LINALG(linalg_matrix_power, "linalg_matrix_power(Tensor self, int n)", kNoInplace, (const Tensor&, int64_t), matrix_power, (const Tensor& self, int64_t n), self, n)
TENON_ALIAS("matrix_power", "linalg_matrix_power")
TENON_LINALG(cov, "cov(Tensor self, *, int correction=1, Tensor? fweights=None, Tensor? aweights=None)", kNoInplace, (const Tensor&, int64_t, const Tensor&, const Tensor&), cov, (const Tensor& self, int64_t correction = 1, const Tensor& fweights = {}, const Tensor& aweights = {}), self, correction, fweights, aweights)
TENON_LINALG(corrcoef, "corrcoef(Tensor self)", kNoInplace, (const Tensor&), corrcoef, (const Tensor& self), self)
TENON_LINALG(cdist, "cdist(Tensor x1, Tensor x2, float p=2, str compute_mode='use_mm_for_euclid_dist_if_necessary')", kNoInplace, (const Tensor&, const Tensor&, double, std::string_view), cdist, (const Tensor& x1, const Tensor& x2, double p = 2, std::string_view compute_mode = "use_mm_for_euclid_dist_if_necessary"), x1, x2, p, compute_mode)
#undef TENON_LINALG
#undef TENON_PRODUCT
#undef TENON_ADD_PRODUCT
// clang-format on

}  // namespace tenon
