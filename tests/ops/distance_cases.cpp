// SPDX-License-Identifier: Apache-2.0
// Rows of ops/distance.h and ops/dropout.h. References are the definitions in float64.
#include <tenon/ops/distance.h>
#include <tenon/ops/dropout.h>

#include "tests/ops/loss_reference.h"

#include <cmath>
#include <limits>

using namespace tenon;
using namespace tenon::testing;

namespace {

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
