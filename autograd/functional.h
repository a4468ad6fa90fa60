// SPDX-License-Identifier: Apache-2.0
// Derivatives of functions: Jacobians, Hessians and their products with vectors, as torch.autograd.functional.
//
//   Tensor J = autograd::jacobian([](const Tensor& x) { return x.exp(); }, x);     // [sizes of y..., sizes of x...]
//   auto [y, t] = autograd::jvp([&](const Tensor& x) { return x.matmul(w); }, x, v);
//
// A function takes one tensor and gives one, or takes a TensorList, a std::vector<Tensor> or two to four tensors and gives a
// Tensor, a tuple or a vector: `jacobian(f, {w, b})`. Then results are lists too, [output][input] for jacobian,
// [input][input] for hessian. Recording is on inside, also under a NoGradGuard or InferenceMode. Inputs are floating-point
// or complex; the function sees copies that require grad, and the inputs themselves are not written.
// `create_graph`: results can be differentiated again, with respect to the inputs and whatever else went in.
// `strict`: AutogradError where a result is independent of an input, or would be zero for want of a graph; without it
// the derivative is zeros. Sizes of `v` that do not fit are a ShapeError, a missing `v` a ValueError.
// jvp is computed by two backward passes (the second through the first, which is linear in its gradients), so every
// operator with a differentiable gradient has it. jacobian takes one pass per element of the outputs.
#pragma once

#include <tenon/autograd/tensor_args.h>

namespace tenon::autograd {

using TensorLists = std::pair<std::vector<Tensor>, std::vector<Tensor>>;
using TensorMatrix = std::vector<std::vector<Tensor>>;

namespace internal {
TENON_API TensorLists vjp(const TensorFunction& f, TensorList inputs, TensorList v, bool create_graph, bool strict);
TENON_API TensorLists jvp(const TensorFunction& f, TensorList inputs, TensorList v, bool create_graph, bool strict);
TENON_API TensorLists vhp(const TensorFunction& f, TensorList inputs, TensorList v, bool create_graph, bool strict);
TENON_API TensorLists hvp(const TensorFunction& f, TensorList inputs, TensorList v, bool create_graph, bool strict);
TENON_API TensorMatrix jacobian(const TensorFunction& f, TensorList inputs, bool create_graph, bool strict);
TENON_API TensorMatrix hessian(const TensorFunction& f, TensorList inputs, bool create_graph, bool strict);

inline TensorList optional_list(const Tensor& v) { return v.defined() ? TensorList(&v, 1) : TensorList(); }
inline std::pair<Tensor, Tensor> only(TensorLists lists) { return {lists.first[0], lists.second[0]}; }
}  // namespace internal

#define TENON_FUNCTIONAL_PRODUCT(name)                                                                            \
  template <internal::OfOneTensor F>                                                                              \
  std::pair<Tensor, Tensor> name(F&& f, const Tensor& x, const Tensor& v = {}, bool create_graph = false,         \
                                 bool strict = false) {                                                           \
    return internal::only(                                                                                        \
        internal::name(internal::of_one(f), {&x, 1}, internal::optional_list(v), create_graph, strict));          \
  }                                                                                                               \
  template <class F>                                                                                              \
  requires(!internal::OfOneTensor<F>) TensorLists name(F&& f, const TensorArgs& inputs, const TensorArgs& v = {}, \
                                                       bool create_graph = false, bool strict = false) {          \
    return internal::name(internal::of_list(f), inputs, v, create_graph, strict);                                 \
  }
#define TENON_FUNCTIONAL_MATRIX(name)                                                                               \
  template <internal::OfOneTensor F>                                                                                \
  Tensor name(F&& f, const Tensor& x, bool create_graph = false, bool strict = false) {                             \
    return internal::name(internal::of_one(f), {&x, 1}, create_graph, strict)[0][0];                                \
  }                                                                                                                 \
  template <class F>                                                                                                \
  requires(!internal::OfOneTensor<F>) TensorMatrix name(F&& f, const TensorArgs& inputs, bool create_graph = false, \
                                                        bool strict = false) {                                      \
    return internal::name(internal::of_list(f), inputs, create_graph, strict);                                      \
  }

/// vjp(f, inputs, v): outputs, and sum_i v_i^T J_i for each input. `v` may be left out for a single one-element output:
/// then it is 1.
TENON_FUNCTIONAL_PRODUCT(vjp)
/// jvp(f, inputs, v): outputs, and sum_j J_j v_j for each output. `v` may be left out for a single one-element input:
/// then it is 1.
TENON_FUNCTIONAL_PRODUCT(jvp)
/// jacobian(f, inputs): [output][input], of the output's sizes followed by the input's.
TENON_FUNCTIONAL_MATRIX(jacobian)
/// hessian(f, inputs): [input][input] of a function with one one-element output.
TENON_FUNCTIONAL_MATRIX(hessian)
/// vhp(f, inputs, v): the output and v^T H; cheaper than hvp, to which it is equal where second derivatives are continuous.
TENON_FUNCTIONAL_PRODUCT(vhp)
/// hvp(f, inputs, v): the output and H v.
TENON_FUNCTIONAL_PRODUCT(hvp)
#undef TENON_FUNCTIONAL_PRODUCT
#undef TENON_FUNCTIONAL_MATRIX

}  // namespace tenon::autograd
