// SPDX-License-Identifier: Apache-2.0
// Gradients of reading and writing by index: reading's is adding at the index, and the other way round.
#include <tenon/dispatch/gradient.h>
#include <tenon/ops/binary.h>
#include <tenon/ops/compare.h>
#include <tenon/ops/factory.h>
#include <tenon/ops/index.h>
#include <tenon/ops/places.h>
#include <tenon/ops/reduce.h>
#include <tenon/ops/unary.h>
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
// The part of a source that an index of these sizes reads.
Tensor corner_of(Tensor t, IntArrayRef sizes) {
  if (t.dim() == static_cast<int64_t>(sizes.size()))
    for (std::size_t d = 0; d < sizes.size(); ++d) t = t.narrow(static_cast<int64_t>(d), 0, sizes[d]);
  return t;
}

// scatter_reduce, and index_reduce with its index repeated along the slices. Gradients go to all elements that equal an
// extreme, in equal parts; a product's pass a single zero by the product of the others.
void gradients_of_reduction(Gradients& g, const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source,
                            std::string_view reduce, bool include_self) {
  const Tensor grad = g.grad(), result = g.result(), src = corner_of(source, index.sizes());
  const auto there = [&](const Tensor& t) { return gather(t, dim, index); };
  const auto counted = [&](const Tensor& own, const Tensor& each) { return scatter_add(own, dim, index, each); };
  Tensor to_self = grad, to_src;
  if (reduce == "sum") {
    to_src = there(grad);
  } else if (reduce == "mean") {
    const Tensor n = counted(full_like(grad, include_self ? 1 : 0), ones(index.sizes(), grad.options()));
    to_self = div(grad, where(eq(n, 0), 1, n));
    to_src = there(to_self);
  } else if (reduce == "prod") {
    const auto product = [&](const Tensor& own, const Tensor& from) {
      return scatter_reduce(own, dim, index, from, "prod", include_self);
    };
    const Tensor own = where(eq(self, 0), 1, self), zero = eq(src, 0);
    to_self = mul(grad, conj(div(product(own, src), own)));
    const Tensor single = logical_and(zero, eq(there(counted(zeros_like(grad), zero.to(grad.dtype()))), 1));
    const Tensor others = there(mul(grad, conj(product(self, where(single, 1, src)))));
    to_src = where(single, others, div(there(mul(grad, conj(result))), conj(where(zero, 1, src))));
  } else {
    const Tensor own = eq(self, result).to(grad.dtype()), from = eq(src, there(result)).to(grad.dtype());
    const Tensor share = div(grad, counted(own, from));
    to_self = mul(own, share);
    to_src = mul(from, there(share));
  }
  g.set(0, [&] { return include_self ? to_self : scatter(to_self, dim, index, 0); });
  g.set(3, [&] { return in_corner(to_src, g.meta(3).sizes); });
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
TENON_REGISTER_GRADIENT(op::scatter, inputs(2),
                        [](Gradients& g, const Tensor&, int64_t dim, const Tensor& index, const Operand&) {
                          g.set(0, [&] { return scatter(g.grad(), dim, index, 0); });
                          g.set(3, [&] { return in_corner(gather(g.grad(), dim, index), g.meta(3).sizes); });
                        });
// A slice named twice was filled once.
TENON_REGISTER_GRADIENT(op::index_fill, inputs(2),
                        [](Gradients& g, const Tensor&, int64_t dim, const Tensor& index, const Operand&) {
                          g.set(0, [&] { return index_fill(g.grad(), dim, index, 0); });
                          g.set(3, [&] {
                            const Tensor none = zeros_like(g.grad(), TensorOptions(kBool));
                            return sum(where(index_fill(none, dim, index, true), g.grad(), 0));
                          });
                        });
TENON_REGISTER_GRADIENT(op::scatter_reduce, inputs(0, 2, 3) | result(),
                        [](Gradients& g, const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src,
                           std::string_view reduce, bool include_self) {
                          gradients_of_reduction(g, self, dim, index, src, reduce, include_self);
                        });
TENON_REGISTER_GRADIENT(op::index_reduce, inputs(0, 2, 3) | result(),
                        [](Gradients& g, const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source,
                           std::string_view reduce, bool include_self) {
                          const int64_t d = dim < 0 ? dim + source.dim() : dim;
                          gradients_of_reduction(g, self, dim, index_of_slices(index, d, source.sizes()), source,
                                                 reduce, include_self);
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
