// SPDX-License-Identifier: Apache-2.0
// Rows of ops/pool.h: averages.
#include "tests/ops/pool_reference.h"

using namespace tenon;
using namespace tenon::testing;
using namespace tenon::testing::pooling;

namespace {

const std::array kAverage = {&op::avg_pool1d, &op::avg_pool2d, &op::avg_pool3d};
const std::array kAdaptiveAverage = {&op::adaptive_avg_pool1d, &op::adaptive_avg_pool2d, &op::adaptive_avg_pool3d};

void average_rows() {
  for (const int64_t D : {1, 2, 3}) {
    const auto N = static_cast<std::size_t>(D);
    const auto reference = [=](const Args& a) {
      const Array x = a.array(0);
      return mean_of(regular_pool(a, x.sizes, 1, N, {1}, a.integer(4) != 0), x, a.integer(5) != 0,
                     a.is_none(6) ? 0 : a.real(6));
    };
    const Maker samples = [=](Inputs& in) {
      for (const bool include : {true, false})
        pools(in, N, false, [&](Tensor x, Sizes k, Sizes s, Sizes p, Sizes, bool ceil_mode) {
          if (k.size() == 1) k = Sizes(N, k[0]);
          in.add({x, ints(k), ints(s), ints(p), ceil_mode, include});
        });
      in.add({in.tensor(shape({2, 2}, N)), ints(Sizes(N, 3)), ints({2}), ints({1}), false, true, 5});
      in.add({in.tensor(shape({2, 2}, N)), ints(Sizes(N, 2)), ints({}), ints({0}), true, false, -2});
    };
    op_case(*kAverage[N - 1])
        .dtypes(kFloats + Dtypes{kInt64})
        .gradient()
        .reference(reference)
        .samples(samples)
        .samples([=](Inputs& in) {
          in.add({in.tensor(shape({2}, N)), 3});
        })
        .error<ValueError>("padding",
                           [=](Inputs& in) {
                             in.add({in.tensor(shape({2}, N)), 2, 1, 2});
                           })
        .error<ValueError>("padding",
                           [=](Inputs& in) {
                             in.add({in.tensor(shape({2}, N)), 2, 1, -1});
                           })
        .error<ValueError>("kernel_size",
                           [=](Inputs& in) {
                             in.add({in.tensor(shape({2}, N)), 0});
                           })
        .error<ValueError>("stride",
                           [=](Inputs& in) {
                             in.add({in.tensor(shape({2}, N)), 2, 0});
                           })
        .error<ValueError>("divisor_override",
                           [=](Inputs& in) {
                             in.add({in.tensor(shape({2}, N)), 2, 1, 0, false, true, 0});
                           })
        .error<ShapeError>("kernel_size",
                           [=](Inputs& in) {
                             in.add({in.tensor(shape({2}, N)), ints({2, 2, 2, 2})});
                           })
        .error<ShapeError>("self",
                           [=](Inputs& in) {
                             in.add({in.tensor(shape({2}, N)), 99});
                           })
        .error<ShapeError>("self",
                           [=](Inputs& in) {
                             in.add({in.tensor(shape({2, 0}, N)), 2});
                           })
        .error<ShapeError>("self", [=](Inputs& in) {
          in.add({in.tensor(shape({2, 2, 2}, N)), 2});
        });
    op_case(op::avg_pool, std::to_string(N) + "d")
        .dtypes(kFloats + Dtypes{kInt64})
        .gradient()
        .reference(reference)
        .samples(samples)
        .errors_name("avg_pool" + std::to_string(N) + "d")
        .error<ShapeError>("self", [=](Inputs& in) {
          in.add({in.tensor(shape({2, 0}, N)), ints(Sizes(N, 2))});
        });
    op_case(op::avg_pool_backward, std::to_string(N) + "d")
        .dtypes(kFloats)
        .gradient()
        .reference([=](const Args& a) {
          const Pool p = regular_pool(a, a.ints(1), 2, N, {1}, a.integer(5) != 0);
          return mean_gradient(p, a.array(0), a.integer(6) != 0, a.is_none(7) ? 0 : a.real(7));
        })
        .samples([=](Inputs& in) {
          pools(in, N, false, [&](Tensor x, Sizes k, Sizes s, Sizes p, Sizes, bool ceil_mode) {
            if (k.size() == 1) k = Sizes(N, k[0]);
            if (s.empty()) s = k;
            const bool include = in.integer(0, 1) != 0;
            const Tensor out = op::avg_pool(x, k, s, p, ceil_mode, include, {});
            in.add({in.tensor(out.sizes().vec()),
                    ints(x.sizes().vec()),
                    ints(k),
                    ints(s),
                    ints(p),
                    ceil_mode,
                    include,
                    {}});
          });
        })
        .errors_name("avg_pool" + std::to_string(N) + "d_backward")
        .error<ShapeError>("grad_output", [=](Inputs& in) {
          in.add({in.tensor(shape({2}, N)),
                  ints(shape({2}, N)),
                  ints(Sizes(N, 2)),
                  ints({2}),
                  ints({0}),
                  false,
                  true,
                  {}});
        });

    const Maker parts = [=](Inputs& in) {
      in.add({in.tensor(shape({2, 3}, N)), ints(cut({3, 2, 5}, N))});
      in.add({in.tensor(shape({3}, N)), ints(cut({2, 7, 4}, N))});
      in.add({in.tensor(shape({1, 2}, N)), ints(Sizes(N, 1))});
      in.add({in.tensor(shape({1, 2}, N, {4, 6, 8})), ints(Sizes(N, 2))});
      in.add({in.tensor(shape({1, 2}, N)), ints(cut({kSameSize, 2, kSameSize}, N))});
      in.add({in.tensor(shape({0, 2}, N)), ints(Sizes(N, 2))});
      in.add({in.tensor(shape({2, 2}, N)), ints(Sizes(N, 0))});
    };
    const auto means = [=](const Args& a) {
      const Array x = a.array(0);
      return mean_of(adaptive_pool(x.sizes, a.ints(1), N), x, true, 0);
    };
    op_case(*kAdaptiveAverage[N - 1])
        .dtypes(kFloats)
        .gradient()
        .reference(means)
        .samples(parts)
        .samples([=](Inputs& in) {
          in.add({in.tensor(shape({2}, N)), 2});
        })
        .error<ValueError>("output_size",
                           [=](Inputs& in) {
                             in.add({in.tensor(shape({2}, N)), -1});
                           })
        .error<ShapeError>("output_size",
                           [=](Inputs& in) {
                             in.add({in.tensor(shape({2}, N)), ints({})});
                           })
        .error<ShapeError>("too many elements",
                           [=](Inputs& in) {
                             in.add({in.tensor(shape({2}, N)), 9000000000000000000});
                           })
        .error<ShapeError>("self",
                           [=](Inputs& in) {
                             in.add({in.tensor(shape({}, N)), 2});
                           })
        .error<DtypeError>(
            "self",
            [=](Inputs& in) {
              in.add({in.tensor(shape({2}, N)), 2});
            },
            kInt64);
    op_case(op::adaptive_avg_pool, std::to_string(N) + "d")
        .dtypes(kFloats)
        .gradient()
        .reference(means)
        .samples(parts)
        .errors_name("adaptive_avg_pool" + std::to_string(N) + "d")
        .error<ShapeError>("self", [=](Inputs& in) {
          in.add({in.tensor({2, 2, 2, 2, 2, 2}), ints(Sizes(N, 2))});
        });
    op_case(op::adaptive_avg_pool_backward, std::to_string(N) + "d")
        .dtypes(kFloats)
        .gradient()
        .reference([=](const Args& a) {
          return mean_gradient(adaptive_pool(a.ints(1), cut(a.array(0).sizes, N), N), a.array(0), true, 0);
        })
        .samples([=](Inputs& in) {
          in.add({in.tensor(shape({2, 3}, N, {3, 2, 5})), ints(shape({2, 3}, N)), D});
          in.add({in.tensor(shape({3}, N, {2, 7, 4})), ints(shape({3}, N)), D});
          in.add({in.tensor(shape({2, 2}, N, {1, 1, 1})), ints(shape({2, 2}, N)), D});
          in.add({in.tensor(shape({2, 2}, N, {0, 0, 0})), ints(shape({2, 2}, N)), D});
        })
        .errors_name("adaptive_avg_pool" + std::to_string(N) + "d_backward")
        .error<ShapeError>("grad_output", [=](Inputs& in) {
          in.add({in.tensor(shape({3}, N)), ints(shape({2}, N)), D});
        });
  }
}

}  // namespace

TENON_OP_CASES(pool) {
  average_rows();
  op_case(op::local_response_norm)
      .dtypes(kFloats)
      .gradient()
      .ulp(16)
      .reference([](const Args& a) {
        const Array x = a.array(0);
        const int64_t size = a.integer(1), channels = x.sizes[1],
                      rest = count(Sizes(x.sizes.begin() + 2, x.sizes.end()));
        Array out = x;
        out.scale.assign(x.data.size(), 0);
        const double step = is_half(x.dtype) ? 4 * epsilon(x.dtype) / epsilon(kFloat32) : 1;  // rounded after each step
        for (int64_t i = 0; i < x.numel(); ++i) {
          const int64_t c = i / rest % channels;
          double sum = 0;
          for (int64_t d = -(size / 2); d < size - size / 2; ++d) {
            if (c + d < 0 || c + d >= channels) continue;
            const double v = x.data[static_cast<std::size_t>(i + d * rest)].re();
            sum += v * v;
          }
          const double factor = std::pow(a.real(4) + a.real(2) * sum / static_cast<double>(size), a.real(3));
          const auto to = static_cast<std::size_t>(i);
          out.data[to] = x.data[to].re() / factor;
          out.scale[to] = std::abs(out.data[to].re()) * step;
        }
        return std::vector<Array>{out};
      })
      .samples([](Inputs& in) {
        in.add({in.tensor({2, 6, 3}), 2});
        in.add({in.tensor({2, 5, 3, 2}), 3, 0.5, 0.6, 1.5});
        in.add({in.tensor({1, 3, 2, 2, 3}), 5, 0.3, 0.75, 2.0});
        in.add({in.tensor({0, 3, 2}), 2}).no_destinations();
      })
      .error<ShapeError>("self",
                         [](Inputs& in) {
                           in.add({in.tensor({2, 3}), 2});
                         })
      .error<ValueError>("size", [](Inputs& in) {
        in.add({in.tensor({2, 3, 2}), 0});
      });
}
