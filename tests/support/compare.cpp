// SPDX-License-Identifier: Apache-2.0
// Comparison of results with references.
#include <tenon/testing/reference.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace tenon::testing {
namespace {

std::string text(const Number& v, DType t) {
  char buffer[96];
  if (is_integral(t, true))
    std::snprintf(buffer, sizeof buffer, "%lld", static_cast<long long>(v.i));
  else if (is_complex(t))
    std::snprintf(buffer, sizeof buffer, "%.17g%+.17gi", v.z.real(), v.z.imag());
  else
    std::snprintf(buffer, sizeof buffer, "%.17g", v.re());
  return buffer;
}

bool real_close(double got, double expected, double rounded, double tolerance, DType t) {
  if (std::isnan(rounded)) return std::isnan(got);
  if (std::isnan(got)) return false;
  if (got == rounded) return true;
  if (std::isinf(got))
    return std::isfinite(expected) && std::fabs(expected) + tolerance >= largest(t) && (got > 0) == (expected > 0);
  if (std::isinf(expected)) return false;
  return std::fabs(got - expected) <= tolerance;
}

std::string header(const Array& got, const Array& expected) {
  if (got.dtype != expected.dtype)
    return std::string("dtype ") + name(got.dtype) + ", expected " + name(expected.dtype);
  if (got.sizes != expected.sizes) return "sizes " + describe(got.sizes) + ", expected " + describe(expected.sizes);
  return {};
}

std::string at(int64_t n, const Array& got, const Array& expected) {
  std::vector<int64_t> index(got.sizes.size());
  for (std::size_t d = index.size(), rest = static_cast<std::size_t>(n); d-- > 0;) {
    index[d] = static_cast<int64_t>(rest) % got.sizes[d];
    rest /= static_cast<std::size_t>(got.sizes[d]);
  }
  return "element " + describe(index) + " of " + describe(got.sizes) + " is " + text(got.data[n], got.dtype) +
         ", expected " + text(expected.data[n], expected.dtype);
}

}  // namespace

std::string describe(const std::vector<int64_t>& sizes) {
  std::string s = "[";
  for (std::size_t d = 0; d < sizes.size(); ++d) s += (d ? ", " : "") + std::to_string(sizes[d]);
  return s + "]";
}

std::string difference(const Array& got, const Array& expected, double ulp) {
  std::string text = header(got, expected);
  if (!text.empty()) return text;
  const DType t = got.dtype, r = real_part(t);
  const bool small = item_size(r) <= 2;
  for (int64_t n = 0; n < got.numel(); ++n) {
    const Number &g = got.data[n], &e = expected.data[n];
    if (is_integral(t, true)) {
      if (g.i != e.i) return at(n, got, expected);
      continue;
    }
    const double scale = expected.scale.empty()       ? 0
                         : expected.scale.size() == 1 ? expected.scale[0]
                                                      : expected.scale[n];
    const double magnitude = std::max(std::abs(e.z), smallest_normal(r));
    const double tolerance = small ? magnitude * epsilon(r) + ulp * std::max(scale, magnitude) * epsilon(kFloat32)
                                   : ulp * std::max(magnitude, scale) * epsilon(r);
    if (is_complex(t)) {
      const Number rounded = convert(e, kComplex128, t);
      const bool finite = std::isfinite(rounded.z.real()) && std::isfinite(rounded.z.imag());
      const bool got_finite = std::isfinite(g.z.real()) && std::isfinite(g.z.imag());
      if (finite ? !(std::abs(g.z - e.z) <= tolerance) : got_finite) return at(n, got, expected);
      continue;
    }
    if (!real_close(g.re(), e.re(), convert(e, kFloat64, r).re(), tolerance, r)) return at(n, got, expected);
  }
  return {};
}

std::string bit_difference(const Array& got, const Array& expected) {
  std::string text = header(got, expected);
  if (!text.empty()) return text;
  const auto same = [](double a, double b) {
    return (std::isnan(a) && std::isnan(b)) || (a == b && std::signbit(a) == std::signbit(b));
  };
  for (int64_t n = 0; n < got.numel(); ++n) {
    const Number &g = got.data[n], &e = expected.data[n];
    const bool equal =
        is_integral(got.dtype, true) ? g.i == e.i : same(g.z.real(), e.z.real()) && same(g.z.imag(), e.z.imag());
    if (!equal) return at(n, got, expected);
  }
  return {};
}

Array Args::array(int i) const {
  const dispatch::Value& v = bound_[i];
  if (v.is_tensor()) return v.tensor().defined() ? read(v.tensor()) : Array();
  if (!v.is_number()) return {};
  Array a = make_array(v.number().dtype(), {});
  a.number = true;
  a.data[0] = number(i);
  return a;
}

std::vector<Array> Args::arrays(int i) const {
  std::vector<Array> list;
  for (const Tensor& t : bound_[i].tensors()) list.push_back(t.defined() ? read(t) : Array());
  return list;
}

Number Args::number(int i) const {
  const Scalar& s = bound_[i].number();
  if (s.is_integral() || s.is_bool()) return s.integer();
  return Complex(s.real(), s.imag());
}

}  // namespace tenon::testing
