// SPDX-License-Identifier: Apache-2.0
// Rows of ops/softmax.h, ops/loss.h and ops/norm.h.
#include <tenon/ops/loss.h>
#include <tenon/ops/norm.h>
#include <tenon/ops/softmax.h>

#include "tests/support/op_case.h"

#include <algorithm>
#include <cmath>
#include <limits>

using namespace tenon;
using namespace tenon::testing;

namespace {

using Sizes = std::vector<int64_t>;
const double kInf = std::numeric_limits<double>::infinity();

/// Calls f with the flat positions of each row along `dim`.
void each_row(const Sizes& sizes, int64_t dim, const std::function<void(const std::vector<int64_t>&)>& f) {
  if (sizes.empty()) return f({0});
  dim = dim < 0 ? dim + static_cast<int64_t>(sizes.size()) : dim;
  Sizes outer = sizes;
  outer[dim] = 1;
  if (count(sizes) == 0) return;
  each_index(outer, [&](Sizes at) {
    std::vector<int64_t> row;
    for (at[dim] = 0; at[dim] < sizes[dim]; ++at[dim]) row.push_back(flat_index(at, sizes));
    f(row);
  });
}

Array softmax_of(const Array& x, int64_t dim, bool log) {
  Array out = make_array(x.dtype, x.sizes);
  out.scale.assign(out.data.size(), 0);
  each_row(x.sizes, dim, [&](const std::vector<int64_t>& row) {
    double top = -kInf, sum = 0;
    for (const int64_t i : row) top = std::max(top, x.data[i].re());
    for (const int64_t i : row) sum += std::exp(x.data[i].re() - top);
    for (const int64_t i : row) {
      const double v = x.data[i].re() - top;
      out.data[i] = log ? v - std::log(sum) : std::exp(v) / sum;
      out.scale[i] = (log ? std::fabs(v) + std::log(sum) + 1 : std::exp(v) / sum * (1 + std::fabs(v))) *
                     (1 + static_cast<double>(row.size()) / 500);
      if (std::isnan(out.data[i].re()) || !std::isfinite(out.scale[i])) out.scale[i] = 0;
    }
  });
  return out;
}
Reference softmax_reference(bool log) {
  return [=](const Args& a) {
    const Array x = a.array(0);
    return std::vector<Array>{softmax_of(cast(x, a.dtype(2, x.dtype)), a.integer(1), log)};
  };
}
Reference softmax_gradient(bool log) {
  return [=](const Args& a) {
    const Array g = a.array(0), y = a.array(1);
    Array out = make_array(a.dtype(3, y.dtype), y.sizes);
    out.scale.assign(out.data.size(), 0);
    each_row(y.sizes, a.integer(2), [&](const std::vector<int64_t>& row) {
      double sum = 0, scale = 0;
      for (const int64_t i : row) {
        sum += log ? g.data[i].re() : g.data[i].re() * y.data[i].re();
        scale += std::fabs(log ? g.data[i].re() : g.data[i].re() * y.data[i].re());
      }
      for (const int64_t i : row) {
        const double v = y.data[i].re();
        out.data[i] = log ? g.data[i].re() - std::exp(v) * sum : v * (g.data[i].re() - sum);
        out.scale[i] = (log ? std::exp(v) * (1 + std::fabs(v)) : std::fabs(v)) * scale + std::fabs(g.data[i].re());
      }
    });
    return std::vector<Array>{out};
  };
}
void softmax_samples(Inputs& in) {
  in.add({in.tensor({}), 0});
  in.add({in.tensor({5}), 0});
  for (const int64_t d : {0, 1, -1}) in.add({in.tensor({3, 4, 5}), d});
  in.add({in.tensor({0, 3}), 1});
  in.add({in.tensor({3, 0}), 1});
  in.add({in.tensor({4, 130}, -30, 30), 1}).no_gradient();
  in.add({in.tensor({130, 9}, -30, 30), 0}).no_gradient();
  in.add({in.tensor({3, 1025}), -1}).no_gradient();
  in.add({in.tensor({2, 5000}), -1}).no_gradient().no_layouts();
  in.add({in.tensor({3, 4}), 1}, {{"dtype", kFloat64}}).no_gradient();
  // All -inf gives NaN for every length; one -inf among finite ones gives 0.
  for (const int64_t n : {1, 2, 31, 32, 33, 127, 128, 1024, 1025}) {
    in.add({in.values(std::vector<double>(static_cast<std::size_t>(n), -kInf), {1, n}), 1}).no_gradient().no_layouts();
    std::vector<double> v(static_cast<std::size_t>(n) + 1, 0.5);
    v[static_cast<std::size_t>(n) / 2] = -kInf;
    in.add({in.values(v), 0}).no_gradient().no_layouts();
  }
  in.add({in.values({1000, 1001, 999, -1000}), 0}).no_gradient();
  in.add({in.values({1, std::nan(""), 2}), 0}).no_gradient();
}

// --- losses ----------------------------------------------------------------------------------------------------
struct Losses {
  Array each;
  double weights = 0;
};
/// -self[n][target] * weight[target]; ignored targets count for nothing.
Losses losses(Array x, const Array& target, const Array& weight, int64_t ignore) {
  if (x.dim() == 1) x.sizes.insert(x.sizes.begin(), 1);
  const int64_t classes = x.sizes[1], n = x.sizes[0], inner = count(Sizes(x.sizes.begin() + 2, x.sizes.end()));
  Losses r{make_array(x.dtype, target.sizes), 0};
  for (int64_t i = 0; i < n; ++i)
    for (int64_t k = 0; k < inner; ++k) {
      const int64_t t = target.data[i * inner + k].i;
      if (t == ignore) {
        r.each.data[i * inner + k] = 0.0;
        continue;
      }
      const double w = weight.defined() ? weight.data[t].re() : 1;
      r.each.data[i * inner + k] = -w * x.data[(i * classes + t) * inner + k].re();
      r.weights += w;
    }
  return r;
}
Array reduce_losses(const Array& each, double divisor, int64_t reduction) {
  if (reduction == kReductionNone) return each;
  Array out = make_array(each.dtype, {});
  double sum = 0, scale = 0;
  for (const Number& v : each.data) sum += v.re(), scale += std::fabs(v.re());
  const double d = reduction == kReductionMean ? divisor : 1;
  out.data[0] = sum / d;
  out.scale = {d == 0 ? 0 : scale / std::fabs(d)};
  return out;
}
int64_t reduction_of(const std::string& text) {
  return text == "none" ? kReductionNone : text == "sum" ? kReductionSum : kReductionMean;
}

std::vector<Array> nll(const Args& a, int64_t reduction, bool total) {
  const Losses l = losses(a.array(0), a.array(1), a.array(2), a.integer(4));
  Array weight = make_array(l.each.dtype, {});
  weight.data[0] = l.weights;
  weight.scale = {l.weights};
  std::vector<Array> r = {reduce_losses(l.each, l.weights, reduction)};
  if (total) r.push_back(weight);
  return r;
}

void class_samples(Inputs& in, const std::function<void(Tensor, Tensor, Tensor, int64_t)>& add) {
  const Tensor none;
  add(in.tensor({4, 5}), in.index({4}, 5), none, -100);
  add(in.tensor({4, 5}), in.index({4}, 5), in.tensor({5}, 0.5, 2), -100);
  add(in.tensor({5}), in.integers({3}, {}), none, -100);
  add(in.tensor({2, 3, 4}), in.index({2, 4}, 3), in.tensor({3}, 0.5, 2), -100);
  add(in.tensor({2, 3, 2, 2}), in.index({2, 2, 2}, 3), none, 1);
  add(in.tensor({4, 5}), in.integers({0, -100, 2, -100}), none, -100);
  add(in.tensor({2, 3}), in.integers({0, 255}), none, 255);  // ignored although no class
}

// --- layer norm ------------------------------------------------------------------------------------------------
std::vector<Array> layer_norm_of(const Args& a, bool statistics) {
  const Array x = a.array(0), weight = a.array(2), bias = a.array(3);
  const Sizes shape = a.ints(1);
  const int64_t columns = count(shape), rows = columns ? x.numel() / columns : 0;
  Sizes outer(x.sizes.begin(), x.sizes.end() - static_cast<int64_t>(shape.size()));
  const DType stats =
      is_half(x.dtype) && ((weight.defined() && weight.dtype == kFloat32) || (bias.defined() && bias.dtype == kFloat32))
          ? kFloat32
          : x.dtype;
  for (std::size_t d = 0; d < shape.size(); ++d) outer.push_back(1);
  Array out = make_array(x.dtype, x.sizes), means = make_array(stats, outer), rstds = make_array(stats, outer);
  for (int64_t r = 0; r < rows; ++r) {
    double mean = 0, var = 0, size = 0;
    const Number* v = x.data.data() + r * columns;
    for (int64_t c = 0; c < columns; ++c)
      mean += v[c].re() / static_cast<double>(columns), size = std::max(size, std::fabs(v[c].re()));
    for (int64_t c = 0; c < columns; ++c) var += (v[c].re() - mean) * (v[c].re() - mean) / static_cast<double>(columns);
    const double rstd = 1 / std::sqrt(var + a.real(4));
    means.data[r] = mean, rstds.data[r] = rstd;
    means.scale.push_back(size), rstds.scale.push_back(rstd * (1 + size * size * rstd * rstd));
    for (int64_t c = 0; c < columns; ++c) {
      const double w = weight.defined() ? weight.data[c].re() : 1, b = bias.defined() ? bias.data[c].re() : 0;
      out.data[r * columns + c] = (v[c].re() - mean) * rstd * w + b;
      out.scale.push_back(size * rstd * (1 + size * rstd) * std::fabs(w) + std::fabs(b));
    }
  }
  if (statistics) return {out, means, rstds};
  return {out};
}
std::vector<Array> layer_norm_gradient(const Args& a) {
  const Array g = a.array(0), x = a.array(1), mean = a.array(3), rstd = a.array(4), weight = a.array(5);
  const int64_t columns = count(a.ints(2)), rows = columns ? x.numel() / columns : 0;
  Array gx = make_array(x.dtype, x.sizes), gw = make_array(weight.defined() ? weight.dtype : x.dtype, a.ints(2)),
        gb = gw;
  gw.scale.assign(gw.data.size(), 0), gb.scale.assign(gw.data.size(), 0);
  for (int64_t r = 0; r < rows; ++r) {
    const double m = mean.data[r].re(), s = rstd.data[r].re();
    double first = 0, second = 0, scale = 0;
    for (int64_t c = 0; c < columns; ++c) {
      const double w = weight.defined() ? weight.data[c].re() : 1, gv = g.data[r * columns + c].re(),
                   h = (x.data[r * columns + c].re() - m) * s;
      first += gv * w / static_cast<double>(columns), second += gv * w * h / static_cast<double>(columns);
      scale += std::fabs(gv * w) * (1 + std::fabs(h)) / static_cast<double>(columns);
      gw.data[c].z += gv * h, gb.data[c].z += gv;
      gw.scale[c] += std::fabs(gv) * (1 + std::fabs(h)), gb.scale[c] += std::fabs(gv);
    }
    for (int64_t c = 0; c < columns; ++c) {
      const double w = weight.defined() ? weight.data[c].re() : 1, h = (x.data[r * columns + c].re() - m) * s;
      gx.data[r * columns + c] = s * (g.data[r * columns + c].re() * w - first - h * second);
      gx.scale.push_back(s * (std::fabs(g.data[r * columns + c].re() * w) + scale * (1 + std::fabs(h))));
    }
  }
  std::vector<Array> r = {gx, gw, gb};
  for (int i = 0; i < 3; ++i)
    if (!(a.integer(7) >> i & 1) || (i == 1 && !weight.defined()) || (i == 2 && a.is_none(6))) r[i] = Array();
  return r;
}

}  // namespace

TENON_OP_CASES(softmax) {
  for (const bool log : {false, true}) {
    op_case(log ? op::log_softmax : op::softmax)
        .dtypes(kFloats)
        .gradient()
        .ulp(8)
        .reference(softmax_reference(log))
        .samples(softmax_samples)
        .benchmark([](Inputs& in) {
          in.add({in.tensor({4096, 1000}), 1});
        })
        .error<IndexError>("",
                           [](Inputs& in) {
                             in.add({in.tensor({2, 3}), 2});
                           })
        .error<DtypeError>(
            "self",
            [](Inputs& in) {
              in.add({in.tensor({2}), 0});
            },
            kInt64);
    op_case(log ? op::log_softmax_backward : op::softmax_backward)
        .dtypes(kFloats)
        .gradient()
        .ulp(8)
        .reference(softmax_gradient(log))
        .samples([=](Inputs& in) {
          const double low = log ? -3 : 0.01, high = log ? -0.5 : 0.3;
          for (const int64_t d : {0, 1, -1})
            in.add({in.tensor({3, 4, 5}), in.tensor({3, 4, 5}, low, high), d, in.dtype()});
          in.add({in.tensor({}), in.tensor({}, low, high), 0, in.dtype()});
          in.add({in.tensor({0, 3}), in.tensor({0, 3}, low, high), 1, in.dtype()});
          in.add({in.tensor({3, 700}), in.tensor({3, 700}, low, high), 1, in.dtype()}).no_gradient();
        });
  }
  op_case(op::softmax, "of integers")
      .dtypes(kIntegers)
      .reference(softmax_reference(false))
      .ulp(8)
      .samples([](Inputs& in) {
        in.add({in.tensor({3, 4}), 1}, {{"dtype", kFloat32}});
      });
}

TENON_OP_CASES(loss) {
  const Maker bad_targets = [](Inputs& in) {
    for (const int64_t t : {3, -1, -4}) in.add({in.tensor({2, 3}), in.integers({0, t}), Tensor(), 0, -100});
  };
  op_case(op::nll_loss_forward)
      .errors_name("nll_loss")
      .dtypes(kFloats)
      .gradient()
      .gradient_of(1, 1)
      .ulp(8)
      .reference([](const Args& a) {
        std::vector<Array> r = nll(a, a.integer(3), true);
        if (a.integer(3) == kReductionNone) r[1].data[0] = 0.0;
        return r;
      })
      .samples([](Inputs& in) {
        for (const int64_t reduction : {1, 2})  // for none the total weight is not defined
          class_samples(in, [&](Tensor x, Tensor t, Tensor w, int64_t ignore) {
            in.add({x, t, w, reduction, ignore});
          });
        in.add({in.values({-1, -2}, {1, 2}), in.integers({-100}), Tensor(), 1, -100}).no_gradient();  // 0 / 0
      })
      .error<IndexError>("target", bad_targets)
      .error<ShapeError>("target",
                         [](Inputs& in) {
                           in.add({in.tensor({2, 3}), in.index({3}, 3), Tensor(), 1, -100});
                         })
      .error<ShapeError>("weight",
                         [](Inputs& in) {
                           in.add({in.tensor({2, 3}), in.index({2}, 3), in.tensor({2}), 1, -100});
                         })
      .error<DtypeError>("target",
                         [](Inputs& in) {
                           in.add({in.tensor({2, 3}), in.tensor({2}), Tensor(), 1, -100});
                         })
      .error<ValueError>("reduction", [](Inputs& in) {
        in.add({in.tensor({2, 3}), in.index({2}, 3), Tensor(), 3, -100});
      });
  op_case(op::nll_loss)
      .dtypes(kFloats)
      .gradient()
      .gradient_of(1)
      .ulp(8)
      .reference([](const Args& a) { return nll(a, reduction_of(a.text(3)), false); })
      .samples([](Inputs& in) {
        for (const char* reduction : {"none", "mean", "sum"}) {
          class_samples(in, [&](Tensor x, Tensor t, Tensor w, int64_t ignore) {
            in.add({x, t, w, reduction, ignore});
          });
          in.add({in.values({-1, -2}, {1, 2}), in.integers({-100}), Tensor(), reduction}).no_gradient();
        }
      })
      .error<ValueError>("reduction",
                         [](Inputs& in) {
                           in.add({in.tensor({2, 3}), in.index({2}, 3), Tensor(), "average"});
                         })
      .error<IndexError>("target", [](Inputs& in) {
        in.add({in.tensor({2, 3}), in.integers({0, -4}), Tensor(), "none"});
      });
  op_case(op::nll_loss_int)
      .dtypes(kFloats)
      .gradient()
      .gradient_of(1)
      .ulp(8)
      .reference([](const Args& a) { return nll(a, a.integer(3), false); })
      .samples([](Inputs& in) {
        for (const int64_t reduction : {0, 1, 2})
          in.add({in.tensor({4, 5}), in.index({4}, 5), in.tensor({5}, 0.5, 2), reduction});
      });
  op_case(op::nll_loss_backward)
      .dtypes(kFloats)
      .gradient()
      .ulp(8)
      .reference([](const Args& a) {
        const Array g = a.array(0), target = a.array(2), weight = a.array(3);
        Array x = a.array(1);
        const Sizes sizes = x.sizes;
        if (x.dim() == 1) x.sizes.insert(x.sizes.begin(), 1);
        const int64_t classes = x.sizes[1], inner = count(Sizes(x.sizes.begin() + 2, x.sizes.end()));
        Array out = make_array(x.dtype, sizes);
        for (Number& v : out.data) v = 0.0;
        for (int64_t i = 0; i < target.numel(); ++i) {
          const int64_t t = target.data[i].i;
          if (t == a.integer(5)) continue;
          double v =
              -(weight.defined() ? weight.data[t].re() : 1) * g.data[a.integer(4) == kReductionNone ? i : 0].re();
          if (a.integer(4) == kReductionMean) v /= a.array(6).data[0].re();
          out.data[(i / inner * classes + t) * inner + i % inner] = v;
        }
        return std::vector<Array>{out};
      })
      .samples([](Inputs& in) {
        for (const int64_t reduction : {0, 1, 2})
          class_samples(in, [&](Tensor x, Tensor t, Tensor w, int64_t ignore) {
            in.add({reduction == 0 ? in.tensor(t.sizes().vec()) : in.tensor({}), x, t, w, reduction, ignore,
                    in.values({3}, {})})
                .no_gradient();
          });
        in.add({in.tensor({4}), in.tensor({4, 5}), in.index({4}, 5), Tensor(), 0, -100, Tensor(in.values({1}, {}))})
            .gradient = false;
      });
  op_case(op::cross_entropy)
      .dtypes(kFloats)
      .gradient()
      .gradient_of(1)
      .ulp(16)
      .reference([](const Args& a) {
        const Array x = a.array(0), target = a.array(1), weight = a.array(2);
        // 16-bit floats round the logarithms, the terms of smoothing and the sum.
        const double rounding = is_half(x.dtype) ? epsilon(x.dtype) / epsilon(kFloat32) : 1;
        const double smoothing = a.real(5);
        const int64_t reduction = reduction_of(a.text(3)), dim = x.dim() == 1 ? 0 : 1;
        const Array logs = softmax_of(x, dim, true);
        const int64_t classes = x.sizes[dim], inner = count(Sizes(x.sizes.begin() + dim + 1, x.sizes.end())),
                      n = dim == 0 ? 1 : x.sizes[0];
        const bool probabilities = target.sizes == x.sizes;
        Sizes sizes = x.sizes;
        sizes.erase(sizes.begin() + dim);
        Array each = make_array(x.dtype, sizes);
        double divisor = 0;
        for (int64_t i = 0; i < n; ++i)
          for (int64_t k = 0; k < inner; ++k) {
            double loss = 0;
            const int64_t t = probabilities ? 0 : target.data[i * inner + k].i;
            const bool ignored = !probabilities && t == a.integer(4);
            for (int64_t c = 0; c < classes && !ignored; ++c) {
              const double w = weight.defined() ? weight.data[c].re() : 1;
              const double hard = probabilities ? target.data[(i * classes + c) * inner + k].re() : double(c == t);
              const double wanted = hard * (1 - smoothing) + smoothing / static_cast<double>(classes);
              if (wanted != 0) loss -= wanted * w * logs.data[(i * classes + c) * inner + k].re();
            }
            each.data[i * inner + k] = loss;
            each.scale.push_back((std::fabs(loss) + 4) * rounding);
            divisor += probabilities ? 1 : ignored ? 0 : weight.defined() ? weight.data[t].re() : 1;
          }
        if (reduction != kReductionNone) each.scale.clear();
        Array r = reduce_losses(each, divisor, reduction);
        if (reduction != kReductionNone) r.scale = {(r.scale[0] + 4) * rounding};
        return std::vector<Array>{r};
      })
      .samples([](Inputs& in) {
        for (const char* reduction : {"none", "mean", "sum"}) {
          class_samples(in, [&](Tensor x, Tensor t, Tensor w, int64_t ignore) {
            in.add({x, t, w, reduction, ignore});
          });
          in.add({in.tensor({4, 5}), in.index({4}, 5), in.tensor({5}, 0.5, 2), reduction, -100, 0.25});
          in.add({in.tensor({4, 5}), in.tensor({4, 5}, 0, 1), Tensor(), reduction}).no_gradient();
          in.add({in.tensor({4, 5}), in.tensor({4, 5}, 0, 1), in.tensor({5}, 0.5, 2), reduction, -100, 0.5})
              .no_gradient();
        }
      })
      .benchmark([](Inputs& in) {
        in.add({in.tensor({4096, 1000}), in.index({4096}, 1000)});
      })
      .error<ValueError>("label_smoothing",
                         [](Inputs& in) {
                           in.add({in.tensor({2, 3}), in.index({2}, 3), Tensor(), "mean", -100, 1.5});
                         })
      .error<ValueError>("reduction",
                         [](Inputs& in) {
                           in.add({in.tensor({2, 3}), in.index({2}, 3), Tensor(), "average"});
                         })
      .error<ShapeError>("weight", [](Inputs& in) {
        in.add({in.tensor({2, 3}), in.index({2}, 3), in.tensor({2})});
      });
  op_case(op::mse_loss)
      .dtypes(kFloats)
      .gradient()
      .ulp(8)
      .reference([](const Args& a) {
        const Array x = a.array(0), y = a.array(1);
        const DType t = promoted({x, y});
        Array each = pointwise(
            {x, y}, t, t, [](const Number* v) { return Number((v[0].re() - v[1].re()) * (v[0].re() - v[1].re())); });
        // 16-bit floats round the difference, its square and the sum.
        const double magnitude = is_half(t) ? 60 * epsilon(t) / epsilon(kFloat32) : 60;
        each.scale = {magnitude};
        Array r = reduce_losses(each, static_cast<double>(each.numel()), reduction_of(a.text(2)));
        r.scale = {magnitude * (a.text(2) == "sum" ? static_cast<double>(each.numel()) : 1)};
        return std::vector<Array>{r};
      })
      .samples([](Inputs& in) {
        for (const char* reduction : {"none", "mean", "sum"}) {
          in.add({in.tensor({3, 4}), in.tensor({3, 4}), reduction});
          in.add({in.tensor({3, 4}), in.tensor({4}), reduction});
          in.add({in.tensor({0}), in.tensor({0}), reduction}).no_gradient();
        }
      })
      .error<DtypeError>(
          "",
          [](Inputs& in) {
            in.add({in.tensor({2}), in.tensor({2})});
          },
          kInt64)
      .error<ValueError>("reduction", [](Inputs& in) {
        in.add({in.tensor({2}), in.tensor({2}), "average"});
      });
}

TENON_OP_CASES(norm) {
  const Maker samples = [](Inputs& in) {
    const Tensor none;
    in.add({in.tensor({3, 5}), ints({5}), in.tensor({5}), in.tensor({5}), 1e-5});
    in.add({in.tensor({3, 5}), ints({5}), none, none, 1e-5});
    in.add({in.tensor({2, 3, 4}), ints({3, 4}), in.tensor({3, 4}), none, 1e-3});
    in.add({in.tensor({2, 3, 4}), ints({4}), none, in.tensor({4}), 1e-5});
    in.add({in.tensor({7}), ints({7}), in.tensor({7}), in.tensor({7}), 1e-5});
    in.add({in.tensor({0, 4}), ints({4}), in.tensor({4}), in.tensor({4}), 1e-5});
    in.add({in.tensor({5, 700}), ints({700}), in.tensor({700}), in.tensor({700}), 1e-5}).no_gradient();
    in.add({in.tensor({40, 33}, 90, 98), ints({33}), none, none, 1e-5}).no_gradient();
    if (is_half(in.dtype()))
      in.add({in.tensor({3, 5}), ints({5}), in.tensor({5}, -1, 1, kFloat32), in.tensor({5}, -1, 1, kFloat32), 1e-5})
          .no_gradient();
  };
  op_case(op::layer_norm)
      .dtypes(kFloats)
      .gradient()
      .ulp(16)
      .samples(samples)
      .reference([](const Args& a) { return layer_norm_of(a, false); })
      .benchmark([](Inputs& in) {
        in.add({in.tensor({4096, 1024}), ints({1024}), in.tensor({1024}), in.tensor({1024})});
      })
      .error<ShapeError>("normalized_shape",
                         [](Inputs& in) {
                           in.add({in.tensor({3, 5}), ints({4})});
                           in.add({in.tensor({3, 5}), ints({})});
                         })
      .error<ShapeError>("weight",
                         [](Inputs& in) {
                           in.add({in.tensor({3, 5}), ints({5}), in.tensor({4})});
                         })
      .error<DtypeError>(
          "input",
          [](Inputs& in) {
            in.add({in.tensor({3, 5}), ints({5})});
          },
          kInt64);
  op_case(op::native_layer_norm).dtypes(kFloats).gradient().ulp(16).samples(samples).reference([](const Args& a) {
    return layer_norm_of(a, true);
  });
  op_case(op::native_layer_norm_backward)
      .dtypes(kFloats)
      .gradient()
      .ulp(32)
      .reference(layer_norm_gradient)
      .samples([](Inputs& in) {
        const Tensor none;
        const auto positive = [&](const Sizes& s) { return in.tensor(s, 0.3, 0.6); };
        in.add({in.tensor({3, 5}), in.tensor({3, 5}), ints({5}), in.tensor({3, 1}, -1, 1), positive({3, 1}),
                in.tensor({5}), in.tensor({5})});
        in.add({in.tensor({2, 3, 4}), in.tensor({2, 3, 4}), ints({3, 4}), in.tensor({2, 1, 1}, -1, 1),
                positive({2, 1, 1}), none, none, 1});
        in.add({in.tensor({90, 70}), in.tensor({90, 70}), ints({70}), in.tensor({90, 1}, -1, 1), positive({90, 1}),
                in.tensor({70}), in.tensor({70})})
            .no_gradient();
      });
}
