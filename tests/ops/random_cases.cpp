// SPDX-License-Identifier: Apache-2.0
// Rows of ops/random.h: shapes, dtypes, layouts, forms, errors, the same numbers for one seed. Distributions are
// tested in random_test.cpp.
#include <tenon/ops/random.h>

#include "tests/support/op_case.h"

#include <cmath>

using namespace tenon;
using namespace tenon::testing;

namespace {

const Dtypes kInexact = kFloats + kComplexes;
const Inputs::Sizes kShapes[] = {{}, {0}, {2, 0, 3}, {5}, {3, 40}, {9000}};

OpCase& random_row(OpCase& row, Dtypes t) { return row.dtypes(std::move(t)).random(); }
Maker fill_samples(std::vector<Value> rest) {
  return [=](Inputs& in) {
    for (const auto& s : kShapes) {
      std::vector<Value> args = {in.tensor(s, 0, 1)};
      args.insert(args.end(), rest.begin(), rest.end());
      in.add(args);
    }
  };
}
Maker sized(std::vector<Value> before) {
  return [=](Inputs& in) {
    for (const auto& s : kShapes) {
      std::vector<Value> args = before;
      args.push_back(ints(s));
      in.add(args, {{"dtype", in.dtype()}});
    }
  };
}
Maker like(std::vector<Value> rest) {
  return [=](Inputs& in) {
    fill_samples(rest)(in);
    std::vector<Value> args = {in.tensor({3, 2}, 0, 1)};
    args.insert(args.end(), rest.begin(), rest.end());
    in.add(args, {{"dtype", kFloat64}});
    args[0] = in.tensor({2, 3, 4, 5}, 0, 1);
    in.add(args, {{"memory_format", MemoryFormat::channels_last}});
  };
}

Maker million(std::vector<Value> rest = {}) {
  return [=](Inputs& in) {
    std::vector<Value> args = {in.tensor({1 << 20}, 0, 1)};
    args.insert(args.end(), rest.begin(), rest.end());
    in.add(args);
  };
}

}  // namespace

TENON_OP_CASES(random) {
  random_row(op_case(op::uniform).benchmark(million()), kInexact)
      .samples(fill_samples({-2.0, 3.0}))
      .samples(fill_samples({}))
      .error<ValueError>("from",
                         [](Inputs& in) {
                           in.add({in.tensor({2}), 2, 1});
                           in.add({in.tensor({2}), 0.0, HUGE_VAL});
                           in.add({in.tensor({2}, 0, 1, kFloat16), 0.0, 7e4});
                           in.add({in.tensor({2}, 0, 1, kFloat64), -1e308, 1e308});
                         })
      .error<DtypeError>(
          "self", [](Inputs& in) { in.add({in.tensor({2})}); }, kInt64);
  random_row(op_case(op::normal).benchmark(million()), kInexact)
      .samples(fill_samples({1.0, 2.0}))
      .samples(fill_samples({}))
      .error<ValueError>("std",
                         [](Inputs& in) {
                           in.add({in.tensor({2}), 0.0, -1.0});
                         })
      .error<DtypeError>(
          "self",
          [](Inputs& in) {
            in.add({in.tensor({2}), 0.0, 1.0});
          },
          kInt64);
  random_row(op_case(op::normal_tensors), kFloats)
      .samples([](Inputs& in) {
        in.add({in.tensor({3, 4}), in.tensor({3, 4}, 0.1, 2)});
        in.add({in.tensor({3, 1}), in.tensor({4}, 0.1, 2)});
      })
      .error<ValueError>("std", [](Inputs& in) {
        in.add({in.tensor({2}), in.values({1, -1})});
      });
  random_row(op_case(op::normal_mean), kFloats)
      .samples([](Inputs& in) {
        in.add({in.tensor({3, 4}), 0.5});
      })
      .error<ValueError>("std", [](Inputs& in) {
        in.add({in.tensor({2}), -1.0});
      });
  random_row(op_case(op::normal_std), kFloats)
      .samples([](Inputs& in) {
        in.add({0.5, in.tensor({3, 4}, 0.1, 2)});
      })
      .error<ValueError>("std", [](Inputs& in) {
        in.add({0.5, in.values({1, -1})});
      });
  random_row(op_case(op::normal_sizes), kInexact).samples(sized({0.5, 2.0}));
  random_row(op_case(op::random).benchmark(million({0, 100})), kReals + Dtypes{kBool})
      .samples(fill_samples({}))
      .samples([](Inputs& in) {
        for (const auto& s : kShapes) in.add({in.tensor(s, 0, 1), 0, in.dtype() == kBool ? 2 : 100});
        in.add({in.tensor({50}, 0, 1), 1, Value()});
        if (in.dtype() != kInt64) return;
        in.add({in.tensor({50}, 0, 1), -(int64_t{1} << 62), int64_t{1} << 62});
        in.add({in.tensor({50}, 0, 1), INT64_MIN, Value()});
      })
      .error<ValueError>("low",
                         [](Inputs& in) {
                           in.add({in.tensor({2}), 5, 5});
                           in.add({in.tensor({2}), 0, INT64_MIN});
                         })
      .error<DtypeError>(
          "real", [](Inputs& in) { in.add({in.tensor({2})}); }, kComplex64)
      .error<ValueError>(
          "",
          [](Inputs& in) {
            in.add({in.tensor({2}), 0, 300});
            in.add({in.tensor({2}), -1, Value()});
          },
          kUInt8);
  random_row(op_case(op::random_to), kReals)
      .samples(fill_samples({100}))
      .errors_name("random")
      .error<ValueError>("low", [](Inputs& in) {
        in.add({in.tensor({2}), 0});
      });
  random_row(op_case(op::exponential).benchmark(million()), kFloats)
      .samples(fill_samples({}))
      .samples(fill_samples({0.5}))
      .error<ValueError>("lambd",
                         [](Inputs& in) {
                           in.add({in.tensor({2}), 0.0});
                           in.add({in.tensor({2}), std::nan("")});
                         })
      .error<DtypeError>(
          "self", [](Inputs& in) { in.add({in.tensor({2})}); }, kInt64);
  random_row(op_case(op::cauchy).benchmark(million()), kFloats)
      .samples(fill_samples({}))
      .samples(fill_samples({-2.0, 0.5}))
      .error<ValueError>("sigma",
                         [](Inputs& in) {
                           in.add({in.tensor({2}), 0.0, 0.0});
                         })
      .error<DtypeError>(
          "self", [](Inputs& in) { in.add({in.tensor({2})}); }, kComplex64);
  random_row(op_case(op::geometric).benchmark(million({0.5})), kReals)
      .samples(fill_samples({0.5}))
      .samples(fill_samples({0.001}))
      .error<ValueError>("p",
                         [](Inputs& in) {
                           in.add({in.tensor({2}), 0.0});
                           in.add({in.tensor({2}), 1.0});
                         })
      .error<DtypeError>("self", [](Inputs& in) {
        in.add({in.boolean({2}), 0.5});
      });
  random_row(op_case(op::log_normal).benchmark(million()), kFloats)
      .samples(fill_samples({}))
      .samples(fill_samples({0.0, 0.5}))
      .error<ValueError>("std",
                         [](Inputs& in) {
                           in.add({in.tensor({2}), 0.0, 0.0});
                         })
      .error<DtypeError>(
          "self", [](Inputs& in) { in.add({in.tensor({2})}); }, kInt64);
  random_row(op_case(op::multinomial).benchmark(million({1000, true})), kFloats)
      .samples([](Inputs& in) {
        in.add({in.tensor({5}, 0.1, 2), 3});
        in.add({in.tensor({4, 70}, 0.1, 2), 70});
        in.add({in.tensor({4, 70}, 0.1, 2), 100, true});
        in.add({in.values({0, 1, 0, 2}), 2, false}).no_layouts();
        in.add({in.tensor({0, 3}), 2, false});
      })
      .error<ValueError>("self",
                         [](Inputs& in) {
                           for (const double w : {HUGE_VAL, std::nan(""), -1.0})
                             for (const bool replacement : {false, true})
                               in.add({in.values({1, w, 2, 3}, {2, 2}), 1, replacement});
                           in.add({in.values({1, 1, 0, 0}, {2, 2}), 1, true});
                         })
      .error<ValueError>("num_samples",
                         [](Inputs& in) {
                           in.add({in.values({1, 2}), 3});
                           in.add({in.values({1, 0}), 2});
                           in.add({in.values({1, 2}), 0});
                           in.add({in.values({1, 2}), -1, true});
                           in.add({in.tensor({2, 0}), 1, true});
                         })
      .error<ShapeError>("self",
                         [](Inputs& in) {
                           in.add({in.tensor({}, 0, 1), 1});
                           in.add({in.tensor({2, 2, 2}, 0, 1), 1});
                         })
      .error<DtypeError>("self", [](Inputs& in) {
        in.add({in.integers({1, 2}), 1});
      });
  random_row(op_case(op::bernoulli), kFloats)
      .samples(fill_samples({}))
      .error<DtypeError>(
          "self", [](Inputs& in) { in.add({in.tensor({2}, 0, 1)}); }, kInt64);
  random_row(op_case(op::bernoulli, "certain"), kFloats)
      .samples([](Inputs& in) {
        in.add({in.values({0, 1, 1, 0, 1})});
      })
      .reference([](const Args& a) { return std::vector<Array>{a.array(0)}; });
  random_row(op_case(op::bernoulli_p).benchmark(million({0.3})), kAll)
      .samples(fill_samples({0.3}))
      .samples([](Inputs& in) {
        for (const DType t : kFloats) in.add({in.tensor({3, 40}, 0, 1), in.tensor({3, 40}, 0, 1, t)});
        in.add({in.tensor({3, 40}, 0, 1), in.tensor({3, 1}, 0, 1, kFloat64)});
      })
      .error<ValueError>("p",
                         [](Inputs& in) {
                           in.add({in.tensor({2}), 1.5});
                           in.add({in.tensor({2}), -0.1});
                         })
      .error<DtypeError>("p",
                         [](Inputs& in) {
                           in.add({in.tensor({2}), in.integers({0, 1})});
                         })
      .error<ShapeError>("p", [](Inputs& in) {
        in.add({in.tensor({2}), in.tensor({3, 2}, 0, 1)});
      });
  random_row(op_case(op::randperm).benchmark([](Inputs& in) { in.add({1 << 20}); }),
             {kInt64, kInt32, kInt16, kFloat32, kFloat64})
      .samples([](Inputs& in) {
        for (const int64_t n : {0, 1, 7, 3000}) in.add({n}, {{"dtype", in.dtype()}});
      })
      .error<ValueError>("n", [](Inputs& in) { in.add({-1}); })
      .error<ValueError>("", [](Inputs& in) {
        in.add({300}, {{"dtype", kUInt8}});
      });

  random_row(op_case(op::rand), kInexact).samples(sized({}));
  random_row(op_case(op::randn), kInexact).samples(sized({}));
  random_row(op_case(op::randint), kReals).samples(sized({100})).error<ValueError>("low", [](Inputs& in) {
    in.add({0, ints({2})});
  });
  random_row(op_case(op::randint_low), kReals).samples(sized({3, 100}));
  random_row(op_case(op::rand_like), kInexact).samples(like({}));
  random_row(op_case(op::randn_like), kInexact).samples(like({}));
  random_row(op_case(op::randint_like), kReals).samples(like({100}));
  random_row(op_case(op::randint_like_low), kReals).samples(like({3, 100}));

  random_row(op_case(op::native_dropout), kFloats)
      .gradient()
      .samples([](Inputs& in) {
        for (const auto& s : kShapes) in.add({in.tensor(s), 0.25, true});
        in.add({in.tensor({3, 4}), 0.0, true});
        in.add({in.tensor({3, 4}), 0.25, false});
      })
      .error<ValueError>("p", [](Inputs& in) {
        in.add({in.tensor({2}), 1.5, true});
        in.add({in.tensor({2}), -0.5, true});
      });
  op_case(op::native_dropout_backward)
      .dtypes(kFloats)
      .gradient()
      .reference([](const Args& a) {
        const Array g = a.array(0);
        return std::vector<Array>{pointwise({g, a.array(1)}, DType::undefined, g.dtype, [&](const Number* v) {
          return Number(v[0].z * (v[1].i ? a.real(2) : 0.0));
        })};
      })
      .samples([](Inputs& in) {
        in.add({in.tensor({3, 4}), in.boolean({3, 4}), 2.0});
        in.add({in.tensor({70}), in.boolean({70}), 1.25});
      });
  random_row(op_case(op::dropout), kFloats)
      .gradient()
      .samples([](Inputs& in) {
        for (const auto& s : kShapes) in.add({in.tensor(s), 0.5});
      })
      .error<ValueError>("p", [](Inputs& in) {
        in.add({in.tensor({2}), 1.5});
        in.add({in.tensor({2}), -0.5});
        in.add({in.tensor({2}), std::nan("")});
      });
  op_case(op::dropout, "decided")
      .dtypes(kFloats)
      .gradient()
      .reference([](const Args& a) {
        Array x = a.array(0);
        if (a.integer(2) && a.real(1) == 1)
          for (Number& v : x.data) v = 0.0;
        return std::vector<Array>{x};
      })
      .samples([](Inputs& in) {
        in.add({in.tensor({3, 4}), 0.0});
        in.add({in.tensor({3, 4}), 0.7, false});
        in.add({in.tensor({3, 4}), 1.0});  // zeros, not 0 / 0
      });
}
