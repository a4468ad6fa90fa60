// SPDX-License-Identifier: Apache-2.0
// Rows of ops/copy.h: every pair of dtypes.
#include <tenon/ops/copy.h>

#include "tests/support/op_case.h"

#include <cmath>

using namespace tenon;
using namespace tenon::testing;

namespace {

// Values every dtype can be given with a defined result: negative ones to unsigned integers wrap.
Tensor source(Inputs& in, const Inputs::Sizes& sizes, DType t) { return in.tensor(sizes, -100, 100, t); }

Maker each_source(const std::function<void(Inputs&, DType)>& f) {
  return [=](Inputs& in) {
    for (const DType t : kAllWithFloat8) f(in, t);
  };
}

// Rounding where it is decided: ties, the largest numbers, overflow, subnormal numbers.
std::vector<double> edges(DType to) {
  const double e = epsilon(to), most = largest(to), least = smallest_normal(to) * e;
  std::vector<double> v = {
      1 + e / 2, 1 + 3 * e / 2, 1 + e / 2 * 1.001, most,        most * (1 + e / 8), -most * (1 + e),
      least,     least / 2,     least * 1.5,       least * 2.5, -least / 4,         0.0,
      -0.0};
  v.push_back(std::nan(""));
  if (!is_float8(to)) v.push_back(-HUGE_VAL);
  return v;
}

Reference converted(int dtype_argument) {
  return [=](const Args& args) {
    const Array x = args.array(0);
    return std::vector<Array>{cast(x, args.dtype(dtype_argument, x.dtype))};
  };
}
void same_dtype(Inputs& in) {
  for (const Inputs::Sizes& s : {Inputs::Sizes{}, {0, 3}, {3, 4}, {70}, {4, 1, 3}, {65, 130}}) in.add({in.tensor(s)});
}
void block(Inputs& in) { in.add({in.tensor({1 << 20})}); }

}  // namespace

TENON_OP_CASES(copy) {
  op_case(op::copy)
      .dtypes(kAllWithFloat8)
      .gradient()
      .ulp(0)
      .reference([](const Args& args) {
        const Array to = args.array(0), x = cast(args.array(1), to.dtype);
        return std::vector<Array>{pointwise({to, x}, DType::undefined, to.dtype, [](const Number* v) { return v[1]; })};
      })
      .samples(each_source([](Inputs& in, DType t) {
        in.add({in.tensor({3, 37}), source(in, {3, 37}, t)}).no_gradient();
        in.add({in.tensor({4, 5}), source(in, {4, 1}, t)}).no_gradient().no_layouts();
      }))
      .samples([](Inputs& in) {
        for (const Inputs::Sizes& s : {Inputs::Sizes{}, {0}, {5, 3}}) in.add({in.tensor(s), in.tensor(s)});
        in.add({in.tensor({2, 3}), in.tensor({})});
        in.add({in.tensor({129, 67}), in.tensor({129, 67})}).no_gradient();
        if (!in.is_floating()) return;
        for (const DType t : {kFloat32, kFloat64}) {
          if (t == kFloat32 && in.dtype() == kFloat64) continue;
          const std::vector<double> v = edges(in.dtype());
          in.add({in.tensor({static_cast<int64_t>(v.size())}), in.values(v, {-1}, t)}).no_gradient();
        }
      })
      .benchmark([](Inputs& in) {
        in.add({in.tensor({1 << 20}), in.tensor({1 << 20})});
      })
      .error<ShapeError>("", [](Inputs& in) {
        in.add({in.tensor({2, 3}), in.tensor({4})});
      });
  op_case(op::clone)
      .dtypes(kAllWithFloat8)
      .gradient()
      .ulp(0)
      .reference(converted(0))
      .reference([](const Args& args) { return std::vector<Array>{args.array(0)}; })
      .samples(same_dtype)
      .benchmark(block)
      .samples([](Inputs& in) {
        in.add({in.tensor({3, 5})}, {{"memory_format", MemoryFormat::contiguous}});
        in.add({in.tensor({2, 3, 4, 5})}, {{"memory_format", MemoryFormat::channels_last}});
      });
  op_case(op::contiguous)
      .dtypes(kAllWithFloat8)
      .gradient()
      .ulp(0)
      .reference([](const Args& args) { return std::vector<Array>{args.array(0)}; })
      .samples(same_dtype)
      .samples([](Inputs& in) {
        in.add({in.tensor({2, 3, 4, 5})}, {{"memory_format", MemoryFormat::channels_last}});
      });
  op_case(op::to_copy)
      .dtypes(kAllWithFloat8)
      .gradient()
      .ulp(0)
      .reference(converted(1))
      .samples(same_dtype)
      .samples(each_source([](Inputs& in, DType t) {
        in.add({source(in, {3, 37}, in.dtype())}, {{"dtype", t}}).no_gradient();
      }));
  op_case(op::to).dtypes(kAllWithFloat8).ulp(0).reference(converted(1)).samples([](Inputs& in) {
    in.add({in.tensor({3, 4})});
    in.add({in.tensor({3, 4})}, {{"dtype", kFloat32}});
    in.add({in.tensor({3, 4})}, {{"copy", true}});
  });
  op_case(op::to_dtype)
      .dtypes(kAllWithFloat8)
      .ulp(0)
      .reference(converted(1))
      .samples(each_source([](Inputs& in, DType t) {
        in.add({source(in, {19}, in.dtype()), t}).no_layouts();
      }))
      .samples([](Inputs& in) {
        in.add({in.special(), in.dtype(), false, true});
      });
  op_case(op::to_device).dtypes(kAllWithFloat8).ulp(0).reference(converted(2)).no_meta().samples([](Inputs& in) {
    in.add({in.tensor({3, 4}), Device(kCPU), kFloat32}).no_destinations();
  });
  op_case(op::to_other)
      .dtypes(kAllWithFloat8)
      .ulp(0)
      .reference([](const Args& args) { return std::vector<Array>{cast(args.array(0), args.array(1).dtype)}; })
      .samples([](Inputs& in) {
        in.add({in.tensor({3, 4}), in.tensor({2}, 0, 1, kFloat64)});
      });
  op_case(op::item)
      .dtypes(kAll)
      .ulp(0)
      .reference([](const Args& args) {
        const Array x = args.array(0);
        const DType t = x.dtype == kBool       ? kBool
                        : is_integral(x.dtype) ? kInt64
                        : is_complex(x.dtype)  ? kComplex128
                                               : kFloat64;
        Array r = cast(x, t);
        r.sizes = {};
        return std::vector<Array>{r};
      })
      .samples([](Inputs& in) {
        in.add({in.tensor({})});
        in.add({in.tensor({1, 1})});
      })
      .error<ShapeError>("self", [](Inputs& in) {
        in.add({in.tensor({2})});
        in.add({in.tensor({0})});
      });
}
