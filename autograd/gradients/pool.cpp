// SPDX-License-Identifier: Apache-2.0
// Gradients of pooling. Averages are linear, so the gradient of their gradient is the average; that of a maximum's picks
// at the same positions.
#include <tenon/dispatch/gradient.h>
#include <tenon/ops/index.h>
#include <tenon/ops/pool.h>
#include <tenon/ops/view.h>

namespace tenon {
namespace {

using dispatch::Gradients;

// The last n dimensions as one.
Tensor flat(const Tensor& t, int64_t n) {
  DimVector sizes(t.sizes());
  for (int64_t d = 1; d < n; ++d) {
    const int64_t last = sizes.back();
    sizes.pop_back();
    sizes[sizes.size() - 1] *= last;
  }
  return t.reshape(sizes);
}
Tensor picked(const Tensor& t, const Tensor& indices, int64_t n) {
  return gather(flat(t, n), -1, flat(indices, n)).reshape(indices.sizes());
}
// What a maximum's gradient needs of its call.
void set_maximum(Gradients& g, IntArrayRef kernel, IntArrayRef stride, IntArrayRef padding, IntArrayRef dilation,
                 int64_t n) {
  g.set(0, [&] {
    TENON_CHECK(g.result(1).defined(), AutogradError, "max_pool: the gradient needs return_indices");
    return op::max_pool_backward(g.grad(), g.result(1), g.meta(0).sizes, n, kernel, stride, padding, dilation);
  });
}
int64_t count_of(IntArrayRef list) { return static_cast<int64_t>(list.size()); }

}  // namespace

TENON_REGISTER_GRADIENT(op::avg_pool, nothing(),
                        [](Gradients& g, const Tensor&, IntArrayRef kernel, IntArrayRef stride, IntArrayRef padding,
                           bool ceil_mode, bool count_include_pad, std::optional<int64_t> divisor) {
                          g.set(0, [&] {
                            return op::avg_pool_backward(g.grad(), g.meta(0).sizes, kernel, stride, padding, ceil_mode,
                                                         count_include_pad, divisor);
                          });
                        });
TENON_REGISTER_GRADIENT(
    op::avg_pool_backward, nothing(),
    [](Gradients& g, const Tensor&, IntArrayRef, IntArrayRef kernel, IntArrayRef stride, IntArrayRef padding,
       bool ceil_mode, bool count_include_pad, std::optional<int64_t> divisor) {
      g.set(0, [&] { return op::avg_pool(g.grad(), kernel, stride, padding, ceil_mode, count_include_pad, divisor); });
    });
TENON_REGISTER_GRADIENT(op::adaptive_avg_pool, nothing(), [](Gradients& g, const Tensor&, IntArrayRef output_size) {
  g.set(0, [&] { return op::adaptive_avg_pool_backward(g.grad(), g.meta(0).sizes, count_of(output_size)); });
});
TENON_REGISTER_GRADIENT(op::adaptive_avg_pool_backward, nothing(),
                        [](Gradients& g, const Tensor&, IntArrayRef, int64_t n) {
                          g.set(0, [&] {
                            const DimVector& sizes = g.meta(0).sizes;
                            const auto spatial = static_cast<std::size_t>(n);
                            return op::adaptive_avg_pool(g.grad(),
                                                         IntArrayRef(sizes).slice(sizes.size() - spatial, spatial));
                          });
                        });
TENON_REGISTER_GRADIENT(op::max_pool, outputs(1),
                        [](Gradients& g, const Tensor&, IntArrayRef kernel, IntArrayRef stride, IntArrayRef padding,
                           IntArrayRef dilation, bool, bool) {
                          set_maximum(g, kernel, stride.empty() ? kernel : stride, padding, dilation, count_of(kernel));
                        });
TENON_REGISTER_GRADIENT(op::adaptive_max_pool, outputs(1),
                        [](Gradients& g, const Tensor&, IntArrayRef output_size, bool) {
                          set_maximum(g, {}, {}, 0, 1, count_of(output_size));
                        });
TENON_REGISTER_GRADIENT(op::fractional_max_pool, outputs(1),
                        [](Gradients& g, const Tensor&, IntArrayRef kernel, IntArrayRef, const Tensor&) {
                          set_maximum(g, kernel, {}, 0, 1, count_of(kernel));
                        });
TENON_REGISTER_GRADIENT(op::max_pool_backward, inputs(1),
                        [](Gradients& g, const Tensor&, const Tensor& indices, IntArrayRef, int64_t n, IntArrayRef,
                           IntArrayRef, IntArrayRef,
                           IntArrayRef) { g.set(0, [&] { return picked(g.grad(), indices, n); }); });
TENON_REGISTER_GRADIENT(op::max_unpool, inputs(1),
                        [](Gradients& g, const Tensor&, const Tensor& indices, IntArrayRef output_size) {
                          g.set(0, [&] { return picked(g.grad(), indices, count_of(output_size)); });
                        });

}  // namespace tenon
