// SPDX-License-Identifier: Apache-2.0
// The handle, the CPU kernel and the gradient of my::softplus.
#define TENON_DEFINE_OPERATORS
#include "softplus.h"

#include <tenon/dispatch/declare_only.h>
#include <tenon/dispatch/gradient.h>
#include <tenon/kernels/cpu/loops.h>
#include <tenon/tenon.h>

#include <cmath>

namespace my {

// Checks, then the call shape of elementwise operators: broadcast, output, loop plan, the dtype's kernel.
Tensor impl::softplus(Call& call, const Tensor& self, double beta) {
  TENON_CHECK(self.is_floating_point(), DtypeError, call.name(), ": self: expected a floating dtype, got ",
              self.dtype());
  TENON_CHECK(beta > 0, ValueError, call.name(), ": beta: expected a positive number, got ", beta);
  return dispatch::Pointwise(call, self).run<void(const LoopPlan&, double)>(self.dtype(), beta);
}

template <class T>
void softplus_cpu(const LoopPlan& plan, double beta) {
  using C = cpu::compute_t<T>;  // float for the halves
  cpu::elementwise(plan, [b = static_cast<C>(beta)](C x) {
    return (x > 0 ? x : C(0)) + std::log1p(std::exp(-std::abs(b * x))) / b;
  });
}
TENON_REGISTER_KERNEL(op::softplus, cpu, FloatsAndHalves, softplus_cpu);

TENON_REGISTER_GRADIENT(op::softplus, inputs(0), [](dispatch::Gradients& g, const Tensor& self, double beta) {
  g.set(0, [&] { return g.grad() * sigmoid(self * beta); });
});

}  // namespace my
