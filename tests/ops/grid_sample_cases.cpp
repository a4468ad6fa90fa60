// SPDX-License-Identifier: Apache-2.0
// Rows of ops/grid_sample.h. The reference is a sum over all entries near a position, weighed by the distance.
#include <tenon/ops/grid_sample.h>

#include "tests/support/op_case.h"

#include <algorithm>
#include <cmath>

using namespace tenon;
using namespace tenon::testing;

namespace {

using Index = std::vector<int64_t>;

double triangle(double x) { return std::max(0.0, 1 - std::abs(x)); }
double keys(double x) {  // Keys 1981, parameter -0.75
  x = std::abs(x);
  if (x <= 1) return 1.25 * x * x * x - 2.25 * x * x + 1;
  return x < 2 ? -0.75 * (x * x * x - 5 * x * x + 8 * x - 4) : 0;
}

struct Mode {
  int64_t interpolation, padding;
  bool align;
};

// A position, or with bicubic interpolation an entry, brought within n entries.
double folded(double x, int64_t n, const Mode& m) {
  const double low = m.align ? 0 : -0.5, high = double(n) - 1 - low, last = double(n - 1);
  if (m.padding == 0) return x;
  if (m.padding == 2) {
    if (high == low) return 0;
    while (x < low || x > high) x = x < low ? 2 * low - x : 2 * high - x;
  }
  return std::clamp(x, 0.0, last);
}
// Weights of the n entries of a dimension for a coordinate.
std::vector<double> weights(double coordinate, int64_t n, const Mode& m) {
  std::vector<double> w(static_cast<std::size_t>(n), 0);
  double x = m.align ? (coordinate + 1) / 2 * double(n - 1) : ((coordinate + 1) * double(n) - 1) / 2;
  if (m.interpolation != 2) x = folded(x, n, m);
  const auto at = static_cast<int64_t>(std::floor(x));
  for (int64_t j = at - 2; j <= at + 3; ++j) {
    const double v = m.interpolation == 0   ? triangle(x - double(j))
                     : m.interpolation == 2 ? keys(x - double(j))
                                            : double(std::nearbyint(x) == double(j));
    const double to = m.interpolation == 2 ? folded(double(j), n, m) : double(j);
    if (v != 0 && to >= 0 && to < double(n)) w[static_cast<std::size_t>(to)] += v;
  }
  return w;
}

// f(flat index into the result, flat index into the input, weight) for all of [n, c, places] and [n, c, entries].
template <class F>
void each_pair(const Index& input, const Array& grid, const Mode& m, F f) {
  const std::size_t rank = input.size() - 2;
  const int64_t places = count(Index(grid.sizes.begin() + 1, grid.sizes.end() - 1)),
                plane = count(Index(input.begin() + 2, input.end()));
  for (int64_t n = 0; n < input[0]; ++n)
    for (int64_t p = 0; p < places; ++p) {
      std::vector<std::vector<double>> w;
      for (std::size_t d = 0; d < rank; ++d)
        w.push_back(weights(grid.data[static_cast<std::size_t>((n * places + p + 1) * int64_t(rank) - 1) - d].re(),
                            input[2 + d], m));
      int64_t e = 0;
      each_index(Index(input.begin() + 2, input.end()), [&](const Index& at) {
        double v = 1;
        for (std::size_t d = 0; d < rank; ++d) v *= w[d][static_cast<std::size_t>(at[d])];
        for (int64_t c = 0; c < input[1] && v != 0; ++c)
          f(static_cast<std::size_t>((n * input[1] + c) * places + p),
            static_cast<std::size_t>((n * input[1] + c) * plane + e), v);
        ++e;
      });
    }
}
Index sampled_sizes(const Index& input, const Index& grid) {
  Index sizes = {input[0], input[1]};
  sizes.insert(sizes.end(), grid.begin() + 1, grid.end() - 1);
  return sizes;
}
// Positions are rounded to the dtype before they weigh, which `reach` allows for.
constexpr double kReach = 16;
Array sampled(const Array& input, const Array& grid, const Mode& m) {
  Array out = make_array(input.dtype, sampled_sizes(input.sizes, grid.sizes));
  out.scale.assign(out.data.size(), kReach * 4);
  each_pair(input.sizes, grid, m,
            [&](std::size_t to, std::size_t from, double w) { out.data[to].z += w * input.data[from].z; });
  return out;
}
std::vector<Array> sampled_backward(const Array& grad, const Array& input, Array grid, const Mode& m) {
  Array of_input = make_array(input.dtype, input.sizes), of_grid = make_array(grid.dtype, grid.sizes);
  of_input.scale.assign(of_input.data.size(), kReach * 64);
  of_grid.scale.assign(of_grid.data.size(), kReach * 256);
  each_pair(input.sizes, grid, m,
            [&](std::size_t from, std::size_t to, double w) { of_input.data[to].z += w * grad.data[from].z; });
  // What the sum of gradient times sample changes by when one coordinate does.
  const double step = 1e-4;
  for (std::size_t i = 0; i < grid.data.size(); ++i) {
    const Number kept = grid.data[i];
    for (const double sign : {1.0, -1.0}) {
      grid.data[i] = Number(kept.re() + sign * step);
      each_pair(input.sizes, grid, m, [&](std::size_t to, std::size_t from, double w) {
        of_grid.data[i].z += sign * w * input.data[from].z * grad.data[to].z / (2 * step);
      });
    }
    grid.data[i] = kept;
  }
  return {of_input, of_grid};
}
Mode mode_at(const Args& a, int first) { return {a.integer(first), a.integer(first + 1), a.integer(first + 2) != 0}; }

// Odd multiples of 1/`unit` between -1.5 and 1.5: never on an edge or half way for the sizes below.
Tensor positions(Inputs& in, const Index& sizes, int64_t unit) {
  std::vector<double> v;
  for (int64_t i = 0; i < count(sizes); ++i)
    v.push_back(double(2 * in.integer(-3 * unit / 4, 3 * unit / 4 - 1) + 1) / double(unit));
  return in.values(v, sizes);
}
struct Shapes {
  Index input, grid;
};
const std::vector<Shapes> kImages = {{{2, 3, 4, 5}, {2, 3, 2, 2}},
                                     {{1, 2, 1, 3}, {1, 1, 7, 2}},
                                     {{0, 2, 3, 3}, {0, 2, 2, 2}},
                                     {{1, 2, 3, 3}, {1, 0, 2, 2}}};
const std::vector<Shapes> kVolumes = {{{2, 2, 3, 4, 2}, {2, 1, 3, 2, 3}}, {{1, 1, 2, 1, 3}, {1, 2, 2, 2, 3}}};

template <class F>
void each_mode(int rank, F f) {
  for (int64_t interpolation = 0; interpolation < (rank == 2 ? 3 : 2); ++interpolation)
    for (int64_t padding = 0; padding < 3; ++padding)
      for (const bool align : {false, true}) f(Value(interpolation), Value(padding), Value(align));
}

void family(int rank, OpCase& row, OpCase& halves, OpCase& back) {
  const std::vector<Shapes>& shapes = rank == 2 ? kImages : kVolumes;
  const Reference reference = [](const Args& a) {
    return std::vector<Array>{sampled(a.array(0), a.array(1), mode_at(a, 2))};
  };
  const auto small = [=](Inputs& in, auto f) {
    const Index input = rank == 2 ? Index{1, 1, 2, 2} : Index{1, 1, 2, 2, 2},
                grid = rank == 2 ? Index{1, 1, 1, 2} : Index{1, 1, 1, 1, 3};
    f(in.tensor(input), in.tensor(grid), input, grid);
  };
  row.dtypes({kFloat64, kFloat32})
      .gradient(false)
      .reference(reference)
      .samples([=](Inputs& in) {
        each_mode(rank, [&](Value interpolation, Value padding, Value align) {
          for (const Shapes& s : shapes)
            in.add({in.tensor(s.input), positions(in, s.grid, 128), interpolation, padding, align});
        });
        Index many = shapes[0].grid;
        many[1] = 300;
        in.add({in.tensor(shapes[0].input), positions(in, many, 128), Value(int64_t(0)), Value(int64_t(1)),
                Value(false)})
            .no_gradient();
      })
      .error<ValueError>("interpolation_mode",
                         [=](Inputs& in) {
                           small(in, [&](const Tensor& x, const Tensor& g, auto...) {
                             in.add({x, g, Value(int64_t(rank == 2 ? 3 : 2)), Value(int64_t(0)), Value(false)});
                           });
                         })
      .error<ValueError>("padding_mode",
                         [=](Inputs& in) {
                           small(in, [&](const Tensor& x, const Tensor& g, auto...) {
                             in.add({x, g, Value(int64_t(0)), Value(int64_t(3)), Value(false)});
                           });
                         })
      .error<DtypeError>(
          "grid",
          [=](Inputs& in) {
            small(in, [&](const Tensor& x, const Tensor&, const Index&, const Index& grid) {
              in.add({x, in.tensor(grid, -1, 1, kFloat64), Value(int64_t(0)), Value(int64_t(0)), Value(false)});
            });
          })
      .error<ShapeError>("grid",
                         [=](Inputs& in) {
                           small(in, [&](const Tensor& x, auto...) {
                             in.add({x, in.tensor({1, 2}), Value(int64_t(0)), Value(int64_t(0)), Value(false)});
                           });
                         })
      .error<ShapeError>("input",
                         [=](Inputs& in) {
                           small(in, [&](const Tensor&, const Tensor& g, Index input, auto...) {
                             input[2] = 0;
                             in.add({in.tensor(input), g, Value(int64_t(0)), Value(int64_t(0)), Value(false)});
                           });
                         })
      .benchmark([=](Inputs& in) {
        const Index input = rank == 2 ? Index{4, 16, 128, 128} : Index{1, 8, 32, 64, 64},
                    grid = rank == 2 ? Index{4, 128, 128, 2} : Index{1, 32, 64, 64, 3};
        in.add({in.tensor(input), in.tensor(grid, -1, 1), Value(int64_t(0)), Value(int64_t(0)), Value(false)});
      });
  // With few digits positions are exact in 16 bits.
  halves.dtypes({kFloat16, kBFloat16}).reference(reference).samples([=](Inputs& in) {
    for (int64_t interpolation = 0; interpolation < 2; ++interpolation)
      for (int64_t padding = 0; padding < 3; ++padding)
        for (const bool align : {false, true}) {
          const Index input = rank == 2 ? Index{2, 3, 4, 2} : Index{2, 2, 2, 4, 2};
          Index sizes = input;
          for (std::size_t d = 2; d < sizes.size(); ++d) sizes[d] += align ? 1 : 0;
          in.add({in.tensor(sizes), positions(in, rank == 2 ? Index{2, 3, 2, 2} : Index{2, 1, 3, 2, 3}, 32),
                  Value(interpolation), Value(padding), Value(align)});
        }
  });
  back.dtypes({kFloat32})
      .reference([](const Args& a) { return sampled_backward(a.array(0), a.array(1), a.array(2), mode_at(a, 3)); })
      .samples([=](Inputs& in) {
        each_mode(rank, [&](Value interpolation, Value padding, Value align) {
          for (const Shapes& s : shapes)
            in.add({in.tensor(sampled_sizes(s.input, s.grid)), in.tensor(s.input), positions(in, s.grid, 128),
                    interpolation, padding, align});
        });
      })
      .error<ShapeError>("grad_output", [=](Inputs& in) {
        small(in, [&](const Tensor& x, const Tensor& g, auto...) {
          in.add({in.tensor({2}), x, g, Value(int64_t(0)), Value(int64_t(0)), Value(false)});
        });
      });
}

}  // namespace

TENON_OP_CASES(grid_sample) {
  family(2, op_case(op::grid_sampler_2d), op_case(op::grid_sampler_2d, "halves"),
         op_case(op::grid_sampler_2d_backward));
  family(3, op_case(op::grid_sampler_3d), op_case(op::grid_sampler_3d, "halves"),
         op_case(op::grid_sampler_3d_backward));
  op_case(op::grid_sampler)
      .dtypes({kFloat64})
      .gradient(false)
      .reference([](const Args& a) { return std::vector<Array>{sampled(a.array(0), a.array(1), mode_at(a, 2))}; })
      .samples([](Inputs& in) {
        for (const Shapes& s : {kImages[0], kVolumes[0]})
          in.add({in.tensor(s.input), positions(in, s.grid, 128), Value(int64_t(0)), Value(int64_t(2)), Value(true)});
      })
      .error<ShapeError>("input", [](Inputs& in) {
        in.add({in.tensor({2}), in.tensor({2}), Value(int64_t(0)), Value(int64_t(0)), Value(true)});
      });
  const std::vector<std::string> modes = {"bilinear", "nearest", "bicubic"},
                                 paddings = {"zeros", "border", "reflection"};
  const auto number = [](const std::vector<std::string>& list, const std::string& name) {
    return std::find(list.begin(), list.end(), name) - list.begin();
  };
  op_case(op::grid_sample)
      .dtypes({kFloat64, kFloat32})
      .gradient(false)
      .reference([=](const Args& a) {
        return std::vector<Array>{sampled(a.array(0), a.array(1),
                                          {number(modes, a.text(2)), number(paddings, a.text(3)), a.integer(4) != 0})};
      })
      .samples([=](Inputs& in) {
        for (const std::string& mode : modes)
          for (const std::string& padding : paddings)
            in.add({in.tensor(kImages[0].input), positions(in, kImages[0].grid, 128), Value(mode), Value(padding),
                    Value(true)});
        in.add({in.tensor(kVolumes[0].input), positions(in, kVolumes[0].grid, 128)});
      })
      .error<ValueError>("mode",
                         [](Inputs& in) {
                           in.add({in.tensor({1, 1, 2, 2}), in.tensor({1, 1, 1, 2}), Value("cubic")});
                         })
      .error<ValueError>(
          "padding_mode",
          [](Inputs& in) {
            in.add({in.tensor({1, 1, 2, 2}), in.tensor({1, 1, 1, 2}), Value("bilinear"), Value("mirror")});
          })
      .error<ValueError>("bicubic", [](Inputs& in) {
        in.add({in.tensor({1, 1, 2, 2, 2}), in.tensor({1, 1, 1, 1, 3}), Value("bicubic")});
      });

  for (const bool front : {false, true}) {
    OpCase& row = front ? op_case(op::affine_grid) : op_case(op::affine_grid_generator);
    row.dtypes({kFloat64, kFloat32})
        .gradient()
        .reference([](const Args& a) {
          const Array theta = a.array(0);
          const Index size = a.ints(1);
          const auto rank = static_cast<int64_t>(size.size()) - 2;
          Index sizes = {size[0]};
          sizes.insert(sizes.end(), size.begin() + 2, size.end());
          sizes.push_back(rank);
          Array out = make_array(theta.dtype, sizes);
          out.scale.assign(out.data.size(), 16);
          std::size_t n = 0;
          each_index(sizes, [&](const Index& at) {
            const auto row = static_cast<std::size_t>((at[0] * rank + at.back()) * (rank + 1));
            double v = theta.data[row + static_cast<std::size_t>(rank)].re();
            for (int64_t k = 0; k < rank; ++k) {  // coordinate k belongs to the k-th dimension from the end
              const auto d = static_cast<std::size_t>(rank - k);
              const double places = double(sizes[d]), i = double(at[d]);
              const double x = a.integer(2) == 0 ? (2 * i + 1) / places - 1 : places > 1 ? 2 * i / (places - 1) - 1 : 0;
              v += theta.data[row + static_cast<std::size_t>(k)].re() * x;
            }
            out.data[n++] = Number(v);
          });
          return std::vector<Array>{out};
        })
        .samples([](Inputs& in) {
          for (const bool align : {false, true}) {
            in.add({in.tensor({2, 2, 3}), ints({2, 1, 3, 4}), Value(align)});
            in.add({in.tensor({1, 2, 3}), ints({1, 5, 1, 2}), Value(align)});
            in.add({in.tensor({2, 3, 4}), ints({2, 1, 3, 1, 2}), Value(align)});
          }
        })
        .error<ShapeError>("theta",
                           [](Inputs& in) {
                             in.add({in.tensor({1, 3, 4}), ints({1, 1, 2, 2}), Value(true)});
                           })
        .error<ShapeError>("size",
                           [](Inputs& in) {
                             in.add({in.tensor({1, 2, 3}), ints({1, 1, 2}), Value(true)});
                           })
        .error<ValueError>("size",
                           [](Inputs& in) {
                             in.add({in.tensor({1, 2, 3}), ints({1, 1, 0, 2}), Value(true)});
                           })
        .error<DtypeError>(
            "theta",
            [](Inputs& in) {
              in.add({in.tensor({1, 2, 3}), ints({1, 1, 2, 2}), Value(true)});
            },
            kInt64);
  }
}
