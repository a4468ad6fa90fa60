// SPDX-License-Identifier: Apache-2.0
#define TENON_DEFINE_OPERATORS
#include <tenon/ops/optimizer_step.h>

#include <tenon/dispatch/declare_only.h>
#include <tenon/dispatch/make_tensor.h>

#include <algorithm>

namespace tenon::impl {
namespace {

/// Memory to update `t` in: the destination where it lies as `like` does, else fresh; filled with t's values.
Tensor prepared(const Tensor& t, const Tensor* destination, const Tensor& like, DimVector strides) {
  const bool direct = destination && destination->dtype() == t.dtype() && destination->device() == t.device() &&
                      destination->sizes() == t.sizes() && destination->strides() == IntArrayRef(strides);
  Tensor out = direct ? *destination : dispatch::make_tensor(like.sizes(), t.dtype(), t.device(), strides);
  if (!(out.is_same(t) || (out.data_ptr() == t.data_ptr() && out.strides() == t.strides()))) out.copy_(t);
  return out;
}

void check_apart(std::span<const Tensor> destinations) {
  std::vector<std::pair<const char*, const char*>> ranges;
  for (const Tensor& t : destinations)
    if (t.defined() && t.numel() != 0 && t.storage() && dispatch::is_dense(t) && !t.is_meta()) {
      const auto* from = static_cast<const char*>(t.data_ptr());
      ranges.emplace_back(from, from + t.numel() * t.itemsize());
    }
  std::sort(ranges.begin(), ranges.end());
  for (std::size_t i = 1; i < ranges.size(); ++i)
    TENON_CHECK(ranges[i].first >= ranges[i - 1].second, AliasError, "optimizer_step: out: two tensors share memory");
}

}  // namespace

std::vector<Tensor> optimizer_step(Call& call, TensorList parameters, TensorList gradients, TensorList states,
                                   const Tensor& clock, int64_t rule, int64_t flags, double lr, double step, double a,
                                   double b, double c, double d, double e, double f) {
  const std::size_t n = parameters.size();
  std::size_t kinds = 0;
  for (const int64_t flag : {kFirstState, kSecondState, kThirdState, kMasterWeights}) kinds += (flags & flag) != 0;
  TENON_CHECK(n > 0, ValueError, "optimizer_step: parameters: expected at least one tensor, got an empty list");
  TENON_CHECK(rule >= 0 && rule < kOptimizerRules, ValueError, "optimizer_step: rule: expected 0 to ",
              kOptimizerRules - 1, ", got ", rule);
  TENON_CHECK(gradients.size() == n, ValueError, "optimizer_step: gradients: expected ", n, " tensors, got ",
              gradients.size());
  TENON_CHECK(states.size() == n * kinds, ValueError, "optimizer_step: states: expected ", n * kinds, " tensors, got ",
              states.size());
  TENON_CHECK(call.destinations.empty() || call.destinations.size() == n + states.size(), ValueError,
              "optimizer_step: out: expected ", n + states.size(), " tensors, got ", call.destinations.size());
  for (const TensorList list : {parameters, gradients, states})
    for (std::size_t i = 0; i < list.size(); ++i)
      TENON_CHECK(list[i].defined(), ValueError, "optimizer_step: tensor ", i, " of a list is undefined");
  const Tensor& first = parameters[0];
  const DType dtype = first.dtype(), wide = item_size(dtype) < 4 ? kFloat32 : dtype;
  TENON_CHECK(is_floating_point(dtype) && item_size(dtype) > 1, DtypeError,
              "optimizer_step: parameters: expected a floating dtype, got ", dtype);
  TENON_CHECK(!clock.defined() || (clock.dtype() == kFloat64 && clock.numel() == 2 &&
                                   clock.device() == first.device() && rule != int64_t(OptimizerRule::nadam)),
              ValueError, "optimizer_step: clock: expected two float64 numbers on ", first.device(),
              " and a rule other than nadam");
  for (const TensorList list : {parameters, gradients, states})
    for (std::size_t i = 0; i < list.size(); ++i) {
      const Tensor &t = list[i], &p = parameters[i % n];
      const DType expected = list.data() == states.data() ? wide : dtype;
      TENON_CHECK(t.sizes() == p.sizes(), ShapeError, "optimizer_step: expected sizes ", p.sizes(),
                  " as the parameter's, got ", t.sizes());
      TENON_CHECK(t.dtype() == expected, DtypeError, "optimizer_step: expected dtype ", expected, ", got ", t.dtype());
      TENON_CHECK(t.device() == first.device(), DeviceError, "optimizer_step: expected all tensors on ", first.device(),
                  ", got one on ", t.device());
    }
  call.enter(first.device());
  check_apart(call.destinations);
  const auto destination = [&](std::size_t i) { return call.destinations.empty() ? nullptr : &call.destinations[i]; };

  std::vector<Tensor> out, moved;  // gradients that lie as their parameters do
  out.reserve(n + states.size()), moved.reserve(n);
  for (std::size_t i = 0; i < n; ++i) {
    const Tensor& p = parameters[i];
    const DimVector strides = dispatch::is_dense(p) ? DimVector(p.strides()) : DimVector(p.contiguous().strides());
    out.push_back(prepared(p, destination(i), p, strides));
    const Tensor& g = gradients[i];
    moved.push_back(g.strides() == IntArrayRef(strides) ? g : prepared(g, nullptr, p, strides));
  }
  for (std::size_t i = 0; i < states.size(); ++i) {
    const Tensor& p = out[i % n];
    out.push_back(prepared(states[i], destination(n + i), p, DimVector(p.strides())));
  }
  if (!first.is_meta())
    op::optimizer_step.kernel(first.backend(), dispatch::key_of(dtype))(
        TensorList(out.data(), n), moved, TensorList(out.data() + n, states.size()),
        clock.defined() ? clock.contiguous() : clock, rule, flags, lr, step, a, b, c, d, e, f);
  return out;
}

}  // namespace tenon::impl
