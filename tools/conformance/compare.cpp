// SPDX-License-Identifier: Apache-2.0
#include "compare.h"

#include <cmath>

namespace tenon::conformance {

Tolerance tolerance_of(DType t, bool loose) {
  switch (t) {
    case kFloat64:
    case kComplex128:
      return {1e-7, 1e-7};
    case kFloat32:
    case kComplex64:
      return loose ? Tolerance{1e-4, 1e-4} : Tolerance{1.3e-5, 1e-5};
    case kFloat16:
      return {2e-3, 2e-3};
    case kBFloat16:
      return {1.6e-2, 1e-2};
    default:
      return {0, 0};
  }
}

std::string difference(const Tensor& got, const Tensor& want, Tolerance tolerance, bool values) {
  if (got.dtype() != want.dtype()) return detail::concat("dtype ", got.dtype(), ", expected ", want.dtype());
  if (!(got.sizes() == want.sizes())) return detail::concat("sizes ", got.sizes(), ", expected ", want.sizes());
  if (!values) return {};
  const auto close = [&](double a, double b) {
    if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
    if (std::isinf(a) || std::isinf(b)) return a == b;
    return std::fabs(a - b) <= tolerance.absolute + tolerance.relative * std::fabs(b);
  };
  const auto report = [](std::size_t i, auto a, auto b) {
    return detail::concat("element ", i, " is ", a, ", expected ", b);
  };
  if (is_integral(want.dtype(), true)) {
    const auto a = got.to(kInt64).to_vector<int64_t>(), b = want.to(kInt64).to_vector<int64_t>();
    for (std::size_t i = 0; i < a.size(); ++i)
      if (a[i] != b[i]) return report(i, a[i], b[i]);
    return {};
  }
  const auto a = got.to_vector<complex<double>>(), b = want.to_vector<complex<double>>();
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!close(a[i].re, b[i].re)) return report(i, a[i].re, b[i].re);
    if (want.is_complex() && !close(a[i].im, b[i].im)) return report(i, Scalar(a[i]), Scalar(b[i]));
  }
  return {};
}

}  // namespace tenon::conformance
