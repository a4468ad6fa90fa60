// SPDX-License-Identifier: Apache-2.0
// Gradients of padding: cut off what was added, or add up what was copied.
#include <tenon/dispatch/gradient.h>
#include <tenon/ops/pad.h>

namespace tenon {
using dispatch::Gradients;

TENON_REGISTER_GRADIENT(op::constant_pad_nd, nothing(),
                        [](Gradients& g, const Tensor&, IntArrayRef pad, const Scalar&) {
                          g.set(0, [&] {
                            DimVector back(pad);
                            for (int64_t& n : back) n = -n;
                            return op::constant_pad_nd(g.grad(), back, 0);
                          });
                        });
TENON_REGISTER_GRADIENT(op::pad_edges, nothing(),
                        [](Gradients& g, const Tensor&, IntArrayRef pad, std::string_view mode) {
                          g.set(0, [&] { return op::pad_edges_backward(g.grad(), pad, mode); });
                        });
TENON_REGISTER_GRADIENT(op::pad_edges_backward, nothing(),
                        [](Gradients& g, const Tensor&, IntArrayRef pad, std::string_view mode) {
                          g.set(0, [&] { return op::pad_edges(g.grad(), pad, mode); });
                        });

}  // namespace tenon
