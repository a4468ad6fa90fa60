// SPDX-License-Identifier: Apache-2.0
// Gradients of reading and writing by index: reading's is adding at the index, and the other way round.
#include <tenon/dispatch/gradient.h>
#include <tenon/ops/binary.h>
#include <tenon/ops/compare.h>
#include <tenon/ops/factory.h>
#include <tenon/ops/index.h>
#include <tenon/ops/where.h>

namespace tenon {
namespace {

using dispatch::Gradients;

Tensor zeros_like_input(Gradients& g, int i) {
  const dispatch::TensorMeta& m = g.meta(i);
  return zeros(m.sizes, TensorOptions(g.grad().dtype()).device(m.device));
}

// `t` in the leading corner of zeros: scatter reads only that part of a larger source.
Tensor in_corner(const Tensor& t, IntArrayRef sizes) {
  if (t.sizes() == sizes) return t;
  const Tensor whole = zeros(sizes, t.options());
  Tensor corner = whole;
  for (std::size_t d = 0; d < sizes.size(); ++d) corner = corner.slice(static_cast<int64_t>(d), 0, t.sizes()[d]);
  corner.copy_(t);
  return whole;
}

}  // namespace

TENON_REGISTER_GRADIENT(op::index_select, inputs(2), [](Gradients& g, const Tensor&, int64_t dim, const Tensor& index) {
  g.set(0, [&] { return index_add(zeros_like_input(g, 0), dim, index, g.grad()); });
});
TENON_REGISTER_GRADIENT(op::gather, inputs(2), [](Gradients& g, const Tensor&, int64_t dim, const Tensor& index, bool) {
  g.set(0, [&] { return scatter_add(zeros_like_input(g, 0), dim, index, g.grad()); });
});
TENON_REGISTER_GRADIENT(op::index_add, inputs(2),
                        [](Gradients& g, const Tensor&, int64_t dim, const Tensor& index, const Tensor&,
                           const Scalar& alpha) {
                          g.set(0, [&] { return g.grad(); });
                          g.set(3, [&] {
                            const Tensor picked = index_select(g.grad(), dim, index);
                            if (alpha.equal(1)) return picked;
                            return mul(picked, alpha.is_complex() ? Scalar(complex<double>(alpha.real(), -alpha.imag()))
                                                                  : alpha);
                          });
                        });
TENON_REGISTER_GRADIENT(op::index_copy, inputs(2),
                        [](Gradients& g, const Tensor&, int64_t dim, const Tensor& index, const Tensor&) {
                          g.set(0, [&] { return index_copy(g.grad(), dim, index, zeros_like_input(g, 3)); });
                          g.set(3, [&] { return index_select(g.grad(), dim, index); });
                        });
TENON_REGISTER_GRADIENT(op::scatter_add, inputs(2),
                        [](Gradients& g, const Tensor&, int64_t dim, const Tensor& index, const Tensor&) {
                          g.set(0, [&] { return g.grad(); });
                          g.set(3, [&] { return in_corner(gather(g.grad(), dim, index), g.meta(3).sizes); });
                        });
TENON_REGISTER_GRADIENT(op::embedding, inputs(0),
                        [](Gradients& g, const Tensor& input, const Tensor&, std::optional<int64_t> padding,
                           std::optional<double>, double, bool scale_grad_by_freq, bool) {
                          g.set(1, [&] {
                            const int64_t rows = g.meta(1).sizes[0];
                            return op::embedding_backward(g.grad(), input, rows, embedding_padding(padding, rows),
                                                          scale_grad_by_freq);
                          });
                        });
TENON_REGISTER_GRADIENT(op::embedding_backward, inputs(1),
                        [](Gradients& g, const Tensor&, const Tensor& indices, int64_t rows, int64_t padding,
                           bool scale_grad_by_freq) {
                          g.set(0, [&] {
                            Tensor weight = g.grad();
                            if (scale_grad_by_freq) {
                              DimVector sizes(indices.sizes());
                              sizes.push_back(1);
                              const Tensor counts =
                                  op::embedding_backward(ones(sizes, weight.options()), indices, rows, padding, false);
                              weight = div(weight, clamp_min(counts, 1));
                            }
                            const Tensor picked = embedding(indices, weight);
                            return padding < 0 ? picked : where(eq(indices, padding).unsqueeze(-1), 0, picked);
                          });
                        });

}  // namespace tenon
