// SPDX-License-Identifier: Apache-2.0
// Rows of ops/scan.h.
#include <tenon/ops/factory.h>
#include <tenon/ops/scan.h>

#include "tests/support/op_case.h"

#include <algorithm>
#include <cmath>
#include <limits>

using namespace tenon;
using namespace tenon::testing;

namespace {

const double kNaN = std::nan(""), kInfinity = std::numeric_limits<double>::infinity();
using Wide = std::complex<long double>;
Complex narrow(Wide z) { return {static_cast<double>(z.real()), static_cast<double>(z.imag())}; }

/// Calls f(line) with the flat indices of every line along dim, in order.
void each_line(const Array& x, int64_t dim, const std::function<void(const std::vector<int64_t>&)>& f) {
  if (x.sizes.empty()) return f({0});
  const std::size_t d = static_cast<std::size_t>(dim < 0 ? dim + x.dim() : dim);
  std::vector<int64_t> firsts = x.sizes;
  firsts[d] = x.sizes[d] > 0 ? 1 : 0;
  each_index(firsts, [&](std::vector<int64_t> at) {
    std::vector<int64_t> line;
    for (at[d] = 0; at[d] < x.sizes[d]; ++at[d]) line.push_back(flat_index(at, x.sizes));
    f(line);
  });
}
std::vector<int64_t> ordered(std::vector<int64_t> line, bool reverse) {
  if (reverse) std::reverse(line.begin(), line.end());
  return line;
}

Reference running(bool product) {
  return [=](const Args& args) {
    const Array raw = args.array(0);
    const DType t = args.dtype(2, is_integral(raw.dtype, true) ? kInt64 : raw.dtype);
    const Array x = cast(raw, t);
    Array out = make_array(t, x.sizes);
    out.scale.resize(x.data.size());
    each_line(x, args.integer(1), [&](const std::vector<int64_t>& line) {
      Wide z = product ? 1 : 0;
      uint64_t whole = product ? 1 : 0;
      double scale = 0, terms = 0;
      for (const int64_t i : ordered(line, args.integer(3))) {
        const Number& e = x.data[i];
        z = product ? z * Wide(e.z) : z + Wide(e.z);
        whole = product ? whole * static_cast<uint64_t>(e.i) : whole + static_cast<uint64_t>(e.i);
        scale = product ? std::abs(narrow(z)) : scale + std::abs(e.z);
        terms += 1;
        out.data[i] = is_integral(t) ? convert(Number(static_cast<int64_t>(whole)), kInt64, t) : Number(narrow(z));
        out.scale[i] = scale * (1 + terms / 8);
      }
    });
    return std::vector<Array>{out};
  };
}

std::vector<Array> logcumsumexp_reference(const Args& args) {
  const Array x = args.array(0);
  Array out = make_array(x.dtype, x.sizes);
  out.scale = {20 + static_cast<double>(x.data.size()) / 50};  // every fold rounds
  each_line(x, args.integer(1), [&](const std::vector<int64_t>& line) {
    Wide sum = 0;
    double most = -kInfinity;
    for (const int64_t i : line) most = std::max(most, x.data[i].z.real());
    const double shift = std::isfinite(most) ? most : 0;
    for (const int64_t i : ordered(line, args.integer(2))) {
      sum += std::exp(Wide(x.data[i].z) - Wide(shift));
      out.data[i] = is_complex(x.dtype) ? Number(narrow(std::log(sum) + Wide(shift)))
                                        : Number(static_cast<double>(std::log(sum.real()) + shift));
    }
  });
  return {out};
}

Reference extremes(bool largest) {
  return [=](const Args& args) {
    const Array x = args.array(0);
    Array values = make_array(x.dtype, x.sizes), indices = make_array(kInt64, x.sizes);
    each_line(x, args.integer(1), [&](const std::vector<int64_t>& line) {
      std::size_t best = 0;
      for (std::size_t k = 0; k < line.size(); ++k) {
        const Number &e = x.data[line[k]], &b = x.data[line[best]];
        const bool exact = is_integral(x.dtype, true);
        const bool wins = exact ? (largest ? e.i >= b.i : e.i <= b.i) : (largest ? e.re() >= b.re() : e.re() <= b.re());
        if (std::isnan(e.re()) || (wins && !std::isnan(b.re()))) best = k;
        values.data[line[k]] = x.data[line[best]];
        indices.data[line[k]] = Number(static_cast<int64_t>(best));
      }
    });
    return std::vector<Array>{values, indices};
  };
}

Maker lines(double low, double high) {
  return [=](Inputs& in) {
    in.add({in.tensor({}, low, high), 0});
    in.add({in.tensor({7}, low, high), 0});
    in.add({in.tensor({3, 4, 2}, low, high), 1});
    in.add({in.tensor({3, 4, 2}, low, high), 0});
    in.add({in.tensor({3, 4}, low, high), -1});
    in.add({in.tensor({3, 0, 2}, low, high), 1});
    in.add({in.tensor({0, 3}, low, high), 1});
  };
}
Maker long_lines(double low, double high) {
  return [=](Inputs& in) {
    in.add({in.tensor({2, 40000}, low, high), 1}).no_gradient().no_layouts();
    in.add({in.tensor({5000, 3}, low, high), 0}).no_gradient();
    in.add({in.tensor({130, 70}, low, high), 1}).no_gradient();
  };
}
void block(Inputs& in) { in.add({in.tensor({1024, 1024}, 0.9, 1.1), 1}); }
void bad_dim(Inputs& in) { in.add({in.tensor({2, 3}), 2}); }

// A tensor as an array with a dimension's first (last) element left out.
Array part(const Array& x, int64_t dim, int64_t from) {
  std::vector<int64_t> sizes = x.sizes;
  const auto d = static_cast<std::size_t>(dim < 0 ? dim + x.dim() : dim);
  sizes[d] -= 1;
  return pick(x, sizes, [=](std::vector<int64_t> at) {
    at[d] += from;
    return at;
  });
}
Array difference_of(const Array& x, int64_t dim) {
  return pointwise({part(x, dim, 1), part(x, dim, 0)}, x.dtype, x.dtype, [&](const Number* v) -> Number {
    if (x.dtype == kBool) return Number(v[0].i != v[1].i);
    if (is_integral(x.dtype)) return Number(v[0].i - v[1].i);
    return v[0].z - v[1].z;
  });
}

/// Trapezoids of y with a width for each (by index along dim), summed up to each of them.
Reference trapezoids(bool cumulative, bool positions) {
  return [=](const Args& args) {
    const Array y = args.array(0);
    const int64_t dim = args.integer(2);
    const DType t = is_integral(y.dtype) ? kFloat32 : y.dtype;
    const auto d = static_cast<std::size_t>(dim < 0 ? dim + y.dim() : dim);
    std::vector<int64_t> sizes = y.sizes;
    if (cumulative)
      sizes[d] -= 1;
    else
      sizes.erase(sizes.begin() + static_cast<std::ptrdiff_t>(d));
    Array out = make_array(t, sizes);
    std::size_t written = 0;
    std::vector<Number> last;
    each_line(y, dim, [&](const std::vector<int64_t>& line) {
      Complex sum = 0;
      for (std::size_t k = 0; k + 1 < line.size(); ++k) {
        const Complex width = positions ? args.array(1).data[k + 1].z - args.array(1).data[k].z : args.number(1).z;
        sum += (y.data[line[k]].z + y.data[line[k + 1]].z) * 0.5 * width;
        if (cumulative) {
          // Of the line's element k, in an array that is one shorter along dim.
          const int64_t inner =
              count(std::vector<int64_t>(y.sizes.begin() + static_cast<std::ptrdiff_t>(d) + 1, y.sizes.end()));
          const int64_t before = line[k] / inner / y.sizes[d], within = line[k] % inner;
          out.data[static_cast<std::size_t>((before * sizes[d] + static_cast<int64_t>(k)) * inner + within)] =
              Number(sum);
        }
      }
      if (!cumulative) out.data[written++] = Number(sum);
    });
    out.scale = {60};
    return std::vector<Array>{out};
  };
}

// The derivative at x[at] of the parabola through three points (Lagrange), or of the line through two.
Complex slope_at(const std::vector<double>& x, const std::vector<Complex>& y, std::size_t at) {
  Complex sum = 0;
  for (std::size_t j = 0; j < x.size(); ++j)
    for (std::size_t m = 0; m < x.size(); ++m) {
      if (m == j) continue;
      Complex term = y[j] / (x[j] - x[m]);
      for (std::size_t l = 0; l < x.size(); ++l)
        if (l != j && l != m) term *= (x[at] - x[l]) / (x[j] - x[l]);
      sum += term;
    }
  return sum;
}
std::vector<Array> gradient_reference(const Args& args) {
  const Array f = args.array(0);
  const bool list = args.value(1).kind() == Value::Kind::tensor_list;
  std::vector<int64_t> dims = args.ints(2);
  if (args.is_none(2))
    for (int64_t d = 0; d < f.dim(); ++d) dims.push_back(d);
  const auto order = static_cast<std::size_t>(args.integer(3));
  std::vector<Array> results;
  for (std::size_t k = 0; k < dims.size(); ++k) {
    const auto d = static_cast<std::size_t>(dims[k] < 0 ? dims[k] + f.dim() : dims[k]);
    const auto n = static_cast<std::size_t>(f.sizes[d]);
    std::vector<double> x(n);
    for (std::size_t i = 0; i < n; ++i) {
      if (!list) {
        x[i] = static_cast<double>(i) * (args.is_none(1) ? 1 : args.real(1));
      } else {
        const Array s = args.arrays(1)[k];
        x[i] = s.sizes.empty() ? static_cast<double>(i) * s.data[0].re() : s.data[i].re();
      }
    }
    Array out = make_array(is_integral(f.dtype) ? kFloat32 : f.dtype, f.sizes);
    out.scale = {200};
    each_line(f, static_cast<int64_t>(d), [&](const std::vector<int64_t>& line) {
      for (std::size_t i = 0; i < n; ++i) {
        const bool end = i == 0 || i + 1 == n;
        const std::size_t points = end ? order + 1 : 3;
        const std::size_t from = i == 0 ? 0 : i + 1 == n ? n - points : i - 1;
        std::vector<double> px(x.begin() + static_cast<std::ptrdiff_t>(from),
                               x.begin() + static_cast<std::ptrdiff_t>(from + points));
        std::vector<Complex> py;
        for (std::size_t j = 0; j < points; ++j) py.push_back(f.data[line[from + j]].z);
        out.data[line[i]] = Number(slope_at(px, py, i - from));
      }
    });
    results.push_back(out);
  }
  return results;
}
template <class Op>
OpCase& gradient_row(const Op& op, Maker samples) {
  return op_case(op)
      .dtypes(Dtypes{kFloat64, kFloat32} + kIntegers + kComplexes)  // 16-bit floats round at every step
      .gradient()
      .ulp(8)
      .no_out()
      .reference(gradient_reference)
      .samples(std::move(samples))
      .benchmark([](Inputs& in) {
        in.add({in.tensor({1024, 1024})});
      });
}

}  // namespace

TENON_OP_CASES(scan) {
  op_case(op::cumsum)
      .dtypes(kAll)
      .gradient()
      .reference(running(false))
      .benchmark(block)
      .samples(lines(-4, 4))
      .samples(long_lines(-1, 2))
      .samples([](Inputs& in) {
        in.add({in.tensor({3, 5}), 1}, {{"reverse", true}});
        in.add({in.tensor({5, 3}), 0}, {{"reverse", true}});
        in.add({in.values({200, 100, 56}), 0}).no_gradient();
        in.add({in.values(std::vector<double>(6000, 1)), 0}).no_gradient();  // a half sum would stop at 2,048
        if (!is_complex(in.dtype())) in.add({in.tensor({4}), 0}, {{"dtype", kFloat64}}).no_gradient().no_destinations();
        if (!is_complex(in.dtype())) in.add({in.tensor({4}), 0}, {{"dtype", kInt16}}).no_gradient().no_destinations();
      })
      .error<IndexError>("dim", bad_dim);
  op_case(op::cumprod)
      .dtypes(kAll)
      .gradient()
      .ulp(16)
      .reference(running(true))
      .benchmark(block)
      .samples(lines(0.5, 1.5))
      .samples(long_lines(0.9995, 1.0005))
      .samples([](Inputs& in) {
        in.add({in.tensor({3, 5}, 0.5, 1.5), 1}, {{"reverse", true}});
        in.add({in.values({2, 0, 3, 4}), 0});
        in.add({in.values({2, 0, 3, 0, 5, 0, 0, 1}, {2, 4}), 1});
        in.add({in.values({2, 0, 3, 0, 5, 0, 0, 1}, {4, 2}), 0}, {{"reverse", true}});
      })
      .error<IndexError>("dim", bad_dim);
  op_case(op::logcumsumexp)
      .dtypes(kFloats + kComplexes)
      .gradient()
      .ulp(8)
      .reference(logcumsumexp_reference)
      .benchmark(block)
      .samples([](Inputs& in) {
        const double high = is_complex(in.dtype()) ? 1 : 9;
        lines(-high, high)(in);
        in.add({in.tensor({3, 5}, -high, high), 1}, {{"reverse", true}});
        if (is_complex(in.dtype())) return;
        long_lines(-9, 9)(in);
        in.add({in.values({1000, 999, 1001, -1000}), 0}).no_gradient();
        in.add({in.values({-kInfinity, -kInfinity, 0, 1}), 0}).no_gradient();
      })
      .error<IndexError>("dim", bad_dim)
      .error<DtypeError>(
          "self",
          [](Inputs& in) {
            in.add({in.tensor({2}), 0});
          },
          kInt64);
  op_case(op::scaled_cumsum)
      .dtypes({kFloat64, kFloat32})
      .gradient()
      .ulp(64)
      .reference([](const Args& args) {
        const Array w = args.array(0), up = args.array(1), down = args.array(2);
        Array out = make_array(w.dtype, w.sizes);
        out.scale.resize(w.data.size());
        each_line(w, args.integer(3), [&](const std::vector<int64_t>& line) {
          const std::vector<int64_t> order = ordered(line, args.integer(4));
          for (std::size_t k = 0; k < order.size(); ++k) {
            long double sum = 0, size = 0;
            for (std::size_t j = 0; j <= k; ++j) {
              const long double term =
                  w.data[order[j]].re() *
                  std::exp(static_cast<long double>(up.data[order[j]].re()) - down.data[order[k]].re());
              sum += term, size += std::abs(term);
            }
            out.data[order[k]] = Number(static_cast<double>(sum));
            out.scale[order[k]] = static_cast<double>(size);
          }
        });
        return std::vector<Array>{out};
      })
      .samples([](Inputs& in) {
        in.add({in.tensor({3, 5}), in.tensor({3, 5}), in.tensor({3, 5}), 1});
        in.add({in.tensor({5, 3}), in.tensor({5, 3}), in.tensor({5, 3}), 0}, {{"reverse", true}});
        in.add({in.tensor({3, 0}), in.tensor({3, 0}), in.tensor({3, 0}), 1});
      });
  for (const bool largest : {true, false})
    op_case(largest ? op::cummax : op::cummin)
        .dtypes(kReals + Dtypes{kBool})
        .gradient()
        .reference(extremes(largest))
        .benchmark(block)
        .samples(lines(-90, 90))
        .samples(long_lines(-90, 90))
        .samples([](Inputs& in) {
          in.add({in.values({1, 3, 3, 2, 3, 0}), 0}).no_gradient();  // ties: the last
          in.add({in.special(3), 0}).no_gradient();
          if (in.is_floating()) in.add({in.values({1, 3, kNaN, 5, kNaN, 4}), 0}).no_gradient();
        })
        .error<IndexError>("dim", bad_dim)
        .error<DtypeError>(
            "self",
            [](Inputs& in) {
              in.add({in.tensor({2}), 0});
            },
            kComplex64);

  op_case(op::diff)
      .dtypes(Dtypes{kFloat64, kFloat32} + kIntegers + kComplexes + Dtypes{kBool})
      .gradient()
      .benchmark([](Inputs& in) {
        in.add({in.tensor({1024, 1024})});
      })
      .samples([](Inputs& in) {
        in.add({in.tensor({7})});
        in.add({in.tensor({3, 4}), 1, 0});
        in.add({in.tensor({3, 4}), 2, -1});
        in.add({in.tensor({3, 4}), 5, 1});
        in.add({in.tensor({3, 4}), 0, 1}).no_destinations();
      })
      .reference([](const Args& args) {
        Array x = args.array(0);
        const int64_t dim = args.integer(2);
        for (int64_t i = 0; i < args.integer(1) && x.sizes[static_cast<std::size_t>(dim < 0 ? dim + x.dim() : dim)] > 0;
             ++i)
          x = difference_of(x, dim);
        x.scale = {60};
        return std::vector<Array>{x};
      })
      .error<ValueError>("n",
                         [](Inputs& in) {
                           in.add({in.tensor({2}), -1});
                         })
      .error<ShapeError>("self", [](Inputs& in) { in.add({in.tensor({})}); });
  // Composites of several roundings: the 16-bit floats would need other bounds.
  const Dtypes numeric = Dtypes{kFloat64, kFloat32} + kIntegers + kComplexes;
  op_case(op::trapezoid_dx)
      .dtypes(numeric)
      .gradient()
      .ulp(8)
      .reference(trapezoids(false, false))
      .samples([](Inputs& in) {
        in.add({in.tensor({5})});
        in.add({in.tensor({3, 4})}, {{"dx", 2.5}, {"dim", 0}});
        in.add({in.tensor({3, 1})}, {{"dim", 1}});
      })
      .error<DtypeError>("bool", [](Inputs& in) { in.add({in.boolean({3})}); });
  op_case(op::cumulative_trapezoid_dx)
      .dtypes(numeric)
      .gradient()
      .ulp(8)
      .reference(trapezoids(true, false))
      .samples([](Inputs& in) {
        in.add({in.tensor({5})});
        in.add({in.tensor({3, 4, 2})}, {{"dx", 2.5}, {"dim", 1}});
      })
      .error<DtypeError>("bool", [](Inputs& in) { in.add({in.boolean({3})}); });
  const Maker with_positions = [](Inputs& in) {
    in.add({in.tensor({5}), in.values({0, 1, 3, 4, 9})});
    in.add({in.tensor({4, 3}), in.values({0, 1, 3, 4})}, {{"dim", 0}});
  };
  op_case(op::trapezoid)
      .dtypes(Dtypes{kFloat64, kFloat32} + kComplexes)
      .gradient()
      .ulp(8)
      .reference(trapezoids(false, true))
      .samples(with_positions)
      .error<ShapeError>("x", [](Inputs& in) {
        in.add({in.tensor({5}), in.tensor({4})});
      });
  op_case(op::cumulative_trapezoid)
      .dtypes(Dtypes{kFloat64, kFloat32} + kComplexes)
      .gradient()
      .ulp(8)
      .reference(trapezoids(true, true))
      .samples(with_positions)
      .error<ShapeError>("x", [](Inputs& in) {
        in.add({in.tensor({5}), in.tensor({4})});
      });
  gradient_row(op::gradient,
               [](Inputs& in) {
                 in.add({in.tensor({7})});
                 in.add({in.tensor({2, 3})});
                 in.add({in.tensor({3, 4, 5})}, {{"spacing", 2.5}, {"dim", ints({0, -1})}, {"edge_order", 2}});
                 in.add({in.tensor({3, 4})}, {{"spacing", -2}, {"dim", 1}});
                 in.add({in.tensor({0, 4})}, {{"dim", 1}, {"edge_order", 2}});
               })
      .error<ShapeError>("edge_order",
                         [](Inputs& in) {
                           in.add({in.tensor({2, 2})}, {{"edge_order", 2}});
                         })
      .error<ValueError>("edge_order",
                         [](Inputs& in) {
                           in.add({in.tensor({4})}, {{"edge_order", 3}});
                         })
      .error<ValueError>("twice",
                         [](Inputs& in) {
                           in.add({in.tensor({4, 4})}, {{"dim", ints({1, -1})}});
                         })
      .error<IndexError>("dim",
                         [](Inputs& in) {
                           in.add({in.tensor({3, 3})}, {{"dim", 3}});
                         })
      .error<DtypeError>("self", [](Inputs& in) { in.add({in.boolean({4})}); });
  const auto list = [](std::vector<Tensor> l) { return Value(std::move(l)); };
  gradient_row(
      op::gradient_spacing,
      [=](Inputs& in) {
        const DType t = is_integral(in.dtype()) ? kFloat32 : real_of(in.dtype());
        const auto at = [&](std::vector<double> v) { return in.values(v, {-1}, t); };
        const Tensor two = scalar_tensor(2.0, kFloat64), three = scalar_tensor(3);
        in.add({in.tensor({3, 4})}, {{"spacing", list({two, three})}, {"edge_order", 2}});
        // Positions that are expanded would be equal ones.
        in.add({in.tensor({5, 4})}, {{"spacing", list({at({0, 1, 3, 4, 8}), at({5, 4, 2, 1})})}, {"edge_order", 2}})
            .no_layouts();
        in.add({in.tensor({3, 4})}, {{"spacing", list({at({-3, 1, 1.5})})}, {"dim", 0}}).no_layouts();
        in.add({in.tensor({3, 5})}, {{"spacing", list({in.integers({0, 2, 3, 7, 8}), three})}, {"dim", ints({1, 0})}})
            .no_layouts();
      })
      .error<ValueError>("spacing",
                         [=](Inputs& in) {
                           in.add({in.tensor({4, 4})}, {{"spacing", list({in.tensor({})})}});
                         })
      .error<ShapeError>("spacing",
                         [=](Inputs& in) {
                           in.add({in.tensor({4})}, {{"spacing", list({in.tensor({4, 1})})}});
                         })
      .error<ShapeError>("x", [=](Inputs& in) {
        in.add({in.tensor({4})}, {{"spacing", list({in.tensor({3})})}});
      });
}
