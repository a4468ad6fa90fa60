// SPDX-License-Identifier: Apache-2.0
// Gradients of copies and fills. The engine casts and moves what arrives to the input's dtype and device.
#include <tenon/dispatch/gradient.h>
#include <tenon/ops/copy.h>
#include <tenon/ops/factory.h>

namespace tenon {

using dispatch::Gradients;

// What self held is overwritten.
TENON_REGISTER_GRADIENT(op::copy, nothing(),
                        [](Gradients& g, const Tensor&, const Tensor&, bool) { g.set(1, [&] { return g.grad(); }); });
TENON_REGISTER_GRADIENT(op::clone, nothing(), [](Gradients& g, const Tensor&, std::optional<MemoryFormat>) {
  g.set(0, [&] { return g.grad(); });
});
TENON_REGISTER_GRADIENT(op::to_copy, nothing(),
                        [](Gradients& g, const Tensor&, std::optional<DType>, std::optional<Device>, bool,
                           std::optional<MemoryFormat>) { g.set(0, [&] { return g.grad(); }); });
TENON_REGISTER_GRADIENT(op::fill, nothing(),
                        [](Gradients& g, const Tensor&, const Operand&) { g.set(1, [&] { return g.grad(); }); });

}  // namespace tenon
