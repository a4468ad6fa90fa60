// SPDX-License-Identifier: Apache-2.0
// Gradients of reductions. Equal extremes share the gradient evenly (amax, max over all); max.dim gives it to the
// position it reported.
#include <tenon/dispatch/gradient.h>
#include <tenon/ops/binary.h>
#include <tenon/ops/compare.h>
#include <tenon/ops/factory.h>
#include <tenon/ops/reduce.h>
#include <tenon/ops/unary.h>
#include <tenon/ops/view.h>
#include <tenon/ops/where.h>

#include <cmath>

namespace tenon {
namespace {

using dispatch::Gradients;

// The reduced dimensions of a tensor of that rank, as a mask; none given means all.
uint32_t reduced_mask(IntArrayRef dims, int64_t rank) {
  uint32_t mask = 0;
  if (dims.empty()) return rank == 0 ? 0u : (1u << rank) - 1u;
  for (const int64_t d : dims)
    if (rank > 0) mask |= 1u << (d < 0 ? d + rank : d);
  return mask;
}

// Puts the reduced dimensions back with size 1 (a no-op under keepdim).
Tensor keep_dims(const Tensor& t, IntArrayRef dims, bool keepdim, IntArrayRef input) {
  const auto rank = static_cast<int64_t>(input.size());
  if (keepdim || t.dim() == rank) return t;
  const uint32_t mask = reduced_mask(dims, rank);
  DimVector sizes(input);
  for (int64_t d = 0; d < rank; ++d)
    if (mask >> d & 1u) sizes[static_cast<std::size_t>(d)] = 1;
  return t.reshape(sizes);
}

int64_t reduced_count(IntArrayRef dims, IntArrayRef input) {
  const uint32_t mask = reduced_mask(dims, static_cast<int64_t>(input.size()));
  int64_t n = 1;
  for (std::size_t d = 0; d < input.size(); ++d)
    if (mask >> d & 1u) n *= input[d];
  return n;
}

// Repeats a reduced gradient over the input's sizes.
Tensor spread(Gradients& g, const Tensor& grad, IntArrayRef dims, bool keepdim) {
  const DimVector& sizes = g.meta(0).sizes;
  return keep_dims(grad, dims, keepdim, sizes).expand(sizes);
}

IntArrayRef dims_of(const OptionalDims& dim) { return dim ? *dim : IntArrayRef(); }

Tensor evenly(Gradients& g, const Tensor& self, const Tensor& extreme, IntArrayRef dims, bool keepdim) {
  const DimVector sizes(self.sizes());
  const Tensor e = keep_dims(extreme, dims, keepdim, sizes);
  // NaN is the extreme where there is one, and equals nothing.
  const Tensor hit = logical_or(eq(self, e), logical_and(isnan(self), isnan(e)));
  const Tensor count = sum(hit, dims, true);
  return where(hit, div(keep_dims(g.grad(), dims, keepdim, sizes), count), 0);
}

// grad at `indices` of `dim`, zeros elsewhere.
Tensor at_indices(Gradients& g, const Tensor& indices, int64_t dim, bool keepdim) {
  const DimVector& sizes = g.meta(0).sizes;
  if (sizes.empty()) return g.grad();
  const int64_t d = dim < 0 ? dim + static_cast<int64_t>(sizes.size()) : dim;
  const Tensor index = keepdim ? indices : indices.unsqueeze(d);
  const Tensor grad = keepdim ? g.grad() : g.grad().unsqueeze(d);
  DimVector shape(sizes.size(), 1);
  const int64_t length = sizes[static_cast<std::size_t>(d)];
  shape[static_cast<std::size_t>(d)] = length;
  const Tensor positions = arange(length, TensorOptions(kInt64).device(index.device())).view(shape);
  return where(eq(positions, index), grad, 0);
}

}  // namespace

TENON_REGISTER_GRADIENT(op::sum, nothing(),
                        [](Gradients& g, const Tensor&, OptionalDims dim, bool keepdim, std::optional<DType>) {
                          g.set(0, [&] { return spread(g, g.grad(), dims_of(dim), keepdim); });
                        });
TENON_REGISTER_GRADIENT(op::mean, nothing(),
                        [](Gradients& g, const Tensor&, OptionalDims dim, bool keepdim, std::optional<DType>) {
                          g.set(0, [&] {
                            const int64_t n = reduced_count(dims_of(dim), g.meta(0).sizes);
                            return spread(g, div(g.grad(), n), dims_of(dim), keepdim);
                          });
                        });
TENON_REGISTER_GRADIENT(op::var, inputs(0),
                        [](Gradients& g, const Tensor& self, OptionalDims dim, const std::optional<Scalar>& correction,
                           bool keepdim) {
                          g.set(0, [&] {
                            const IntArrayRef dims = dims_of(dim);
                            const double freedom = static_cast<double>(reduced_count(dims, self.sizes())) -
                                                   (correction ? correction->real() : 1.0);
                            const Tensor centred = sub(self, mean(self, dims, true));
                            // Without degrees of freedom the variance is infinite, and NaN for equal elements.
                            if (freedom <= 0)
                              return mul(keep_dims(g.grad(), dims, keepdim, self.sizes()),
                                         where(eq(centred, 0), NAN, INFINITY));
                            return mul(mul(keep_dims(g.grad(), dims, keepdim, self.sizes()), 2.0 / freedom), centred);
                          });
                        });
TENON_REGISTER_GRADIENT(op::amax, inputs(0) | result(),
                        [](Gradients& g, const Tensor& self, IntArrayRef dim, bool keepdim) {
                          g.set(0, [&] { return evenly(g, self, g.result(), dim, keepdim); });
                        });
TENON_REGISTER_GRADIENT(op::amin, inputs(0) | result(),
                        [](Gradients& g, const Tensor& self, IntArrayRef dim, bool keepdim) {
                          g.set(0, [&] { return evenly(g, self, g.result(), dim, keepdim); });
                        });
TENON_REGISTER_GRADIENT(op::max, inputs(0) | result(), [](Gradients& g, const Tensor& self) {
  g.set(0, [&] { return evenly(g, self, g.result(), {}, false); });
});
TENON_REGISTER_GRADIENT(op::min, inputs(0) | result(), [](Gradients& g, const Tensor& self) {
  g.set(0, [&] { return evenly(g, self, g.result(), {}, false); });
});
TENON_REGISTER_GRADIENT(op::max_dim, outputs(1), [](Gradients& g, const Tensor&, int64_t dim, bool keepdim) {
  g.set(0, [&] { return at_indices(g, g.result(1), dim, keepdim); });
});
TENON_REGISTER_GRADIENT(op::min_dim, outputs(1), [](Gradients& g, const Tensor&, int64_t dim, bool keepdim) {
  g.set(0, [&] { return at_indices(g, g.result(1), dim, keepdim); });
});

}  // namespace tenon
