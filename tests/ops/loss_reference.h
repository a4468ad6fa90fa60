// SPDX-License-Identifier: Apache-2.0
// What the rows of losses and distances share: numbers, and losses of elements reduced as a text says.
#pragma once

#include "tests/support/op_case.h"

#include <cmath>

namespace tenon::testing {

using Sizes = std::vector<int64_t>;
inline const Dtypes kWide = {kFloat64, kFloat32};
inline const Tensor kNone;
inline double softplus_of(double x) { return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x)); }
inline double log_at_least(double p) { return std::max(std::log(p), -100.0); }

// The elements' losses, whose sums are of magnitude `magnitude` each.
inline std::vector<Array> reduced_by(Array each, const std::string& how, double magnitude, double divisor = -1) {
  const double rounding = is_half(each.dtype) ? epsilon(each.dtype) / epsilon(kFloat32) : 1;
  each.scale = {magnitude * rounding};
  if (how == "none") return {each};
  Array out = make_array(each.dtype, {});
  double sum = 0;
  for (const Number& v : each.data) sum += v.re();
  const double n = divisor >= 0 ? divisor : static_cast<double>(each.numel());
  out.data[0] = how == "sum" ? sum : sum / n;
  out.scale = {magnitude * rounding * (how == "sum" ? std::max<double>(1, static_cast<double>(each.numel())) : 1)};
  return {out};
}
inline void each_reduction(Inputs&, const std::function<void(const char*)>& add) {
  for (const char* how : {"none", "mean", "sum"}) add(how);
}
}  // namespace tenon::testing
