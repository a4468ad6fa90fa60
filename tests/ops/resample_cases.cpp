// SPDX-License-Identifier: Apache-2.0
// Rows of ops/resample.h. The reference sums over all entries, weighed by what the kernels of interpolation say.
#include <tenon/ops/resample.h>

#include "tests/support/op_case.h"

#include <algorithm>
#include <cmath>

using namespace tenon;
using namespace tenon::testing;

namespace {

using Index = std::vector<int64_t>;
using Scales = std::vector<double>;  // of the last dimensions; 0: none given
using Matrix = std::vector<std::vector<double>>;

double triangle(double x) { return std::max(0.0, 1 - std::abs(x)); }
double keys(double a, double x) {  // Keys 1981
  x = std::abs(x);
  if (x <= 1) return (a + 2) * x * x * x - (a + 3) * x * x + 1;
  return x < 2 ? a * (x * x * x - 5 * x * x + 8 * x - 4) : 0;
}
double to_precision(double v, DType t) { return convert(Number(v), kFloat64, t).re(); }

// How much of entry j of n goes into entry i of m; `narrow`: the 16-bit float weights are kept in, if any.
Matrix weights(const std::string& mode, bool align, double given, int64_t n, int64_t m, DType narrow) {
  Matrix w(static_cast<std::size_t>(m), std::vector<double>(static_cast<std::size_t>(n), 0));
  const double scale = align       ? (m > 1 ? double(n - 1) / double(m - 1) : 0)
                       : given > 0 ? 1 / given
                                   : double(n) / double(m);
  const bool cubic = mode.starts_with("cubic");
  for (int64_t i = 0; i < m; ++i) {
    std::vector<double>& row = w[static_cast<std::size_t>(i)];
    const auto add = [&](int64_t j, double v) { row[static_cast<std::size_t>(std::clamp<int64_t>(j, 0, n - 1))] += v; };
    if (mode == "nearest" || mode == "nearest-exact") {
      const float at = (static_cast<float>(i) + (mode == "nearest" ? 0.0f : 0.5f)) * static_cast<float>(scale);
      add(static_cast<int64_t>(at), 1);
    } else if (mode == "area") {
      const int64_t first = i * n / m, end = ((i + 1) * n + m - 1) / m;
      for (int64_t j = first; j < end; ++j) add(j, 1.0 / double(end - first));
    } else if (mode.ends_with("-aa")) {
      const double wide = std::max(scale, 1.0), center = scale * (double(i) + 0.5), reach = (cubic ? 2 : 1) * wide;
      double total = 0;
      for (int64_t j = std::max<int64_t>(0, int64_t(center - reach + 0.5));
           j < std::min<int64_t>(n, int64_t(center + reach + 0.5)); ++j) {
        const double x = (double(j) + 0.5 - center) / wide, v = cubic ? keys(-0.5, x) : triangle(x);
        add(j, v);
        total += v;
      }
      for (double& v : row) v = total != 0 ? v / total : 0;
    } else {
      double x = align ? scale * double(i) : scale * (double(i) + 0.5) - 0.5;
      if (!cubic) x = std::max(x, 0.0);
      const double base = std::min(std::floor(x), double(n - 1)), t = std::min(x - base, 1.0);
      const auto first = static_cast<int64_t>(base);
      if (cubic) {
        for (int k = -1; k <= 2; ++k) add(first + k, to_precision(keys(-0.75, double(k) - t), narrow));
      } else {
        const double upper = to_precision(t, narrow);
        add(first, to_precision(1 - upper, narrow));
        add(first + 1, upper);
      }
    }
  }
  return w;
}

// x with dimension d multiplied by a matrix, or its transpose; scale: of the absolute values.
Array contracted(const Array& x, std::size_t d, const Matrix& w, bool transposed) {
  Index sizes = x.sizes;
  sizes[d] = static_cast<int64_t>(transposed ? w[0].size() : w.size());
  Array out = make_array(x.dtype, sizes);
  out.scale.assign(out.data.size(), 0);
  std::size_t n = 0;
  each_index(sizes, [&](Index at) {
    const auto to = static_cast<std::size_t>(at[d]);
    for (int64_t j = 0; j < x.sizes[d]; ++j) {
      at[d] = j;
      const auto from = static_cast<std::size_t>(flat_index(at, x.sizes));
      const double v = transposed ? w[static_cast<std::size_t>(j)][to] : w[to][static_cast<std::size_t>(j)];
      out.data[n].z += v * x.data[from].z;
      out.data[n].i = static_cast<int64_t>(out.data[n].z.real());
      out.scale[n] += std::abs(v) * (x.scale.empty() ? std::abs(x.data[from].z) : x.scale[from]);
    }
    ++n;
  });
  return out;
}
// From sizes `in` to sizes `out` of the last dimensions, or back.
Array resampled(Array x, const std::string& mode, bool align, const Scales& scales, const Index& in, const Index& out,
                bool transposed) {
  const bool kept = !transposed && (mode == "cubic" || (mode == "linear" && in.size() != 2));
  const DType narrow = kept && (x.dtype == kFloat16 || x.dtype == kBFloat16) ? x.dtype : kFloat64;
  const std::size_t first = x.sizes.size() - in.size();
  for (std::size_t k = 0; k < in.size(); ++k)
    x = contracted(x, first + k, weights(mode, align, k < scales.size() ? scales[k] : 0, in[k], out[k], narrow),
                   transposed);
  if (mode.starts_with("cubic"))
    for (double& v : x.scale)
      v = 16 * (v + 4);  // weights are polynomials with coefficients up to 6, however small they are
  return x;
}
Index last(const Index& sizes, std::size_t n) { return Index(sizes.end() - static_cast<int64_t>(n), sizes.end()); }
Scales scales_from(const Args& a, int first) {
  Scales s;
  for (int i = first; i < static_cast<int>(a.size()); ++i) s.push_back(a.is_none(i) ? 0 : a.real(i));
  return s;
}
Index by_factors(const Index& sizes, const Scales& factors) {
  Index out;
  for (std::size_t k = 0; k < factors.size(); ++k)
    out.push_back(static_cast<int64_t>(std::floor(double(sizes[k]) * factors[k])));
  return out;
}

struct Resizing {
  Index in, out;
  Scales scales;
};
const std::vector<Resizing> kResizings[3] = {
    {{{5}, {8}, {}},
     {{7}, {3}, {}},
     {{4}, {6}, {1.5}},
     {{1}, {4}, {}},
     {{6}, {1}, {}},
     {{5}, {5}, {}},
     {{4}, {9}, {0.4}}},
    {{{4, 5}, {7, 8}, {}},
     {{6, 7}, {2, 3}, {}},
     {{4, 5}, {6, 8}, {1.7, 1.7}},
     {{1, 3}, {3, 1}, {}},
     {{5, 4}, {5, 9}, {}}},
    {{{3, 4, 2}, {5, 6, 3}, {}}, {{4, 3, 5}, {2, 2, 3}, {}}, {{2, 3, 3}, {3, 5, 4}, {1.7, 1.7, 1.5}}}};

Value maybe(const Scales& s, std::size_t k) { return k < s.size() ? Value(s[k]) : Value(); }
Index with_channels(const Index& spatial, int64_t batch = 2) {
  Index sizes = {batch, 3};
  sizes.insert(sizes.end(), spatial.begin(), spatial.end());
  return sizes;
}

void family(std::size_t rank, const std::string& mode, bool aligned, OpCase& row, OpCase& vec, OpCase& back) {
  const bool nearest = mode.starts_with("nearest");
  const auto each = [=](auto add) {
    return [=](Inputs& in) {
      for (const bool align : {false, true})
        for (const Resizing& r : kResizings[rank - 1])
          if (aligned || !align) add(in, r, align);
    };
  };
  const auto end_of_args = [=](std::vector<Value> args, const Resizing& r, bool align) {
    if (aligned) args.push_back(Value(align));
    for (std::size_t k = 0; k < rank; ++k) args.push_back(maybe(r.scales, k));
    return args;
  };
  row.dtypes(nearest ? kFloats + Dtypes{kUInt8} : kFloats)
      .gradient()
      .reference([=](const Args& a) {
        const Array x = a.array(0);
        return std::vector<Array>{resampled(x, mode, aligned && a.integer(2) != 0, scales_from(a, aligned ? 3 : 2),
                                            last(x.sizes, rank), a.ints(1), false)};
      })
      .samples(each([=](Inputs& in, const Resizing& r, bool align) {
        in.add(end_of_args({in.tensor(with_channels(r.in)), ints(r.out)}, r, align));
      }))
      .samples([=](Inputs& in) {
        const Index small(rank, 2), large(rank, 3);
        in.add(end_of_args({in.tensor(with_channels(small, 0)), ints(large)}, {}, false));
        const Index wide(rank, 9), wider(rank, rank == 3 ? 13 : 41);
        in.add(end_of_args({in.tensor(with_channels(wide)), ints(wider)}, {}, false)).no_gradient();
        in.add(end_of_args({in.tensor(with_channels(wider)), ints(wide)}, {}, false)).no_gradient();
        if (rank == 1) return;
        const MemoryFormat format = rank == 2 ? MemoryFormat::channels_last : MemoryFormat::channels_last_3d;
        Index many = with_channels(small);
        in.add(end_of_args({in.tensor(many).contiguous(format), ints(large)}, {}, false)).no_gradient();
        many[1] = 21;
        in.add(end_of_args({in.tensor(many).contiguous(format), ints(large)}, {}, false)).no_gradient();
      })
      .error<ShapeError>(
          "output_size",
          [=](Inputs& in) {
            in.add(end_of_args({in.tensor(with_channels(Index(rank, 2))), ints(Index(rank + 1, 2))}, {}, false));
          })
      .error<ShapeError>(
          "output_size",
          [=](Inputs& in) {
            in.add(end_of_args({in.tensor(with_channels(Index(rank, 2))), ints(Index(rank, 0))}, {}, false));
          })
      .error<ShapeError>("self",
                         [=](Inputs& in) {
                           in.add(end_of_args({in.tensor(Index(rank + 1, 2)), ints(Index(rank, 2))}, {}, false));
                         })
      .benchmark([=](Inputs& in) {
        if (rank == 2) in.add(end_of_args({in.tensor({8, 16, 128, 128}), ints({256, 256})}, {}, false));
      });
  if (!nearest)
    row.error<DtypeError>(
        "self",
        [=](Inputs& in) {
          in.add(end_of_args({in.tensor(with_channels(Index(rank, 2))), ints(Index(rank, 2))}, {}, false));
        },
        kInt64);
  vec.dtypes({kFloat64, kFloat32})
      .no_meta()  // factors are read
      .gradient()
      .gradient_of(1)
      .reference([=](const Args& a) {
        const Array x = a.array(0);
        const bool align = aligned && a.integer(2) != 0;
        Scales factors;
        for (const Array& f : a.arrays(aligned ? 3 : 2)) factors.push_back(f.data[0].re());
        const Index in = last(x.sizes, rank);
        return std::vector<Array>{
            resampled(x, mode, align, factors, in, factors.empty() ? a.ints(1) : by_factors(in, factors), false)};
      })
      .samples([=](Inputs& in) {
        for (const bool align : {false, true}) {
          if (align && !aligned) continue;
          std::vector<Tensor> factors(rank, Inputs(kFloat64, 1).values({1.5}, {}));
          const Value flag = Value(align);
          const Tensor x = in.tensor(with_channels(Index(rank, 3)));
          if (aligned) {
            in.add({x, ints(Index(rank, 4)), flag});
            in.add({x, Value(), flag, Value(factors)});
          } else {
            in.add({x, ints(Index(rank, 4))});
            in.add({x, Value(), Value(factors)});
          }
        }
      })
      .error<ValueError>("output_size", [=](Inputs& in) {
        if (aligned)
          in.add({in.tensor(with_channels(Index(rank, 3))), Value(), Value(false)});
        else
          in.add({in.tensor(with_channels(Index(rank, 3))), Value()});
      });
  back.dtypes(kFloats)
      .gradient()
      .reference([=](const Args& a) {
        return std::vector<Array>{resampled(a.array(0), mode, aligned && a.integer(3) != 0,
                                            scales_from(a, aligned ? 4 : 3), last(a.ints(2), rank), a.ints(1), true)};
      })
      .samples(each([=](Inputs& in, const Resizing& r, bool align) {
        in.add(end_of_args({in.tensor(with_channels(r.out)), ints(r.out), ints(with_channels(r.in))}, r, align));
      }))
      .samples([=](Inputs& in) {
        if (rank != 2) return;
        in.add(end_of_args({in.tensor({2, 19, 7, 8}).contiguous(MemoryFormat::channels_last), ints({7, 8}),
                            ints({2, 19, 4, 5})},
                           {}, false))
            .no_gradient();
        in.add(end_of_args({in.tensor({1, 2, 5, 90}), ints({5, 90}), ints({1, 2, 40, 9})}, {}, false)).no_gradient();
      })
      .error<ShapeError>("grad_output", [=](Inputs& in) {
        in.add(end_of_args(
            {in.tensor(with_channels(Index(rank, 3))), ints(Index(rank, 2)), ints(with_channels(Index(rank, 4)))}, {},
            false));
      });
}

}  // namespace

TENON_OP_CASES(resample) {
  const std::vector<std::string> modes = {"nearest", "nearest-exact", "linear",  "cubic",
                                          "area",    "linear-aa",     "cubic-aa"};
  const auto sizes = [=](Inputs& in, bool backward) {
    for (const std::string& mode : modes)
      for (const Resizing& r : kResizings[1])
        in.add({in.tensor(with_channels(backward ? r.out : r.in)), ints(backward ? r.in : r.out), Value(mode),
                Value(false), Value(), maybe(r.scales, 0), maybe(r.scales, 1)});
  };
  op_case(op::resample)
      .dtypes(kFloats)
      .gradient()
      .reference([](const Args& a) {
        const Array x = a.array(0);
        return std::vector<Array>{
            resampled(x, a.text(2), a.integer(3) != 0, scales_from(a, 5), last(x.sizes, 2), a.ints(1), false)};
      })
      .samples([=](Inputs& in) { sizes(in, false); })
      .error<ValueError>("mode",
                         [](Inputs& in) {
                           in.add({in.tensor({1, 1, 2, 2}), ints({2, 2}), Value("sinc")});
                         })
      .error<ShapeError>("output_size", [](Inputs& in) {
        in.add({in.tensor({2, 2}), ints({2, 2, 2}), Value("linear")});
      });
  op_case(op::resample_backward)
      .dtypes(kFloats)
      .gradient()
      .reference([](const Args& a) {
        const Array g = a.array(0);
        return std::vector<Array>{
            resampled(g, a.text(2), a.integer(3) != 0, scales_from(a, 5), a.ints(1), last(g.sizes, 2), true)};
      })
      .samples([=](Inputs& in) { sizes(in, true); })
      .error<DtypeError>(
          "grad_output",
          [](Inputs& in) {
            in.add({in.tensor({1, 1, 2, 2}), ints({2, 2}), Value("linear")});
          },
          kInt64);

  family(1, "nearest", false, op_case(op::upsample_nearest1d), op_case(op::upsample_nearest1d_vec),
         op_case(op::upsample_nearest1d_backward));
  family(2, "nearest", false, op_case(op::upsample_nearest2d), op_case(op::upsample_nearest2d_vec),
         op_case(op::upsample_nearest2d_backward));
  family(3, "nearest", false, op_case(op::upsample_nearest3d), op_case(op::upsample_nearest3d_vec),
         op_case(op::upsample_nearest3d_backward));
  family(1, "nearest-exact", false, op_case(op::upsample_nearest_exact1d), op_case(op::upsample_nearest_exact1d_vec),
         op_case(op::upsample_nearest_exact1d_backward));
  family(2, "nearest-exact", false, op_case(op::upsample_nearest_exact2d), op_case(op::upsample_nearest_exact2d_vec),
         op_case(op::upsample_nearest_exact2d_backward));
  family(3, "nearest-exact", false, op_case(op::upsample_nearest_exact3d), op_case(op::upsample_nearest_exact3d_vec),
         op_case(op::upsample_nearest_exact3d_backward));
  family(1, "linear", true, op_case(op::upsample_linear1d), op_case(op::upsample_linear1d_vec),
         op_case(op::upsample_linear1d_backward));
  family(2, "linear", true, op_case(op::upsample_bilinear2d), op_case(op::upsample_bilinear2d_vec),
         op_case(op::upsample_bilinear2d_backward));
  family(3, "linear", true, op_case(op::upsample_trilinear3d), op_case(op::upsample_trilinear3d_vec),
         op_case(op::upsample_trilinear3d_backward));
  family(2, "cubic", true, op_case(op::upsample_bicubic2d), op_case(op::upsample_bicubic2d_vec),
         op_case(op::upsample_bicubic2d_backward));
  family(2, "linear-aa", true, op_case(op::upsample_bilinear2d_aa), op_case(op::upsample_bilinear2d_aa_vec),
         op_case(op::upsample_bilinear2d_aa_backward));
  family(2, "cubic-aa", true, op_case(op::upsample_bicubic2d_aa), op_case(op::upsample_bicubic2d_aa_vec),
         op_case(op::upsample_bicubic2d_aa_backward));
}

TENON_OP_CASES(interpolate) {
  const auto mode_of = [](const std::string& mode) {
    return mode.ends_with("linear") ? std::string("linear") : mode == "bicubic" ? "cubic" : mode;
  };
  // Arguments 1 to 6: size, scale_factor, mode, align_corners, recompute_scale_factor, antialias.
  const auto reference = [=](bool list) {
    return [=](const Args& a) {
      const Array x = a.array(0);
      const std::size_t rank = x.sizes.size() - 2;
      const Index in = last(x.sizes, rank);
      Index out = a.ints(1);
      if (out.size() == 1) out.assign(rank, out[0]);
      Scales factors;
      if (list)
        for (const Array& f : a.arrays(2)) factors.push_back(f.data[0].re());
      else if (!a.is_none(2))
        factors.assign(rank, a.real(2));
      if (!factors.empty()) out = by_factors(in, factors);
      if (!a.is_none(5) && a.integer(5) != 0) factors.clear();
      const std::string mode = mode_of(a.text(3)) + (a.integer(6) != 0 ? "-aa" : "");
      return std::vector<Array>{resampled(x, mode, !a.is_none(4) && a.integer(4) != 0, factors, in, out, false)};
    };
  };
  using Keywords = dispatch::KeywordArguments;
  op_case(op::interpolate)
      .dtypes({kFloat64, kFloat32, kBFloat16})
      .gradient()
      .reference(reference(false))
      .samples([](Inputs& in) {
        const Index sizes[] = {{2, 3, 5}, {2, 3, 5, 4}, {2, 2, 3, 2, 4}};
        for (const Index& s : sizes) {
          for (const char* mode : {"nearest", "nearest-exact", "area"}) {
            in.add({in.tensor(s)}, Keywords{{"size", int64_t(3)}, {"mode", mode}});
            in.add({in.tensor(s)}, Keywords{{"scale_factor", 1.7}, {"mode", mode}});
          }
          const char* smooth = s.size() == 3 ? "linear" : s.size() == 4 ? "bilinear" : "trilinear";
          in.add({in.tensor(s)}, Keywords{{"scale_factor", 1.7}, {"mode", smooth}, {"align_corners", true}});
          in.add({in.tensor(s)}, Keywords{{"scale_factor", 1.7}, {"mode", smooth}, {"recompute_scale_factor", true}});
          in.add({in.tensor(s)}, Keywords{{"scale_factor", 0.6}, {"mode", smooth}, {"recompute_scale_factor", false}});
        }
        for (const char* mode : {"bilinear", "bicubic"})
          in.add({in.tensor({1, 2, 7, 5})}, Keywords{{"size", ints({3, 4})}, {"mode", mode}, {"antialias", true}});
      })
      .error<ValueError>("scale_factor",
                         [](Inputs& in) {
                           in.add({in.tensor({1, 1, 2})});
                         })
      .error<ValueError>("mode",
                         [](Inputs& in) {
                           in.add({in.tensor({1, 1, 2})}, Keywords{{"size", int64_t(3)}, {"mode", "sinc"}});
                         })
      .error<ShapeError>("size",
                         [](Inputs& in) {
                           in.add({in.tensor({1, 1, 2})}, Keywords{{"size", ints({3, 3})}});
                         })
      .error<ShapeError>("self",
                         [](Inputs& in) {
                           in.add({in.tensor({1, 2})}, Keywords{{"size", int64_t(3)}});
                         })
      .error<ShapeError>("self",
                         [](Inputs& in) {
                           in.add({in.tensor({1, 1, 2})}, Keywords{{"size", int64_t(3)}, {"mode", "bilinear"}});
                         })
      .error<ValueError>("align_corners",
                         [](Inputs& in) {
                           in.add({in.tensor({1, 1, 2})}, Keywords{{"size", int64_t(3)}, {"align_corners", true}});
                         })
      .error<ValueError>(
          "antialias",
          [](Inputs& in) {
            in.add({in.tensor({1, 1, 2})}, Keywords{{"size", int64_t(3)}, {"mode", "linear"}, {"antialias", true}});
          })
      .error<ValueError>(
          "recompute",
          [](Inputs& in) {
            in.add({in.tensor({1, 1, 2})}, Keywords{{"size", int64_t(3)}, {"recompute_scale_factor", true}});
          })
      .error<ShapeError>("output_size", [](Inputs& in) {
        in.add({in.tensor({1, 1, 2})}, Keywords{{"scale_factor", 0.1}});
      });
  op_case(op::interpolate_list)
      .dtypes({kFloat64, kFloat32})
      .no_meta()  // factors are read
      .gradient()
      .gradient_of(1)
      .reference(reference(true))
      .samples([](Inputs& in) {
        const std::vector<Tensor> factors = {Inputs(kFloat64, 1).values({1.5}, {}),
                                             Inputs(kFloat64, 1).values({0.75}, {})};
        in.add({in.tensor({2, 3, 4, 4}), Value(), Value(factors), Value("bilinear")});
        in.add({in.tensor({2, 3, 4, 4}), ints({2, 6})});
      })
      .error<ShapeError>("scale_factor", [](Inputs& in) {
        in.add({in.tensor({1, 1, 2}), Value(), Value(std::vector<Tensor>(2, Inputs(kFloat64, 1).values({2}, {})))});
      });
  for (const bool linear : {false, true}) {
    OpCase& row = linear ? op_case(op::upsample_bilinear) : op_case(op::upsample_nearest);
    row.dtypes(kFloats)
        .gradient()
        .reference([=](const Args& a) {
          const Array x = a.array(0);
          const Index in = last(x.sizes, 2);
          const Scales factors = a.is_none(2) ? Scales() : Scales(2, a.real(2));
          return std::vector<Array>{resampled(x, linear ? "linear" : "nearest", linear, factors, in,
                                              factors.empty() ? a.ints(1) : by_factors(in, factors), false)};
        })
        .samples([](Inputs& in) {
          in.add({in.tensor({2, 3, 4, 5}), ints({7, 3})});
          in.add({in.tensor({2, 3, 4, 5})}, Keywords{{"scale_factor", 1.7}});
        })
        .error<ValueError>("size", [](Inputs& in) {
          in.add({in.tensor({1, 1, 2, 2})});
        });
  }
}
