// SPDX-License-Identifier: Apache-2.0
// An operator in a library of its own, for exit_program.cpp; two libraries are made of it.
#define TENON_DEFINE_OPERATORS
#include <tenon/dispatch/pointwise.h>
#include <tenon/dispatch/register.h>

namespace exit_plugin {
using namespace tenon;
TENON_OP(exit_plugin_triple, "exit_plugin_triple(Tensor self) -> Tensor", kernel, kPlain, Tensor(const Tensor&),
         void(const LoopPlan&))
}  // namespace exit_plugin

#include <tenon/dispatch/declare_only.h>
#include <tenon/dispatch/gradient.h>
#include <tenon/kernels/cpu/loops.h>
#include <tenon/tenon.h>

namespace exit_plugin {

Tensor impl::exit_plugin_triple(Call& call, const Tensor& self) {
  return dispatch::Pointwise(call, self).run<void(const LoopPlan&)>(self.dtype());
}

template <class T>
void triple_cpu(const LoopPlan& plan) {
  cpu::elementwise(plan, [](T x) { return x * 3; });
}
TENON_REGISTER_KERNEL(op::exit_plugin_triple, cpu, Floats, triple_cpu);

TENON_REGISTER_GRADIENT(op::exit_plugin_triple, nothing(),
                        [](dispatch::Gradients& g, const Tensor&) { g.set(0, [&] { return g.grad() * 3; }); });

}  // namespace exit_plugin
