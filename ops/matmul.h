// SPDX-License-Identifier: Apache-2.0
// Matrix products. Everything comes down to one kernel over (batches of) matrices,
//   out = beta * self + alpha * a @ b,
// whose operands may have any strides: transposed views and broadcast batches are not copied.
#pragma once

#include <tenon/dispatch/register.h>
#include <tenon/dispatch/registry.h>

namespace tenon {

/// out, a and b are all 2-D [m, n], [m, k], [k, n] or all 3-D [batch, ...], of one dtype, any strides, never empty in
/// out; k may be 0. `self` is undefined when beta is 0 (or the operator has none), else it has out's sizes by
/// broadcast strides and may be `out` itself.
using MatmulKernel = void(const Tensor& out, const Tensor& self, const Tensor& a, const Tensor& b, const Scalar& beta,
                          const Scalar& alpha);

TENON_OP(mm, "mm(Tensor self, Tensor mat2) -> Tensor", kernel, kNoInplace, Tensor(const Tensor&, const Tensor&),
         MatmulKernel)
TENON_OP(bmm, "bmm(Tensor self, Tensor mat2) -> Tensor", kernel, kNoInplace, Tensor(const Tensor&, const Tensor&),
         MatmulKernel)
TENON_OP(addmm, "addmm(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) -> Tensor", kernel,
         kPlain, Tensor(const Tensor&, const Tensor&, const Tensor&, const Scalar&, const Scalar&), MatmulKernel)
TENON_OP(baddbmm, "baddbmm(Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
         kernel, kPlain, Tensor(const Tensor&, const Tensor&, const Tensor&, const Scalar&, const Scalar&),
         MatmulKernel)
TENON_OP(mv, "mv(Tensor self, Tensor vec) -> Tensor", composite, kNoInplace, Tensor(const Tensor&, const Tensor&),
         void())
TENON_OP(dot, "dot(Tensor self, Tensor tensor) -> Tensor", composite, kNoInplace, Tensor(const Tensor&, const Tensor&),
         void())
TENON_OP(matmul, "matmul(Tensor self, Tensor other) -> Tensor", composite, kNoInplace,
         Tensor(const Tensor&, const Tensor&), void())
TENON_ALIAS("linalg_matmul", "matmul")
TENON_OP(linear, "linear(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor", composite, kNoInplace,
         Tensor(const Tensor&, const Tensor&, const Tensor&), void())

/// How float32 (and complex64) matrices are multiplied on CUDA: "highest" (the default) in float32, "high" and "medium"
/// through TF32, which keeps 10 bits of the mantissa. allow_tf32 asks for, or sets, all but "highest". Any thread; counts
/// for products queued from then on. ValueError on another word.
TENON_API void set_float32_matmul_precision(std::string_view precision);
TENON_API std::string_view float32_matmul_precision();
TENON_API bool allow_tf32();
TENON_API void set_allow_tf32(bool on);

/// [m, k] x [k, n] -> [m, n]. Both of one dtype, anything but bool. 16-bit floats are summed in float32, integers
/// wrap. ShapeError, DtypeError.
inline Tensor mm(const Tensor& self, const Tensor& mat2) { return op::mm(self, mat2); }
/// [batch, m, k] x [batch, k, n] -> [batch, m, n].
inline Tensor bmm(const Tensor& self, const Tensor& mat2) { return op::bmm(self, mat2); }
/// beta * self + alpha * mat1 @ mat2; `self` broadcasts to [m, n] and is not read when beta is 0.
inline Tensor addmm(const Tensor& self, const Tensor& mat1, const Tensor& mat2, const Scalar& beta = 1,
                    const Scalar& alpha = 1) {
  return op::addmm(self, mat1, mat2, beta, alpha);
}
/// The same for batches: `self` broadcasts to [batch, m, n].
inline Tensor baddbmm(const Tensor& self, const Tensor& batch1, const Tensor& batch2, const Scalar& beta = 1,
                      const Scalar& alpha = 1) {
  return op::baddbmm(self, batch1, batch2, beta, alpha);
}
/// [m, k] x [k] -> [m].
inline Tensor mv(const Tensor& self, const Tensor& vec) { return op::mv(self, vec); }
/// [k] x [k] -> 0-dim.
inline Tensor dot(const Tensor& self, const Tensor& tensor) { return op::dot(self, tensor); }
/// The product of vectors, matrices and batches of matrices as NumPy's matmul: a vector on the left is a row, on the
/// right a column, and batch dimensions broadcast.
inline Tensor matmul(const Tensor& self, const Tensor& other) { return op::matmul(self, other); }
/// input [..., in] times weight [out, in] transposed, plus bias [out] if given: [..., out].
inline Tensor linear(const Tensor& input, const Tensor& weight, const Tensor& bias = {}) {
  return op::linear(input, weight, bias);
}

}  // namespace tenon
