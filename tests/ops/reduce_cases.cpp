// SPDX-License-Identifier: Apache-2.0
// Rows of ops/reduce.h.
#include <tenon/ops/reduce.h>

#include "tests/support/op_case.h"

#include <algorithm>
#include <cmath>
#include <limits>

using namespace tenon;
using namespace tenon::testing;

namespace {

const double kNan = std::nan(""), kInf = std::numeric_limits<double>::infinity();

Number total(const Elements& v, double& scale) {
  long double re = 0, im = 0;
  uint64_t whole = 0;
  for (const Number& e : v) {
    re += e.z.real(), im += e.z.imag(), whole += static_cast<uint64_t>(e.i);
    scale += std::abs(e.z);
  }
  Number r(Complex(static_cast<double>(re), static_cast<double>(im)));
  r.i = static_cast<int64_t>(whole);
  return r;
}

// Doubles are added up in double: errors may grow with the number of terms.
double slack(DType t, std::size_t terms) {
  return real_part(t) == kFloat64 ? std::max(1.0, static_cast<double>(terms) / 16) : 1;
}

std::vector<Array> sum_reference(const Args& args) {
  const Array x = args.array(0);
  const DType t = args.dtype(3, is_integral(x.dtype, true) ? kInt64 : x.dtype);
  return {reduced(cast(x, t), args.ints(1), args.integer(2), t, [t](const Elements& v, double& scale) {
    Number r = total(v, scale);
    scale *= slack(t, v.size());
    return is_integral(t) ? convert(r.i, kInt64, t) : r;
  })};
}
std::vector<Array> mean_reference(const Args& args) {
  const Array x = args.array(0);
  const DType t = args.dtype(3, x.dtype);
  return {reduced(cast(x, t), args.ints(1), args.integer(2), t, [t](const Elements& v, double& scale) {
    const Complex s = total(v, scale).z;
    scale *= slack(t, v.size());
    scale /= static_cast<double>(v.size());
    return v.empty() ? Number(Complex(kNan, kNan)) : Number(s / static_cast<double>(v.size()));
  })};
}

Array variance(const Array& x, const std::vector<int64_t>& dims, bool keepdim, double correction, bool root) {
  return reduced(x, dims, keepdim, real_part(x.dtype), [=](const Elements& v, double& scale) {
    double unused = 0;
    const auto n = static_cast<double>(v.size());
    const Complex mean = total(v, unused).z / n;
    long double squares = 0;
    for (const Number& e : v) squares += std::norm(e.z - mean);
    const double r = static_cast<double>(squares) / std::max(n - correction, 0.0);
    // Equal values give 0 or what rounding the mean leaves.
    const double rounding = std::abs(mean) * epsilon(real_part(x.dtype)) * 4;
    scale = root ? std::sqrt(r) + std::abs(mean) : r + rounding * std::abs(mean);
    scale *= slack(x.dtype, v.size());
    return Number(root ? std::sqrt(r) : r);
  });
}
Reference correction_reference(bool root) {
  return [=](const Args& args) {
    return std::vector<Array>{
        variance(args.array(0), args.ints(1), args.integer(3), args.is_none(2) ? 1 : args.real(2), root)};
  };
}
Reference unbiased_reference(bool root) {
  return [=](const Args& args) {
    return std::vector<Array>{variance(args.array(0), {}, false, args.integer(1) ? 1 : 0, root)};
  };
}
Reference dim_reference(bool root) {
  return [=](const Args& args) {
    return std::vector<Array>{variance(args.array(0), args.ints(1), args.integer(3), args.integer(2) ? 1 : 0, root)};
  };
}

// Position of the extreme: the first NaN, else the first of the largest (smallest).
std::size_t extreme(const Elements& v, bool largest) {
  std::size_t best = 0;
  for (std::size_t i = 1; i < v.size(); ++i) {
    if (std::isnan(v[best].re())) break;
    const bool exact = v[i].i != 0 || v[best].i != 0;  // int64 beyond what doubles hold
    const bool better = exact ? (largest ? v[i].i > v[best].i : v[i].i < v[best].i)
                              : (largest ? v[i].re() > v[best].re() : v[i].re() < v[best].re());
    if (better || std::isnan(v[i].re())) best = i;
  }
  return best;
}
Array extremes(const Array& x, const std::vector<int64_t>& dims, bool keepdim, bool largest) {
  return reduced(x, dims, keepdim, x.dtype, [=](const Elements& v, double&) { return v[extreme(v, largest)]; });
}
Array positions(const Array& x, const std::vector<int64_t>& dims, bool keepdim, bool largest) {
  return reduced(x, dims, keepdim, kInt64,
                 [=](const Elements& v, double&) { return Number(static_cast<int64_t>(extreme(v, largest))); });
}

Reference truth(bool all) {
  return [=](const Args& args) {
    const Array x = args.array(0);
    return std::vector<Array>{
        reduced(x, args.ints(1), args.integer(2), x.dtype == kUInt8 ? kUInt8 : kBool, [=](const Elements& v, double&) {
          bool r = all;
          for (const Number& e : v) r = all ? r && e.z != Complex(0) : r || e.z != Complex(0);
          return Number(int64_t(r));
        })};
  };
}

/// dims as a list (absent, empty, one, several, negative), keepdim both ways.
Maker dims_samples(double low, double high, bool empty_reduction) {
  return [=](Inputs& in) {
    in.add({in.tensor({}, low, high)});
    in.add({in.tensor({7}, low, high)});
    in.add({in.tensor({3, 4, 5}, low, high)});
    for (const bool keep : {false, true}) {
      in.add({in.tensor({3, 4, 5}, low, high), ints({1}), keep});
      in.add({in.tensor({3, 4, 5}, low, high), ints({0, -1}), keep});
      in.add({in.tensor({3, 4, 5}, low, high), ints({2}), keep});
      in.add({in.tensor({3, 4, 5}, low, high), ints({0}), keep});
      in.add({in.tensor({0, 3}, low, high), ints({1}), keep});
    }
    in.add({in.tensor({2, 1, 3, 1, 4}, low, high), ints({1, 2, 4})});
    in.add({in.tensor({40, 130}, low, high), ints({1})}).no_gradient();
    in.add({in.tensor({130, 40}, low, high), ints({0})}).no_gradient();
    in.add({in.tensor({5, 2000}, low, high), ints({1})}).no_gradient();
    in.add({in.tensor({2000, 5}, low, high), ints({0})}).no_gradient();
    in.add({in.tensor({70000}, low, high)}).no_gradient();
    if (!empty_reduction) return;
    in.add({in.tensor({0})}).no_gradient();
    in.add({in.tensor({3, 0}), ints({1})}).no_gradient();
    in.add({in.tensor({2, 0, 3}), ints({0, 1}), true}).no_gradient();
  };
}
/// One NaN at every position in turn: no vector lane and no tail may lose it.
void nan_everywhere(Inputs& in) {
  if (!in.is_floating()) return;
  for (int64_t at = 0; at < 37; ++at) {
    std::vector<double> v(37);
    for (auto& e : v) e = static_cast<double>(in.integer(-9, 9));
    v[at] = kNan;
    in.add({in.values(v)}).no_gradient().no_layouts().no_destinations();
  }
  in.add({in.values({kNan, kNan, kNan})}).no_gradient();
  in.add({in.values({-kInf, -kInf})}).no_gradient();
}
void block_of_numbers(Inputs& in) { in.add({in.tensor({1 << 20}, -1, 1)}); }
void bad_dims(Inputs& in) {
  in.add({in.tensor({2, 3}), ints({2})});
  in.add({in.tensor({2, 3}), ints({-3})});
}
void double_dim(Inputs& in) { in.add({in.tensor({2, 3}), ints({1, -1})}); }
void nothing_to_choose(Inputs& in) {
  in.add({in.tensor({2, 0})});
  in.add({in.tensor({2, 0}), ints({1})});
}

}  // namespace

TENON_OP_CASES(reduce) {
  op_case(op::sum)
      .dtypes(kAll)
      .gradient()
      .reference(sum_reference)
      .samples(dims_samples(-4, 4, true))
      .benchmark(block_of_numbers)
      .samples([](Inputs& in) {
        // Small types accumulate in wide ones: ones beyond 256, 2048, and the range of half.
        in.add({in.values(std::vector<double>(6000, 1))}).no_gradient();
        in.add({in.values(std::vector<double>(9000, 1), {3000, 3}), ints({0})}).no_gradient();
        in.add({in.values(std::vector<double>(300, 100))}).no_gradient();
        if (in.is_floating()) in.add({in.values({60000, 60000})}).no_gradient();
        if (!is_complex(in.dtype())) in.add({in.tensor({5, 4}), ints({0}), false}, {{"dtype", kFloat64}}).no_gradient();
        in.add({in.tensor({5, 4}), ints({})}, {{"dtype", kFloat32}}).no_gradient().no_layouts();
      })
      .samples([](Inputs& in) {
        if (in.dtype() == kFloat32 || in.dtype() == kBFloat16)
          in.add({in.tensor({1300000}, -1, 2)}).no_gradient().no_layouts().no_destinations();
      })
      .error<IndexError>("", bad_dims)
      .error<IndexError>("", double_dim);
  op_case(op::sum, "to integers").dtypes({kFloat32, kBool}).reference(sum_reference).samples([](Inputs& in) {
    in.add({in.tensor({5, 4}), ints({0})}, {{"dtype", kInt32}});
    in.add({in.tensor({50})}, {{"dtype", kUInt8}});
  });
  op_case(op::mean)
      .dtypes(kFloats + kComplexes)
      .gradient()
      .reference(mean_reference)
      .samples(dims_samples(-4, 4, true))
      .benchmark(block_of_numbers)
      .samples([](Inputs& in) {
        in.add({in.values(std::vector<double>(90000, 1))}).no_gradient().no_layouts();
        in.add({in.tensor({5, 4}), ints({0})}, {{"dtype", is_complex(in.dtype()) ? kComplex128 : kFloat64}})
            .no_gradient();
      })
      .error<IndexError>("", bad_dims)
      .error<DtypeError>(
          "", [](Inputs& in) { in.add({in.tensor({2})}); }, kInt64);
  op_case(op::mean, "of integers").dtypes(kIntegers + Dtypes{kBool}).reference(mean_reference).samples([](Inputs& in) {
    in.add({in.tensor({50, 3}), ints({0})}, {{"dtype", kFloat32}});
  });

  const Maker close_values = [](Inputs& in) {
    if (in.dtype() != kFloat32 && in.dtype() != kFloat64) return;
    in.add({in.values({4099.5, 4099.25})}).no_gradient();
    in.add({in.values({4099.5, 4099.25, 1, 2}, {2, 2}), ints({1})}).no_gradient();
    in.add({in.tensor({200000}, 1e5 - 2, 1e5 + 2)}).no_gradient().no_layouts();
    in.add({in.tensor({2}, 0, 1)}, {{"correction", 2}}).no_gradient();  // 0 degrees of freedom: infinite
    in.add({in.tensor({1})}).no_gradient();
  };
  const Maker corrections = [](Inputs& in) {
    for (const bool keep : {false, true}) {
      in.add({in.tensor({3, 4, 5}), ints({1})}, {{"keepdim", keep}});
      in.add({in.tensor({3, 4, 5}), ints({0, -1})}, {{"correction", 0}, {"keepdim", keep}});
      in.add({in.tensor({6, 50}), ints({-1})}, {{"correction", 2}, {"keepdim", keep}}).no_gradient();
      in.add({in.tensor({50, 6}), ints({0})}, {{"correction", 0.5}, {"keepdim", keep}}).no_gradient();
    }
    in.add({in.tensor({70})});
    in.add({in.tensor({0, 3}), ints({1})}).no_gradient();
    in.add({in.tensor({33000})}).no_gradient();
  };
  op_case(op::var)
      .dtypes(kFloats + kComplexes)
      .gradient()
      .ulp(16)
      .reference(correction_reference(false))
      .samples(corrections)
      .samples(close_values)
      .benchmark(block_of_numbers)
      .error<IndexError>("", bad_dims);
  op_case(op::std)
      .dtypes(kFloats + kComplexes)
      .gradient()
      .ulp(16)
      .reference(correction_reference(true))
      .samples(corrections)
      .samples(close_values)
      .errors_name("var")
      .error<IndexError>("", bad_dims);
  const Maker whole = [](Inputs& in) {
    for (const bool unbiased : {true, false}) in.add({in.tensor({3, 7}), unbiased});
  };
  const Maker along = [](Inputs& in) {
    in.add({in.tensor({3, 7}), ints({1})});
    in.add({in.tensor({3, 7, 2}), ints({0, 2}), false, true});
    in.add({in.tensor({3, 7}), ints({0}), false});
  };
  op_case(op::var_unbiased)
      .dtypes(kFloats + kComplexes)
      .gradient()
      .ulp(16)
      .reference(unbiased_reference(false))
      .samples(whole);
  op_case(op::std_unbiased)
      .dtypes(kFloats + kComplexes)
      .gradient()
      .ulp(16)
      .reference(unbiased_reference(true))
      .samples(whole);
  op_case(op::var_dim).dtypes(kFloats + kComplexes).gradient().ulp(16).reference(dim_reference(false)).samples(along);
  op_case(op::std_dim).dtypes(kFloats + kComplexes).gradient().ulp(16).reference(dim_reference(true)).samples(along);

  const Dtypes ordered = kReals + Dtypes{kBool};
  const Maker one_dim = [](Inputs& in) {
    for (const bool keep : {false, true}) {
      in.add({in.tensor({3, 4, 5}, -90, 90), 1, keep});
      in.add({in.tensor({6, 50}, -90, 90), -1, keep});
      in.add({in.tensor({50, 6}, -90, 90), 0, keep});
      in.add({in.tensor({0, 3}), 1, keep}).no_gradient();
    }
    in.add({in.tensor({}), 0});
    in.add({in.tensor({3, 2000}, -4, 4), 1}).no_gradient();  // ties: the first
    in.add({in.tensor({2000, 3}, -4, 4), 0}).no_gradient();
    in.add({in.special(), 0}).no_gradient();
    if (in.is_floating())
      for (int64_t at = 0; at < 37; at += 5) {
        std::vector<double> v(74, 1);
        v[at] = v[at + 37] = kNan;
        in.add({in.values(v, {2, 37}), 1}).no_gradient();
      }
  };
  for (const bool largest : {true, false}) {
    op_case(largest ? op::amax : op::amin)
        .dtypes(ordered)
        .gradient()
        .benchmark(block_of_numbers)
        .samples(dims_samples(-90, 90, false))
        .samples(nan_everywhere)
        .samples([](Inputs& in) { in.add({in.special()}).no_gradient(); })
        .reference([=](const Args& args) {
          return std::vector<Array>{extremes(args.array(0), args.ints(1), args.integer(2), largest)};
        })
        .error<IndexError>("", bad_dims)
        .error<IndexError>("", nothing_to_choose);
    op_case(largest ? op::max : op::min)
        .dtypes(ordered)
        .gradient()
        .samples(nan_everywhere)
        .samples([](Inputs& in) {
          for (const Inputs::Sizes& s : {Inputs::Sizes{}, {1}, {3, 4}, {70}}) in.add({in.tensor(s, -90, 90)});
          in.add({in.tensor({70000}, -90, 90)}).no_gradient();
        })
        .reference([=](const Args& args) { return std::vector<Array>{extremes(args.array(0), {}, false, largest)}; })
        .error<IndexError>("", [](Inputs& in) {
          in.add({in.tensor({2, 0})});
        });
    op_case(largest ? op::max_dim : op::min_dim)
        .dtypes(ordered)
        .gradient()
        .samples(one_dim)
        .reference([=](const Args& args) {
          const Array x = args.array(0);
          return std::vector<Array>{extremes(x, {args.integer(1)}, args.integer(2), largest),
                                    positions(x, {args.integer(1)}, args.integer(2), largest)};
        })
        .error<IndexError>("", [](Inputs& in) {
          in.add({in.tensor({2, 3}), 2});
          in.add({in.tensor({2, 0}), 1});
        });
    op_case(largest ? op::argmax : op::argmin)
        .dtypes(kReals)
        .samples(one_dim)
        .samples(nan_everywhere)
        .samples([](Inputs& in) {
          in.add({in.tensor({3, 50}, -90, 90)});
          in.add({in.tensor({3, 50}, -90, 90), Value(), true});
          in.add({in.tensor({40000}, -90, 90)});
        })
        .reference([=](const Args& args) {
          return std::vector<Array>{
              positions(args.array(0), args.is_none(1) ? std::vector<int64_t>() : std::vector<int64_t>{args.integer(1)},
                        args.integer(2), largest)};
        })
        .error<IndexError>("", [](Inputs& in) {
          in.add({in.tensor({2, 3}), 2});
          in.add({in.tensor({2, 0}), 1});
        });
    op_case(largest ? op::max_other : op::min_other)
        .dtypes(ordered)
        .gradient()
        .samples(binary_samples(-9, 9, -9, 9))
        .reference([=](const Args& args) {
          const Array a = args.array(0), b = args.array(1);
          const DType t = promoted({a, b});
          return std::vector<Array>{pointwise({a, b}, t, t, [=](const Number* v) {
            return v[extreme({v[0], v[1]}, largest)];
          })};
        });
    op_case(largest ? op::all : op::any)
        .dtypes(kAll)
        .reference(truth(largest))
        .samples(dims_samples(-1, 1, true))
        .samples([=](Inputs& in) {
          // One that differs, at every position.
          for (int64_t at = 0; at < 70; at += 3) {
            std::vector<double> v(70, largest ? 1 : 0);
            v[at] = largest ? 0 : 1;
            in.add({in.values(v)}).no_layouts().no_destinations();
          }
          if (in.is_floating()) in.add({in.values({kNan, 0})});
        })
        .error<IndexError>("", bad_dims);
  }

  op_case(op::sum_to_size)
      .dtypes(kFloats + kComplexes)
      .gradient()
      .samples([](Inputs& in) {
        in.add({in.tensor({3, 4}), ints({4})});
        in.add({in.tensor({3, 4}), ints({3, 1})});
        in.add({in.tensor({2, 3, 4}), ints({1, 1})});
        in.add({in.tensor({3, 4}), ints({})});
        in.add({in.tensor({3, 4}), ints({3, 4})});
      })
      .reference([](const Args& args) {
        const Array x = args.array(0);
        const std::vector<int64_t> to = args.ints(1);
        std::vector<int64_t> dims;
        for (int64_t d = 0; d < x.dim(); ++d) {
          const int64_t k = d - (x.dim() - static_cast<int64_t>(to.size()));
          if (k < 0 || (to[k] == 1 && x.sizes[d] != 1)) dims.push_back(d);
        }
        Array r = dims.empty() ? x : reduced(x, dims, true, x.dtype, total);
        r.sizes = to;
        return std::vector<Array>{r};
      })
      .error<ShapeError>("", [](Inputs& in) {
        in.add({in.tensor({3, 4}), ints({3})});
      });
}
