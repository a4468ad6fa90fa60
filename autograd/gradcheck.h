// SPDX-License-Identifier: Apache-2.0
// gradcheck: compares the gradients of a function with central differences. For the tests of operators and of your own
// Functions; needs float64 or complex128 inputs and a function that is smooth around them.
#pragma once

#include <tenon/autograd/node.h>

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

/// Any function of tensors with a fixed number of outputs; those of integer dtype are ignored.
using CheckedFunction = tenon::Function<std::vector<Tensor>(TensorList inputs)>;

/// True when the gradients of every differentiable output with respect to every element of every input that requires
/// grad agree with central differences (complex inputs: along both axes, in PyTorch's convention: the gradient of a real
/// loss is the conjugate of its Wirtinger derivative, times 2). The error shows both Jacobians. The inputs, which may be
/// expanded or results, are not written. ValueError when no input requires grad, DtypeError below double precision.
TENON_API bool gradcheck(const CheckedFunction& f, TensorList inputs, const GradcheckOptions& options = {});
/// The same for the gradients themselves, as functions of inputs and output gradients.
TENON_API bool gradgradcheck(const CheckedFunction& f, TensorList inputs, const GradcheckOptions& options = {});

}  // namespace tenon::autograd
