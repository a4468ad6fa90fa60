// SPDX-License-Identifier: Apache-2.0
// Rows of ops/activation.h. References are the textbook formulas and their derivatives in float64.
#include <tenon/ops/activation.h>

#include "tests/support/op_case.h"

#include <cmath>
#include <limits>

using namespace tenon;
using namespace tenon::testing;

namespace {

using Function = double (*)(double x, const double* n);
using NumberLists = std::vector<std::vector<double>>;

double expit(double x) { return 1 / (1 + std::exp(-x)); }

// The numbers of a call, from argument `first` on.
std::vector<double> numbers_of(const Args& a, int first) {
  std::vector<double> n(4, 0.0);
  for (std::size_t i = static_cast<std::size_t>(first); i < a.size(); ++i)
    n[i - static_cast<std::size_t>(first)] = a.real(static_cast<int>(i));
  return n;
}
Reference value_of(Function f) {
  return [f](const Args& a) {
    const Array x = a.array(0);
    const std::vector<double> n = numbers_of(a, 1);
    return std::vector<Array>{
        pointwise({x}, x.dtype, x.dtype, [&](const Number* v) { return Number(f(v->re(), n.data())); })};
  };
}
// grad * slope(self); terms of the slope cancel where it crosses 0.
Reference slope_of(Function slope) {
  return [slope](const Args& a) {
    const Array grad = a.array(0), x = a.array(1);
    const std::vector<double> n = numbers_of(a, 2);
    Array out = pointwise({grad, x}, x.dtype, x.dtype,
                          [&](const Number* v) { return Number(v[0].re() * slope(v[1].re(), n.data())); });
    out.scale = {8};
    return std::vector<Array>{out};
  };
}

void one_number(Inputs& in) { in.add({in.tensor({1 << 20}, -4, 4)}); }

template <class F, class B>
void rows(const F& forward, const B& backward, Function value, Function slope, const NumberLists& lists = {},
          bool special = true, double ulps = 4) {
  const auto with = [lists](bool gradient_too) {
    return [=](Inputs& in) {
      for (const std::vector<double>& numbers : lists) {
        std::vector<Value> args;
        if (gradient_too) args.emplace_back(in.tensor({5, 7}));
        args.emplace_back(in.tensor({5, 7}));
        for (const double n : numbers) args.emplace_back(Scalar(n));
        in.add(args);
      }
    };
  };
  op_case(forward)
      .dtypes(kFloats)
      .samples(unary_samples(-9, 9, special))
      .samples(with(false))
      .reference(value_of(value))
      .ulp(ulps)
      .gradient()
      .benchmark(one_number)
      .template error<DtypeError>(
          "self", [](Inputs& in) { in.add({in.tensor({2})}); }, kInt64);
  op_case(backward)
      .dtypes(kFloats)
      .samples([](Inputs& in) {
        for (const Inputs::Sizes& s : {Inputs::Sizes{}, {0}, {3, 4}, {67}, {5, 7, 3}})
          in.add({in.tensor(s), in.tensor(s, -9, 9)});
        in.add({in.tensor({33000}), in.tensor({33000}, -9, 9)}).no_gradient();
        in.add({in.tensor({3, 1}), in.tensor({4})});
      })
      .samples(with(true))
      .reference(slope_of(slope))
      .gradient()
      .benchmark([](Inputs& in) {
        in.add({in.tensor({1 << 20}), in.tensor({1 << 20})});
      });
}

// Elementwise with rounding to the dtype between the operators that a composite is made of.
Reference composite_of(double (*f)(double), Complex (*g)(Complex), double magnitude) {
  return [=](const Args& a) {
    const Array x = a.array(0);
    const DType t = floating(x.dtype);
    Array out =
        pointwise({x}, t, t, [&](const Number* v) { return is_complex(t) ? Number(g(v->z)) : Number(f(v->re())); });
    out.scale = {magnitude * (is_half(t) ? epsilon(t) / epsilon(kFloat32) : 1)};
    return std::vector<Array>{out};
  };
}

// Softmax of the rows along a dimension in float64; rows of negative infinities give NaN, or 0.
Reference softmax_rows(double sign, bool safe, int dtype_argument) {
  return [=](const Args& a) {
    const DType t = a.dtype(dtype_argument, a.array(0).dtype);
    const Array x = cast(a.array(0), t);
    const int64_t rank = x.dim();
    const int64_t dim = a.integer(1) < 0 ? a.integer(1) + std::max<int64_t>(rank, 1) : a.integer(1);
    const int64_t n = rank == 0 ? 1 : x.sizes[static_cast<std::size_t>(dim)];
    int64_t inner = 1;
    for (int64_t d = dim + 1; d < rank; ++d) inner *= x.sizes[static_cast<std::size_t>(d)];
    Array out = make_array(t, x.sizes);
    for (int64_t at = 0; at < x.numel(); ++at) {
      const int64_t row = at / (n * inner) * n * inner + at % inner;
      double most = -std::numeric_limits<double>::infinity(), sum = 0;
      const auto value = [&](int64_t k) { return sign * x.data[static_cast<std::size_t>(row + k * inner)].re(); };
      for (int64_t k = 0; k < n; ++k) most = std::max(most, value(k));
      for (int64_t k = 0; k < n; ++k) sum += std::exp(value(k) - most);
      const double own = sign * x.data[static_cast<std::size_t>(at)].re();
      out.data[static_cast<std::size_t>(at)] = std::isinf(most) && safe ? 0.0 : std::exp(own - most) / sum;
    }
    return std::vector<Array>{out};
  };
}

}  // namespace

TENON_OP_CASES(activation) {
  rows(
      op::elu, op::elu_backward,
      [](double x, const double* n) { return x > 0 ? n[1] * x : n[1] * n[0] * std::expm1(n[2] * x); },
      [](double x, const double* n) { return x > 0 ? n[1] : n[1] * n[0] * n[2] * std::exp(n[2] * x); },
      {{0.5}, {1.25, 1.5, 0.5}});
  rows(
      op::hardshrink, op::hardshrink_backward, [](double x, const double* n) { return std::fabs(x) <= n[0] ? 0 : x; },
      [](double x, const double* n) { return std::fabs(x) <= n[0] ? 0. : 1.; }, {{1.25}, {0}});
  rows(
      op::softshrink, op::softshrink_backward,
      [](double x, const double* n) { return x > n[0]    ? x - n[0]
                                             : x < -n[0] ? x + n[0]
                                                         : 0 * x; },
      [](double x, const double* n) { return std::fabs(x) <= n[0] ? 0. : 1.; }, {{1.25}, {0}});
  rows(
      op::hardsigmoid, op::hardsigmoid_backward,
      [](double x, const double*) { return x != x ? x : std::min(std::max(x + 3, 0.), 6.) / 6; },
      [](double x, const double*) { return std::fabs(x) < 3 ? 1. / 6 : 0; });
  rows(
      op::hardswish, op::hardswish_backward,
      [](double x, const double*) { return x != x ? x : x * (std::min(std::max(x + 3, 0.), 6.) / 6); },
      [](double x, const double*) { return x <= -3  ? 0
                                           : x >= 3 ? 1
                                                    : (2 * x + 3) / 6; }, {}, false);
  rows(
      op::leaky_relu, op::leaky_relu_backward, [](double x, const double* n) { return x > 0 ? x : n[0] * x; },
      [](double x, const double* n) { return x > 0 ? 1. : n[0]; }, {{0.25}, {-1.5}});
  rows(
      op::log_sigmoid, op::log_sigmoid_backward,
      [](double x, const double*) { return x < 0 ? x - std::log1p(std::exp(x)) : -std::log1p(std::exp(-x)); },
      [](double x, const double*) { return expit(-x); });
  rows(
      op::mish, op::mish_backward, [](double x, const double*) { return x * std::tanh(std::log1p(std::exp(x))); },
      [](double x, const double*) {
        const double t = std::tanh(std::log1p(std::exp(x)));
        return t + x * (1 - t * t) * expit(x);
      },
      {}, false);
  rows(
      op::silu, op::silu_backward, [](double x, const double*) { return x * expit(x); },
      [](double x, const double*) { return expit(x) * (1 + x * (1 - expit(x))); }, {}, false);
  rows(
      op::softplus, op::softplus_backward,
      [](double x, const double* n) { return n[0] * x > n[1] ? x : std::log1p(std::exp(n[0] * x)) / n[0]; },
      [](double x, const double* n) { return n[0] * x > n[1] ? 1 : expit(n[0] * x); }, {{3, 0.25}, {0.5, 20}}, true,
      32);  // exp of the rounded beta x
  op_case(op::silu, "complex")
      .dtypes(kComplexes)
      .samples(unary_samples(-3, 3, false, 3))
      .gradient()
      .reference(unary([](double x) { return x; }, [](Complex z) { return z / (1. + std::exp(-z)); }))
      .ulp(16);
  op_case(op::silu_backward, "complex")
      .dtypes(kComplexes)
      .gradient()
      .ulp(32)
      .samples([](Inputs& in) {
        in.add({in.tensor({3, 4}), in.tensor({3, 4}, -1, 1)});
      })
      .reference(binary([](double x, double) { return x; },
                        [](Complex g, Complex z) {
                          const Complex s = 1. / (1. + std::exp(-z));
                          return g * std::conj(s * (1. + z * (1. - s)));
                        }));

  // --- bounds ---
  op_case(op::hardtanh)
      .dtypes(kReals)
      .samples(unary_samples(0, 9, true))
      .samples([](Inputs& in) {
        if (in.dtype() == kUInt8) return in.samples.clear();  // -1 is no bound of theirs
        for (const auto& [low, high] : {std::pair(-0.5, 0.5), {-3.0, 2.0}, {0.0, 0.0}})
          in.add({in.tensor({4, 5}), low, high});
      })
      .samples([](Inputs& in) {
        in.add({in.tensor({6}), 1, 3});
      })
      .gradient()
      .benchmark(one_number)
      .reference([](const Args& a) {
        const Array x = a.array(0);
        const double low = a.real(1), high = a.real(2);
        return std::vector<Array>{pointwise({x}, x.dtype, x.dtype, [&](const Number* v) -> Number {
          if (is_integral(x.dtype)) return std::clamp(v->i, static_cast<int64_t>(low), static_cast<int64_t>(high));
          return v->re() != v->re() ? v->re() : std::clamp(v->re(), low, high);
        })};
      })
      .error<ValueError>("min_val",
                         [](Inputs& in) {
                           in.add({in.tensor({2}), 2.0, 1.0});
                         })
      .error<ValueError>(
          "min_val",
          [](Inputs& in) {
            in.add({in.tensor({2}), -1.0, 1.0});
          },
          kUInt8)
      .error<DtypeError>("self", [](Inputs& in) { in.add({in.boolean({2})}); });
  op_case(op::hardtanh_backward)
      .dtypes(kFloats)
      .gradient()
      .samples([](Inputs& in) {
        in.add({in.tensor({5, 7}), in.tensor({5, 7})});
        in.add({in.tensor({5}), in.values({-3, -2, 0, 1, 2}), -2.0, 1.0}).no_gradient();  // 0 on the bounds
      })
      .reference(slope_of([](double x, const double* n) { return x > n[0] && x < n[1] ? 1. : 0.; }));
  op_case(op::relu6)
      .dtypes(kReals)
      .samples(unary_samples(-9, 9))
      .gradient()
      .errors_name("hardtanh")
      .reference([](const Args& a) {
        const Array x = a.array(0);
        return std::vector<Array>{pointwise({x}, x.dtype, x.dtype, [&](const Number* v) -> Number {
          if (is_integral(x.dtype)) return std::clamp<int64_t>(v->i, 0, 6);
          return v->re() != v->re() ? v->re() : std::clamp(v->re(), 0., 6.);
        })};
      })
      .error<DtypeError>("self", [](Inputs& in) { in.add({in.boolean({2})}); });
  op_case(op::threshold)
      .dtypes(kReals)
      .gradient()
      .benchmark([](Inputs& in) {
        in.add({in.tensor({1 << 20}), 0, 0});
      })
      .samples([](Inputs& in) {
        for (const Inputs::Sizes& s : {Inputs::Sizes{}, {0}, {67}, {5, 7, 3}}) in.add({in.tensor(s), 1, 3});
        in.add({in.special(), 0, 7}).no_gradient();
        if (in.is_floating()) in.add({in.tensor({3, 4}), 0.5, -7.25});
      })
      .reference([](const Args& a) {
        const Array x = a.array(0);
        return std::vector<Array>{pointwise({x}, x.dtype, x.dtype, [&](const Number* v) -> Number {
          if (is_integral(x.dtype)) return v->i <= a.integer(1) ? a.integer(2) : v->i;
          return v->re() <= a.real(1) ? a.real(2) : v->re();
        })};
      })
      .error<ValueError>(
          "threshold",
          [](Inputs& in) {
            in.add({in.tensor({2}), 1, 300});
          },
          kInt8)
      .error<DtypeError>("self", [](Inputs& in) {
        in.add({in.boolean({2}), 1, 1});
      });

  // --- two operands ---
  const auto prelu_value = [](const Number* v) { return Number(v[0].re() > 0 ? v[0].re() : v[0].re() * v[1].re()); };
  op_case(op::prelu)
      .dtypes(kFloats)
      .gradient()
      .errors_name("prelu")
      .reference([=](const Args& a) {
        const Array x = a.array(0);
        Array weight = a.array(1);
        weight.sizes.assign(x.sizes.size(), 1);
        if (x.dim() > 1) weight.sizes[1] = weight.numel();
        if (x.dim() < 2 && x.dim() == 0) weight.sizes.clear();
        return std::vector<Array>{pointwise({x, weight}, x.dtype, x.dtype, prelu_value)};
      })
      .samples([](Inputs& in) {
        in.add({in.tensor({2, 3, 4}), in.tensor({3})});
        in.add({in.tensor({2, 3}), in.tensor({1})});
        in.add({in.tensor({5}), in.tensor({})});
        in.add({in.tensor({}), in.tensor({1})});
        in.add({in.tensor({0, 3}), in.tensor({3})});
      })
      .error<ShapeError>("weight",
                         [](Inputs& in) {
                           in.add({in.tensor({2, 3}), in.tensor({2})});
                           in.add({in.tensor({2, 8, 3}), in.tensor({2, 4})});
                           in.add({in.tensor({3}), in.tensor({3})});
                         })
      .error<DtypeError>("weight", [](Inputs& in) {
        in.add({in.tensor({2, 3}), in.tensor({3}, 0, 1, kFloat64)});
      });
  op_case(op::prelu_kernel)
      .dtypes(kFloats)
      .gradient()
      .samples([](Inputs& in) {
        in.add({in.tensor({3, 5}), in.tensor({5})});
        in.add({in.tensor({70}), in.tensor({70})});
      })
      .reference([=](const Args& a) {
        return std::vector<Array>{pointwise({a.array(0), a.array(1)}, a.array(0).dtype, a.array(0).dtype, prelu_value)};
      });
  op_case(op::prelu_backward)
      .dtypes(kFloats)
      .gradient()
      .samples([](Inputs& in) {
        in.add({in.tensor({3, 5}), in.tensor({3, 5}), in.tensor({5})});
        in.add({in.tensor({70}), in.tensor({70}), in.tensor({70})});
      })
      .reference([](const Args& a) {
        const DType t = a.array(0).dtype;
        return std::vector<Array>{pointwise({a.array(0), a.array(1), a.array(2)}, t, t, [](const Number* v) {
          return Number(v[1].re() > 0 ? v[0].re() : v[0].re() * v[2].re());
        })};
      });
  const auto halves = [](const Array& x, int64_t dim, bool second) {
    const std::size_t d = static_cast<std::size_t>(dim < 0 ? dim + x.dim() : dim);
    std::vector<int64_t> sizes = x.sizes;
    const int64_t n = sizes[d] /= 2;
    return pick(x, sizes, [=](std::vector<int64_t> i) {
      if (second) i[d] += n;
      return i;
    });
  };
  op_case(op::glu)
      .dtypes(kFloats)
      .gradient()
      .benchmark([](Inputs& in) {
        in.add({in.tensor({1024, 2048})});
      })
      .samples([](Inputs& in) {
        in.add({in.tensor({6})});
        in.add({in.tensor({4, 3, 6}), 0});
        in.add({in.tensor({3, 4, 5}), -2});
        in.add({in.tensor({0, 4})});
        in.add({in.tensor({300, 64})}).no_gradient();
      })
      .reference([=](const Args& a) {
        const Array x = a.array(0);
        return std::vector<Array>{pointwise({halves(x, a.integer(1), false), halves(x, a.integer(1), true)}, x.dtype,
                                            x.dtype,
                                            [](const Number* v) { return Number(v[0].re() * expit(v[1].re())); })};
      })
      .error<ShapeError>("self",
                         [](Inputs& in) {
                           in.add({in.tensor({3, 5})});
                           in.add({in.tensor({})});
                         })
      .error<DtypeError>(
          "self", [](Inputs& in) { in.add({in.tensor({2})}); }, kInt64);
  op_case(op::glu_backward)
      .dtypes(kFloats)
      .gradient()
      .samples([](Inputs& in) {
        in.add({in.tensor({3}), in.tensor({6}), 0});
        in.add({in.tensor({4, 3, 3}), in.tensor({4, 3, 6}), -1});
        in.add({in.tensor({3, 2, 5}), in.tensor({3, 4, 5}), 1});
      })
      .reference([=](const Args& a) {
        const Array g = a.array(0), x = a.array(1);
        const std::size_t d = static_cast<std::size_t>(a.integer(2) < 0 ? a.integer(2) + x.dim() : a.integer(2));
        const Array first = halves(x, a.integer(2), false), second = halves(x, a.integer(2), true);
        Array out = make_array(x.dtype, x.sizes);
        each_index(x.sizes, [&](std::vector<int64_t> i) {
          Number& to = out.data[static_cast<std::size_t>(flat_index(i, x.sizes))];
          const bool upper = i[d] >= g.sizes[d];
          if (upper) i[d] -= g.sizes[d];
          const auto at = static_cast<std::size_t>(flat_index(i, g.sizes));
          const double s = expit(second.data[at].re());
          to = g.data[at].re() * (upper ? first.data[at].re() * s * (1 - s) : s);
        });
        out.scale = {8};
        return std::vector<Array>{out};
      });

  // --- composites ---
  op_case(op::celu)
      .dtypes(kFloats)
      .gradient()
      .samples(unary_samples(-9, 9))
      .samples([](Inputs& in) {
        for (const double alpha : {0.5, 2.0, -1.5}) in.add({in.tensor({4, 5}), alpha});
      })
      .errors_name("celu")
      .reference(value_of([](double x, const double* n) { return x > 0 ? x : n[0] * std::expm1(x / n[0]); }))
      .error<ValueError>("alpha", [](Inputs& in) {
        in.add({in.tensor({2}), 0.0});
      });
  op_case(op::selu)
      .dtypes(kFloats)
      .gradient()
      .samples(unary_samples(-9, 9))
      .reference(value_of([](double x, const double*) {
        return 1.0507009873554804934193349852946 * (x > 0 ? x : 1.6732632423543772848170429916717 * std::expm1(x));
      }));
  op_case(op::softsign)
      .dtypes(kReals + kComplexes)
      .no_inplace()
      .gradient()
      .samples(unary_samples(-9, 9, false))
      .reference(composite_of([](double x) { return x / (1 + std::fabs(x)); },
                              [](Complex z) { return z / (1 + std::abs(z)); }, 2));
  op_case(op::tanhshrink)
      .dtypes(kReals + kComplexes)
      .no_inplace()
      .gradient()
      .samples(unary_samples(-4, 4, false, 1))
      .reference(
          composite_of([](double x) { return x - std::tanh(x); }, [](Complex z) { return z - std::tanh(z); }, 4));
  op_case(op::rrelu)
      .dtypes(kFloats)
      .gradient()
      .samples(unary_samples(-9, 9))
      .samples([](Inputs& in) {
        in.add({in.tensor({5, 6}), 0.25, 0.5});
      })
      .reference(value_of([](double x, const double* n) { return x > 0 ? x : x * (n[0] + n[1]) / 2; }))
      .error<ValueError>("lower",
                         [](Inputs& in) {
                           in.add({in.tensor({2}), 0.5, 0.25});
                         })
      .error<DtypeError>(
          "self", [](Inputs& in) { in.add({in.tensor({2})}); }, kInt64);
  op_case(op::rrelu, "training").dtypes(kFloats).random().samples([](Inputs& in) {
    in.add({in.tensor({50, 7}), 0.25, 0.5, true}).no_layouts();
  });
  op_case(op::softmin)
      .dtypes(kFloats)
      .gradient()
      .ulp(16)
      .samples([](Inputs& in) {
        in.add({in.tensor({3, 5}), 1});
        in.add({in.tensor({3, 5, 2}), -2});
        in.add({in.tensor({}), 0});
        in.add({in.tensor({4, 3}), 0}, {{"dtype", kFloat64}});
      })
      .reference(softmax_rows(-1, false, 2));
  op_case(op::safe_softmax)
      .dtypes(kFloats)
      .gradient()
      .ulp(16)
      .samples([](Inputs& in) {
        in.add({in.tensor({3, 5}), 1});
        in.add({in.tensor({3, 5, 2}), 0, kFloat32}).no_gradient();
        const double inf = std::numeric_limits<double>::infinity();
        in.add({in.values({-inf, -inf, 0, -inf, 1, -inf}, {3, 2}), 1}).no_gradient();
        in.add({in.values({-inf, -inf, 0, -inf, 1, -inf}, {2, 3}), 0}).no_gradient();
      })
      .reference(softmax_rows(1, true, 2));
  op_case(op::gumbel_softmax)
      .dtypes(kFloats)
      .random()
      .samples([](Inputs& in) {
        in.add({in.tensor({6, 5})}).no_layouts();
        in.add({in.tensor({6, 5}), 0.5, true, 1e-10, 0}).no_layouts();
      })
      .error<DtypeError>(
          "logits", [](Inputs& in) { in.add({in.tensor({2})}); }, kInt64);
}
