// SPDX-License-Identifier: Apache-2.0
// Rows of ops/factory.h.
#include <tenon/ops/factory.h>

#include "tests/support/op_case.h"

#include <algorithm>
#include <cmath>

using namespace tenon;
using namespace tenon::testing;

namespace {

const std::vector<std::vector<int64_t>> kShapes = {{}, {0}, {2, 0, 3}, {5}, {3, 40}, {20000}};

Array constant(DType t, std::vector<int64_t> sizes, const Number& v, DType from) {
  Array a = make_array(t, std::move(sizes));
  std::fill(a.data.begin(), a.data.end(), convert(v, from, t));
  return a;
}
DType kind_dtype(const Scalar& s) {
  return s.is_bool() ? kBool : s.is_integral() ? kInt64 : s.is_complex() ? kComplex64 : kFloat32;
}

/// `size` at argument `size`, dtype at `size` + 1.
Reference constant_of(int64_t v, int size) {
  return [=](const Args& args) {
    return std::vector<Array>{constant(args.dtype(size + 1, kFloat32), args.ints(size), v, kInt64)};
  };
}
Reference like_of(int64_t v, int dtype_argument, int size = -1) {
  return [=](const Args& args) {
    const Array x = args.array(0);
    return std::vector<Array>{
        constant(args.dtype(dtype_argument, x.dtype), size < 0 ? x.sizes : args.ints(size), v, kInt64)};
  };
}
void sizes_and_dtype(Inputs& in) {
  for (const auto& s : kShapes) in.add({ints(s)}, {{"dtype", in.dtype()}});
  if (in.dtype() == kFloat32) in.add({ints({2, 3})});
}
void like_samples(Inputs& in) {
  for (const auto& s : {Inputs::Sizes{}, {0, 2}, {3, 40}}) in.add({in.tensor(s)}).no_gradient();
  in.add({in.tensor({3, 2})}, {{"dtype", kInt32}}).no_gradient();
  in.add({in.tensor({2, 3, 4, 5})}, {{"memory_format", MemoryFormat::channels_last}}).no_gradient();
}
void new_samples(Inputs& in) {
  for (const auto& s : kShapes) in.add({in.tensor({2}), ints(s)}).no_gradient();
  in.add({in.tensor({2}), ints({3})}, {{"dtype", kInt32}}).no_gradient();
}
void bad_sizes(Inputs& in) {
  in.add({ints({2, -1})});
  in.add({ints({int64_t{1} << 32, int64_t{1} << 32})});
}

}  // namespace

TENON_OP_CASES(factory) {
  op_case(op::fill)
      .dtypes(kAllWithFloat8)
      .gradient()
      .reference([](const Args& args) {
        const Array x = args.array(0), v = args.array(1);
        return std::vector<Array>{constant(x.dtype, x.sizes, v.data[0], v.dtype)};
      })
      .samples([](Inputs& in) {
        for (const auto& s : kShapes) in.add({in.tensor(s), 3});
        in.add({in.tensor({3, 4}), in.tensor({})});
        if (in.is_floating()) in.add({in.tensor({9}), std::nan("")}).no_gradient();
        if (in.is_floating() && !is_float8(in.dtype()))
          in.add({in.tensor({9}), 1e5}).no_gradient();  // infinite in half
      })
      .error<ShapeError>("value", [](Inputs& in) {
        in.add({in.tensor({2}), in.tensor({2})});
      });
  op_case(op::zero)
      .dtypes(kAllWithFloat8)
      .reference([](const Args& args) {
        const Array x = args.array(0);
        return std::vector<Array>{constant(x.dtype, x.sizes, int64_t{0}, kInt64)};
      })
      .samples([](Inputs& in) {
        for (const auto& s : kShapes) in.add({in.tensor(s)});
      });

  op_case(op::empty)
      .dtypes(kAllWithFloat8)
      .uninitialised()
      .reference(constant_of(0, 0))
      .samples(sizes_and_dtype)
      .error<ShapeError>("", bad_sizes);
  op_case(op::empty_strided)
      .dtypes(kAllWithFloat8)
      .uninitialised()
      .reference([](const Args& args) { return std::vector<Array>{make_array(args.dtype(2, kFloat32), args.ints(0))}; })
      .samples([](Inputs& in) {
        in.add({ints({2, 3}), ints({1, 2})}, {{"dtype", in.dtype()}});
        in.add({ints({4}), ints({0})}, {{"dtype", in.dtype()}});
        in.add({ints({0, 3}), ints({5, 7})}, {{"dtype", in.dtype()}});
      })
      .error<ShapeError>("", [](Inputs& in) {
        in.add({ints({2, 3}), ints({1})});
        in.add({ints({2}), ints({-1})});
      });
  op_case(op::empty_permuted)
      .dtypes(kAllWithFloat8)
      .uninitialised()
      .reference([](const Args& args) { return std::vector<Array>{make_array(args.dtype(2, kFloat32), args.ints(0))}; })
      .samples([](Inputs& in) {
        in.add({ints({2, 3, 4}), ints({2, 0, 1})}, {{"dtype", in.dtype()}});
        in.add({ints({2, 0}), ints({1, 0})}, {{"dtype", in.dtype()}});
        in.add({ints({}), ints({})}, {{"dtype", in.dtype()}});
      })
      .error<ShapeError>("physical_layout", [](Inputs& in) {
        in.add({ints({2, 3}), ints({0, 0})});
        in.add({ints({2, 3}), ints({0})});
        in.add({ints({2, 3}), ints({-1, 0})});
      });
  op_case(op::zeros)
      .dtypes(kAllWithFloat8)
      .reference(constant_of(0, 0))
      .samples(sizes_and_dtype)
      .error<ShapeError>("", bad_sizes);
  op_case(op::ones)
      .dtypes(kAllWithFloat8)
      .reference(constant_of(1, 0))
      .samples(sizes_and_dtype)
      .error<ShapeError>("", bad_sizes);
  op_case(op::full)
      .dtypes(kAllWithFloat8)
      .reference([](const Args& args) {
        const Array v = args.array(1);
        return std::vector<Array>{
            constant(args.dtype(2, kind_dtype(args.value(1).number())), args.ints(0), v.data[0], v.dtype)};
      })
      .samples([](Inputs& in) {
        for (const auto& s : kShapes) in.add({ints(s), 3}, {{"dtype", in.dtype()}});
        if (in.dtype() != kFloat32) return;
        in.add({ints({2, 3}), 7});
        in.add({ints({2, 3}), true});
        in.add({ints({2, 3}), 0.25});
        in.add({ints({2, 3}), Scalar(complex<double>(1, -2))});
      });
  op_case(op::scalar_tensor)
      .dtypes(kAllWithFloat8)
      .reference([](const Args& args) {
        const Array v = args.array(0);
        return std::vector<Array>{constant(args.dtype(1, kFloat32), {}, v.data[0], v.dtype)};
      })
      .samples([](Inputs& in) {
        in.add({3}, {{"dtype", in.dtype()}});
      });

  op_case(op::empty_like).dtypes(kAllWithFloat8).uninitialised().reference(like_of(0, 1)).samples(like_samples);
  op_case(op::zeros_like).dtypes(kAllWithFloat8).reference(like_of(0, 1)).samples(like_samples);
  op_case(op::ones_like).dtypes(kAllWithFloat8).reference(like_of(1, 1)).samples(like_samples);
  op_case(op::new_empty_strided)
      .dtypes(kAllWithFloat8)
      .uninitialised()
      .reference(like_of(0, 3, 1))
      .samples([](Inputs& in) {
        in.add({in.tensor({2}), ints({2, 3}), ints({1, 2})}).no_gradient();
        in.add({in.tensor({2}), ints({0, 3}), ints({5, 7})}, {{"dtype", kInt32}}).no_gradient();
      })
      .errors_name("empty_strided")
      .error<ShapeError>("stride", [](Inputs& in) {
        in.add({in.tensor({2}), ints({2}), ints({-1})});
      });
  op_case(op::new_empty).dtypes(kAllWithFloat8).uninitialised().reference(like_of(0, 2, 1)).samples(new_samples);
  op_case(op::new_zeros).dtypes(kAllWithFloat8).reference(like_of(0, 2, 1)).samples(new_samples);
  op_case(op::new_ones).dtypes(kAllWithFloat8).reference(like_of(1, 2, 1)).samples(new_samples);
  op_case(op::full_like).dtypes(kAllWithFloat8).reference(like_of(3, 2)).samples([](Inputs& in) {
    for (const auto& s : kShapes) in.add({in.tensor(s), 3}).no_gradient();
    in.add({in.tensor({3}), 3}, {{"dtype", kInt16}}).no_gradient();
  });
  op_case(op::new_full).dtypes(kAllWithFloat8).reference(like_of(3, 3, 1)).samples([](Inputs& in) {
    for (const auto& s : kShapes) in.add({in.tensor({2}), ints(s), 3}).no_gradient();
  });

  op_case(op::arange_step)
      .dtypes(kReals)
      .reference([](const Args& args) {
        const double from = args.real(0), to = args.real(1), step = args.real(2);
        bool whole = true;
        for (const int i : {0, 1, 2}) whole = whole && args.value(i).number().is_integral();
        const int64_t distance = whole ? args.integer(1) - args.integer(0) : 0;
        Array a =
            make_array(args.dtype(3, whole ? kInt64 : kFloat32),
                       {static_cast<int64_t>(std::ceil((whole ? static_cast<double>(distance) : to - from) / step))});
        for (int64_t i = 0; i < a.numel(); ++i)
          a.data[i] = whole ? convert(args.integer(0) + i * args.integer(2), kInt64, a.dtype)
                            : convert(from + static_cast<double>(i) * step, kFloat64, a.dtype);
        a.scale = {std::max(std::fabs(from), std::fabs(to))};
        return std::vector<Array>{a};
      })
      .samples([](Inputs& in) {
        in.add({0, 10, 1}, {{"dtype", in.dtype()}});
        in.add({3, 100, 7}, {{"dtype", in.dtype()}});
        in.add({5, 5, 1}, {{"dtype", in.dtype()}});
        in.add({0, 120, 1}, {{"dtype", in.dtype()}});
        if (in.dtype() != kUInt8) in.add({10, -11, -3}, {{"dtype", in.dtype()}});
        if (in.is_floating()) in.add({0.5, 4.25, 0.25}, {{"dtype", in.dtype()}});
        if (in.dtype() == kFloat32) in.add({0.0, 1.0, 0.125});
        if (in.dtype() == kInt64) in.add({0, 70000});
        if (in.dtype() == kInt64) in.add({int64_t{1} << 60, (int64_t{1} << 60) + 5}).no_destinations();
      })
      .error<ValueError>("step",
                         [](Inputs& in) {
                           in.add({0, 10, 0});
                         })
      .error<ValueError>("", [](Inputs& in) {
        in.add({0, 10, -1});
        in.add({0.0, HUGE_VAL, 1.0});
      });
  op_case(op::arange)
      .dtypes(kReals)
      .reference([](const Args& args) {
        Array a = make_array(args.dtype(1, args.value(0).number().is_integral() ? kInt64 : kFloat32),
                             {static_cast<int64_t>(std::ceil(args.real(0)))});
        for (int64_t i = 0; i < a.numel(); ++i) a.data[i] = convert(i, kInt64, a.dtype);
        return std::vector<Array>{a};
      })
      .samples([](Inputs& in) {
        in.add({0}, {{"dtype", in.dtype()}});
        in.add({100}, {{"dtype", in.dtype()}});
        if (in.dtype() == kFloat32) in.add({2.5});
        if (in.dtype() == kInt64) in.add({7});
      });
  op_case(op::linspace)
      .dtypes(kFloats + Dtypes{kInt32, kInt64, kComplex64})
      .reference([](const Args& args) {
        const double from = args.real(0), to = args.real(1);
        const int64_t n = args.integer(2);
        Array a = make_array(args.dtype(3, kFloat32), {n});
        for (int64_t i = 0; i < n; ++i) {
          const double v = n == 1 ? from : from + (to - from) * static_cast<double>(i) / static_cast<double>(n - 1);
          a.data[i] = is_integral(a.dtype) ? convert(v, kFloat64, a.dtype) : Number(v);
        }
        a.scale = {std::max(std::fabs(from), std::fabs(to))};
        return std::vector<Array>{a};
      })
      .samples([](Inputs& in) {
        for (const int64_t n : {0, 1, 2, 11, 101}) in.add({0, 100, n}, {{"dtype", in.dtype()}});
        if (is_integral(in.dtype())) return;
        for (const int64_t n : {3, 50, 3001}) in.add({-2.5, 7, n}, {{"dtype", in.dtype()}});
      })
      .error<ValueError>("steps", [](Inputs& in) {
        in.add({0, 1, -1});
      });
  op_case(op::logspace)
      .dtypes(kFloats + kIntegers + kComplexes)
      .ulp(64)  // base^x feels the rounding of x
      .reference([](const Args& args) {
        const int64_t n = args.integer(2);
        Array a = make_array(args.dtype(4, kFloat32), {n});
        for (int64_t i = 0; i < n; ++i) {
          const Complex from = args.number(0).z, to = args.number(1).z;
          const Complex x = n == 1 ? from : from + (to - from) * (static_cast<double>(i) / static_cast<double>(n - 1));
          const Complex v = std::pow(Complex(args.real(3)), x);
          a.data[i] = is_integral(a.dtype) ? convert(std::round(v.real()), kFloat64, a.dtype) : Number(v);
        }
        return std::vector<Array>{a};
      })
      .samples([](Inputs& in) {
        for (const int64_t n : {0, 1, 2, 4}) in.add({0, 3, n, 2.0}, {{"dtype", in.dtype()}});
        if (is_integral(in.dtype())) return;
        in.add({-2, 2, 5}, {{"dtype", in.dtype()}});
        in.add({1.5, -1, 30, 3.0}, {{"dtype", in.dtype()}});
        if (is_complex(in.dtype()))
          in.add({Scalar(complex<double>(0, 1)), Scalar(complex<double>(2, -1)), 5, 2.0}, {{"dtype", in.dtype()}});
      })
      .error<ValueError>("steps", [](Inputs& in) {
        in.add({0, 1, -1});
      });
  const Reference identity = [](const Args& args) {
    const bool square = args.value(1).kind() != Value::Kind::number;
    const int64_t n = args.integer(0), m = square ? n : args.integer(1);
    Array a = make_array(args.dtype(square ? 1 : 2, kFloat32), {n, m});
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j < m; ++j) a.data[i * m + j] = convert(int64_t{i == j}, kInt64, a.dtype);
    return std::vector<Array>{a};
  };
  op_case(op::eye)
      .dtypes(kAll)
      .reference(identity)
      .samples([](Inputs& in) {
        for (const int64_t n : {0, 1, 5, 70}) in.add({n}, {{"dtype", in.dtype()}});
      })
      .error<ValueError>("", [](Inputs& in) { in.add({-1}); });
  op_case(op::eye_m).dtypes(kAll).reference(identity).samples([](Inputs& in) {
    in.add({3, 5}, {{"dtype", in.dtype()}});
    in.add({5, 3}, {{"dtype", in.dtype()}});
    in.add({0, 3}, {{"dtype", in.dtype()}});
  });
}
