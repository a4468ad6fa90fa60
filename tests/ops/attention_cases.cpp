// SPDX-License-Identifier: Apache-2.0
// Rows of ops/attention.h, against the formula in float64.
#include <tenon/ops/attention.h>

#include "tests/support/op_case.h"

#include <algorithm>
#include <cmath>
#include <limits>

using namespace tenon;
using namespace tenon::testing;

namespace {

using Sizes = std::vector<int64_t>;
const double kInf = std::numeric_limits<double>::infinity();

/// Element of x at an index of the result's batch (broadcast from the right) and two more coordinates.
double at(const Array& x, const Sizes& batch, int64_t i, int64_t j) {
  const std::size_t own = x.sizes.size() - 2;
  int64_t flat = 0;
  for (std::size_t d = 0; d < own; ++d)
    flat = flat * x.sizes[d] + (x.sizes[d] == 1 ? 0 : batch[batch.size() - own + d]);
  return x
      .data[static_cast<std::size_t>((flat * x.sizes[own] + (x.sizes[own] == 1 ? 0 : i)) * x.sizes[own + 1] +
                                     (x.sizes[own + 1] == 1 ? 0 : j))]
      .re();
}
/// The same for matrices, which do not broadcast.
double entry(const Array& x, const Sizes& batch, int64_t i, int64_t j) {
  const std::size_t own = x.sizes.size() - 2;
  int64_t flat = 0;
  for (std::size_t d = 0; d < own; ++d)
    flat = flat * x.sizes[d] + (x.sizes[d] == 1 ? 0 : batch[batch.size() - own + d]);
  return x.data[static_cast<std::size_t>((flat * x.sizes[own] + i) * x.sizes[own + 1] + j)].re();
}

struct Problem {
  Array q, k, v, mask;
  bool causal;
  double scale;
  Sizes batch;
  int64_t rows, keys, width, columns;
  Problem(Array query, Array key, Array value, Array m, bool is_causal, double factor)
      : q(std::move(query)),
        k(std::move(key)),
        v(std::move(value)),
        mask(std::move(m)),
        causal(is_causal),
        scale(factor) {
    const auto outer = [](const Array& x) { return Sizes(x.sizes.begin(), x.sizes.end() - 2); };
    batch = broadcast(broadcast(outer(q), outer(k)), outer(v));
    rows = q.sizes[q.sizes.size() - 2], width = q.sizes.back(), keys = k.sizes[k.sizes.size() - 2];
    columns = v.sizes.back();
  }
  Sizes sizes(std::initializer_list<int64_t> rest) const {
    Sizes s = batch;
    s.insert(s.end(), rest);
    return s;
  }
  /// One row of scores; `largest` grows to the largest sum of magnitudes.
  std::vector<double> scores(const Sizes& b, int64_t i, double& largest) const {
    std::vector<double> s(static_cast<std::size_t>(keys));
    for (int64_t j = 0; j < keys; ++j) {
      double sum = 0, size = 0;
      for (int64_t e = 0; e < width; ++e) {
        const double p = entry(q, b, i, e) * entry(k, b, j, e) * scale;
        sum += p, size += std::fabs(p);
      }
      if (mask.defined()) {
        const double m = at(mask, b, i, j);
        sum = mask.dtype == kBool ? (m != 0 ? sum : -kInf) : sum + m;
        if (std::isfinite(m)) size += std::fabs(m);
      }
      largest = std::max(largest, size);
      s[static_cast<std::size_t>(j)] = causal && j > i ? -kInf : sum;
    }
    return s;
  }
};

/// Output and logsumexp.
std::vector<Array> attention_of(const Problem& p) {
  const DType t = p.q.dtype;
  Array out = make_array(t, p.sizes({p.rows, p.columns}));
  Array lse = make_array(t == kFloat64 ? kFloat64 : kFloat32, p.sizes({p.rows}));
  out.scale.assign(out.data.size(), 0);
  lse.scale.assign(lse.data.size(), 0);
  if (count(lse.sizes) == 0) return {out, lse};
  std::size_t row = 0;
  each_index(p.batch, [&](const Sizes& b) {
    for (int64_t i = 0; i < p.rows; ++i, ++row) {
      double size = 1, top = -kInf, sum = 0;
      const std::vector<double> s = p.scores(b, i, size);
      for (const double x : s) top = std::max(top, x);
      for (const double x : s) sum += top == -kInf ? 0 : std::exp(x - top);
      lse.data[row] = sum == 0 ? -kInf : top + std::log(sum);
      lse.scale[row] = sum == 0 ? 0 : size + std::fabs(top);
      for (int64_t c = 0; c < p.columns; ++c) {
        double total = 0, magnitude = 0;
        for (int64_t j = 0; j < p.keys && sum > 0; ++j) {
          const double x = std::exp(s[static_cast<std::size_t>(j)] - top) / sum * entry(p.v, b, j, c);
          total += x, magnitude += std::fabs(x);
        }
        out.data[row * static_cast<std::size_t>(p.columns) + static_cast<std::size_t>(c)] = total;
        out.scale[row * static_cast<std::size_t>(p.columns) + static_cast<std::size_t>(c)] = magnitude * size;
      }
    }
  });
  return {out, lse};
}

/// dq, dk, dv from the logsumexp given, for rows of few keys: the output is not read.
std::vector<Array> gradients_of(const Args& a) {
  const Array g = a.array(0), lse = a.array(5);
  const Problem p(a.array(1), a.array(2), a.array(3), a.array(6), a.integer(7) != 0, a.real(8));
  Array dq = make_array(p.q.dtype, p.q.sizes), dk = make_array(p.q.dtype, p.k.sizes),
        dv = make_array(p.q.dtype, p.v.sizes);
  for (Array* x : {&dq, &dk, &dv}) {
    x->scale.assign(x->data.size(), 0);
    for (Number& n : x->data) n = 0.0;
  }
  const auto add = [](Array& x, std::size_t where, double value, double size) {
    x.data[where] = x.data[where].re() + value;
    x.scale[where] += std::fabs(value) * size;
  };
  std::size_t matrix = 0;
  each_index(p.batch, [&](const Sizes& b) {
    for (int64_t i = 0; i < p.rows; ++i) {
      double size = 1, delta = 0, delta_size = 0, all = 0;
      const std::vector<double> s = p.scores(b, i, size);
      const double shift = lse.data[matrix * static_cast<std::size_t>(p.rows) + static_cast<std::size_t>(i)].re();
      for (int64_t j = 0; j < p.keys; ++j) {
        const double x = std::exp(s[static_cast<std::size_t>(j)] - shift);
        all += x;
        for (int64_t c = 0; c < p.columns; ++c) {
          const double term = x * entry(g, b, i, c) * entry(p.v, b, j, c);
          delta += term, delta_size += std::fabs(term);
        }
      }
      if (all > 0) delta /= all, delta_size /= all;
      for (int64_t j = 0; j < p.keys; ++j) {
        const double x = std::exp(s[static_cast<std::size_t>(j)] - shift);
        double dp = 0, dp_size = delta_size;
        const auto place = [&](int64_t rows, int64_t columns, int64_t r, int64_t c) {
          return (matrix * static_cast<std::size_t>(rows) + static_cast<std::size_t>(r)) *
                     static_cast<std::size_t>(columns) +
                 static_cast<std::size_t>(c);
        };
        for (int64_t c = 0; c < p.columns; ++c) {
          dp += entry(g, b, i, c) * entry(p.v, b, j, c);
          dp_size += std::fabs(entry(g, b, i, c) * entry(p.v, b, j, c));
          add(dv, place(p.keys, p.columns, j, c), x * entry(g, b, i, c), size + std::fabs(shift));
        }
        const double ds = x * (dp - delta) * p.scale;
        for (int64_t e = 0; e < p.width; ++e) {
          const double more = x * p.scale * dp_size * (size + std::fabs(shift));
          add(dq, place(p.rows, p.width, i, e), ds * entry(p.k, b, j, e), 1);
          add(dk, place(p.keys, p.width, j, e), ds * entry(p.q, b, i, e), 1);
          dq.scale[place(p.rows, p.width, i, e)] += more * std::fabs(entry(p.k, b, j, e));
          dk.scale[place(p.keys, p.width, j, e)] += more * std::fabs(entry(p.q, b, i, e));
        }
      }
    }
    ++matrix;
  });
  return {dq, dk, dv};
}

/// Heads of x [..., heads, rows, columns], each repeated until there are n.
Array repeated(const Array& x, int64_t n) {
  Sizes sizes = x.sizes;
  const std::size_t h = sizes.size() - 3;
  const int64_t group = n / sizes[h];
  sizes[h] = n;
  return pick(x, sizes, [=](Sizes index) {
    index[h] /= group;
    return index;
  });
}

// --- several heads ---------------------------------------------------------------------------------------------
/// x [rows, batch, in] W^T + b, W a part of `weight` from row `from` on.
Array projected(const Array& x, const Array& weight, const Array& bias, int64_t from, int64_t rows) {
  const int64_t in = x.sizes[2];
  Array y = make_array(x.dtype, {x.sizes[0], x.sizes[1], rows});
  for (int64_t n = 0; n < x.sizes[0] * x.sizes[1]; ++n)
    for (int64_t r = 0; r < rows; ++r) {
      double sum = bias.defined() ? bias.data[static_cast<std::size_t>(from + r)].re() : 0;
      for (int64_t c = 0; c < in; ++c)
        sum += x.data[static_cast<std::size_t>(n * in + c)].re() *
               weight.data[static_cast<std::size_t>((from + r) * in + c)].re();
      y.data[static_cast<std::size_t>(n * rows + r)] = sum;
    }
  return y;
}
/// [rows, batch, heads * width] as [batch, heads, rows, width].
Array split_heads(const Array& x, int64_t heads) {
  const int64_t width = x.sizes[2] / heads;
  return pick(x, {x.sizes[1], heads, x.sizes[0], width}, [=](const Sizes& i) {
    return Sizes{i[2], i[0], i[1] * width + i[3]};
  });
}
/// One [batch, heads or 1, L, S] mask of numbers to add from both (bool: true is ignored).
Array joined_mask(const Array& mask, const Array& padding, Sizes sizes) {
  Array out = make_array(kFloat64, sizes);
  std::size_t n = 0;
  each_index(sizes, [&](const Sizes& i) {
    const auto value = [](const Array& x, std::size_t where) {
      return x.dtype == kBool ? (x.data[where].re() != 0 ? -kInf : 0.0) : x.data[where].re();
    };
    double sum = 0;
    if (mask.defined())
      sum += value(mask, static_cast<std::size_t>(
                             ((mask.dim() == 3 ? i[0] * sizes[1] + i[1] : 0) * sizes[2] + i[2]) * sizes[3] + i[3]));
    if (padding.defined()) sum += value(padding, static_cast<std::size_t>(i[0] * sizes[3] + i[3]));
    out.data[n++] = sum;
  });
  return out;
}
std::vector<Array> heads_of(const Args& a) {
  Array x[3] = {a.array(0), a.array(1), a.array(2)};
  const bool batched = x[0].dim() == 3;
  for (Array& each : x)
    if (!batched) each.sizes = {each.sizes[0], 1, each.sizes[1]};
  const int64_t width = a.integer(3), heads = a.integer(4), rows = x[0].sizes[0], keys = x[1].sizes[0],
                n = x[0].sizes[1];
  Array part[3];
  for (int64_t i = 0; i < 3; ++i)
    part[i] = split_heads(projected(x[i], a.array(5), a.array(6), i * width, width), heads);
  const Array mask = joined_mask(a.array(16), a.array(14), {n, heads, rows, keys});
  const double scale = 1 / std::sqrt(static_cast<double>(width) / static_cast<double>(heads));
  const Problem p(part[0], part[1], part[2], mask, false, scale);
  const Array o = attention_of(p)[0];
  const Array joined = pick(o, {rows, n, width}, [=](const Sizes& i) {
    const int64_t head = width / heads;
    return Sizes{i[1], i[2] / head, i[0], i[2] % head};
  });
  Array y = projected(joined, a.array(11), a.array(12), 0, width), weights = make_array(y.dtype, {n, rows, keys});
  y.scale.assign(1, 300);
  weights.scale.assign(1, 30);
  std::size_t at = 0;
  each_index(weights.sizes, [&](const Sizes& i) {
    double mean = 0;
    for (int64_t h = 0; h < heads; ++h) {
      double size = 0, top = -kInf, sum = 0;
      const std::vector<double> s = p.scores({i[0], h}, i[1], size);
      for (const double v : s) top = std::max(top, v);
      for (const double v : s) sum += std::exp(v - top);
      mean += std::exp(s[static_cast<std::size_t>(i[2])] - top) / sum / static_cast<double>(heads);
    }
    weights.data[at++] = mean;
  });
  if (!batched) y.sizes = {rows, width}, weights.sizes = {rows, keys};
  return {y, weights};
}

}  // namespace

TENON_OP_CASES(attention) {
  op_case(op::scaled_dot_product_attention)
      .dtypes(kFloats)
      .gradient()
      .ulp(24)
      .reference([](const Args& a) {
        Array q = a.array(0), k = a.array(1), v = a.array(2);
        if (a.integer(7) != 0)
          for (Array* x : {&k, &v}) *x = repeated(*x, q.sizes[q.sizes.size() - 3]);
        const double scale = a.is_none(6) ? 1 / std::sqrt(static_cast<double>(q.sizes.back())) : a.real(6);
        return std::vector<Array>{attention_of(Problem(q, k, v, a.array(3), a.integer(5) != 0, scale))[0]};
      })
      .samples([](Inputs& in) {
        const auto t = [&](const Sizes& s) { return in.tensor(s, -2, 2); };
        in.add({t({3, 4}), t({5, 4}), t({5, 2})});
        in.add({t({2, 3, 4}), t({2, 5, 4}), t({2, 5, 4})}, {{"is_causal", true}});
        in.add({t({2, 5, 4}), t({2, 3, 4}), t({2, 3, 3})}, {{"is_causal", true}, {"scale", 0.7}});
        in.add({t({2, 2, 3, 4}), t({2, 2, 5, 4}), t({2, 2, 5, 4}), in.tensor({3, 5}, -2, 2)});
        in.add({t({2, 2, 3, 4}), t({2, 2, 5, 4}), t({2, 2, 5, 4}), in.tensor({2, 1, 1, 5}, -2, 2)});
        in.add({t({2, 3, 4}), t({2, 5, 4}), t({2, 5, 4}), in.boolean({2, 3, 5})});
        in.add({t({2, 4}), t({3, 4}), t({3, 4}), in.values({1, 0, 1, 0, 0, 0}, {2, 3}, kBool)});  // a row without keys
        in.add({t({2, 4}), t({3, 4}), t({3, 4}), in.values({0, -kInf, 1, -kInf, -kInf, -kInf}, {2, 3})});
        in.add({t({3, 1, 2, 4}), t({2, 3, 4}), t({3, 1, 3, 4})});
        in.add({t({2, 4, 3, 4}), t({2, 2, 5, 4}), t({2, 1, 5, 4})}, {{"enable_gqa", true}});
        in.add({t({0, 3, 4}), t({0, 5, 4}), t({0, 5, 4})});
        in.add({t({2, 0, 4}), t({2, 5, 4}), t({2, 5, 4})});
        in.add({t({2, 3, 4}), t({2, 0, 4}), t({2, 0, 4})});
        in.add({t({1, 3, 4}), t({1, 5, 4}), t({1, 5, 0})});
        in.add({t({2, 130, 8}), t({2, 600, 8}), t({2, 600, 5})}).no_gradient();
        in.add({t({1, 300, 8}), t({1, 550, 8}), t({1, 550, 8})}, {{"is_causal", true}}).no_gradient().no_layouts();
        in.add({t({1, 200, 4}), t({1, 1100, 4}), t({1, 1100, 4}), in.boolean({200, 1100})}).no_gradient().no_layouts();
      })
      .benchmark([](Inputs& in) {
        for (int i = 0; i < 1; ++i)
          in.add({in.tensor({4, 8, 256, 64}, -1, 1), in.tensor({4, 8, 256, 64}, -1, 1),
                  in.tensor({4, 8, 256, 64}, -1, 1)});
      })
      .error<ShapeError>("key",
                         [](Inputs& in) {
                           in.add({in.tensor({3, 4}), in.tensor({5, 3}), in.tensor({5, 4})});
                         })
      .error<ShapeError>("value",
                         [](Inputs& in) {
                           in.add({in.tensor({3, 4}), in.tensor({5, 4}), in.tensor({6, 4})});
                         })
      .error<ShapeError>("query",
                         [](Inputs& in) {
                           in.add({in.tensor({4}), in.tensor({5, 4}), in.tensor({5, 4})});
                         })
      .error<ShapeError>("attn_mask",
                         [](Inputs& in) {
                           in.add({in.tensor({3, 4}), in.tensor({5, 4}), in.tensor({5, 4}), in.boolean({3, 4})});
                         })
      .error<DtypeError>("attn_mask",
                         [](Inputs& in) {
                           in.add({in.tensor({3, 4}), in.tensor({5, 4}), in.tensor({5, 4}), in.index({3, 5}, 2)});
                         })
      .error<ValueError>("is_causal",
                         [](Inputs& in) {
                           in.add({in.tensor({3, 4}), in.tensor({5, 4}), in.tensor({5, 4}), in.boolean({3, 5})},
                                  {{"is_causal", true}});
                         })
      .error<ValueError>("dropout_p",
                         [](Inputs& in) {
                           in.add({in.tensor({3, 4}), in.tensor({5, 4}), in.tensor({5, 4}), Tensor(), 1.5});
                         })
      .error<ShapeError>(
          "enable_gqa",
          [](Inputs& in) {
            in.add({in.tensor({3, 2, 4}), in.tensor({2, 5, 4}), in.tensor({2, 5, 4})}, {{"enable_gqa", true}});
          })
      .error<DtypeError>(
          "query",
          [](Inputs& in) {
            in.add({in.tensor({3, 4}), in.tensor({5, 4}), in.tensor({5, 4})});
          },
          kInt64);
  op_case(op::scaled_dot_product_attention_forward)
      .dtypes(kFloats)
      .gradient()
      .gradient_of(7, 1)
      .ulp(24)
      .reference([](const Args& a) {
        return attention_of(Problem(a.array(0), a.array(1), a.array(2), a.array(3), a.integer(4) != 0, a.real(5)));
      })
      .samples([](Inputs& in) {
        const auto t = [&](const Sizes& s) { return in.tensor(s, -2, 2); };
        in.add({t({3, 4}), t({5, 4}), t({5, 2}), Tensor(), false, 0.5});
        in.add({t({2, 3, 4}), t({2, 5, 4}), t({2, 5, 2}), Tensor(), true, 0.5});
        in.add({t({2, 3, 4}), t({2, 5, 4}), t({2, 5, 2}), in.boolean({3, 5}), false, -0.3});
      })
      .error<ShapeError>("batch", [](Inputs& in) {
        in.add({in.tensor({2, 3, 4}), in.tensor({5, 4}), in.tensor({5, 4}), Tensor(), false, 1.0});
      });
  op_case(op::scaled_dot_product_attention_backward)
      .dtypes(kFloats)
      .gradient()
      .gradient_of(1)
      .ulp(24)
      .reference(gradients_of)
      .samples([](Inputs& in) {
        const auto add = [&](const Sizes& batch, const Tensor& mask, bool is_causal) {
          const auto random = [&](int64_t rows, int64_t columns) {
            Sizes sizes = batch;
            sizes.insert(sizes.end(), {rows, columns});
            return in.tensor(sizes, -1, 1);
          };
          const Tensor q = random(3, 4), k = random(5, 4), v = random(5, 2);
          const auto [out, lse] = op::scaled_dot_product_attention_forward(q, k, v, mask, is_causal, 0.5);
          in.add({random(3, 2), q, k, v, out, lse, mask, is_causal, 0.5});
        };
        add({}, Tensor(), false);
        add({2}, Tensor(), true);
        add({2}, in.values({1, 0, 1, 0, 0, 0, 1, 1, 1, 0, 1, 1, 1, 1, 1}, {3, 5}, kBool), false);
      })
      .error<ShapeError>("logsumexp", [](Inputs& in) {
        in.add({in.tensor({3, 2}), in.tensor({3, 4}), in.tensor({5, 4}), in.tensor({5, 2}), in.tensor({3, 2}),
                in.tensor({4}), Tensor(), false, 1.0});
      });
  op_case(op::multi_head_attention_forward)
      .dtypes({kFloat64, kFloat32})
      .gradient()
      .ulp(4)
      .reference(heads_of)
      .samples([](Inputs& in) {
        const auto t = [&](const Sizes& s) { return in.tensor(s, -1, 1); };
        const Tensor none;
        const auto add = [&](const Tensor& q, const Tensor& k, const Tensor& v, int64_t heads, bool bias,
                             dispatch::KeywordArguments rest) -> Sample& {
          const int64_t e = q.size(-1);
          return in.add({q, k, v, e, heads, t({3 * e, e}), bias ? t({3 * e}) : none, none, none, false, 0.0, t({e, e}),
                         bias ? t({e}) : none},
                        std::move(rest));
        };
        const Tensor x = t({3, 2, 4});
        add(x, x, x, 2, true, {}).no_layouts();
        add(t({3, 2, 4}), t({5, 2, 4}), t({5, 2, 4}), 2, false, {{"attn_mask", t({3, 5})}});
        add(t({3, 4}), t({5, 4}), t({5, 4}), 1, true, {{"key_padding_mask", in.values({0, 1, 0, 0, 1}, {5}, kBool)}});
        add(t({3, 2, 4}), t({5, 2, 4}), t({5, 2, 4}), 2, true,
            {{"attn_mask", t({4, 3, 5})},
             {"key_padding_mask", in.values({0, 1, 0, 0, 1, 0, 0, 0, 0, 1}, {2, 5}, kBool)}});
      })
      .error<ShapeError>(
          "in_proj_weight",
          [](Inputs& in) {
            const Tensor x = in.tensor({3, 2, 4}), none;
            in.add({x, x, x, 4, 2, in.tensor({8, 4}), none, none, none, false, 0.0, in.tensor({4, 4}), none});
          })
      .error<ValueError>("num_heads", [](Inputs& in) {
        const Tensor x = in.tensor({3, 2, 4}), none;
        in.add({x, x, x, 4, 3, in.tensor({12, 4}), none, none, none, false, 0.0, in.tensor({4, 4}), none});
      });
}
