// SPDX-License-Identifier: Apache-2.0
// Rows of ops/vector_norm.h.
#include <tenon/ops/vector_norm.h>

#include "tests/support/op_case.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

using namespace tenon;
using namespace tenon::testing;

namespace {

const double kInfinity = std::numeric_limits<double>::infinity();
const Dtypes kFloatsAndComplexes = kFloats + kComplexes;

double norm_of(const std::vector<double>& v, double p) {
  long double sum = 0;
  double most = 0, least = kInfinity;
  bool nan = false;
  for (const double a : v) {
    nan = nan || std::isnan(a);
    most = std::max(most, a);
    least = std::min(least, a);
    if (p == 0)
      sum += a != 0;
    else if (!std::isinf(p))
      sum += std::pow(static_cast<long double>(a), static_cast<long double>(p));
  }
  if (nan && p != 0) return std::nan("");
  if (std::isinf(p)) return p > 0 ? most : least;
  return static_cast<double>(p == 0 ? sum : std::pow(sum, 1 / static_cast<long double>(p)));
}

/// f of the magnitudes of each result.
Array reduced_by(const Array& x, const std::vector<int64_t>& dims, bool keepdim, DType t,
                 const std::function<double(const std::vector<double>&)>& f) {
  return reduced(x, dims, keepdim, t, [&](const Elements& v, double& scale) {
    std::vector<double> sizes;
    for (const Number& e : v) sizes.push_back(std::abs(e.z));
    const double value = f(sizes);
    scale = std::isfinite(value) ? value * (1 + static_cast<double>(v.size()) / 8) : 0;
    return Number(value);
  });
}

void norm_samples(Inputs& in) {
  for (const double p : {2.0, 1.0, 0.0, 3.0, 1.5, 0.5, kInfinity, -kInfinity, -1.0}) {
    const Scalar ord(p);
    in.add({in.tensor({7}, 0.5, 4), ord}).gradient = p != 0;
    in.add({in.tensor({3, 4, 2}, -4, -0.5), ord, ints({1})}).gradient = p != 0;
    in.add({in.tensor({3, 4, 2}, 0.5, 4), ord, ints({0, -1}), true}).gradient = p != 0;
    in.add({in.tensor({}, 0.5, 4), ord}).gradient = p != 0;
    in.add({in.tensor({40, 300}), ord, ints({1})}).no_gradient();
    in.add({in.tensor({300, 40}), ord, ints({0})}).no_gradient();
    if (p >= 0 && !std::isinf(p)) in.add({in.tensor({3, 0}), ord, ints({1})}).no_gradient();
  }
  in.add({in.tensor({70000}), Scalar(2)}).no_gradient();
  if (in.dtype() == kFloat32) in.add({in.values({3e30, 4e30}), Scalar(2)}, {{"dtype", kFloat64}}).no_gradient();
}

Reference vector_norm(int p, int dim, int keepdim, int dtype) {
  return [=](const Args& args) {
    const Array x = args.array(0);
    const DType t = real_part(args.dtype(dtype, x.dtype));
    const double ord = args.is_none(p) ? 2 : args.real(p);
    return std::vector<Array>{
        reduced_by(x, args.ints(dim), args.integer(keepdim), t, [=](const auto& v) { return norm_of(v, ord); })};
  };
}
double squares(const std::vector<double>& v) { return norm_of(v, 2); }
Reference frobenius(int dim, int keepdim) {
  return [=](const Args& args) {
    const Array x = args.array(0);
    return std::vector<Array>{reduced_by(x, args.ints(dim), args.integer(keepdim), real_part(x.dtype), squares)};
  };
}

// Sums of magnitudes along one dimension, then the extreme along the other.
std::vector<Array> matrix_norm(const Array& x, double p, int64_t rows, int64_t columns, bool keepdim) {
  const DType t = real_part(x.dtype);
  const bool by_column = std::fabs(p) == 1;
  const Array sums = reduced_by(x, {by_column ? rows : columns}, true, t, [](const auto& v) { return norm_of(v, 1); });
  const double extreme = p > 0 ? kInfinity : -kInfinity;
  Array out =
      reduced_by(sums, {by_column ? columns : rows}, true, t, [=](const auto& v) { return norm_of(v, extreme); });
  if (!keepdim) {
    std::vector<int64_t> sizes;
    const auto wrap = [&](int64_t d) { return d < 0 ? d + x.dim() : d; };
    for (int64_t d = 0; d < x.dim(); ++d)
      if (d != wrap(rows) && d != wrap(columns)) sizes.push_back(out.sizes[static_cast<std::size_t>(d)]);
    out.sizes = sizes;
  }
  return {out};
}

// The two singular values along dims (rows, columns) of which one has size 2, or the only one; the larger first.
std::vector<Array> of_singular_values(const Array& x, int64_t rows, int64_t columns, bool keepdim,
                                      const std::function<double(double, double)>& f) {
  const auto wrap = [&](int64_t d) { return static_cast<std::size_t>(d < 0 ? d + x.dim() : d); };
  const std::size_t r = wrap(rows), c = wrap(columns), small = x.sizes[r] <= 2 ? r : c, large = small == r ? c : r;
  std::vector<int64_t> sizes = x.sizes, kept;
  sizes[r] = sizes[c] = 1;
  Array out = make_array(real_part(x.dtype), sizes);
  std::size_t next = 0;
  each_index(sizes, [&](std::vector<int64_t> at) {
    double gram[2] = {0, 0}, product = 0;  // the product of both squares, by Lagrange's identity
    Complex mixed = 0;
    std::vector<std::array<Complex, 2>> lines;
    for (at[large] = 0; at[large] < x.sizes[large]; ++at[large]) {
      std::array<Complex, 2> v = {0, 0};
      for (at[small] = 0; at[small] < x.sizes[small]; ++at[small])
        v[static_cast<std::size_t>(at[small])] = x.data[static_cast<std::size_t>(flat_index(at, x.sizes))].z;
      gram[0] += std::norm(v[0]), gram[1] += std::norm(v[1]);
      mixed += std::conj(v[0]) * v[1];
      for (const auto& other : lines) product += std::norm(v[0] * other[1] - v[1] * other[0]);
      lines.push_back(v);
    }
    const double middle = (gram[0] + gram[1]) / 2,
                 first = middle + std::hypot((gram[0] - gram[1]) / 2, std::abs(mixed));
    out.data[next++] = f(std::sqrt(first), x.sizes[small] == 1 ? std::sqrt(first) : std::sqrt(product / first));
  });
  for (std::size_t d = 0; d < sizes.size(); ++d)
    if (keepdim || (d != r && d != c)) kept.push_back(out.sizes[d]);
  out.sizes = kept;
  out.scale = {32};
  return {out};
}

void block(Inputs& in) { in.add({in.tensor({1024, 1024})}); }
void integers(Inputs& in) { in.add({in.tensor({2, 2})}); }

}  // namespace

TENON_OP_CASES(vector_norm) {
  op_case(op::linalg_vector_norm)
      .dtypes(kFloatsAndComplexes)
      .gradient()
      .ulp(16)
      .samples(norm_samples)
      .reference(vector_norm(1, 2, 3, 4))
      .benchmark(block)
      .error<DtypeError>("floating", integers, kInt64)
      .error<IndexError>("", [](Inputs& in) {
        in.add({in.tensor({2, 0}), Scalar(kInfinity)});
      });
  op_case(op::linalg_vector_norm, "at zero")
      .dtypes({kFloat64})
      .gradient(false)
      .samples([](Inputs& in) {
        in.add({in.values({0, 0, 0}), Scalar(2)}).no_gradient();
      })
      .reference(vector_norm(1, 2, 3, 4));
  op_case(op::norm)
      .dtypes(kFloatsAndComplexes)
      .gradient()
      .ulp(16)
      .samples(norm_samples)
      .reference(vector_norm(1, 2, 3, 4))
      .benchmark(block)
      .errors_name("linalg_vector_norm")
      .error<DtypeError>("floating", integers, kInt64);
  const Maker named = [](Inputs& in) {
    in.add({in.tensor({3, 4}), "fro"});
    in.add({in.tensor({3, 4}), "fro", ints({0, 1}), true});
  };
  op_case(op::norm_str)
      .dtypes(kFloatsAndComplexes)
      .gradient()
      .ulp(16)
      .samples(named)
      .reference(frobenius(2, 3))
      .errors_name("norm")
      .error<ValueError>("p", [](Inputs& in) {
        in.add({in.tensor({2}), "max"});
      });
  op_case(op::linalg_norm_str)
      .dtypes(kFloatsAndComplexes)
      .gradient()
      .ulp(16)
      .samples(named)
      .reference(frobenius(2, 3))
      .errors_name("linalg_norm")
      .error<ShapeError>("ord", [](Inputs& in) {
        in.add({in.tensor({2}), "fro"});
      });
  op_case(op::linalg_matrix_norm_str)
      .dtypes(kFloatsAndComplexes)
      .gradient()
      .ulp(16)
      .samples([](Inputs& in) {
        in.add({in.tensor({3, 4})}).layouts = true;
        in.add({in.tensor({2, 3, 4}), "fro", ints({0, 2}), true});
      })
      .reference([](const Args& args) {
        const Array x = args.array(0);
        return std::vector<Array>{reduced_by(x, args.ints(2), args.integer(3), real_part(x.dtype), squares)};
      })
      .errors_name("linalg_matrix_norm")
      .error<ValueError>("ord", [](Inputs& in) {
        in.add({in.tensor({2, 2}), "max"});
      });
  op_case(op::linalg_matrix_norm)
      .dtypes(Dtypes{kFloat64, kFloat32} + kComplexes)  // rounded to 16 bits, sums tie that do not
      .gradient()
      .ulp(16)
      .samples([](Inputs& in) {
        for (const double p : {1.0, -1.0, kInfinity, -kInfinity})
          for (const bool keep : {false, true}) {
            in.add({in.tensor({3, 4}, 0.5, 4), Scalar(p), ints({-2, -1}), keep});
            in.add({in.tensor({2, 3, 4}, 0.5, 4), Scalar(p), ints({2, 0}), keep});
          }
      })
      .reference([](const Args& args) {
        const std::vector<int64_t> dims = args.ints(2);
        return matrix_norm(args.array(0), args.real(1), dims[0], dims[1], args.integer(3));
      })
      .error<ValueError>("ord", [](Inputs& in) {
        in.add({in.tensor({2, 2}), Scalar(3)});
      });
  op_case(op::linalg_matrix_norm, "of singular values")
      .dtypes(Dtypes{kFloat64, kFloat32} + kComplexes)
      .gradient()
      .ulp(16)
      .samples([](Inputs& in) {
        for (const double p : {2.0, -2.0}) {
          in.add({in.tensor({2, 3}), Scalar(p)});
          in.add({in.tensor({2, 3, 2}), Scalar(p), ints({2, 1}), true});
          in.add({in.tensor({2, 2, 3}), Scalar(p), ints({0, -1})});
        }
      })
      .reference([](const Args& args) {
        const std::vector<int64_t> dims = args.ints(2);
        return of_singular_values(args.array(0), dims[0], dims[1], args.integer(3),
                                  [&](double most, double least) { return args.real(1) > 0 ? most : least; });
      })
      .error<ValueError>("dim",
                         [](Inputs& in) {
                           in.add({in.tensor({2, 2}), Scalar(2), ints({0, 0})});
                         })
      .error<ValueError>("dim", [](Inputs& in) {
        in.add({in.tensor({2, 2}), Scalar(2), ints({0})});
      });
  op_case(op::linalg_matrix_norm_str, "of singular values")
      .dtypes(Dtypes{kFloat64, kFloat32} + kComplexes)
      .gradient()
      .ulp(16)
      .samples([](Inputs& in) {
        in.add({in.tensor({3, 2}), "nuc"});
        in.add({in.tensor({2, 3, 2}), "nuc", ints({0, 1}), true});
        in.add({in.tensor({1, 3}), "nuc"});
      })
      .reference([](const Args& args) {
        const std::vector<int64_t> dims = args.ints(2);
        const bool one = args.array(0).sizes[0] == 1;
        return of_singular_values(args.array(0), dims[0], dims[1], args.integer(3),
                                  [=](double most, double least) { return most + (one ? 0 : least); });
      });
  op_case(op::norm_str, "of singular values")
      .dtypes(Dtypes{kFloat64, kFloat32} + kComplexes)
      .gradient()
      .ulp(16)
      .samples([](Inputs& in) {
        in.add({in.tensor({3, 2}), "nuc"});
        in.add({in.tensor({2, 2, 3}), "nuc", ints({1, 2})});
      })
      .reference([](const Args& args) {
        std::vector<int64_t> dims = args.ints(2);
        if (dims.empty()) dims = {0, 1};
        return of_singular_values(args.array(0), dims[0], dims[1], args.integer(3),
                                  [](double most, double least) { return most + least; });
      })
      .errors_name("norm")
      .error<ShapeError>("p", [](Inputs& in) {
        in.add({in.tensor({2}), "nuc"});
      });
  op_case(op::linalg_norm)
      .dtypes(Dtypes{kFloat64, kFloat32} + kComplexes)  // rounded to 16 bits, sums tie that do not
      .gradient()
      .ulp(16)
      .samples([](Inputs& in) {
        in.add({in.tensor({2, 3, 4})});
        in.add({in.tensor({5}, 0.5, 4), Scalar(3)});
        in.add({in.tensor({3, 4}, 0.5, 4), Scalar(1)});
        in.add({in.tensor({3, 4}, 0.5, 4), Scalar(1), ints({1}), true});
      })
      .reference([](const Args& args) {
        const Array x = args.array(0);
        const std::vector<int64_t> dims = args.ints(2);
        if (!args.is_none(1) && dims.empty() && x.dim() == 2)
          return matrix_norm(x, args.real(1), -2, -1, args.integer(3));
        const double p = args.is_none(1) ? 2 : args.real(1);
        return std::vector<Array>{
            reduced_by(x, dims, args.integer(3), real_part(x.dtype), [=](const auto& v) { return norm_of(v, p); })};
      })
      .error<ShapeError>("ord", [](Inputs& in) {
        in.add({in.tensor({2, 2, 2}), Scalar(1)});
      });

  op_case(op::dist)
      .dtypes(Dtypes{kFloat64, kFloat32} + kComplexes)  // rounded to 16 bits, sums tie that do not
      .gradient()
      .ulp(32)
      .samples([](Inputs& in) {
        for (const double p : {2.0, 1.0, 3.0, kInfinity}) {
          in.add({in.tensor({3, 4}, 1, 4), in.tensor({3, 4}, -4, 0), Scalar(p)});
          in.add({in.tensor({3, 1}, 1, 4), in.tensor({4}, -4, 0), Scalar(p)});
        }
      })
      .reference([](const Args& args) {
        const Array a = args.array(0), b = args.array(1);
        const Array d = pointwise({a, b}, a.dtype, a.dtype, [](const Number* v) -> Number { return v[0].z - v[1].z; });
        return std::vector<Array>{
            reduced_by(d, {}, false, real_part(a.dtype), [&](const auto& v) { return norm_of(v, args.real(2)); })};
      });
  op_case(op::renorm)
      .dtypes(kFloatsAndComplexes)
      .gradient()
      .ulp(32)
      .samples([](Inputs& in) {
        for (const double p : {1.0, 2.0, kInfinity}) {
          in.add({in.tensor({3, 4, 2}, 0.5, 4), Scalar(p), 1, Scalar(0.5)});
          in.add({in.tensor({3, 4}, 0.5, 4), Scalar(p), -1, Scalar(6)});
        }
      })
      .reference([](const Args& args) {
        const Array x = args.array(0);
        const int64_t dim = args.integer(2) < 0 ? args.integer(2) + x.dim() : args.integer(2);
        std::vector<int64_t> others;
        for (int64_t d = 0; d < x.dim(); ++d)
          if (d != dim) others.push_back(d);
        const Array sizes =
            reduced_by(x, others, true, kFloat64, [&](const auto& v) { return norm_of(v, args.real(1)); });
        return std::vector<Array>{pointwise({x, sizes}, DType::undefined, x.dtype, [&](const Number* v) -> Number {
          const double n = v[1].re(), most = args.real(3);
          return n > most ? v[0].z * (most / (n + 1e-7)) : v[0].z;
        })};
      })
      .error<ShapeError>("self",
                         [](Inputs& in) {
                           in.add({in.tensor({2}), Scalar(2), 0, Scalar(1)});
                         })
      .error<ValueError>("p", [](Inputs& in) {
        in.add({in.tensor({2, 2}), Scalar(0), 0, Scalar(1)});
      });
}
