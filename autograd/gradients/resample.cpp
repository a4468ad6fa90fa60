// SPDX-License-Identifier: Apache-2.0
// Gradients of interpolation, a linear function: the transpose, and the transpose of that.
#include <tenon/dispatch/gradient.h>
#include <tenon/ops/resample.h>

namespace tenon {
using dispatch::Gradients;
using Scale = std::optional<double>;

namespace {
IntArrayRef spatial(const dispatch::TensorMeta& meta, IntArrayRef like) {
  return IntArrayRef(meta.sizes).slice(meta.sizes.size() - like.size(), like.size());
}
}  // namespace

TENON_REGISTER_GRADIENT(op::resample, nothing(),
                        [](Gradients& g, const Tensor&, IntArrayRef size, std::string_view mode, bool align_corners,
                           Scale d, Scale h, Scale w) {
                          g.set(0, [&] {
                            return op::resample_backward(g.grad(), spatial(g.meta(0), size), mode, align_corners, d, h,
                                                         w);
                          });
                        });
TENON_REGISTER_GRADIENT(op::resample_backward, nothing(),
                        [](Gradients& g, const Tensor&, IntArrayRef size, std::string_view mode, bool align_corners,
                           Scale d, Scale h, Scale w) {
                          g.set(0, [&] {
                            return op::resample(g.grad(), spatial(g.meta(0), size), mode, align_corners, d, h, w);
                          });
                        });

}  // namespace tenon
