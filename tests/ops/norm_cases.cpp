// SPDX-License-Identifier: Apache-2.0
// Rows of ops/batch_norm.h and of rms_norm and normalize in ops/norm.h. The reference is one: elements belong to a
// normalisation and have a weight; everything is summed in float64.
#include <tenon/ops/batch_norm.h>
#include <tenon/ops/norm.h>

#include "tests/support/op_case.h"

#include <cmath>

using namespace tenon;
using namespace tenon::testing;

namespace {

using Sizes = std::vector<int64_t>;

struct Places {
  std::vector<int64_t> group, weight;  // of each element
  int64_t groups = 0, weights = 0;
  Sizes statistics, parameters;
  bool centred = true;
};
Places by_channel(const Array& x, bool instance = false) {
  Places p;
  p.weights = x.sizes[1], p.groups = instance ? x.sizes[0] * x.sizes[1] : x.sizes[1];
  p.statistics = p.parameters = {p.weights};
  const int64_t inner = count(Sizes(x.sizes.begin() + 2, x.sizes.end()));
  for (int64_t i = 0; i < x.numel(); ++i) {
    p.weight.push_back(i / inner % p.weights);
    p.group.push_back(instance ? i / inner : p.weight.back());
  }
  return p;
}
Places by_group(const Array& x, int64_t n, int64_t channels, int64_t groups) {
  Places p;
  p.weights = channels, p.groups = n * groups;
  p.statistics = {n, groups}, p.parameters = {channels};
  const int64_t inner = n * channels == 0 ? 1 : x.numel() / (n * channels);
  for (int64_t i = 0; i < x.numel(); ++i) {
    p.weight.push_back(i / inner % channels);
    p.group.push_back(i / inner / (channels / groups));
  }
  return p;
}
Places by_row(const Array& x, const Sizes& shape) {
  Places p;
  p.parameters = shape, p.weights = count(shape), p.groups = count(x.sizes) / p.weights, p.centred = false;
  for (std::size_t d = 0; d < x.sizes.size(); ++d)
    p.statistics.push_back(d + shape.size() < x.sizes.size() ? x.sizes[d] : 1);
  for (int64_t i = 0; i < x.numel(); ++i) p.group.push_back(i / p.weights), p.weight.push_back(i % p.weights);
  return p;
}
DType wide_of(DType t) { return is_half(t) ? kFloat32 : t; }
double at(const Array& a, int64_t i, double otherwise) { return a.defined() ? a.data[i].re() : otherwise; }

struct Statistics {
  std::vector<double> mean, rstd, variance;
  int64_t count = 0;
};
Statistics statistics_of(const Array& x, const Places& p, double eps) {
  Statistics s{std::vector<double>(p.groups, 0.), std::vector<double>(p.groups, 0.), std::vector<double>(p.groups, 0.),
               0};
  if (p.groups == 0 || x.numel() == 0) return s;
  s.count = x.numel() / p.groups;
  for (int64_t i = 0; i < x.numel() && p.centred; ++i)
    s.mean[p.group[i]] += x.data[i].re() / static_cast<double>(s.count);
  for (int64_t i = 0; i < x.numel(); ++i) {
    const double d = x.data[i].re() - s.mean[p.group[i]];
    s.variance[p.group[i]] += d * d / static_cast<double>(s.count);
  }
  for (int64_t g = 0; g < p.groups; ++g) s.rstd[g] = 1 / std::sqrt(s.variance[g] + eps);
  return s;
}
Array normalized(const Array& x, const Places& p, const Statistics& s, const Array& weight, const Array& bias) {
  Array out = make_array(x.dtype, x.sizes);
  double most = 1;
  for (int64_t i = 0; i < x.numel(); ++i) {
    const double hat = (x.data[i].re() - s.mean[p.group[i]]) * s.rstd[p.group[i]], w = at(weight, p.weight[i], 1);
    out.data[i] = hat * w + at(bias, p.weight[i], 0);
    most = std::max({most, std::fabs(hat * w), std::fabs(x.data[i].re() * s.rstd[p.group[i]] * w)});
  }
  // Long sums, the reference's too, lose digits.
  out.scale = {(most + 4) * (1 + static_cast<double>(s.count) / 1000)};
  return out;
}
Array vector_of(const std::vector<double>& v, DType t, Sizes sizes) {
  Array a = make_array(t, std::move(sizes));
  for (std::size_t i = 0; i < a.data.size(); ++i) a.data[i] = v[i];
  // 1 / sqrt(variance) is as inexact as the distances from the mean are: by the inputs' size times its square.
  double most = 1;
  for (const Number& n : a.data)
    if (std::isfinite(n.re())) most = std::max(most, n.re() * n.re());
  a.scale = {16 * most};
  return a;
}
// grad_input, grad_weight, grad_bias.
std::vector<Array> gradients(const Array& g, const Array& x, const Places& p, const Array& mean, const Array& rstd,
                             const Array& weight, bool follow) {
  const DType wide = wide_of(x.dtype);
  std::vector<double> dw(p.weights, 0.), db(p.weights, 0.), sum(p.groups, 0.), product(p.groups, 0.);
  const double n = p.groups == 0 ? 1 : static_cast<double>(x.numel() / p.groups);
  const auto hat = [&](int64_t i) { return (x.data[i].re() - at(mean, p.group[i], 0)) * rstd.data[p.group[i]].re(); };
  double most = 4;
  for (int64_t i = 0; i < x.numel(); ++i) {
    const double v = g.data[i].re() * at(weight, p.weight[i], 1);
    dw[p.weight[i]] += g.data[i].re() * hat(i), db[p.weight[i]] += g.data[i].re();
    sum[p.group[i]] += v / n, product[p.group[i]] += v * hat(i) / n;
    most = std::max(most, std::fabs(v) * (1 + hat(i) * hat(i)) * rstd.data[p.group[i]].re());
  }
  Array dx = make_array(x.dtype, x.sizes);
  for (int64_t i = 0; i < x.numel(); ++i) {
    double v = g.data[i].re() * at(weight, p.weight[i], 1);
    if (follow) v -= (p.centred ? sum[p.group[i]] : 0) + hat(i) * product[p.group[i]];
    dx.data[i] = v * rstd.data[p.group[i]].re();
  }
  dx.scale = {most * 2};
  std::vector<Array> out = {dx, vector_of(dw, wide, p.parameters), vector_of(db, wide, p.parameters)};
  for (int k : {1, 2}) out[k].scale = {most * (4 + n)};
  return out;
}

const Tensor kNone;
// Shapes that meet both layouts of the kernels, pieces and parts of vectors.
const std::vector<Sizes> kShapes = {{2, 3, 4}, {3, 2, 3, 5}, {6, 4}, {1, 2, 3}, {2, 2, 2, 2, 3}};
const std::vector<Sizes> kLongShapes = {{300, 20}, {3, 2, 70, 70}, {2, 1, 9000}};

// The arguments of batch norm from `given` on: weight, bias, running_mean, running_var, in the order of the operator.
void batch_samples(Inputs& in,
                   const std::function<void(Tensor x, Tensor w, Tensor b, Tensor m, Tensor v, bool gradient)>& add) {
  for (const Sizes& s : kShapes) {
    const Sizes c = {s[1]};
    add(in.tensor(s), in.tensor(c), in.tensor(c), in.tensor(c, -1, 1), in.tensor(c, 0.5, 2), true);
    add(in.tensor(s), kNone, kNone, in.tensor(c, -1, 1), in.tensor(c, 0.5, 2), true);
  }
  for (const Sizes& s : kLongShapes) {
    const Sizes c = {s[1]};
    add(in.tensor(s, 6, 10), in.tensor(c), in.tensor(c), in.tensor(c, -1, 1), in.tensor(c, 0.5, 2), false);
  }
  add(in.tensor({0, 3, 2}), in.tensor({3}), in.tensor({3}), in.tensor({3}), in.tensor({3}, 0.5, 2), false);
  if (is_half(in.dtype()))
    add(in.tensor({4, 3, 5}), in.tensor({3}, -2, 2, kFloat32), in.tensor({3}, -2, 2, kFloat32),
        in.tensor({3}, -1, 1, kFloat32), in.tensor({3}, 0.5, 2, kFloat32), false);
}
Statistics given(const Array& mean, const Array& variance, double eps) {
  Statistics s;
  for (const Number& v : mean.data) s.mean.push_back(v.re());
  for (const Number& v : variance.data) s.rstd.push_back(1 / std::sqrt(v.re() + eps));
  return s;
}
// Results of the native forms: statistics in the dtype of the weights, empty unless training.
Reference native_reference(bool always, bool stats, bool update) {
  return [=](const Args& a) {
    const int last = stats ? 5 : 3;
    const bool training = always || a.integer(last) != 0;
    const double eps = a.real(static_cast<int>(a.size()) - 1);
    const Array x = a.array(0), w = a.array(1), b = a.array(2);
    const Places p = by_channel(x);
    const Statistics s = training ? statistics_of(x, p, eps) : given(a.array(3), a.array(4), eps);
    const DType t = w.defined() ? w.dtype : x.dtype;
    std::vector<Array> out = {normalized(x, p, s, w, b), make_array(t, {0}), make_array(t, {0})};
    if (training) out[1] = vector_of(s.mean, t, p.statistics), out[2] = vector_of(s.rstd, t, p.statistics);
    if (update) out.push_back(make_array(kUInt8, {0}));
    return out;
  };
}
void channels_error(OpCase& row) {
  row.error<ShapeError>("weight", [](Inputs& in) {
    in.add({in.tensor({2, 3}), in.tensor({2}), kNone, in.tensor({3}), in.tensor({3}), true, 0.1, 1e-5});
  });
}

}  // namespace

TENON_OP_CASES(batch_norm) {
  op_case(op::batch_norm)
      .dtypes(kFloats)
      .gradient()
      .gradient_of(0b11001)
      .ulp(16)
      .samples([](Inputs& in) {
        batch_samples(in, [&](Tensor x, Tensor w, Tensor b, Tensor m, Tensor v, bool gradient) {
          in.add({x, m, v, w, b}).gradient = gradient;
          in.add({x, m, v, w, b, true, 0.3, 1e-3}).no_layouts().gradient = gradient;  // written: not expanded
          in.add({x, kNone, kNone, w, b, true}).gradient = gradient;
        });
      })
      .reference([](const Args& a) {
        const Array x = a.array(0);
        const Places p = by_channel(x);
        const Statistics s = a.integer(5) ? statistics_of(x, p, a.real(7)) : given(a.array(1), a.array(2), a.real(7));
        return std::vector<Array>{normalized(x, p, s, a.array(3), a.array(4))};
      })
      .benchmark([](Inputs& in) {
        in.add({in.tensor({32, 64, 56, 56}), in.tensor({64}), in.tensor({64}, 0.5, 1), in.tensor({64}), in.tensor({64}),
                true});
      })
      .error<ValueError>("running_mean",
                         [](Inputs& in) {
                           in.add({in.tensor({2, 3}), kNone, kNone});
                         })
      .error<ValueError>("input",
                         [](Inputs& in) {
                           in.add({in.tensor({1, 3}), kNone, kNone, kNone, kNone, true});
                         })
      .error<ShapeError>("running_mean",
                         [](Inputs& in) {
                           in.add({in.tensor({2, 3}), in.tensor({2}), in.tensor({3})});
                         })
      .error<ShapeError>("input",
                         [](Inputs& in) {
                           in.add({in.tensor({3}), in.tensor({3}), in.tensor({3})});
                         })
      .error<DtypeError>(
          "input",
          [](Inputs& in) {
            in.add({in.tensor({2, 3}), kNone, kNone, kNone, kNone, true});
          },
          kInt64);
  const auto native = [](const auto& handle, bool legit, bool stats) {
    OpCase& row = op_case(handle)
                      .dtypes(kFloats)
                      .gradient()
                      .gradient_of(7, legit ? 1 : 3)
                      .ulp(16)
                      .reference(native_reference(false, stats, false));
    row.samples([=](Inputs& in) {
      batch_samples(in, [&](Tensor x, Tensor w, Tensor b, Tensor m, Tensor v, bool gradient) {
        if (!stats) return void(in.add({x, w, b, true, 0.1, 1e-5}).gradient = gradient);
        in.add({x, w, b, m, v, true, 0.1, 1e-5}).no_layouts().gradient = gradient;  // written: not expanded
        in.add({x, w, b, kNone, kNone, true, 0.1, 1e-5}).no_gradient();
        in.add({x, w, b, m, v, false, 0.1, 1e-3}).no_gradient();
      });
    });
    if (stats) channels_error(row);
  };
  native(op::native_batch_norm, false, true);
  native(op::native_batch_norm_legit, true, true);
  native(op::native_batch_norm_no_stats, true, false);
  op_case(op::batch_norm_with_update)
      .dtypes(kFloats)
      .gradient()
      .gradient_of(7, 1)
      .ulp(16)
      .reference(native_reference(true, true, true))
      .samples([](Inputs& in) {
        batch_samples(in, [&](Tensor x, Tensor w, Tensor b, Tensor m, Tensor v, bool gradient) {
          in.add({x, w, b, m, v, 0.1, 1e-5}).no_layouts().gradient = gradient;
        });
      });
  op_case(op::batch_norm_train)
      .dtypes(kFloats)
      .gradient()
      .gradient_of(7)
      .ulp(16)
      .reference([](const Args& a) {
        const Array x = a.array(0);
        const Places p = by_channel(x);
        const Statistics s = statistics_of(x, p, a.real(6));
        return std::vector<Array>{normalized(x, p, s, a.array(1), a.array(2)),
                                  vector_of(s.mean, wide_of(x.dtype), p.statistics),
                                  vector_of(s.rstd, wide_of(x.dtype), p.statistics)};
      })
      .samples([](Inputs& in) {
        batch_samples(in, [&](Tensor x, Tensor w, Tensor b, Tensor, Tensor, bool gradient) {
          in.add({x, w, b, kNone, kNone, 0.1, 1e-5}).gradient = gradient;
        });
      })
      .errors_name("batch_norm")
      .error<ShapeError>("input", [](Inputs& in) {
        in.add({in.tensor({3}), kNone, kNone, kNone, kNone, 0.1, 1e-5});
      });
  op_case(op::batch_norm_apply)
      .dtypes(kFloats)
      .gradient()
      .ulp(16)
      .reference([](const Args& a) {
        const Array x = a.array(0);
        Statistics s;
        for (const Number& v : a.array(3).data) s.mean.push_back(v.re());
        for (const Number& v : a.array(4).data) s.rstd.push_back(v.re());
        return std::vector<Array>{normalized(x, by_channel(x), s, a.array(1), a.array(2))};
      })
      .samples([](Inputs& in) {
        batch_samples(in, [&](Tensor x, Tensor w, Tensor b, Tensor m, Tensor v, bool gradient) {
          in.add({x, w, b, m, v}).gradient = gradient;
        });
      });
  op_case(op::batch_norm_backward)
      .dtypes(kFloats)
      .gradient()
      .ulp(32)
      .reference([](const Args& a) {
        const Array x = a.array(1);
        std::vector<Array> out =
            gradients(a.array(0), x, by_channel(x), a.array(3), a.array(4), a.array(2), a.integer(5) != 0);
        return out;
      })
      .samples([](Inputs& in) {
        batch_samples(in, [&](Tensor x, Tensor w, Tensor, Tensor m, Tensor v, bool gradient) {
          for (const bool train : {true, false})
            in.add({in.tensor(x.sizes().vec()), x, w, m, v, train}).gradient = gradient;
        });
      })
      .error<ShapeError>("grad_output", [](Inputs& in) {
        in.add({in.tensor({2, 3}), in.tensor({2, 4}), kNone, in.tensor({4}), in.tensor({4}), true});
      });
  op_case(op::native_batch_norm_backward)
      .dtypes({kFloat64, kFloat32})
      .ulp(32)
      .gradient()
      .gradient_of(7, 1)
      .reference([](const Args& a) {
        const Array x = a.array(1);
        Array mean = a.array(5), rstd = a.array(6);
        if (!a.integer(7)) {
          mean = a.array(3), rstd = a.array(4);
          for (Number& v : rstd.data) v = 1 / std::sqrt(v.re() + a.real(8));
        }
        return gradients(a.array(0), x, by_channel(x), mean, rstd, a.array(2), a.integer(7) != 0);
      })
      .samples([](Inputs& in) {
        const Sizes s = {4, 3, 5}, c = {3};
        in.add({in.tensor(s), in.tensor(s), in.tensor(c), kNone, kNone, in.tensor(c, -1, 1), in.tensor(c, 0.5, 2), true,
                1e-5});
        in.add(
            {in.tensor(s), in.tensor(s), in.tensor(c), in.tensor(c), in.tensor(c, 0.5, 2), kNone, kNone, false, 1e-3});
      })
      .error<ValueError>("save_mean", [](Inputs& in) {
        in.add({in.tensor({2, 3}), in.tensor({2, 3}), kNone, kNone, kNone, kNone, kNone, true, 1e-5});
      });
  op_case(op::instance_norm)
      .dtypes(kFloats)
      .gradient()
      .gradient_of(0b11001)
      .ulp(16)
      .reference([](const Args& a) {
        const Array x = a.array(0);
        const Places p = by_channel(x, true);
        Statistics s = statistics_of(x, p, a.real(7));
        if (!a.integer(5)) {
          const Statistics running = given(a.array(1), a.array(2), a.real(7));
          for (int64_t g = 0; g < p.groups; ++g)
            s.mean[g] = running.mean[g % p.weights], s.rstd[g] = running.rstd[g % p.weights];
        }
        return std::vector<Array>{normalized(x, p, s, a.array(3), a.array(4))};
      })
      .samples([](Inputs& in) {
        for (const Sizes& s : {Sizes{2, 3, 4}, {3, 2, 3, 5}}) {
          const Sizes c = {s[1]};
          in.add({in.tensor(s)});
          in.add({in.tensor(s), in.tensor(c), in.tensor(c, 0.5, 2), in.tensor(c), in.tensor(c), true, 0.1, 1e-3})
              .no_layouts();
          in.add({in.tensor(s), kNone, kNone, in.tensor(c), in.tensor(c), true, 0.1, 1e-3});
          in.add({in.tensor(s), in.tensor(c), in.tensor(c, 0.5, 2), in.tensor(c), kNone, false});
        }
      })
      .error<ValueError>("input",
                         [](Inputs& in) {
                           in.add({in.tensor({2, 3, 1})});
                         })
      .error<ValueError>("running_mean", [](Inputs& in) {
        in.add({in.tensor({2, 3, 4}), kNone, kNone, kNone, kNone, false});
      });
  op_case(op::group_norm)
      .dtypes(kFloats)
      .gradient()
      .gradient_of(0b1101)
      .ulp(16)
      .reference([](const Args& a) {
        const Array x = a.array(0);
        const Places p = by_group(x, x.sizes[0], x.sizes[1], a.integer(1));
        return std::vector<Array>{normalized(x, p, statistics_of(x, p, a.real(4)), a.array(2), a.array(3))};
      })
      .samples([](Inputs& in) {
        in.add({in.tensor({2, 6, 3}), 2, in.tensor({6}), in.tensor({6}), 0.5});
        in.add({in.tensor({3, 4, 2, 3}), 4});
        in.add({in.tensor({3, 4}), 2, in.tensor({4}), kNone});
        in.add({in.tensor({2, 4, 5}), 1, kNone, in.tensor({4})});
        in.add({in.tensor({0, 4, 2}), 2, in.tensor({4}), in.tensor({4})}).no_gradient();
        in.add({in.tensor({3, 32, 40, 40}, 6, 10), 4, in.tensor({32}), in.tensor({32})}).no_gradient();
        if (is_half(in.dtype()))
          in.add({in.tensor({2, 4, 5}), 2, in.tensor({4}, -1, 1, kFloat32), kNone}).no_gradient();
      })
      .benchmark([](Inputs& in) {
        in.add({in.tensor({32, 64, 56, 56}), 32, in.tensor({64}), in.tensor({64})});
      })
      .error<ValueError>("num_groups",
                         [](Inputs& in) {
                           in.add({in.tensor({2, 7, 4}), 2});
                         })
      .error<ValueError>("input",
                         [](Inputs& in) {
                           in.add({in.tensor({1, 6, 1}), 6});
                         })
      .error<ShapeError>("weight", [](Inputs& in) {
        in.add({in.tensor({2, 6, 4}), 2, in.tensor({3})});
      });
  op_case(op::native_group_norm)
      .dtypes(kFloats)
      .gradient()
      .ulp(16)
      .reference([](const Args& a) {
        const Array x = a.array(0);
        const Places p = by_group(x, a.integer(3), a.integer(4), a.integer(6));
        const Statistics s = statistics_of(x, p, a.real(7));
        return std::vector<Array>{normalized(x, p, s, a.array(1), a.array(2)),
                                  vector_of(s.mean, wide_of(x.dtype), p.statistics),
                                  vector_of(s.rstd, wide_of(x.dtype), p.statistics)};
      })
      .samples([](Inputs& in) {
        in.add({in.tensor({2, 6, 3}), in.tensor({6}), in.tensor({6}), 2, 6, 3, 2, 0.5});
        in.add({in.tensor({3, 4, 2, 3}), kNone, kNone, 3, 4, 6, 4, 1e-5});
      })
      .errors_name("group_norm")
      .error<ShapeError>("input", [](Inputs& in) {
        in.add({in.tensor({2, 6, 3}), kNone, kNone, 2, 6, 4, 2, 0.5});
      });
  op_case(op::native_group_norm_backward)
      .dtypes(kFloats)
      .gradient()
      .ulp(32)
      .reference([](const Args& a) {
        const Array x = a.array(1);
        return gradients(a.array(0), x, by_group(x, a.integer(5), a.integer(6), a.integer(8)), a.array(2), a.array(3),
                         a.array(4), true);
      })
      .samples([](Inputs& in) {
        in.add({in.tensor({2, 6, 3}), in.tensor({2, 6, 3}), in.tensor({2, 2}, -1, 1), in.tensor({2, 2}, 0.3, 0.6),
                in.tensor({6}), 2, 6, 3, 2});
        in.add({in.tensor({3, 4}), in.tensor({3, 4}), in.tensor({3, 2}, -1, 1), in.tensor({3, 2}, 0.3, 0.6), kNone, 3,
                4, 1, 2});
        in.add({in.tensor({2, 4, 80, 80}), in.tensor({2, 4, 80, 80}), in.tensor({2, 1}, -1, 1),
                in.tensor({2, 1}, 0.3, 0.6), in.tensor({4}), 2, 4, 6400, 1})
            .no_gradient();
      });
}

TENON_OP_CASES(rms_norm) {
  const auto rms = [](const Args& a, double eps) {
    const Array x = a.array(0);
    const Places p = by_row(x, a.ints(1));
    const Statistics s = statistics_of(x, p, eps);
    return std::vector<Array>{normalized(x, p, s, a.array(2), Array()),
                              vector_of(s.rstd, wide_of(x.dtype), p.statistics)};
  };
  op_case(op::rms_norm)
      .dtypes(kFloats)
      .gradient()
      .ulp(16)
      .reference([=](const Args& a) {
        const double eps = a.is_none(3) ? epsilon(wide_of(a.array(0).dtype)) : a.real(3);
        return std::vector<Array>{rms(a, eps)[0]};
      })
      .samples([](Inputs& in) {
        in.add({in.tensor({3, 5}), ints({5}), in.tensor({5})});
        in.add({in.tensor({2, 3, 4}), ints({3, 4}), in.tensor({3, 4}), 0.25});
        in.add({in.tensor({7}), ints({7})});
        in.add({in.tensor({0, 4}), ints({4}), in.tensor({4})}).no_gradient();
        in.add({in.tensor({40, 700}), ints({700}), in.tensor({700})}).no_gradient();
      })
      .benchmark([](Inputs& in) {
        in.add({in.tensor({4096, 1024}), ints({1024}), in.tensor({1024})});
      })
      .errors_name("rms_norm")
      .error<ShapeError>("normalized_shape", [](Inputs& in) {
        in.add({in.tensor({2, 2, 3}), ints({2, 2})});
      });
  op_case(op::rms_norm, "complex")
      .dtypes(kComplexes)
      .gradient()
      .ulp(32)
      .reference([](const Args& a) {
        const Array x = a.array(0);
        Array out = make_array(x.dtype, x.sizes);
        const int64_t n = x.sizes.back();
        for (int64_t row = 0; row < x.numel() / n; ++row) {
          Complex sum = 0;
          for (int64_t i = 0; i < n; ++i) sum += x.data[row * n + i].z * x.data[row * n + i].z / static_cast<double>(n);
          for (int64_t i = 0; i < n; ++i) out.data[row * n + i] = x.data[row * n + i].z / std::sqrt(sum + 0.5);
        }
        out.scale = {16};
        return std::vector<Array>{out};
      })
      .samples([](Inputs& in) {
        in.add({in.tensor({3, 4}, 1, 2), ints({4}), kNone, 0.5});
      });
  op_case(op::fused_rms_norm)
      .dtypes(kFloats)
      .gradient()
      .ulp(16)
      .reference([=](const Args& a) { return rms(a, a.real(3)); })
      .samples([](Inputs& in) {
        in.add({in.tensor({3, 5}), ints({5}), in.tensor({5}), 1e-5});
        in.add({in.tensor({2, 3, 4}), ints({3, 4}), kNone, 0.25});
      })
      .error<ShapeError>("weight", [](Inputs& in) {
        in.add({in.tensor({3, 5}), ints({5}), in.tensor({4}), 1e-5});
      });
  op_case(op::fused_rms_norm_backward)
      .dtypes(kFloats)
      .gradient()
      .ulp(32)
      .reference([](const Args& a) {
        const Array x = a.array(1);
        std::vector<Array> all = gradients(a.array(0), x, by_row(x, a.ints(2)), Array(), a.array(3), a.array(4), true);
        all.pop_back();
        return all;
      })
      .samples([](Inputs& in) {
        in.add({in.tensor({3, 5}), in.tensor({3, 5}), ints({5}), in.tensor({3, 1}, 0.3, 0.6), in.tensor({5})});
        in.add({in.tensor({2, 3, 4}), in.tensor({2, 3, 4}), ints({3, 4}), in.tensor({2, 1, 1}, 0.3, 0.6), kNone});
        in.add({in.tensor({90, 70}), in.tensor({90, 70}), ints({70}), in.tensor({90, 1}, 0.3, 0.6), in.tensor({70})})
            .no_gradient();
      });
  op_case(op::normalize)
      .dtypes(kFloats)
      .gradient()
      .ulp(16)
      .reference([](const Args& a) {
        const Array x = a.array(0);
        const std::size_t dim = static_cast<std::size_t>(a.integer(2) < 0 ? a.integer(2) + x.dim() : a.integer(2));
        Array out = make_array(x.dtype, x.sizes);
        each_index(x.sizes, [&](std::vector<int64_t> i) {
          Number& to = out.data[flat_index(i, x.sizes)];
          const double own = x.data[flat_index(i, x.sizes)].re(), p = a.real(1);
          double sum = 0;
          for (i[dim] = 0; i[dim] < x.sizes[dim]; ++i[dim])
            sum += std::pow(std::fabs(x.data[flat_index(i, x.sizes)].re()), p);
          to = own / std::max(std::pow(sum, 1 / p), a.real(3));
        });
        out.scale = {1 * (is_half(x.dtype) ? 4 * epsilon(x.dtype) / epsilon(kFloat32) : 4)};
        return std::vector<Array>{out};
      })
      .samples([](Inputs& in) {
        in.add({in.tensor({3, 5})});
        in.add({in.tensor({2, 3, 4}), 1.0, 2});
        in.add({in.tensor({2, 3, 4}), 3.0, -2, 4.0});
      });
}
