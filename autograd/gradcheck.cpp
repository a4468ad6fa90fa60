// SPDX-License-Identifier: Apache-2.0
// For an output direction v, L = Re sum conj(v) y is a real function of each input element; its slope along the element
// is compared with the gradient of L. Every output element is a direction of its own, so that a fault is located; in
// fast mode one random direction stands for all.
#include <tenon/autograd/autograd.h>
#include <tenon/autograd/gradcheck.h>
#include <tenon/core/operand.h>

#include <cmath>

namespace tenon::autograd {
namespace {

// Host copies in row-major order; complex elements as they are.
std::vector<complex<double>> values(const Tensor& t) {
  std::vector<complex<double>> out;
  const Tensor host = t.detach().to(Device(kCPU), kComplex128).contiguous();
  const auto* p = host.data_ptr<complex<double>>();
  out.assign(p, p + host.numel());
  return out;
}

// Writes one element (row-major position) of a strided tensor on any device.
void set_element(const Tensor& t, int64_t position, complex<double> value) {
  const NoGradGuard guard;
  Tensor at = t.detach();
  std::vector<int64_t> index(static_cast<std::size_t>(t.dim()));
  for (int64_t d = t.dim() - 1; d >= 0; --d) {
    index[static_cast<std::size_t>(d)] = position % t.size(d);
    position /= t.size(d);
  }
  for (const int64_t i : index) at = at.select(0, i);
  if (t.is_complex())
    at.fill_(value);
  else
    at.fill_(value.re);
}

std::vector<Tensor> differentiable_outputs(const CheckedFunction& f, TensorList inputs) {
  std::vector<Tensor> kept;
  for (Tensor& t : f(inputs))
    if (t.defined() && is_differentiable(t.dtype())) kept.push_back(static_cast<Tensor&&>(t));
  return kept;
}

// splitmix64, numbers in [-1, 1).
struct Random {
  uint64_t state;
  explicit Random(uint64_t seed) : state(seed * 0x9E3779B97F4A7C15u + 1) {}
  double operator()() {
    uint64_t z = state += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return static_cast<double>((z ^ (z >> 31)) >> 11) * 0x1p-52 - 1;
  }
  Tensor like(const Tensor& t) {
    Tensor v = t.detach().clone(MemoryFormat::contiguous);
    for (int64_t e = 0; e < v.numel(); ++e) set_element(v, e, {(*this)(), (*this)()});
    return v;
  }
};

// How many real numbers an element is: the real and the imaginary part are moved and looked at separately.
int64_t axes(const Tensor& t) { return t.is_complex() ? 2 : 1; }
double part(complex<double> z, int64_t axis) { return axis ? z.im : z.re; }

/// d output / d input over real numbers, row-major.
struct Matrix {
  int64_t rows = 0, columns = 0;
  std::vector<double> values;
  Matrix(int64_t r, int64_t c) : rows(r), columns(c), values(static_cast<std::size_t>(r * c), 0.0) {}
  double& at(int64_t r, int64_t c) { return values[static_cast<std::size_t>(r * columns + c)]; }
  std::string str() {
    constexpr int64_t kShown = 6;
    Message m;
    m << "[";
    for (int64_t r = 0; r < rows && r < kShown; ++r) {
      m << (r ? ", [" : "[");
      for (int64_t c = 0; c < columns && c < kShown; ++c) m << (c ? ", " : "") << at(r, c);
      m << (columns > kShown ? ", ...]" : "]");
    }
    m << (rows > kShown ? ", ...]" : "]");
    return m.take();
  }
};
using Jacobians = std::vector<std::vector<Matrix>>;  // [output][input]

struct Problem {
  const CheckedFunction& f;
  TensorList inputs;
  const GradcheckOptions& options;
  std::vector<std::size_t> checked;  // positions of the inputs that require grad
  std::vector<Tensor> wanted, moved;
  bool of_gradients;  // which may all be absent: floor has none

  Problem(const CheckedFunction& function, TensorList given, const GradcheckOptions& o, bool gradients)
      : f(function), inputs(given), options(o), moved(given.begin(), given.end()), of_gradients(gradients) {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (!inputs[i].defined() || !inputs[i].requires_grad()) continue;
      TENON_CHECK(inputs[i].dtype() == kFloat64 || inputs[i].dtype() == kComplex128, DtypeError, "gradcheck: input ", i,
                  ": expected float64 or complex128, got ", inputs[i].dtype());
      TENON_CHECK(!inputs[i].is_inference(), ValueError, "gradcheck: input ", i,
                  " was made in inference mode; clone() it outside");
      checked.push_back(i);
      wanted.push_back(inputs[i]);
      // Differences are taken in copies, so that the inputs' versions stay what they are.
      moved[i] = inputs[i].detach().clone(MemoryFormat::contiguous).requires_grad_();
    }
    TENON_CHECK(!checked.empty(), ValueError, "gradcheck: no input requires grad");
  }

  // The gradients of Re sum conj(v) y.
  std::vector<Tensor> slopes(const Tensor& y, const Tensor& v) const {
    std::vector<Tensor> grads(wanted.size());
    if (y.requires_grad()) grads = grad({&y, 1}, wanted, {&v, 1}, true, false, true);
    return grads;
  }

  Jacobians analytic() const {
    Jacobians all;
    for (const Tensor& y : differentiable_outputs(f, inputs)) {
      all.emplace_back();
      for (const Tensor& x : wanted) all.back().emplace_back(y.numel() * axes(y), x.numel() * axes(x));
      for (int64_t row = 0; row < y.numel() * axes(y); ++row) {
        Tensor v = y.detach().clone(MemoryFormat::contiguous);
        v.zero_();
        set_element(v, row / axes(y), row % axes(y) ? complex<double>(0, 1) : complex<double>(1, 0));
        const std::vector<Tensor> grads = slopes(y, v);
        for (std::size_t i = 0; i < wanted.size(); ++i) {
          if (!grads[i].defined()) continue;
          Matrix& m = all.back()[i];
          const std::vector<complex<double>> g = values(grads[i]);
          for (int64_t c = 0; c < m.columns; ++c)
            m.at(row, c) = part(g[static_cast<std::size_t>(c / axes(wanted[i]))], c % axes(wanted[i]));
        }
      }
    }
    return all;
  }

  std::vector<std::vector<complex<double>>> evaluate() const {
    const NoGradGuard guard;
    std::vector<std::vector<complex<double>>> all;
    for (const Tensor& y : differentiable_outputs(f, moved)) all.push_back(values(y));
    return all;
  }

  void expect_some(std::size_t outputs) const {
    TENON_CHECK(outputs > 0 || of_gradients, ValueError,
                "gradcheck: f: expected at least one floating-point or complex output");
  }

  // What a call gave, against the first one.
  static void expect_like(const Jacobians& first, std::size_t input,
                          const std::vector<std::vector<complex<double>>>& now) {
    TENON_CHECK(now.size() == first.size(), ValueError,
                "gradcheck: f: expected the same number of outputs in every call, got ", first.size(), " and then ",
                now.size());
    for (std::size_t k = 0; k < now.size(); ++k) {
      const int64_t rows = first[k][input].rows, count = static_cast<int64_t>(now[k].size());
      TENON_CHECK(rows == count || rows == 2 * count, ValueError, "gradcheck: f: expected output ", k,
                  " to have the same sizes in every call");
    }
  }

  // Central differences into matrices shaped as `like`.
  Jacobians numeric(const Jacobians& like) const {
    Jacobians all = like;
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      const Tensor& x = moved[checked[i]];
      const std::vector<complex<double>> original = values(x);
      for (int64_t c = 0; c < x.numel() * axes(x); ++c) {
        const int64_t e = c / axes(x);
        const complex<double> here = original[static_cast<std::size_t>(e)];
        const auto side = [&](double by) {
          set_element(x, e,
                      c % axes(x) ? complex<double>(here.re, here.im + by) : complex<double>(here.re + by, here.im));
          return evaluate();
        };
        const auto up = side(options.eps), down = side(-options.eps);
        expect_like(all, i, up);
        expect_like(all, i, down);
        set_element(x, e, here);
        for (std::size_t k = 0; k < all.size(); ++k) {
          Matrix& m = all[k][i];
          const int64_t a = up[k].empty() ? 1 : m.rows / static_cast<int64_t>(up[k].size());
          for (int64_t r = 0; r < m.rows; ++r) {
            const auto at = static_cast<std::size_t>(r / a);
            m.at(r, c) = (part(up[k][at], r % a) - part(down[k][at], r % a)) / (2 * options.eps);
          }
        }
      }
    }
    return all;
  }

  bool near(double numeric, double analytic) const {
    return std::abs(numeric - analytic) <= options.atol + options.rtol * std::abs(numeric) ||
           (std::isinf(numeric) && numeric == analytic);
  }

  std::string whole() const {
    Jacobians a = analytic();
    expect_some(a.size());
    if (options.check_determinism) {
      const Jacobians again = analytic();
      TENON_CHECK(again.size() == a.size(), ValueError,
                  "gradcheck: f: expected the same number of outputs in every call, got ", a.size(), " and then ",
                  again.size());
      for (std::size_t k = 0; k < a.size(); ++k)
        TENON_CHECK(again[k][0].rows == a[k][0].rows, ValueError, "gradcheck: f: expected output ", k,
                    " to have the same sizes in every call");
      for (std::size_t k = 0; k < a.size(); ++k)
        for (std::size_t i = 0; i < wanted.size(); ++i)
          for (std::size_t e = 0; e < a[k][i].values.size(); ++e) {
            const double x = a[k][i].values[e], y = again[k][i].values[e];
            if (std::abs(x - y) > options.nondet_tol || std::isnan(x) != std::isnan(y))
              return tenon::detail::concat("gradcheck: backward is not deterministic: output ", k, ", input ",
                                           checked[i], ": ", x, " and then ", y);
          }
    }
    Jacobians n = numeric(a);
    for (std::size_t k = 0; k < a.size(); ++k)
      for (std::size_t i = 0; i < wanted.size(); ++i) {
        Matrix &analytic = a[k][i], &numeric = n[k][i];
        const int64_t ax = axes(wanted[i]);
        for (int64_t r = 0; r < analytic.rows; ++r)
          for (int64_t c = 0; c < analytic.columns; ++c) {
            if (near(numeric.at(r, c), analytic.at(r, c))) continue;
            return tenon::detail::concat("gradcheck: output ", k, ", input ", checked[i], " element ", c / ax,
                                         c % ax ? " (imaginary)" : "", ", row ", r, " of the Jacobian: numeric ",
                                         numeric.at(r, c), ", analytic ", analytic.at(r, c), "\n  numeric ",
                                         numeric.str(), "\n  analytic ", analytic.str());
          }
      }
    return {};
  }

  // One random direction in every output and every input: one backward and two forwards for each pair.
  std::string fast() const {
    Random random(options.seed);
    std::size_t k = 0;
    for (const Tensor& y : differentiable_outputs(f, inputs)) {
      const Tensor v = random.like(y);
      const std::vector<Tensor> grads = slopes(y, v);
      const std::vector<complex<double>> out = values(v);
      for (std::size_t i = 0; i < wanted.size(); ++i) {
        const Tensor &x = moved[checked[i]], direction = random.like(x), start = x.detach().clone();
        double analytic = 0, numeric = 0;
        const std::vector<complex<double>> d = values(direction);
        if (grads[i].defined()) {
          const std::vector<complex<double>> g = values(grads[i]);
          for (std::size_t e = 0; e < g.size(); ++e) analytic += g[e].re * d[e].re + g[e].im * d[e].im;
        }
        for (const double sign : {1.0, -1.0}) {
          x.detach().copy_(start.add(direction, sign * options.eps));
          const auto now = evaluate();
          TENON_CHECK(k < now.size() && now[k].size() == out.size(), ValueError,
                      "gradcheck: f: expected the same outputs, of the same sizes, in every call");
          const auto& side = now[k];
          for (std::size_t e = 0; e < side.size(); ++e)
            numeric += sign * (side[e].re * out[e].re + side[e].im * out[e].im) / (2 * options.eps);
        }
        x.detach().copy_(start);
        if (!near(numeric, analytic))
          return tenon::detail::concat("gradcheck: output ", k, ", input ", checked[i],
                                       ", along random directions: numeric ", numeric, ", analytic ", analytic);
      }
      ++k;
    }
    expect_some(k);
    return {};
  }
};

std::string compare(const CheckedFunction& f, TensorList inputs, const GradcheckOptions& o, bool of_gradients = false) {
  TENON_CHECK(f, ValueError, "gradcheck: f: expected a function, got none");
  const Problem problem(f, inputs, o, of_gradients);
  return o.fast_mode ? problem.fast() : problem.whole();
}

bool verdict(const std::string& text, const GradcheckOptions& o) {
  if (o.report) *o.report = text;
  TENON_CHECK(text.empty() || !o.raise, AutogradError, text);
  return text.empty();
}

}  // namespace

bool gradcheck(const CheckedFunction& f, const TensorArgs& inputs, const GradcheckOptions& options) {
  const InferenceMode recording(false);
  return verdict(compare(f, inputs, options), options);
}

bool gradgradcheck(const CheckedFunction& f, const TensorArgs& given_inputs, const GradcheckOptions& options) {
  const InferenceMode recording(false);
  const TensorList inputs = given_inputs;
  // The gradient as a function of the inputs that require grad, followed by the output gradients.
  TENON_CHECK(f, ValueError, "gradgradcheck: f: expected a function, got none");
  const std::vector<Tensor> outputs = differentiable_outputs(f, inputs);
  TENON_CHECK(!outputs.empty(), ValueError, "gradgradcheck: f: expected at least one floating-point or complex output");
  std::vector<Tensor> all(inputs.begin(), inputs.end());
  std::vector<std::size_t> checked;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i].defined() && inputs[i].requires_grad()) checked.push_back(i);
  Random random(options.seed);
  std::vector<std::size_t> used;
  for (std::size_t k = 0; k < outputs.size(); ++k) {
    if (!outputs[k].requires_grad()) continue;
    used.push_back(k);
    all.push_back(random.like(outputs[k]).requires_grad_());
  }
  const std::size_t count = inputs.size();
  const CheckedFunction gradients = [&](TensorList given) -> std::vector<Tensor> {
    const EnableGradGuard enabled;  // also while differences are taken
    const std::vector<Tensor> y = differentiable_outputs(f, given.subspan(0, count));
    std::vector<Tensor> from, wanted;
    for (const std::size_t k : used) {
      TENON_CHECK(k < y.size(), ValueError, "gradgradcheck: f: expected the same number of outputs in every call, got ",
                  outputs.size(), " and then ", y.size());
      from.push_back(y[k]);
    }
    for (const std::size_t i : checked) wanted.push_back(given[i]);
    // What is flat (ceil) has no gradient at all: zeros then, so that there is something to check.
    return grad(from, wanted, given.subspan(count), {}, true, true, true);
  };
  return verdict(compare(gradients, all, options, true), options);
}

}  // namespace tenon::autograd
