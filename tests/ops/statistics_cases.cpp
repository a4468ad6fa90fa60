// SPDX-License-Identifier: Apache-2.0
// Rows of ops/statistics.h.
#include <tenon/ops/statistics.h>

#include "tests/support/op_case.h"

#include <algorithm>
#include <cmath>
#include <limits>

using namespace tenon;
using namespace tenon::testing;

namespace {

const double kNaN = std::nan(""), kInfinity = std::numeric_limits<double>::infinity();
const Dtypes kRealsAndBool = kReals + Dtypes{kBool};

Number product(const Elements& v, bool integral) {
  std::complex<long double> z = 1;
  uint64_t whole = 1;
  for (const Number& e : v) z *= std::complex<long double>(e.z), whole *= static_cast<uint64_t>(e.i);
  if (integral) return static_cast<int64_t>(whole);
  return Complex(static_cast<double>(z.real()), static_cast<double>(z.imag()));
}
Array product_of(const Array& x, const std::vector<int64_t>& dims, bool keepdim, DType t) {
  return reduced(cast(x, t), dims, keepdim, t, [t](const Elements& v, double& scale) {
    const Number r = product(v, is_integral(t));
    scale = std::abs(r.z) * (1 + static_cast<double>(v.size()) / 8);
    return is_integral(t) ? convert(r.i, kInt64, t) : r;
  });
}

Elements without_nan(const Elements& v) {
  Elements rest;
  for (const Number& e : v)
    if (!std::isnan(e.z.real()) && !std::isnan(e.z.imag())) rest.push_back(e);
  return rest;
}
Number total(const Elements& v, double& scale) {
  std::complex<long double> sum = 0;
  int64_t whole = 0;
  for (const Number& e : v) {
    sum += std::complex<long double>(e.z);
    whole += e.i;
    scale += std::abs(e.z);
  }
  Number r(Complex(static_cast<double>(sum.real()), static_cast<double>(sum.imag())));
  r.i = whole;
  return r;
}

Number moment(const Elements& v, double correction, bool root, double& scale) {
  double unused = 0;
  const auto n = static_cast<double>(v.size());
  const Complex mean = total(v, unused).z / n;
  long double squares = 0;
  for (const Number& e : v) squares += std::norm(e.z - mean);
  const double r = static_cast<double>(squares) / std::max(n - correction, 0.0);
  scale = (root ? std::sqrt(r) : r) + std::abs(mean);
  return root ? std::sqrt(r) : r;
}
std::vector<Array> moments(const Array& x, const std::vector<int64_t>& dims, bool keepdim, double correction,
                           bool root) {
  return {reduced(x, dims, keepdim, real_part(x.dtype),
                  [=](const Elements& v, double& scale) { return moment(v, correction, root, scale); }),
          reduced(x, dims, keepdim, x.dtype, [](const Elements& v, double& scale) {
            const Complex s = total(v, scale).z;
            return Number(s / static_cast<double>(v.size()));
          })};
}

void block_of_numbers(Inputs& in) { in.add({in.tensor({1 << 20}, -1, 1)}); }
void with_nan(Inputs& in) {
  if (!in.is_floating()) return;
  in.add({in.values({kNaN, 1, 2, kNaN, -3, 4}, {2, 3}), ints({1})}).no_gradient();
  in.add({in.values({kNaN, kNaN}, {2})}).no_gradient();
}
Maker dims(double low, double high) {
  return [=](Inputs& in) {
    in.add({in.tensor({}, low, high)});
    for (const bool keep : {false, true}) {
      in.add({in.tensor({3, 4, 5}, low, high), ints({1}), keep});
      in.add({in.tensor({3, 4, 5}, low, high), ints({0, -1}), keep});
      in.add({in.tensor({0, 3}, low, high), ints({1}), keep});
      in.add({in.tensor({3, 0}, low, high), ints({1}), keep}).no_gradient();
    }
    in.add({in.tensor({4, 3000}, low, high), ints({1})}).no_gradient();
    in.add({in.tensor({3000, 4}, low, high), ints({0})}).no_gradient();
  };
}

}  // namespace

TENON_OP_CASES(statistics) {
  op_case(op::prod)
      .dtypes(kAll)
      .gradient()
      .ulp(16)
      .benchmark(block_of_numbers)
      .samples([](Inputs& in) {
        for (const Inputs::Sizes& s : {Inputs::Sizes{}, {0}, {3, 2}, {7}}) in.add({in.tensor(s, 0.5, 2)});
        in.add({in.tensor({500}, 0.9, 1.1)}).no_gradient();
        in.add({in.values({2, 0, 3})});
        in.add({in.values({5, 2, 0, 0})});
        in.add({in.tensor({4}, 0.5, 2)}, {{"dtype", is_complex(in.dtype()) ? kComplex128 : kFloat64}}).no_gradient();
        if (!is_complex(in.dtype())) in.add({in.tensor({4}, 0.5, 2)}, {{"dtype", kInt32}}).no_gradient();
      })
      .reference([](const Args& args) {
        const Array x = args.array(0);
        const DType t = args.dtype(1, is_integral(x.dtype, true) ? kInt64 : x.dtype);
        return std::vector<Array>{product_of(x, {}, false, t)};
      });
  op_case(op::prod_dim)
      .dtypes(kAll)
      .gradient()
      .ulp(16)
      .benchmark([](Inputs& in) {
        in.add({in.tensor({1024, 1024}, 0.9, 1.1), 1});
      })
      .samples([](Inputs& in) {
        for (const bool keep : {false, true}) {
          in.add({in.tensor({3, 4, 2}, 0.5, 2), 1, keep});
          in.add({in.tensor({3, 4}, 0.5, 2), -1, keep});
          in.add({in.tensor({3, 0}, 0.5, 2), 1, keep});
          in.add({in.tensor({0, 3}, 0.5, 2), 1, keep});
        }
        in.add({in.tensor({}, 0.5, 2), 0});
        in.add({in.values({2, 0, 3, 0, 0, 5, 1, 2, 3}, {3, 3}), 1});
        in.add({in.values({2, 0, 3, 0, 0, 5, 1, 2, 3}, {3, 3}), 0});
        in.add({in.tensor({300, 40}, 0.9, 1.1), 0}).no_gradient();
        in.add({in.tensor({40, 300}, 0.9, 1.1), 1}).no_gradient();
      })
      .reference([](const Args& args) {
        const Array x = args.array(0);
        const DType t = args.dtype(3, is_integral(x.dtype, true) ? kInt64 : x.dtype);
        return std::vector<Array>{product_of(x, {args.integer(1)}, args.integer(2), t)};
      })
      .error<IndexError>("dim", [](Inputs& in) {
        in.add({in.tensor({2, 3}), 2});
      });

  op_case(op::logsumexp)
      .dtypes(Dtypes{kFloat64, kFloat32} + kIntegers + Dtypes{kBool})
      .gradient()
      .benchmark([](Inputs& in) {
        in.add({in.tensor({1024, 1024}), ints({1})});
      })
      .samples([](Inputs& in) {
        for (const bool keep : {false, true}) {
          in.add({in.tensor({}, -9, 9), ints({}), keep});
          in.add({in.tensor({3, 4, 5}, -9, 9), ints({1}), keep});
          in.add({in.tensor({3, 4, 5}, -9, 9), ints({0, -1}), keep});
          in.add({in.tensor({3, 4}, -9, 9), ints({}), keep});
          in.add({in.tensor({3, 0}, -9, 9), ints({1}), keep}).no_gradient();
          in.add({in.tensor({0, 3}, -9, 9), ints({1}), keep}).no_gradient();
        }
        in.add({in.tensor({4, 3000}, -9, 9), ints({1})}).no_gradient();
      })
      .samples([](Inputs& in) {
        if (!in.is_floating()) return;
        in.add({in.values({1000, 1001, -1000, 0}), ints({0})}).no_gradient();
        in.add({in.values({-kInfinity, -kInfinity, 0, 3, kInfinity, 0}, {3, 2}), ints({1})}).no_gradient();
      })
      .reference([](const Args& args) {
        const Array x = args.array(0);
        const DType t = floating(x.dtype);
        return std::vector<Array>{
            reduced(cast(x, t), args.ints(1), args.integer(2), t, [](const Elements& v, double& scale) {
              double most = -kInfinity;
              for (const Number& e : v) most = std::max(most, e.re());
              scale = std::fabs(most) + 1;
              if (std::isinf(most)) return Number(most);
              long double sum = 0;
              for (const Number& e : v) sum += std::exp(static_cast<long double>(e.re()) - most);
              return Number(static_cast<double>(std::log(sum) + most));
            })};
      });

  op_case(op::nansum)
      .dtypes(kRealsAndBool)
      .gradient()
      .benchmark(block_of_numbers)
      .samples(dims(-4, 4))
      .samples(with_nan)
      .reference([](const Args& args) {
        const Array x = args.array(0);
        const DType t = args.dtype(3, is_integral(x.dtype, true) ? kInt64 : x.dtype);
        return std::vector<Array>{reduced(x, args.ints(1), args.integer(2), t, [t](const Elements& v, double& scale) {
          const Number r = total(without_nan(v), scale);
          scale *= 1 + static_cast<double>(v.size()) / 16;
          return is_integral(t) ? Number(r.i) : r;
        })};
      })
      .error<DtypeError>(
          "real", [](Inputs& in) { in.add({in.tensor({2})}); }, kComplex64);
  op_case(op::nanmean)
      .dtypes({kFloat64, kFloat32})
      .gradient()
      .ulp(8)
      .benchmark(block_of_numbers)
      .samples(dims(-4, 4))
      .samples(with_nan)
      .reference([](const Args& args) {
        const Array x = args.array(0);
        return std::vector<Array>{
            reduced(x, args.ints(1), args.integer(2), x.dtype, [](const Elements& v, double& scale) {
              const Elements rest = without_nan(v);
              const Complex s = total(rest, scale).z;
              return Number(s / static_cast<double>(rest.size()));
            })};
      })
      .error<DtypeError>(
          "floating", [](Inputs& in) { in.add({in.tensor({2})}); }, kInt64);
  op_case(op::count_nonzero)
      .dtypes(kAll)
      .benchmark(block_of_numbers)
      .samples([](Inputs& in) {
        for (const Inputs::Sizes& s : {Inputs::Sizes{}, {0}, {3, 4}, {67}}) in.add({in.tensor(s, -1, 1)});
        in.add({in.tensor({3, 4, 5}, -1, 1), ints({0, 2})});
        in.add({in.tensor({3, 4, 5}, -1, 1), ints({-1})});
      })
      .reference([](const Args& args) {
        return std::vector<Array>{reduced(args.array(0), args.ints(1), false, kInt64, [](const Elements& v, double&) {
          return Number(static_cast<int64_t>(
              std::count_if(v.begin(), v.end(), [](const Number& e) { return e.z != Complex(0); })));
        })};
      });

  const Maker corrections = [](Inputs& in) {
    for (const bool keep : {false, true}) {
      in.add({in.tensor({3, 4, 5}), ints({1})}, {{"keepdim", keep}});
      in.add({in.tensor({3, 4, 5}), ints({0, -1})}, {{"correction", 0}, {"keepdim", keep}});
      in.add({in.tensor({6, 50}), ints({-1})}, {{"correction", 2}, {"keepdim", keep}}).no_gradient();
    }
    in.add({in.tensor({70})});
  };
  const Maker whole = [](Inputs& in) {
    for (const bool unbiased : {true, false}) in.add({in.tensor({3, 7}), unbiased});
  };
  const Maker along = [](Inputs& in) {
    in.add({in.tensor({3, 7}), ints({1})});
    in.add({in.tensor({3, 7, 2}), ints({0, 2}), false, true});
  };
  for (const bool root : {false, true}) {
    op_case(root ? op::std_mean : op::var_mean)
        .dtypes(kFloats + kComplexes)
        .gradient()
        .ulp(32)
        .samples(corrections)
        .benchmark(block_of_numbers)
        .reference([=](const Args& args) {
          return moments(args.array(0), args.ints(1), args.integer(3), args.is_none(2) ? 1 : args.real(2), root);
        });
    op_case(root ? op::std_mean_unbiased : op::var_mean_unbiased)
        .dtypes(kFloats + kComplexes)
        .gradient()
        .ulp(32)
        .samples(whole)
        .reference([=](const Args& args) { return moments(args.array(0), {}, false, args.integer(1) ? 1 : 0, root); });
    op_case(root ? op::std_mean_dim : op::var_mean_dim)
        .dtypes(kFloats + kComplexes)
        .gradient()
        .ulp(32)
        .samples(along)
        .reference([=](const Args& args) {
          return moments(args.array(0), args.ints(1), args.integer(3), args.integer(2) ? 1 : 0, root);
        });
  }
  op_case(op::aminmax)
      .dtypes(kRealsAndBool)
      .gradient()
      .benchmark(block_of_numbers)
      .samples([](Inputs& in) {
        for (const bool keep : {false, true}) {
          in.add({in.tensor({3, 4, 5}, -90, 90)}, {{"dim", 1}, {"keepdim", keep}});
          in.add({in.tensor({3, 4}, -90, 90)}, {{"dim", -1}, {"keepdim", keep}});
          in.add({in.tensor({3, 4}, -90, 90)}, {{"keepdim", keep}});
        }
        in.add({in.tensor({}, -90, 90)}, {{"dim", 0}});
        in.add({in.special(3)}).no_gradient();
      })
      .errors_name("amin")
      .reference([](const Args& args) {
        const Array x = args.array(0);
        std::vector<int64_t> dims;
        if (!args.is_none(1)) dims.push_back(args.integer(1));
        const auto extreme = [&](bool largest) {
          return reduced(x, dims, args.integer(2), x.dtype, [=](const Elements& v, double&) {
            Number best = v[0];
            for (const Number& e : v) {
              if (std::isnan(best.re())) break;
              const bool exact = e.i != 0 || best.i != 0;
              if (std::isnan(e.re()) || (exact ? (largest ? e.i > best.i : e.i < best.i)
                                               : (largest ? e.re() > best.re() : e.re() < best.re())))
                best = e;
            }
            return best;
          });
        };
        return std::vector<Array>{extreme(false), extreme(true)};
      })
      .error<IndexError>("", [](Inputs& in) {
        in.add({in.tensor({2, 0})});
      });
}
