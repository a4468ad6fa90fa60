// SPDX-License-Identifier: Apache-2.0
// Rows of ops/elementwise_loss.h. References are the definitions in float64.
#include <tenon/ops/elementwise_loss.h>

#include "tests/ops/loss_reference.h"

#include <cmath>

using namespace tenon;
using namespace tenon::testing;

namespace {

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
    std::vector<double> v;
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
