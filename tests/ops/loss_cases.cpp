// SPDX-License-Identifier: Apache-2.0
// Rows of ops/elementwise_loss.h, ops/distance.h and ops/dropout.h. References are the definitions in float64.
#include <tenon/ops/distance.h>
#include <tenon/ops/dropout.h>
#include <tenon/ops/elementwise_loss.h>

#include "tests/support/op_case.h"

#include <cmath>
#include <limits>

using namespace tenon;
using namespace tenon::testing;

namespace {

using Sizes = std::vector<int64_t>;
const Dtypes kWide = {kFloat64, kFloat32};
const Tensor kNone;
double softplus_of(double x) { return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x)); }
double log_at_least(double p) { return std::max(std::log(p), -100.0); }

// The elements' losses, whose sums are of magnitude `magnitude` each.
std::vector<Array> reduced_by(Array each, const std::string& how, double magnitude, double divisor = -1) {
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
using ElementFunction = std::function<double(const Number* v, const Args& a)>;
// Losses of the first `tensors` arguments (and of those in `more`, which may be left out: then 1), reduced by argument `text`.
Reference losses(int tensors, int text, double magnitude, ElementFunction f, std::vector<int> more = {}) {
  return [=](const Args& a) {
    std::vector<Array> in;
    for (int i = 0; i < tensors; ++i) in.push_back(a.array(i));
    const DType t = promoted(in);
    for (const int i : more) {
      Array one = make_array(t, {});
      one.data[0] = 1.0;
      in.push_back(a.is_none(i) ? one : a.array(i));
    }
    return reduced_by(pointwise(in, t, t, [&](const Number* v) { return Number(f(v, a)); }), a.text(text), magnitude);
  };
}
void each_reduction(Inputs&, const std::function<void(const char*)>& add) {
  for (const char* how : {"none", "mean", "sum"}) add(how);
}
OpCase& with_reduction_error(OpCase& row, std::string name, Maker make) {
  row.errors_name(std::move(name));
  return row.error<ValueError>("reduction", std::move(make));
}

double element_loss(int64_t kind, double number, double x, double t) {
  const double d = x - t, s = std::fabs(d);
  switch (kind) {
    case 0:
      return s;
    case 1:
      return d * d;
    case 2:
      return s < number ? d * d / 2 / number : s - number / 2;
    case 3:
      return s <= number ? d * d / 2 : number * (s - number / 2);
    case 4:
      return -(t * log_at_least(x) + (1 - t) * log_at_least(1 - x));
    default:
      return (1 - t) * x + softplus_of(-x);
  }
}
double element_slope(int64_t kind, double number, double x, double t) {
  const double d = x - t, s = std::fabs(d), sign = d > 0 ? 1 : d < 0 ? -1 : 0;
  switch (kind) {
    case 0:
      return sign;
    case 1:
      return 2 * d;
    case 2:
      return s < number ? d / number : sign;
    case 3:
      return s <= number ? d : number * sign;
    case 4:
      return d / (x * (1 - x));
    default:
      return 1 / (1 + std::exp(-x)) - t;
  }
}

// Rows of a matrix (or one vector) as plain numbers.
using Vector = std::vector<double>;
std::vector<Vector> rows_of(const Array& x) {
  const int64_t n = x.dim() == 0 ? 1 : x.sizes.back();
  std::vector<Vector> rows(static_cast<std::size_t>(n == 0 ? 0 : x.numel() / n));
  for (int64_t i = 0; i < x.numel(); ++i)
    rows[static_cast<std::size_t>(i / n)].push_back(x.data[static_cast<std::size_t>(i)].re());
  return rows;
}
double norm_of(const Vector& v, double p) {
  double most = 0, sum = 0, count = 0;
  for (const double x : v) most = std::max(most, std::fabs(x)), sum += std::pow(std::fabs(x), p), count += x != 0;
  return std::isinf(p) ? most : p == 0 ? count : std::pow(sum, 1 / p);
}
double distance_of(const Vector& a, const Vector& b, double p, double eps) {
  Vector d;
  for (std::size_t i = 0; i < a.size(); ++i) d.push_back(a[i] - b[i] + eps);
  return norm_of(d, p);
}
double dot(const Vector& a, const Vector& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}
Array vector_of(DType t, Sizes sizes, const Vector& v) {
  Array out = make_array(t, std::move(sizes));
  for (std::size_t i = 0; i < v.size(); ++i) out.data[i] = v[i];
  return out;
}
Sizes outer_of(const Array& x) { return x.sizes.empty() ? Sizes() : Sizes(x.sizes.begin(), x.sizes.end() - 1); }

}  // namespace

TENON_OP_CASES(elementwise_loss) {
  op_case(op::elementwise_loss)
      .dtypes(kFloats)
      .gradient()
      .samples([](Inputs& in) {
        for (int64_t kind = 0; kind < 6; ++kind) {
          const double low = kind == 4 ? 0.1 : -4, high = kind == 4 ? 0.9 : 4;
          in.add({in.tensor({3, 5}, low, high), in.tensor({3, 5}, low, high), kind, 0.75});
          in.add({in.tensor({3, 5}, low, high), in.tensor({5}, low, high), kind});
          in.add({in.tensor({300}, low, high), in.tensor({300}, low, high), kind, 0.75}).no_gradient();
        }
        in.add({in.values({0, 1, 0, 1}), in.values({0, 1, 1, 0}), 4}).no_gradient();  // logarithms end at -100
        in.add({in.values({-200, 200, 88, -88}), in.values({0, 1, 0.5, 0.25}), 5}).no_gradient();
      })
      .reference([](const Args& a) {
        const DType t = a.array(0).dtype;
        Array out = pointwise({a.array(0), a.array(1)}, t, t, [&](const Number* v) {
          return Number(element_loss(a.integer(2), a.real(3), v[0].re(), v[1].re()));
        });
        out.scale = {32};
        return std::vector<Array>{out};
      })
      .benchmark([](Inputs& in) {
        in.add({in.tensor({1 << 20}), in.tensor({1 << 20}), 2});
      })
      .error<ValueError>("kind",
                         [](Inputs& in) {
                           in.add({in.tensor({2}), in.tensor({2}), 6});
                         })
      .error<DtypeError>(
          "",
          [](Inputs& in) {
            in.add({in.tensor({2}), in.tensor({2}), 0});
          },
          kInt64);
  op_case(op::elementwise_loss_backward)
      .dtypes(kFloats)
      .gradient()
      .samples([](Inputs& in) {
        for (int64_t kind = 0; kind < 6; ++kind) {
          const double low = kind == 4 ? 0.1 : -4, high = kind == 4 ? 0.9 : 4;
          in.add({in.tensor({3, 5}), in.tensor({3, 5}, low, high), in.tensor({3, 5}, low, high), kind, 0.75});
          in.add({in.tensor({}), in.tensor({70}, low, high), in.tensor({70}, low, high), kind}).no_gradient();
        }
        in.add({in.tensor({2}), in.values({1, -2}), in.values({1, -2}), 0}).no_gradient();  // 0 at the kink
      })
      .reference([](const Args& a) {
        const DType t = a.array(1).dtype;
        Array out = pointwise({a.array(0), a.array(1), a.array(2)}, t, t, [&](const Number* v) {
          return Number(v[0].re() * element_slope(a.integer(3), a.real(4), v[1].re(), v[2].re()));
        });
        out.scale = {64};
        return std::vector<Array>{out};
      });

  const Maker pair_error = [](Inputs& in) { in.add({in.tensor({2}), in.tensor({2}), "average"}); };
  const auto pairs = [](double low, double high) {
    return [=](Inputs& in) {
      each_reduction(in, [&](const char* how) {
        in.add({in.tensor({3, 4}, low, high), in.tensor({3, 4}, low, high), how});
        in.add({in.tensor({0}, low, high), in.tensor({0}, low, high), how}).no_gradient();
      });
    };
  };
  with_reduction_error(op_case(op::l1_loss), "l1_loss", pair_error)
      .dtypes(kFloats)
      .gradient()
      .samples(pairs(-4, 4))
      .reference(losses(2, 2, 8, [](const Number* v, const Args&) { return std::fabs(v[0].re() - v[1].re()); }));
  op_case(op::l1_loss, "weighted")
      .dtypes(kWide)
      .gradient()
      .samples([](Inputs& in) {
        each_reduction(in, [&](const char* how) {
          in.add({in.tensor({3, 4}), in.tensor({3, 4}), how, in.tensor({3, 4}, 0.5, 2)});
        });
      })
      .reference([](const Args& a) {
        const DType t = a.array(0).dtype;
        double total = 0;
        for (const Number& w : a.array(3).data) total += w.re();
        return reduced_by(
            pointwise({a.array(0), a.array(1), a.array(3)}, t, t,
                      [](const Number* v) { return Number(std::fabs(v[0].re() - v[1].re()) * v[2].re()); }),
            a.text(2), 16, total);
      })
      .error<ShapeError>("weight", [](Inputs& in) {
        in.add({in.tensor({3}), in.tensor({3}), "mean", in.tensor({2})});
      });
  op_case(op::mse_loss, "weighted")
      .dtypes(kWide)
      .gradient()
      .samples([](Inputs& in) {
        each_reduction(in, [&](const char* how) {
          in.add({in.tensor({3, 4}), in.tensor({3, 4}), how, in.tensor({3, 4}, 0.5, 2)});
        });
      })
      .reference([](const Args& a) {
        const DType t = a.array(0).dtype;
        double total = 0;
        for (const Number& w : a.array(3).data) total += w.re();
        return reduced_by(
            pointwise({a.array(0), a.array(1), a.array(3)}, t, t,
                      [](const Number* v) { return Number(std::pow(v[0].re() - v[1].re(), 2) * v[2].re()); }),
            a.text(2), 128, total);
      });
  with_reduction_error(op_case(op::smooth_l1_loss), "smooth_l1_loss", pair_error)
      .dtypes(kFloats)
      .gradient()
      .samples(pairs(-2, 2))
      .samples([](Inputs& in) {
        in.add({in.tensor({3, 4}), in.tensor({3, 4}), "none", 0.25});
        in.add({in.tensor({3, 4}), in.tensor({3, 4}), "sum", 0.0});
      })
      .reference(losses(2, 2, 8,
                        [](const Number* v, const Args& a) {
                          return element_loss(a.real(3) == 0 ? 0 : 2, a.real(3), v[0].re(), v[1].re());
                        }))
      .error<ValueError>("beta", [](Inputs& in) {
        in.add({in.tensor({2}), in.tensor({2}), "mean", -1.0});
      });
  with_reduction_error(op_case(op::huber_loss), "huber_loss", pair_error)
      .dtypes(kFloats)
      .gradient()
      .samples(pairs(-2, 2))
      .samples([](Inputs& in) {
        in.add({in.tensor({3, 4}), in.tensor({3, 4}), "none", 2.5});
      })
      .samples([](Inputs& in) {
        in.add({in.tensor({3, 4}), in.tensor({3, 4}), "mean", 1.0, in.tensor({3, 4}, 0.5, 2)});
      })
      .reference(losses(
          2, 2, 64,
          [](const Number* v, const Args& a) { return element_loss(3, a.real(3), v[0].re(), v[1].re()) * v[2].re(); },
          {4}))
      .error<ValueError>("delta", [](Inputs& in) {
        in.add({in.tensor({2}), in.tensor({2}), "mean", 0.0});
      });
  const auto weighted_pairs = [](double low, double high, bool positive) {
    return [=](Inputs& in) {
      each_reduction(in, [&](const char* how) {
        in.add({in.tensor({3, 4}, low, high), in.tensor({3, 4}, 0, 1), kNone, how});
        in.add({in.tensor({3, 4}, low, high), in.tensor({3, 4}, 0, 1), in.tensor({4}, 0.5, 2), how});
        if (positive)
          in.add({in.tensor({3, 4}, low, high), in.tensor({3, 4}, 0, 1), in.tensor({3, 4}, 0.5, 2), how,
                  in.tensor({4}, 0.5, 2)});
      });
    };
  };
  op_case(op::binary_cross_entropy)
      .dtypes(kFloats)
      .gradient()
      .samples(weighted_pairs(0.1, 0.9, false))
      .reference(losses(
          2, 3, 16, [](const Number* v, const Args&) { return element_loss(4, 0, v[0].re(), v[1].re()) * v[2].re(); },
          {2}))
      .error<ValueError>("self",
                         [](Inputs& in) {
                           in.add({in.values({0.5, 1.5}), in.values({0, 1})});
                         })
      .error<ValueError>("reduction",
                         [](Inputs& in) {
                           in.add({in.tensor({2}), in.tensor({2}), kNone, "average"});
                         })
      .error<ShapeError>("target", [](Inputs& in) {
        in.add({in.tensor({3, 2}, 0, 1), in.tensor({2}, 0, 1)});
      });
  op_case(op::binary_cross_entropy_with_logits)
      .dtypes(kWide)
      .gradient()
      .samples(weighted_pairs(-4, 4, true))
      .reference(losses(2, 3, 32,
                        [](const Number* v, const Args&) {
                          const double x = v[0].re(), t = v[1].re();
                          return v[2].re() * (t * v[3].re() * softplus_of(-x) + (1 - t) * softplus_of(x));
                        },
                        {2, 4}))
      .error<ShapeError>("target", [](Inputs& in) {
        in.add({in.tensor({3, 2}), in.tensor({2})});
      });
  op_case(op::kl_div)
      .dtypes(kWide)
      .gradient()
      .samples([](Inputs& in) {
        for (const char* how : {"none", "mean", "sum", "batchmean"}) {
          in.add({in.tensor({3, 4}, -3, 0), in.tensor({3, 4}, 0.1, 1), how});
          in.add({in.tensor({3, 4}, -3, 0), in.tensor({3, 4}, -3, 0), how, true});
        }
        in.add({in.values({-1, -2}), in.values({0, 1}), "none"}).no_gradient();  // 0 log 0 is 0
      })
      .reference([](const Args& a) {
        const DType t = a.array(0).dtype;
        const std::string how = a.text(2);
        return reduced_by(pointwise({a.array(0), a.array(1)}, t, t,
                                    [&](const Number* v) {
                                      const double x = v[0].re(), y = v[1].re();
                                      if (a.integer(3)) return Number(std::exp(y) * (y - x));
                                      return Number((y == 0 ? 0 : y * std::log(y)) - y * x);
                                    }),
                          how == "batchmean" ? "mean" : how, 16,
                          how == "batchmean" ? static_cast<double>(a.array(0).sizes[0]) : -1);
      })
      .ulp(16)
      .error<ValueError>("reduction", pair_error);
  op_case(op::poisson_nll_loss)
      .dtypes(kWide)
      .gradient()
      .samples([](Inputs& in) {
        for (const bool log_input : {true, false})
          for (const bool full : {true, false})
            each_reduction(in, [&](const char* how) {
              in.add({in.tensor({3, 4}, 0.5, 2), in.tensor({3, 4}, 1.1, 5), log_input, full, 1e-3, how});
            });
      })
      .reference(losses(2, 5, 32,
                        [](const Number* v, const Args& a) {
                          const double x = v[0].re(), t = v[1].re();
                          double loss = a.integer(2) ? std::exp(x) - t * x : x - t * std::log(x + a.real(4));
                          if (a.integer(3) && t > 1)
                            loss += t * std::log(t) - t + 0.5 * std::log(2 * 3.14159265358979323846 * t);
                          return loss;
                        }))
      .error<ShapeError>("", [](Inputs& in) {
        in.add({in.tensor({5, 4}), in.tensor({5})});
      });
  op_case(op::gaussian_nll_loss)
      .dtypes(kWide)
      .gradient()
      .no_meta()
      .samples([](Inputs& in) {
        each_reduction(in, [&](const char* how) {
          in.add({in.tensor({3, 4}), in.tensor({3, 4}), in.tensor({3, 4}, 0.5, 2), true, 1e-6, how});
          in.add({in.tensor({3, 4}), in.tensor({3, 4}), in.tensor({3, 1}, 0.5, 2), false, 1e-6, how});
        });
      })
      .reference(losses(3, 5, 64,
                        [](const Number* v, const Args& a) {
                          const double var = std::max(v[2].re(), a.real(4)), d = v[0].re() - v[1].re();
                          return 0.5 * (std::log(var) + d * d / var) +
                                 (a.integer(3) ? 0.5 * std::log(2 * 3.14159265358979323846) : 0);
                        }))
      .error<ValueError>("var",
                         [](Inputs& in) {
                           in.add({in.tensor({2}), in.tensor({2}), in.values({1, -1})});
                         })
      .error<ShapeError>("var", [](Inputs& in) {
        in.add({in.tensor({2, 3}), in.tensor({2, 3}), in.tensor({2, 2}, 1, 2)});
      });
  op_case(op::soft_margin_loss)
      .dtypes(kWide)
      .gradient()
      .samples(pairs(-2, 2))
      .reference(losses(2, 2, 8, [](const Number* v, const Args&) { return softplus_of(-v[0].re() * v[1].re()); }))
      .error<ValueError>("reduction", pair_error);
  const auto signs = [](Inputs& in, const Sizes& s) {
    Vector v;
    for (int64_t i = 0; i < count(s); ++i) v.push_back(in.integer(0, 1) ? 1 : -1);
    return in.values(v, s);
  };
  op_case(op::hinge_embedding_loss)
      .dtypes(kWide)
      .gradient()
      .gradient_of(1)
      .samples([=](Inputs& in) {
        each_reduction(in, [&](const char* how) { in.add({in.tensor({3, 4}), signs(in, {3, 4}), 1.5, how}); });
      })
      .reference(losses(2, 3, 8,
                        [](const Number* v, const Args& a) {
                          return v[1].re() == 1 ? v[0].re() : std::max(0., a.real(2) - v[0].re());
                        }))
      .error<ValueError>("reduction", [](Inputs& in) {
        in.add({in.tensor({2}), in.tensor({2}), 1.0, "average"});
      });
  op_case(op::margin_ranking_loss)
      .dtypes(kWide)
      .gradient()
      .gradient_of(3)
      .samples([=](Inputs& in) {
        each_reduction(in, [&](const char* how) {
          in.add({in.tensor({3, 4}), in.tensor({3, 4}), signs(in, {3, 4}), 0.5, how});
        });
      })
      .reference(losses(3, 4, 16,
                        [](const Number* v, const Args& a) {
                          return std::max(0., -v[2].re() * (v[0].re() - v[1].re()) + a.real(3));
                        }))
      .error<ShapeError>("target", [](Inputs& in) {
        in.add({in.tensor({5, 4}), in.tensor({5, 4}), in.tensor({5})});
      });
}

TENON_OP_CASES(distance) {
  op_case(op::cosine_similarity)
      .dtypes(kWide)
      .gradient()
      .ulp(16)
      .samples([](Inputs& in) {
        in.add({in.tensor({3, 5}), in.tensor({3, 5})});
        in.add({in.tensor({4}), in.tensor({4}), 0});
        in.add({in.tensor({2, 3, 4}), in.tensor({3, 4}), -1, 0.5});
      })
      .reference([](const Args& a) {  // along the last dimension in every sample
        const std::vector<Vector> x = rows_of(a.array(0)), y = rows_of(a.array(1));
        Vector out;
        for (std::size_t i = 0; i < x.size(); ++i) {
          const Vector& other = y[i % y.size()];
          out.push_back(dot(x[i], other) / std::max(norm_of(x[i], 2), a.real(3)) /
                        std::max(norm_of(other, 2), a.real(3)));
        }
        Array r = vector_of(a.array(0).dtype, outer_of(a.array(0)), out);
        r.scale = {2};
        return std::vector<Array>{r};
      })
      .error<DtypeError>(
          "",
          [](Inputs& in) {
            in.add({in.tensor({2, 2}), in.tensor({2, 2})});
          },
          kInt64);
  op_case(op::pairwise_distance)
      .dtypes(kWide)
      .gradient()
      .ulp(16)
      .samples([](Inputs& in) {
        in.add({in.tensor({3, 5}), in.tensor({3, 5})});
        in.add({in.tensor({5}), in.tensor({5}), 3.0, 0.25});
        in.add({in.tensor({3, 5}), in.tensor({5}), 1.0, 1e-6, true});
      })
      .reference([](const Args& a) {
        const std::vector<Vector> x = rows_of(a.array(0)), y = rows_of(a.array(1));
        Vector out;
        for (std::size_t i = 0; i < x.size(); ++i)
          out.push_back(distance_of(x[i], y[i % y.size()], a.real(2), a.real(3)));
        Sizes sizes = outer_of(a.array(0));
        if (a.integer(4)) sizes.push_back(1);
        return std::vector<Array>{vector_of(a.array(0).dtype, sizes, out)};
      });
  op_case(op::pdist)
      .dtypes(kWide)
      .gradient()
      .ulp(16)
      .samples([](Inputs& in) {
        in.add({in.tensor({4, 3})});
        in.add({in.tensor({3, 4}), 3.0});
        in.add({in.tensor({5, 2}), 1.0});
        in.add({in.tensor({1, 2})}).no_gradient();
        in.add({in.tensor({4, 3}), std::numeric_limits<double>::infinity()});
      })
      .reference([](const Args& a) {
        const std::vector<Vector> x = rows_of(a.array(0));
        Vector out;
        for (std::size_t i = 0; i < x.size(); ++i)
          for (std::size_t j = i + 1; j < x.size(); ++j) out.push_back(distance_of(x[i], x[j], a.real(1), 0));
        return std::vector<Array>{vector_of(a.array(0).dtype, {static_cast<int64_t>(out.size())}, out)};
      })
      .error<ShapeError>("self", [](Inputs& in) { in.add({in.tensor({3})}); })
      .error<ValueError>("p", [](Inputs& in) {
        in.add({in.tensor({3, 2}), -1.0});
      });
  op_case(op::bilinear)
      .dtypes(kWide)
      .gradient()
      .ulp(32)
      .samples([](Inputs& in) {
        in.add({in.tensor({2, 3}), in.tensor({2, 4}), in.tensor({5, 3, 4}), in.tensor({5})});
        in.add({in.tensor({2, 2, 3}), in.tensor({2, 2, 2}), in.tensor({1, 3, 2})});
        in.add({in.tensor({3}), in.tensor({4}), in.tensor({2, 3, 4})});
      })
      .reference([](const Args& a) {
        const std::vector<Vector> x = rows_of(a.array(0)), y = rows_of(a.array(1));
        const Array w = a.array(2);
        const auto k = static_cast<std::size_t>(w.sizes[0]), m = static_cast<std::size_t>(w.sizes[1]),
                   n = static_cast<std::size_t>(w.sizes[2]);
        Vector out;
        for (std::size_t r = 0; r < x.size(); ++r)
          for (std::size_t o = 0; o < k; ++o) {
            double sum = a.is_none(3) ? 0 : a.array(3).data[o].re();
            for (std::size_t i = 0; i < m; ++i)
              for (std::size_t j = 0; j < n; ++j) sum += x[r][i] * w.data[(o * m + i) * n + j].re() * y[r][j];
            out.push_back(sum);
          }
        Sizes sizes = outer_of(a.array(0));
        sizes.push_back(w.sizes[0]);
        Array result = vector_of(w.dtype, sizes, out);
        result.scale = {500};
        return std::vector<Array>{result};
      })
      .error<ShapeError>("weight", [](Inputs& in) {
        in.add({in.tensor({2, 3}), in.tensor({2, 4}), in.tensor({5, 4, 4})});
      });
  op_case(op::one_hot)
      .dtypes({kInt64})
      .no_meta()
      .samples([](Inputs& in) {
        in.add({in.index({2, 3}, 4), 5});
        in.add({in.integers({0, 3, 1})});
        in.add({in.integers({2}, {})});
        in.add({in.integers({}, {0}), 3});
      })
      .reference([](const Args& a) {
        const Array x = a.array(0);
        int64_t classes = a.integer(1);
        if (classes < 0)
          for (const Number& v : x.data) classes = std::max(classes, v.i + 1);
        Sizes sizes = x.sizes;
        sizes.push_back(classes);
        Array out = make_array(kInt64, sizes);
        for (std::size_t i = 0; i < out.data.size(); ++i)
          out.data[i] = static_cast<int64_t>(x.data[i / static_cast<std::size_t>(classes)].i ==
                                             static_cast<int64_t>(i) % classes);
        return std::vector<Array>{out};
      })
      .error<ValueError>("num_classes",
                         [](Inputs& in) {
                           in.add({in.integers({0, 3}), 3});
                         })
      .error<ValueError>("self",
                         [](Inputs& in) {
                           in.add({in.integers({0, -3}), 3});
                         })
      .error<DtypeError>("self", [](Inputs& in) { in.add({in.tensor({2})}); });
  op_case(op::cosine_embedding_loss)
      .dtypes(kWide)
      .gradient()
      .gradient_of(3)
      .ulp(16)
      .samples([](Inputs& in) {
        each_reduction(in, [&](const char* how) {
          in.add({in.tensor({4, 5}), in.tensor({4, 5}), in.values({1, -1, -1, 1}), 0.25, how});
          in.add({in.tensor({5}), in.tensor({5}), in.values({-1}, {}), -0.5, how});
        });
      })
      .reference([](const Args& a) {
        const std::vector<Vector> x = rows_of(a.array(0)), y = rows_of(a.array(1));
        Vector out;
        for (std::size_t i = 0; i < x.size(); ++i) {
          const double cosine = dot(x[i], y[i]) / std::sqrt((dot(x[i], x[i]) + 1e-12) * (dot(y[i], y[i]) + 1e-12));
          out.push_back(a.array(2).data[i].re() == 1 ? 1 - cosine : std::max(0., cosine - a.real(3)));
        }
        return reduced_by(vector_of(a.array(0).dtype, outer_of(a.array(0)), out), a.text(4), 4);
      })
      .error<ShapeError>("target", [](Inputs& in) {
        in.add({in.tensor({4, 5}), in.tensor({4, 5}), in.tensor({})});
      });
  const auto triplet = [](int margin, int swap, int reduction, int p, int eps) {
    return [=](const Args& a) {
      const std::vector<Vector> x = rows_of(a.array(0)), y = rows_of(a.array(1)), z = rows_of(a.array(2));
      const double norm = p < 0 ? 2 : a.real(p), e = eps < 0 ? 1e-6 : a.real(eps);
      Vector out;
      for (std::size_t i = 0; i < x.size(); ++i) {
        double far = distance_of(x[i], z[i], norm, e);
        if (a.integer(swap)) far = std::min(far, distance_of(y[i], z[i], norm, e));
        out.push_back(std::max(0., distance_of(x[i], y[i], norm, e) - far + a.real(margin)));
      }
      return reduced_by(vector_of(a.array(0).dtype, outer_of(a.array(0)), out), a.text(reduction), 64);
    };
  };
  op_case(op::triplet_margin_loss)
      .dtypes(kWide)
      .gradient()
      .samples([](Inputs& in) {
        each_reduction(in, [&](const char* how) {
          in.add({in.tensor({4, 5}), in.tensor({4, 5}), in.tensor({4, 5}), 1.5, 2.0, 1e-6, false, how});
          in.add({in.tensor({4, 5}), in.tensor({4, 5}), in.tensor({4, 5}), 1.0, 3.0, 1e-3, true, how});
        });
      })
      .reference(triplet(3, 6, 7, 4, 5))
      .error<ShapeError>("positive", [](Inputs& in) {
        in.add({in.tensor({3, 4}), in.tensor({3, 4}), in.tensor({3})});
      });
  op_case(op::triplet_margin_with_distance_loss)
      .dtypes(kWide)
      .gradient()
      .samples([](Inputs& in) {
        in.add({in.tensor({4, 5}), in.tensor({4, 5}), in.tensor({4, 5})},
               {{"margin", 1.5}, {"swap", true}, {"reduction", "sum"}});
        in.add({in.tensor({4, 5}), in.tensor({4, 5}), in.tensor({4, 5})});
      })
      .reference(triplet(3, 4, 5, -1, -1))
      .error<ShapeError>("positive", [](Inputs& in) {
        in.add({in.tensor({3}), in.tensor({3, 4}), in.tensor({3, 4})});
      });
  op_case(op::multi_margin_loss)
      .dtypes(kWide)
      .gradient()
      .gradient_of(1)
      .samples([](Inputs& in) {
        each_reduction(in, [&](const char* how) {
          in.add({in.tensor({4, 5}), in.index({4}, 5), 1, 1, kNone, how});
          in.add({in.tensor({4, 5}), in.index({4}, 5), 2, 0.5, in.tensor({5}, 0.5, 2), how});
          in.add({in.tensor({5}), in.integers({2}, {}), 1, 1, kNone, how});
        });
      })
      .reference([](const Args& a) {
        const std::vector<Vector> x = rows_of(a.array(0));
        Vector out;
        for (std::size_t i = 0; i < x.size(); ++i) {
          const auto t = static_cast<std::size_t>(a.array(1).data[i].i);
          double sum = 0;
          for (std::size_t c = 0; c < x[i].size(); ++c)
            if (c != t) sum += std::pow(std::max(0., a.real(3) - x[i][t] + x[i][c]), a.real(2));
          out.push_back(sum * (a.is_none(4) ? 1 : a.array(4).data[t].re()) / static_cast<double>(x[i].size()));
        }
        return reduced_by(vector_of(a.array(0).dtype, outer_of(a.array(0)), out), a.text(5), 200);
      })
      .error<ShapeError>("target",
                         [](Inputs& in) {
                           in.add({in.tensor({4, 5}), in.index({3}, 5)});
                         })
      .error<ValueError>("p", [](Inputs& in) {
        in.add({in.tensor({4, 5}), in.index({4}, 5), 3});
      });
  op_case(op::multilabel_margin_loss)
      .dtypes(kWide)
      .gradient()
      .gradient_of(1)
      .samples([](Inputs& in) {
        each_reduction(in, [&](const char* how) {
          in.add({in.tensor({2, 4}), in.integers({3, 0, -1, 1, -1, 2, 1, 0}, {2, 4}), how});
          in.add({in.tensor({3}), in.integers({0, 1, 2}), how});
        });
      })
      .reference([](const Args& a) {
        const std::vector<Vector> x = rows_of(a.array(0)), t = rows_of(a.array(1));
        Vector out;
        for (std::size_t r = 0; r < x.size(); ++r) {
          std::vector<bool> label(x[r].size(), false);
          std::size_t listed = 0;
          while (listed < t[r].size() && t[r][listed] >= 0) label[static_cast<std::size_t>(t[r][listed++])] = true;
          double sum = 0;
          for (std::size_t j = 0; j < listed; ++j)
            for (std::size_t i = 0; i < x[r].size(); ++i)
              if (!label[i]) sum += std::max(0., 1 - x[r][static_cast<std::size_t>(t[r][j])] + x[r][i]);
          out.push_back(sum / static_cast<double>(x[r].size()));
        }
        return reduced_by(vector_of(a.array(0).dtype, outer_of(a.array(0)), out), a.text(2), 64);
      })
      .error<ShapeError>("target", [](Inputs& in) {
        in.add({in.tensor({2, 4}), in.index({2, 3}, 4)});
      });
  op_case(op::multilabel_soft_margin_loss)
      .dtypes(kWide)
      .gradient()
      .samples([](Inputs& in) {
        each_reduction(in, [&](const char* how) {
          in.add({in.tensor({3, 4}), in.tensor({3, 4}, 0, 1), kNone, how});
          in.add({in.tensor({3, 4}), in.tensor({3, 4}, 0, 1), in.tensor({4}, 0.5, 2), how});
        });
      })
      .reference([](const Args& a) {
        const std::vector<Vector> x = rows_of(a.array(0)), t = rows_of(a.array(1));
        Vector out;
        for (std::size_t r = 0; r < x.size(); ++r) {
          double sum = 0;
          for (std::size_t c = 0; c < x[r].size(); ++c)
            sum += (t[r][c] * softplus_of(-x[r][c]) + (1 - t[r][c]) * softplus_of(x[r][c])) *
                   (a.is_none(2) ? 1 : a.array(2).data[c].re());
          out.push_back(sum / static_cast<double>(x[r].size()));
        }
        return reduced_by(vector_of(a.array(0).dtype, outer_of(a.array(0)), out), a.text(3), 16);
      });
}

TENON_OP_CASES(dropout) {
  const auto row = [](const auto& handle, const Sizes& sizes) -> OpCase& {
    return op_case(handle)
        .dtypes(kFloats)
        .random()
        .gradient()
        .samples([=](Inputs& in) {
          in.add({in.tensor(sizes), 0.25, true}).no_layouts();
          in.add({in.tensor(sizes), 0.0, true}).no_layouts();
          in.add({in.tensor(sizes), 1.0, true}).no_layouts();
          in.add({in.tensor(sizes), 0.5, false}).no_layouts();
        })
        .template error<ValueError>("p", [=](Inputs& in) {
          in.add({in.tensor(sizes), 1.5, true});
        });
  };
  row(op::feature_dropout, {4, 5, 3});
  row(op::dropout1d, {5, 3});
  row(op::dropout2d, {2, 5, 2, 3});
  row(op::dropout3d, {2, 5, 2, 2, 3});
  row(op::alpha_dropout, {6, 5});
  row(op::feature_alpha_dropout, {4, 5, 3});
}
