// SPDX-License-Identifier: Apache-2.0
// Tensor::str(): nested brackets in columns of one width, summarised beyond kThreshold elements, followed by what is
// not the default: dtype, device, gradient function. Values are printed with four decimals, in scientific form when
// they span too many magnitudes.
#include <tenon/ops/copy.h>
#include <tenon/ops/factory.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace tenon {
namespace {

constexpr int64_t kThreshold = 1000;  // elements printed in full
constexpr int64_t kEdge = 3;          // entries kept at each end of a summarised dimension

struct Printer {
  Tensor host;  // contiguous or not, on the CPU, float64, complex128, int64 or bool
  bool summarise = false;
  bool scientific = false;
  bool integral_floats = false;
  std::size_t width = 0;

  std::string number(double v) const {
    char buffer[64];
    if (std::isnan(v)) return "nan";
    if (std::isinf(v)) return v > 0 ? "inf" : "-inf";
    std::snprintf(buffer, sizeof buffer, scientific ? "%.4e" : integral_floats ? "%.0f." : "%.4f", v);
    return buffer;
  }
  std::string element(const Tensor& t) const {
    const void* p = t.data_ptr();
    if (t.dtype() == kBool) return *static_cast<const bool*>(p) ? "true" : "false";
    if (t.dtype() == kInt64) return std::to_string(*static_cast<const int64_t*>(p));
    if (t.dtype() == kFloat64) return number(*static_cast<const double*>(p));
    const auto z = *static_cast<const complex<double>*>(p);
    return number(z.re) + (std::signbit(z.im) ? "-" : "+") + number(std::fabs(z.im)) + "j";
  }
  template <class F>
  void each(const Tensor& t, F&& f) const {
    if (t.dim() == 0) return f(t);
    const int64_t n = t.sizes()[0];
    for (int64_t i = 0; i < n; ++i) {
      if (summarise && n > 2 * kEdge && i == kEdge) i = n - kEdge;
      each(t.select(0, i), f);
    }
  }
  void measure() {
    double largest = 0, smallest = INFINITY;
    integral_floats = true;
    const auto look = [&](double v) {
      if (!std::isfinite(v)) return;
      integral_floats = integral_floats && v == std::floor(v) && std::fabs(v) < 1e15;
      if (v != 0) largest = std::max(largest, std::fabs(v)), smallest = std::min(smallest, std::fabs(v));
    };
    each(host, [&](const Tensor& e) {
      if (e.dtype() == kFloat64) look(*e.data_ptr<double>());
      if (e.is_complex()) look(e.data_ptr<complex<double>>()->re), look(e.data_ptr<complex<double>>()->im);
    });
    scientific = integral_floats
                     ? largest >= 1e8
                     : largest >= 1e5 || (smallest < 1e-4 && smallest < INFINITY) || largest > 1000 * smallest * 1e3;
    each(host, [&](const Tensor& e) { width = std::max(width, element(e).size()); });
  }
  void write(const Tensor& t, std::string& out, std::size_t indent) const {
    if (t.dim() == 0) {
      const std::string text = element(t);
      out.append(host.dim() == 0 ? 0 : width - text.size(), ' ').append(text);
      return;
    }
    const int64_t n = t.sizes()[0];
    out += '[';
    for (int64_t i = 0; i < n; ++i) {
      if (i > 0) {
        out += ',';
        if (t.dim() == 1)
          out += ' ';
        else
          out.append(static_cast<std::size_t>(t.dim() - 1), '\n').append(indent + 1, ' ');
      }
      if (summarise && n > 2 * kEdge && i == kEdge) {
        out += "...";
        i = n - kEdge - 1;
        continue;
      }
      write(t.select(0, i), out, indent + 1);
    }
    out += ']';
  }
};

}  // namespace

std::string Tensor::str() const {
  if (!defined()) return "tensor(undefined)";
  const dispatch::BelowLayersGuard below;
  std::string out = "tensor(";
  if (is_meta() || numel() == 0) {
    out += is_meta() ? "..." : "[]";
  } else {
    Printer printer;
    printer.summarise = numel() > kThreshold;
    const DType shown = dtype() == kBool       ? kBool
                        : is_integral(dtype()) ? kInt64
                        : is_complex()         ? kComplex128
                                               : kFloat64;
    printer.host = to(Device(kCPU)).to(shown);
    printer.measure();
    printer.write(printer.host, out, 7);
  }
  Message tail;
  if (is_meta() || numel() == 0) {
    if (dim() != 1 || is_meta()) tail << ", size=" << sizes();
  }
  const bool natural = dtype() == default_dtype() || (numel() > 0 && (dtype() == kInt64 || dtype() == kBool));
  if (!natural) tail << ", dtype=" << dtype();
  if (!is_cpu()) tail << ", device=" << device();
  if (requires_grad()) {
    const std::string from = grad_fn_name();
    tail << (from.empty() ? ", requires_grad=true" : ", grad_fn=<" + from + ">");
  }
  return out + tail.take() + ")";
}

Message& operator<<(Message& m, const Tensor& t) { return m << t.str(); }

}  // namespace tenon
