// SPDX-License-Identifier: Apache-2.0
// The row of my::softplus: dtypes, inputs, a reference on plain numbers. The rest is tenon's.
#include "softplus.h"

#include <tenon/testing/op_tests.h>

#include <cmath>

using namespace tenon::testing;

TENON_OP_CASES(softplus) {
  op_case(my::op::softplus)
      .dtypes(kFloats)
      .samples(unary_samples(-20, 20))
      .samples([](Inputs& in) {
        in.add({in.tensor({7, 5}, -4, 4), 2.5});
      })
      .reference([](const Args& args) {
        const Array x = args.array(0);
        const double beta = args.real(1);
        return std::vector<Array>{pointwise({x}, x.dtype, x.dtype, [&](const Number* v) -> Number {
          const double z = beta * v->re();
          return z > 700 ? v->re() : std::log1p(std::exp(z)) / beta;
        })};
      })
      .ulp(16)  // of the exponent's rounding, for negative x
      .gradient()
      .error<tenon::DtypeError>("self", [](Inputs& in) { in.add({in.boolean({2})}); })
      .error<tenon::ValueError>("beta", [](Inputs& in) {
        in.add({in.tensor({2}), 0.0});
      });
}
