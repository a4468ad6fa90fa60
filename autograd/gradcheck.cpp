// SPDX-License-Identifier: Apache-2.0
// For outputs y and random directions v, L = Re sum conj(v) y is a real function of each input element; its slope along
// the element is compared with the gradient of L. One direction per output is enough to catch an error anywhere, but a
// direction per output element localises it; both are cheap on the small tensors of tests, so each element is taken.
#include <tenon/autograd/autograd.h>
#include <tenon/autograd/gradcheck.h>
#include <tenon/core/operand.h>

#include <cmath>

namespace tenon::autograd {
namespace {

struct Failure {
  std::string text;
};

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

std::string compare(const CheckedFunction& f, TensorList inputs, const GradcheckOptions& o) {
  const std::vector<Tensor> outputs = differentiable_outputs(f, inputs);
  std::vector<std::size_t> checked;
  std::vector<Tensor> wanted;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].defined() || !inputs[i].requires_grad()) continue;
    TENON_CHECK(inputs[i].dtype() == kFloat64 || inputs[i].dtype() == kComplex128, DtypeError, "gradcheck: input ", i,
                ": expected float64 or complex128, got ", inputs[i].dtype());
    checked.push_back(i);
    wanted.push_back(inputs[i]);
  }
  TENON_CHECK(!checked.empty(), ValueError, "gradcheck: no input requires grad");

  // Analytic: rows[output][element of it, per axis][input] by one backward each.
  struct Row {
    std::size_t output;
    int64_t element;
    bool imaginary;
    std::vector<std::vector<complex<double>>> grads;
  };
  std::vector<Row> rows;
  for (std::size_t k = 0; k < outputs.size(); ++k) {
    const Tensor& y = outputs[k];
    for (int64_t e = 0; e < y.numel(); ++e) {
      for (int axis = 0; axis < (y.is_complex() ? 2 : 1); ++axis) {
        Row row{k, e, axis == 1, {}};
        std::vector<Tensor> grads(wanted.size());
        if (y.requires_grad()) {
          Tensor v = y.detach().clone(MemoryFormat::contiguous);
          v.zero_();
          set_element(v, e, axis ? complex<double>(0, 1) : complex<double>(1, 0));
          grads = grad({&y, 1}, wanted, {&v, 1}, true, false, true);
        }
        for (std::size_t i = 0; i < wanted.size(); ++i)
          row.grads.push_back(grads[i].defined()
                                  ? values(grads[i])
                                  : std::vector<complex<double>>(static_cast<std::size_t>(wanted[i].numel())));
        rows.push_back(static_cast<Row&&>(row));
      }
    }
  }

  // Numeric: every input element moved both ways, along both axes if complex; in copies, so that the inputs' versions
  // stay what they are.
  std::vector<Tensor> moved(inputs.begin(), inputs.end());
  for (const std::size_t i : checked) moved[i] = inputs[i].detach().clone().requires_grad_();
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const Tensor& x = moved[checked[i]];
    const std::vector<complex<double>> original = values(x);
    for (int64_t e = 0; e < x.numel(); ++e) {
      const complex<double> here = original[static_cast<std::size_t>(e)];
      for (int axis = 0; axis < (x.is_complex() ? 2 : 1); ++axis) {
        const complex<double> step = axis ? complex<double>(0, o.eps) : complex<double>(o.eps, 0);
        std::vector<std::vector<complex<double>>> sides[2];
        for (int side = 0; side < 2; ++side) {
          const double sign = side == 0 ? 1 : -1;
          set_element(x, e, {here.re + sign * step.re, here.im + sign * step.im});
          const NoGradGuard guard;
          for (const Tensor& y : differentiable_outputs(f, moved)) sides[side].push_back(values(y));
        }
        set_element(x, e, here);
        for (const Row& row : rows) {
          const auto at = static_cast<std::size_t>(row.element);
          const complex<double> up = sides[0][row.output][at], down = sides[1][row.output][at];
          const double numeric = (row.imaginary ? up.im - down.im : up.re - down.re) / (2 * o.eps);
          const complex<double> g = row.grads[i][static_cast<std::size_t>(e)];
          const double analytic = axis ? g.im : g.re;
          if (std::abs(numeric - analytic) <= o.atol + o.rtol * std::abs(numeric)) continue;
          if (std::isinf(numeric) && numeric == analytic) continue;
          return tenon::detail::concat("gradcheck: output ", row.output, " element ", row.element,
                                       row.imaginary ? " (imaginary)" : "", ", input ", checked[i], " element ", e,
                                       axis ? " (imaginary)" : "", ": numeric ", numeric, ", analytic ", analytic);
        }
      }
    }
  }
  return {};
}

bool verdict(const std::string& text, const GradcheckOptions& o) {
  if (o.report) *o.report = text;
  TENON_CHECK(text.empty() || !o.raise, AutogradError, text);
  return text.empty();
}

}  // namespace

bool gradcheck(const CheckedFunction& f, TensorList inputs, const GradcheckOptions& options) {
  return verdict(compare(f, inputs, options), options);
}

bool gradgradcheck(const CheckedFunction& f, TensorList inputs, const GradcheckOptions& options) {
  // The gradient as a function of the inputs that require grad, followed by the output gradients.
  const std::vector<Tensor> outputs = differentiable_outputs(f, inputs);
  std::vector<Tensor> all(inputs.begin(), inputs.end());
  std::vector<std::size_t> checked;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i].defined() && inputs[i].requires_grad()) checked.push_back(i);
  uint64_t state = options.seed * 0x9E3779B97F4A7C15u + 1;
  const auto random = [&] {  // splitmix64, in [-1, 1)
    uint64_t z = state += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return static_cast<double>((z ^ (z >> 31)) >> 11) * 0x1p-52 - 1;
  };
  std::vector<std::size_t> used;
  for (std::size_t k = 0; k < outputs.size(); ++k) {
    if (!outputs[k].requires_grad()) continue;
    used.push_back(k);
    Tensor v = outputs[k].detach().clone(MemoryFormat::contiguous);
    for (int64_t e = 0; e < v.numel(); ++e) set_element(v, e, {random(), random()});
    all.push_back(v.requires_grad_());
  }
  const std::size_t count = inputs.size();
  const CheckedFunction gradients = [&](TensorList given) -> std::vector<Tensor> {
    const EnableGradGuard enabled;  // also while differences are taken
    const std::vector<Tensor> y = differentiable_outputs(f, given.subspan(0, count));
    std::vector<Tensor> from, wanted;
    for (const std::size_t k : used) from.push_back(y[k]);
    for (const std::size_t i : checked) wanted.push_back(given[i]);
    return grad(from, wanted, given.subspan(count), {}, true, true);
  };
  return verdict(compare(gradients, all, options), options);
}

}  // namespace tenon::autograd
