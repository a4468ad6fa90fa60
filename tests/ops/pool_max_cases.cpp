// SPDX-License-Identifier: Apache-2.0
// Rows of ops/pool.h: maxima, the way back, and powers.
#include "tests/ops/pool_reference.h"

using namespace tenon;
using namespace tenon::testing;
using namespace tenon::testing::pooling;

namespace {

const std::array kMax = {&op::max_pool1d, &op::max_pool2d, &op::max_pool3d};
const std::array kMaxWithIndices = {&op::max_pool1d_with_indices, &op::max_pool2d_with_indices,
                                    &op::max_pool3d_with_indices};
const std::array kAdaptiveMax = {&op::adaptive_max_pool1d, &op::adaptive_max_pool2d, &op::adaptive_max_pool3d};
const std::array kUnpool = {&op::max_unpool1d, &op::max_unpool2d, &op::max_unpool3d};
const std::array kPowers = {&op::lp_pool1d, &op::lp_pool2d, &op::lp_pool3d};
const std::array kMaxBackward = {&op::max_pool2d_with_indices_backward, &op::max_pool3d_with_indices_backward};
const std::array kFractional = {&op::fractional_max_pool2d, &op::fractional_max_pool3d};

void max_rows() {
  for (const int64_t D : {1, 2, 3}) {
    const auto N = static_cast<std::size_t>(D);
    const auto both = [=](const Args& a) {
      const Array x = a.array(0);
      return largest_of(regular_pool(a, x.sizes, 1, N, a.ints(4), a.integer(5) != 0), x);
    };
    const auto samples = [=](bool with_flag) -> Maker {
      return [=](Inputs& in) {
        const auto add = [&](Tensor x, Sizes k, Sizes s, Sizes p, Sizes d, bool ceil_mode) -> Sample& {
          if (k.size() == 1) k = Sizes(N, k[0]);
          std::vector<Value> args = {x, ints(k), ints(s), ints(p), ints(d), ceil_mode};
          if (with_flag) args.push_back(true);
          return in.add(args);
        };
        pools(in, N, true, add);
        add(with_ties(in, shape({2, 3}, N)), {3}, {1}, {1}, {1}, false).no_gradient();
        add(with_ties(in, shape({2, 3}, N)), {2}, {2}, {0}, {1}, true).no_gradient();
        add(with_ties(in, shape({1, 2}, N, {2, 3, 40})), cut({1, 2, 9}, N), cut({1, 1, 4}, N), {0}, {1}, false)
            .no_gradient();
      };
    };
    op_case(*kMax[N - 1])
        .dtypes(kReals)
        .gradient()
        .gradient_of(1, 1)
        .reference([=](const Args& a) { return first_if(both(a), a.integer(6) != 0); })
        .samples(samples(true))
        .samples([=](Inputs& in) {
          in.add({in.tensor(shape({2, 3}, N)), 2});
          in.add({with_ties(in, shape({2, 3}, N)), 2, 1, 1}).no_gradient();
          in.add({with_ties(in, shape({2, 3}, N)), 3, 2}).no_gradient();
        })
        .no_out()
        .error<ValueError>("padding",
                           [=](Inputs& in) {
                             in.add({in.tensor(shape({2}, N)), 2, 1, 2});
                           })
        .error<ValueError>("dilation",
                           [=](Inputs& in) {
                             in.add({in.tensor(shape({2}, N)), 2, 1, 0, 0});
                           })
        .error<ValueError>("stride",
                           [=](Inputs& in) {
                             in.add({in.tensor(shape({2}, N)), 2, 0});
                           })
        .error<ShapeError>("stride",
                           [=](Inputs& in) {
                             in.add({in.tensor(shape({2}, N)), 2, ints({1, 1, 1, 1})});
                           })
        .error<ShapeError>("self",
                           [=](Inputs& in) {
                             in.add({in.tensor(shape({2}, N)), 99});
                           })
        .error<ShapeError>("self",
                           [=](Inputs& in) {
                             in.add({in.tensor(shape({0}, N)), 1});
                           })
        .error<DtypeError>(
            "self",
            [=](Inputs& in) {
              in.add({in.tensor(shape({2}, N)), 2});
            },
            kComplex64);
    op_case(*kMaxWithIndices[N - 1])
        .dtypes(kReals)
        .gradient()
        .gradient_of(1, 1)
        .reference(both)
        .samples(samples(false))
        .errors_name("max_pool" + std::to_string(N) + "d")
        .error<ValueError>("kernel_size", [=](Inputs& in) {
          in.add({in.tensor(shape({2}, N)), 0});
        });
    op_case(op::max_pool, std::to_string(N) + "d")
        .dtypes(kReals)
        .gradient()
        .gradient_of(1, 1)
        .reference(both)
        .samples(samples(true))
        .errors_name("max_pool" + std::to_string(N) + "d")
        .error<ValueError>("kernel_size", [=](Inputs& in) {
          in.add({in.tensor(shape({2}, N)), ints(Sizes(N, 0))});
        });

    const auto parts = [=](const Args& a) {
      const Array x = a.array(0);
      return first_if(largest_of(adaptive_pool(x.sizes, a.ints(1), N), x), a.integer(2) != 0);
    };
    const Maker part_samples = [=](Inputs& in) {
      in.add({in.tensor(shape({2, 3}, N)), ints(cut({3, 2, 5}, N)), true});
      in.add({in.tensor(shape({3}, N)), ints(cut({2, 7, kSameSize}, N)), true});
      in.add({in.tensor(shape({1, 2}, N)), ints(Sizes(N, 1)), true});
      in.add({in.tensor(shape({0, 2}, N)), ints(Sizes(N, 2)), true});
      in.add({with_ties(in, shape({2, 3}, N)), ints(cut({3, 2, 3}, N)), true}).no_gradient();
    };
    op_case(*kAdaptiveMax[N - 1])
        .dtypes(kFloats)
        .gradient()
        .gradient_of(1, 1)
        .reference(parts)
        .samples(part_samples)
        .samples([=](Inputs& in) {
          in.add({in.tensor(shape({2}, N)), 2, false});
        })
        .no_out()
        .error<ValueError>("output_size",
                           [=](Inputs& in) {
                             in.add({in.tensor(shape({2}, N)), -1});
                           })
        .error<ShapeError>("output_size",
                           [=](Inputs& in) {
                             in.add({in.tensor(shape({2}, N)), ints({})});
                           })
        .error<ShapeError>("self", [=](Inputs& in) {
          in.add({in.tensor(shape({2, 0}, N)), 2});
        });
    op_case(op::adaptive_max_pool, std::to_string(N) + "d")
        .dtypes(kFloats)
        .gradient()
        .gradient_of(1, 1)
        .reference(parts)
        .samples(part_samples)
        .errors_name("adaptive_max_pool" + std::to_string(N) + "d")
        .error<ShapeError>("self", [=](Inputs& in) {
          in.add({in.tensor(shape({0}, N)), ints(Sizes(N, 2))});
        });

    op_case(op::max_pool_backward, std::to_string(N) + "d")
        .dtypes(kFloats)
        .gradient()
        .reference([=](const Args& a) { return put_back(a.array(0), a.array(1), a.ints(2), N); })
        .samples([=](Inputs& in) {
          pools(in, N, true, [&](Tensor x, Sizes k, Sizes s, Sizes p, Sizes d, bool ceil_mode) {
            if (k.size() == 1) k = Sizes(N, k[0]);
            const Tensor at = std::get<1>(op::max_pool(x, k, s, p, d, ceil_mode, true));
            if (s.empty()) s = k;
            in.add({in.tensor(at.sizes().vec()), at, ints(x.sizes().vec()), D, ints(k), ints(s), ints(p), ints(d)});
          });
          const Tensor x = in.tensor(shape({2, 2}, N));
          const Tensor parts = std::get<1>(op::adaptive_max_pool(x.to(kFloat32), cut({3, 2, 5}, N), true));
          in.add({in.tensor(parts.sizes().vec()), parts, ints(x.sizes().vec()), D});
        })
        .errors_name(N == 1   ? "max_pool1d_backward"
                     : N == 2 ? "max_pool2d_backward"
                              : "max_pool3d_backward")
        .error<ShapeError>("grad_output",
                           [=](Inputs& in) {
                             in.add({in.tensor(shape({2}, N)), in.index(shape({2}, N), 2), ints(shape({2}, N)), D,
                                     ints(Sizes(N, 2)), ints({2})});
                           })
        .error<DtypeError>("indices", [=](Inputs& in) {
          in.add({in.tensor(shape({2}, N)), in.tensor(shape({2}, N)), ints(shape({2}, N)), D, ints(Sizes(N, 1)),
                  ints({1})});
        });

    const auto places = [=](Inputs& in, const Sizes& sizes, int64_t bound) {  // different ones within each plane
      const int64_t per_plane = count(cut(sizes, N)), planes = count(sizes) / per_plane;
      std::vector<int64_t> v;
      for (int64_t p = 0; p < planes; ++p) {
        const int64_t first = in.integer(0, bound - 1);
        for (int64_t i = 0; i < per_plane; ++i) v.push_back((first + i) % bound);
      }
      return in.integers(v, sizes);
    };
    const int64_t bound = N == 1 ? 5 : N == 2 ? 7 : 40;
    op_case(*kUnpool[N - 1])
        .dtypes(kReals)
        .gradient()
        .reference([=](const Args& a) {
          const Array x = a.array(0);
          const Sizes kernel = a.ints(2), stride = a.ints(3).empty() ? kernel : a.ints(3), padding = a.ints(4),
                      given = a.ints(5);
          Sizes sizes = x.sizes;
          for (std::size_t d = 0; d < N; ++d) {
            int64_t& s = sizes[sizes.size() - N + d];
            s = given.empty() ? (s - 1) * at(stride, d) - 2 * at(padding, d) + at(kernel, d)
                              : given[given.size() - N + d];
          }
          return put_back(x, a.array(1), sizes, N);
        })
        .samples([=](Inputs& in) {
          const Sizes small = shape({2, 3}, N, {2, 2, 3});
          in.add({in.tensor(small), places(in, small, bound), 2});
          in.add({in.tensor(shape({3}, N, {2, 2, 3})), places(in, shape({3}, N, {2, 2, 3}), bound), 3, 2, 1});
          in.add({in.tensor(small), places(in, small, bound), 2, ints(Sizes(N, 2)), 0, ints(cut({3, 5, 7}, N))});
          in.add({in.tensor(small), places(in, small, bound), 2, 2, 0, ints(shape({2, 3}, N, {3, 5, 7}))});
          in.add({in.tensor(shape({0, 1}, N, {2, 2, 3})), in.index(shape({0, 1}, N, {2, 2, 3}), 2), 2});
        })
        .error<ShapeError>("indices",
                           [=](Inputs& in) {
                             in.add({in.tensor(shape({2}, N)), in.index(shape({3}, N), 2), 2});
                           })
        .error<IndexError>(
            "index",
            [=](Inputs& in) {
              in.add({in.tensor(shape({1}, N, {1, 1, 1})), in.index(shape({1}, N, {1, 1, 1}), 100, 99), 2});
            })
        .error<ValueError>("output_size", [=](Inputs& in) {
          in.add({in.tensor(shape({2}, N)), in.index(shape({2}, N), 2), 2, 2, 0, ints(Sizes(N, 30))});
        });
    op_case(op::max_unpool, std::to_string(N) + "d")
        .dtypes(kReals)
        .gradient()
        .reference([=](const Args& a) {
          Sizes sizes = a.array(0).sizes;
          for (std::size_t d = 0; d < N; ++d) sizes[sizes.size() - N + d] = a.ints(2)[d];
          return put_back(a.array(0), a.array(1), sizes, N);
        })
        .samples([=](Inputs& in) {
          const Sizes small = shape({2, 3}, N, {2, 2, 3});
          in.add({in.tensor(small), places(in, small, bound), ints(cut({3, 4, 7}, N))});
        })
        .errors_name("max_unpool" + std::to_string(N) + "d")
        .error<DtypeError>("indices", [=](Inputs& in) {
          in.add({in.tensor(shape({2}, N)), in.tensor(shape({2}, N)), ints(Sizes(N, 9))});
        });
    op_case(*kPowers[N - 1])
        .dtypes(kFloats)
        .gradient()
        .ulp(64)
        .reference([=](const Args& a) {
          const Array x = a.array(0);
          Pool p(x.sizes, N);
          const Sizes kernel = a.ints(2), stride = a.ints(3).empty() ? kernel : a.ints(3);
          for (std::size_t d = 0; d < N; ++d)
            p.lines.push_back(regular(p.in[d], at(kernel, d), at(stride, d), 0, 1, a.integer(4) != 0));
          const double norm = a.real(1);
          Array powers = x;
          for (Number& v : powers.data) v = std::pow(v.re(), norm);
          // A window that reaches beyond the end is taken for a whole one.
          std::vector<Array> r = mean_of(p, powers, false, 0);
          double whole = 1;
          for (std::size_t d = 0; d < N; ++d) whole *= static_cast<double>(at(kernel, d));
          // Halves are rounded after each step.
          const double step = is_half(x.dtype) ? epsilon(x.dtype) / epsilon(kFloat32) : 1;
          for (std::size_t i = 0; i < r[0].data.size(); ++i) {
            r[0].data[i] = std::pow(r[0].data[i].re() * whole, 1 / norm);
            r[0].scale[i] = r[0].data[i].re() * step;
          }
          return r;
        })
        .samples([=](Inputs& in) {
          in.add({in.tensor(shape({2, 3}, N), 0.5, 2), 2.0, 2});
          in.add({in.tensor(shape({3}, N), 0.5, 2), 3.0, ints(cut({3, 2, 3}, N)), ints(cut({1, 2, 2}, N)), true});
        })
        .error<ShapeError>("kernel_size", [=](Inputs& in) {
          in.add({in.tensor(shape({2}, N)), 2.0, ints({2, 2, 2, 2})});
        });

    if (N > 1) {
      // Windows that begin at the samples' places: exact for samples of few bits.
      const auto windows = [=](const Args& a, const Array& samples, const Sizes& kernel, const Sizes& out) {
        const Array x = a.array(0);
        Array values = make_array(x.dtype, {}), indices = make_array(kInt64, {});
        Pool p(x.sizes, N);
        Sizes sizes = p.lead;
        for (std::size_t d = 0; d < N; ++d) sizes.push_back(at(out, d));
        values = make_array(x.dtype, sizes), indices = make_array(kInt64, sizes);
        const int64_t per_plane = count(p.in), outputs = count(sizes) / std::max<int64_t>(1, p.planes());
        for (int64_t plane = 0; plane < p.planes(); ++plane) {
          Pool one({1}, 0);
          one.lead = {1}, one.in = p.in;
          for (std::size_t d = 0; d < N; ++d) {
            const double u = samples.data[static_cast<std::size_t>(plane) * N + (N == 2 ? 1 - d : d)].re();
            const auto room = static_cast<double>(p.in[d] - at(kernel, d));
            Lines lines;
            for (int64_t o = 0; o < at(out, d); ++o) {
              const double step = room / static_cast<double>(at(out, d) - 1);
              double begin = room;
              if (o + 1 < at(out, d)) begin = std::floor((static_cast<double>(o) + u) * step) - std::floor(u * step);
              Line line;
              for (int64_t k = 0; k < at(kernel, d); ++k) line.places.push_back(static_cast<int64_t>(begin) + k);
              lines.push_back(line);
            }
            one.lines.push_back(lines);
          }
          Array part = make_array(x.dtype, p.in);
          std::copy_n(x.data.begin() + plane * per_plane, per_plane, part.data.begin());
          const std::vector<Array> r = largest_of(one, part);
          std::copy_n(r[0].data.begin(), outputs, values.data.begin() + plane * outputs);
          std::copy_n(r[1].data.begin(), outputs, indices.data.begin() + plane * outputs);
        }
        return std::vector<Array>{values, indices};
      };
      const auto few_bits = [=](Inputs& in, const Sizes& sizes) {
        std::vector<double> v(static_cast<std::size_t>(count(sizes)));
        for (double& x : v) x = static_cast<double>(in.integer(0, 7)) / 8;
        return in.values(v, sizes);
      };
      op_case(op::fractional_max_pool, std::to_string(N) + "d")
          .dtypes(kFloats)
          .gradient()
          .gradient_of(1, 1)
          .reference([=](const Args& a) { return windows(a, a.array(3), a.ints(1), a.ints(2)); })
          .samples([=](Inputs& in) {
            const Sizes k = cut({2, 2, 3}, N);
            in.add({in.tensor(shape({2, 3}, N, {6, 7, 9})), ints(k), ints(cut({3, 3, 5}, N)), few_bits(in, {2, 3, D})});
            in.add({in.tensor(shape({2}, N, {6, 7, 9})), ints(k), ints(cut({5, 1, 4}, N)), few_bits(in, {1, 2, D})});
            in.add({with_ties(in, shape({2}, N, {6, 7, 9})), ints(k), ints(cut({2, 5, 3}, N)), few_bits(in, {1, 2, D})})
                .no_gradient();
          })
          .errors_name("fractional_max_pool" + std::to_string(N) + "d")
          .error<ShapeError>(
              "random_samples",
              [=](Inputs& in) {
                in.add({in.tensor(shape({2}, N)), ints(Sizes(N, 2)), ints(Sizes(N, 2)), in.tensor({1, 3, D})});
              })
          .error<ShapeError>("kernel_size", [=](Inputs& in) {
            in.add({in.tensor(shape({2}, N)), ints(Sizes(N, 4)), ints(Sizes(N, 4)), in.tensor({1, 2, D}, 0, 0.5)});
          });
      op_case(*kFractional[N - 2])
          .dtypes(kFloats)
          .gradient()
          .gradient_of(1, 1)
          .no_out()
          .no_meta()
          .reference([=](const Args& a) {
            Sizes out = a.ints(2);
            const Array x = a.array(0);
            if (a.is_none(2))
              for (std::size_t d = 0; d < N; ++d) out.push_back(x.sizes[x.sizes.size() - N + d] / 2);
            return first_if(windows(a, a.array(5), a.ints(1), out), a.integer(4) != 0);
          })
          .samples([=](Inputs& in) {
            in.add({in.tensor(shape({2, 3}, N, {6, 7, 9})),
                    2,
                    ints(cut({3, 3, 5}, N)),
                    {},
                    true,
                    few_bits(in, {2, 3, D})});
            const std::vector<Tensor> half(N, in.values({0.5}, {}));
            in.add({in.tensor(shape({2}, N, {6, 7, 9})), 2, {}, Value(half), false, few_bits(in, {1, 2, D})})
                .no_gradient();
          })
          .error<ValueError>("output_size",
                             [=](Inputs& in) {
                               in.add({in.tensor(shape({2}, N)), 2});
                             })
          .error<DtypeError>(
              "self",
              [=](Inputs& in) {
                in.add({in.tensor(shape({2}, N)), 2, 2});
              },
              kInt64);
      op_case(*kMaxBackward[N - 2])
          .dtypes(kFloats)
          .gradient()
          .gradient_of(1)
          .reference([=](const Args& a) { return put_back(a.array(0), a.array(7), a.array(1).sizes, N); })
          .samples([=](Inputs& in) {
            const Tensor x = in.tensor(shape({2, 2}, N));
            const Tensor at = std::get<1>(op::max_pool(x, Sizes(N, 3), 2, 1, 1, true, true));
            in.add({in.tensor(at.sizes().vec()), x, 3, 2, 1, 1, true, at});
          })
          .error<ShapeError>("kernel_size", [=](Inputs& in) {
            const Tensor x = in.tensor(shape({2}, N));
            in.add({x, x, ints({1, 1, 1, 1}), 1, 0, 1, false, in.index(shape({2}, N), 2)});
          });
    }
  }
  op_case(op::max_pool2d_sum_backward)
      .dtypes(kFloats)
      .no_inplace()
      .reference([=](const Args& a) {
        const Array x = a.array(0);
        std::vector<Array> r = largest_of(regular_pool(a, x.sizes, 1, 2, a.ints(4), a.integer(5) != 0), x);
        for (Number& v : r[0].data) v = 1.0;
        return put_back(r[0], r[1], x.sizes, 2);
      })
      .samples([=](Inputs& in) {
        in.add({in.tensor({2, 3, 6}), 3, 2, 1, 1, true, true});
        in.add({in.tensor({1, 2, 5, 6}), 2});
      })
      .errors_name("max_pool2d")
      .error<ValueError>("kernel_size", [=](Inputs& in) {
        in.add({in.tensor({2, 3, 6}), 0});
      });
}

}  // namespace

TENON_OP_CASES(pool_max) { max_rows(); }
