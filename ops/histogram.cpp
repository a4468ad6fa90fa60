// SPDX-License-Identifier: Apache-2.0
#define TENON_DEFINE_OPERATORS
#include <tenon/ops/histogram.h>

#include <tenon/dispatch/deterministic.h>
#include <tenon/dispatch/make_tensor.h>

#include <tenon/dispatch/declare_only.h>
//
#include <tenon/ops/binary.h>
#include <tenon/ops/compare.h>
#include <tenon/ops/copy.h>
#include <tenon/ops/factory.h>
#include <tenon/ops/index.h>
#include <tenon/ops/reduce.h>
#include <tenon/ops/search.h>
#include <tenon/ops/view.h>
#include <tenon/ops/where.h>

#include <cmath>
#include <utility>

namespace tenon::impl {
namespace {

using Range = std::pair<double, double>;
using Edges = std::tuple<Tensor, Tensor>;

// The given bounds, or the data's, widened where they are equal.
Range finite_range(const Call& call, const Tensor& self, double low, double high) {
  TENON_CHECK(low <= high, ValueError, call.name(), ": max: expected at least min, ", low, ", got ", high);
  if (low == high && self.numel() != 0) {
    low = op::amin(self, {}, false).item().real();
    high = op::amax(self, {}, false).item().real();
  }
  TENON_CHECK(std::isfinite(low) && std::isfinite(high), ValueError, call.name(), ": self: the range ", low, " to ",
              high, " is not finite; give bounds");
  if (low == high) low -= 1, high += 1;
  return {low, high};
}

// Sums of `weights` (undefined: counts) by place in 0 to size - 1, int64 or the dtype of the weights.
Tensor count_places(const Tensor& places, const Tensor& weights, int64_t size, const Tensor& given) {
  const DType t = weights.defined() ? weights.dtype() : kInt64;
  const auto kernel = op::bincount.kernel(places.backend(), dispatch::key_of(t));
  Tensor out = given.defined() && given.is_contiguous() ? given : dispatch::make_tensor({size}, t, places.device());
  out.zero_();
  const Tensor at = places.to(kInt64);
  if (weights.defined() && places.is_cuda() && is_deterministic()) {  // what is left out goes to one place more
    const Tensor inside = logical_and(ge(at, 0), lt(at, size));
    out.copy_(index_add(zeros({size + 1}, out.options()), 0, where(inside, at, size), weights).narrow(0, 0, size));
  } else if (at.numel() != 0 && size != 0)
    kernel(out, at.contiguous(), weights.defined() ? weights.contiguous() : Tensor());
  return out;
}

Edges fill_bins(const Call& call, const Tensor& self, const Tensor& edges, const Tensor& weight, bool density) {
  const Tensor x = self.detach().reshape({-1});
  const int64_t bins = edges.numel() - 1;
  if (weight.defined())
    TENON_CHECK(weight.sizes() == self.sizes() && weight.dtype() == self.dtype(), ShapeError, call.name(),
                ": weight: expected sizes and dtype of self, ", self.sizes(), " and ", self.dtype(), ", got ",
                weight.sizes(), " and ", weight.dtype());
  if (self.is_meta()) return {empty({bins}, self.options()), edges};
  // The last edge belongs to the last bin; what lies outside, NaN too, gets the number -1.
  const Tensor last = edges.slice(0, bins, bins + 1), first = edges.slice(0, 0, 1);
  const Tensor bin = sub(tenon::searchsorted(edges, x, false, true), 1);
  const Tensor inside = logical_and(ge(x, first), le(x, last));
  const Tensor place = where(inside, clamp_max(bin, bins - 1), -1);
  Tensor hist;
  if (weight.defined()) {
    const Tensor w = weight.detach().reshape({-1}).to(kFloat64);
    hist = count_places(place, w, bins, {});
  } else {
    hist = count_places(place, {}, bins, {}).to(kFloat64);
  }
  if (density) {
    const Tensor widths = sub(edges.slice(0, 1), edges.slice(0, 0, bins)).to(kFloat64);
    hist = div(div(hist, op::sum(hist, {}, false, {})), widths);
  }
  return {hist.to(self.dtype()), edges};
}
void check_floating(const Call& call, const Tensor& self) {
  TENON_CHECK(is_floating_point(self.dtype()) && !is_float8(self.dtype()), DtypeError, call.name(),
              ": self: expected a floating dtype, got ", self.dtype());
}

}  // namespace

Tensor bincount(Call& call, const Tensor& self, const Tensor& weights, int64_t minlength) {
  const Device device = call.device_of({&self, &weights});
  TENON_CHECK(is_integral(self.dtype()), DtypeError, "bincount: self: expected integers, got ", self.dtype());
  TENON_CHECK(self.dim() == 1, ShapeError, "bincount: self: expected a vector, got ", self.dim(), " dimensions");
  TENON_CHECK(minlength >= 0, ValueError, "bincount: minlength: expected 0 or more, got ", minlength);
  TENON_CHECK(!self.is_meta(), DeviceError,
              "bincount: self: the result's size depends on values, which a meta tensor has not");
  Tensor w;
  if (weights.defined()) {
    TENON_CHECK(weights.sizes() == self.sizes(), ShapeError, "bincount: weights: expected the sizes of self, ",
                self.sizes(), ", got ", weights.sizes());
    TENON_CHECK(!weights.is_complex(), DtypeError, "bincount: weights: expected real numbers, got ", weights.dtype());
    w = weights.dtype() == kFloat32 ? weights : weights.to(kFloat64);
  }
  call.enter(device);
  int64_t size = minlength;
  if (self.numel() != 0) {
    const int64_t least = op::amin(self, {}, false).item().integer();
    TENON_CHECK(least >= 0, ValueError, "bincount: self: expected no negative element, got ", least);
    size = std::max(size, op::amax(self, {}, false).item().integer() + 1);
  }
  const Tensor out = call.output(0, {size}, w.defined() ? w.dtype() : kInt64, device, {&self, &weights});
  return count_places(self, w, size, out);
}

Tensor histc(Call& call, const Tensor& self, int64_t bins, const Scalar& min, const Scalar& max) {
  TENON_CHECK(bins > 0, ValueError, "histc: bins: expected 1 or more, got ", bins);
  TENON_CHECK(!self.is_complex() && self.dtype() != kBool, DtypeError, "histc: self: expected real numbers, got ",
              self.dtype());
  const Tensor out = call.output(0, {bins}, self.dtype(), self.device(), {&self});
  if (out.is_meta()) return out;
  const auto kernel = op::histc.kernel(self.backend(), dispatch::key_of(self.dtype()));
  const auto [low, high] = finite_range(call, self, min.real(), max.real());
  Tensor counts = dispatch::make_tensor({bins}, kInt64, self.device());
  counts.zero_();
  if (self.numel() != 0) kernel(counts, self.contiguous(), low, high);
  Tensor(out).copy_(counts);
  return out;
}

Edges histogram_bins(Call& call, const Tensor& self, const Tensor& bins, const Tensor& weight, bool density) {
  call.device_of({&self, &bins, &weight});
  check_floating(call, self);
  TENON_CHECK(bins.dim() == 1 && bins.numel() > 1, ShapeError,
              "histogram: bins: expected a vector of 2 or more edges, got sizes ", bins.sizes());
  TENON_CHECK(bins.dtype() == self.dtype(), DtypeError, "histogram: bins: expected the dtype of self, ", self.dtype(),
              ", got ", bins.dtype());
  return fill_bins(call, self, bins.detach().clone(), weight, density);
}

Edges histogram(Call& call, const Tensor& self, int64_t bins, const Tensor& range, const Tensor& weight, bool density) {
  call.device_of({&self, &weight});
  check_floating(call, self);
  TENON_CHECK(bins > 0, ValueError, "histogram: bins: expected 1 or more, got ", bins);
  if (self.is_meta()) return fill_bins(call, self, empty({bins + 1}, self.options()), weight, density);
  double low = 0, high = 0;
  if (range.defined()) {
    TENON_CHECK(range.numel() == 2, ShapeError, "histogram: range: expected two numbers, got sizes ", range.sizes());
    const Tensor bounds = range.reshape({-1});
    low = bounds.select(0, 0).item().real();
    high = bounds.select(0, 1).item().real();
    TENON_CHECK(std::isfinite(low) && std::isfinite(high) && low <= high, ValueError,
                "histogram: range: expected two finite ascending numbers, got ", low, " and ", high);
    if (low == high) low -= 0.5, high += 0.5;
  } else if (self.numel() == 0) {
    high = 1;
  } else {
    const Tensor x = self.detach();
    low = op::amin(x, {}, false).item().real();
    high = op::amax(x, {}, false).item().real();
    TENON_CHECK(std::isfinite(low) && std::isfinite(high), ValueError, "histogram: self: the range ", low, " to ", high,
                " is not finite; give range");
    if (low == high) low -= 0.5, high += 0.5;
  }
  return fill_bins(call, self, linspace(low, high, bins + 1, self.options()), weight, density);
}

}  // namespace tenon::impl
