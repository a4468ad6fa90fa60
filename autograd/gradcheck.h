// SPDX-License-Identifier: Apache-2.0
// gradcheck: compares the gradients of a function with central differences. For the tests of operators and of your own
// Functions; needs float64 or complex128 inputs and a function that is smooth around them.
#pragma once

#include <tenon/autograd/tensor_args.h>

namespace tenon::autograd {

struct GradcheckOptions {
  double eps = 1e-6;   ///< step of the differences
  double atol = 1e-5;  ///< |numeric - analytic| <= atol + rtol * |numeric|
  double rtol = 1e-3;
  bool raise = true;              ///< throw AutogradError with the first difference; else return false
  uint64_t seed = 1;              ///< of the directions that gradgradcheck takes for the outputs, and of fast_mode
  bool fast_mode = false;         ///< one random direction instead of every element: for large inputs
  bool check_determinism = true;  ///< run backward twice; its gradients may differ by `nondet_tol`
  double nondet_tol = 0;
  std::string* report = nullptr;  ///< receives the text of the first difference
};

/// With a fixed number of outputs; those of integer dtype are ignored.
using CheckedFunction = TensorFunction;

/// True when the gradients of every differentiable output with respect to every element of every input that requires
/// grad agree with central differences (complex inputs: along both axes, in PyTorch's convention: the gradient of a real
/// loss is the conjugate of its Wirtinger derivative, times 2). The error shows both Jacobians. The inputs, which may be
/// expanded or results, are not written. Recording is on inside. ValueError when no input requires grad or one was made
/// in inference mode, DtypeError below double precision.
TENON_API bool gradcheck(const CheckedFunction& f, const TensorArgs& inputs, const GradcheckOptions& options = {});
/// The same for the gradients themselves, as functions of inputs and output gradients.
TENON_API bool gradgradcheck(const CheckedFunction& f, const TensorArgs& inputs, const GradcheckOptions& options = {});

/// Of functions that take a TensorList, a std::vector<Tensor> or one to four tensors, and return a Tensor, a tuple or a
/// vector: `gradcheck([](const Tensor& x, const Tensor& w) { return x.matmul(w); }, {x, w})`.
template <class F>
requires(!std::is_same_v<std::decay_t<F>, CheckedFunction>) bool gradcheck(F&& f, const TensorArgs& inputs,
                                                                           const GradcheckOptions& options = {}) {
  return gradcheck(internal::of_list(f), inputs, options);
}
template <class F>
requires(!std::is_same_v<std::decay_t<F>, CheckedFunction>) bool gradgradcheck(F&& f, const TensorArgs& inputs,
                                                                               const GradcheckOptions& options = {}) {
  return gradgradcheck(internal::of_list(f), inputs, options);
}

}  // namespace tenon::autograd
