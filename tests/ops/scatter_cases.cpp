// SPDX-License-Identifier: Apache-2.0
// Rows of scatter and its kind (ops/index.h): writing and reducing by index.
#include <tenon/ops/index.h>

#include "tests/support/op_case.h"

#include <algorithm>
#include <cmath>
#include <numeric>

using namespace tenon;
using namespace tenon::testing;

namespace {

using Index = std::vector<int64_t>;

// Calls f(position in out, element of src) for every element of the index at argument 2. src may be a number; `slices`: the
// index is a vector that numbers slices.
void each_place(const Args& args, bool slices, const std::function<void(int64_t, Number)>& f) {
  const Array self = args.array(0), index = args.array(2), src = args.array(3);
  const int64_t rank = std::max<int64_t>(self.dim(), 1),
                d = args.integer(1) < 0 ? args.integer(1) + rank : args.integer(1);
  each_index(slices ? src.sizes : index.sizes, [&](const Index& at) {
    Index to = at;
    if (self.sizes.empty()) to.clear();
    if (!to.empty()) to[d] = index.data[slices ? at[d] : flat_index(at, index.sizes)].i;
    f(flat_index(to, self.sizes),
      src.number ? convert(src.data[0], src.dtype, self.dtype) : src.data[flat_index(at, src.sizes)]);
  });
}

std::vector<Array> scatter_reference(const Args& args) {
  Array out = args.array(0);
  each_place(args, false, [&](int64_t place, Number v) { out.data[place] = v; });
  return {out};
}

Number fold(const std::string& reduce, DType t, Number a, Number b) {
  const bool integral = is_integral(t, true);
  if (reduce == "prod" || reduce == "multiply")
    return integral ? convert(static_cast<int64_t>(static_cast<uint64_t>(a.i) * static_cast<uint64_t>(b.i)), kInt64, t)
                    : Number(a.z * b.z);
  if (reduce == "amax" || reduce == "amin") {
    if (std::isnan(a.re()) || std::isnan(b.re())) return std::isnan(a.re()) ? a : b;
    return (reduce == "amax") == (integral ? a.i > b.i : a.re() > b.re()) ? a : b;
  }
  return integral ? convert(a.i + b.i, kInt64, t) : Number(a.z + b.z);
}

// All values of one place together, rounded at the end.
Reference reduction(bool slices) {
  return [=](const Args& args) {
    Array out = args.array(0);
    const std::string reduce = args.text(4);
    const bool simple = args.size() == 5, include = simple || args.integer(5) != 0;  // scatter.reduce
    std::vector<std::vector<Number>> values(out.data.size());
    each_place(args, slices, [&](int64_t place, Number v) { values[place].push_back(v); });
    const double rough = is_half(out.dtype) ? epsilon(out.dtype) / epsilon(kFloat32) / 2 : 1;  // every step rounds
    for (std::size_t n = 0; n < values.size(); ++n) {
      if (values[n].empty()) {
        out.scale.push_back(0);
        continue;
      }
      std::vector<Number>& list = values[n];
      if (include) list.insert(list.begin(), out.data[n]);
      Number sum = list[0];
      double size = std::abs(list[0].z);
      for (std::size_t i = 1; i < list.size(); ++i) {
        sum = fold(reduce, out.dtype, sum, list[i]);
        size = std::max(size + std::abs(list[i].z), std::abs(sum.z));
      }
      const auto count = static_cast<int64_t>(list.size());
      if (reduce == "mean") {
        const int64_t whole = sum.i / count - (sum.i % count != 0 && sum.i < 0 ? 1 : 0);
        sum = is_integral(out.dtype) ? Number(whole) : Number(sum.z / static_cast<double>(count));
      }
      out.data[n] = sum;
      out.scale.push_back(size * static_cast<double>(count) * rough);
    }
    return std::vector<Array>{out};
  };
}

// Numbers that differ, so that small steps change no order.
Tensor distinct(Inputs& in, const Index& sizes, double offset) {
  std::vector<double> v(static_cast<std::size_t>(count(sizes)));
  for (std::size_t i = 0; i < v.size(); ++i) v[i] = offset + static_cast<double>((i * 7919) % v.size());
  return in.values(v, sizes);
}

std::vector<Array> fill_reference(const Args& args) {
  Array out = args.array(0);
  const Array index = args.array(2), value = args.array(3);
  const int64_t d = args.integer(1) < 0 ? args.integer(1) + std::max<int64_t>(out.dim(), 1) : args.integer(1);
  const Number v = convert(value.data[0], value.dtype, out.dtype);
  if (out.sizes.empty()) {
    if (index.numel() > 0) out.data[0] = v;
    return {out};
  }
  each_index(out.sizes, [&](const Index& at) {
    for (const Number& i : index.data)
      if ((i.i < 0 ? i.i + out.sizes[d] : i.i) == at[d]) out.data[flat_index(at, out.sizes)] = v;
  });
  return {out};
}

}  // namespace

TENON_OP_CASES(scatter) {
  const Maker outside = [](Inputs& in) {
    in.add({in.tensor({3}), 0, in.integers({3}), in.tensor({1})});
    in.add({in.tensor({3}), 0, in.integers({-1}), in.tensor({1})});
    in.add({in.tensor({2, 3}), 1, in.integers({0, 5}, {2, 1}), in.tensor({2, 1})});
  };
  const Maker misshapen = [](Inputs& in) {
    in.add({in.tensor({3}), 0, in.index({4}, 3), in.tensor({2})});
    in.add({in.tensor({3, 5}), 0, in.index({2, 6}, 3), in.tensor({2, 6})});
    in.add({in.tensor({3, 5}), 0, in.index({2, 2}, 3), in.tensor({2, 5, 2})});
  };
  const Maker other_dtype = [](Inputs& in) {
    in.add({in.tensor({3}), 0, in.integers({0}), in.tensor({1}, 0, 1, kFloat64)});
  };
  op_case(op::scatter)
      .dtypes(kAllWithFloat8)
      .gradient()
      .ulp(0)
      .reference(scatter_reference)
      .samples([](Inputs& in) {
        // No place twice: which value wins is not defined. Expanded indices would name some twice.
        in.add({in.tensor({3, 4}), 0, in.integers({0, 2, 1, 0, 1, 0, 2, 2}, {2, 4}), in.tensor({2, 4})}).no_layouts();
        in.add({in.tensor({3, 4}), -1, in.integers({3, 0, 2, 1, 0, 3}, {3, 2}), in.tensor({3, 5})}).no_layouts();
        in.add({in.tensor({6}), 0, in.integers({5, 0, 3}), in.tensor({4})}).no_layouts();
        in.add({in.tensor({}), 0, in.integers({0}, {}), in.tensor({})});
        in.add({in.tensor({5}), 0, in.integers({}, {0}), in.tensor({3})});
        in.add({in.tensor({3, 4}), 1, in.index({3, 2}, 4), 2});
        in.add({in.tensor({2, 4, 3}), 1, in.index({2, 9, 3}, 4), 1});
      })
      .samples([](Inputs& in) {
        std::vector<int64_t> order(300 * 70);
        for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int64_t>(i / 70 * 77 % 300);
        in.add({in.tensor({300, 70}), 0, in.integers(order, {300, 70}), in.tensor({300, 70})})
            .no_gradient()
            .no_layouts();
      })
      .benchmark([](Inputs& in) {
        in.add({in.tensor({4096, 256}), 0, in.index({4096, 256}, 4096), in.tensor({4096, 256})});
      })
      .error<IndexError>("index", outside)
      .error<ShapeError>("", misshapen)
      .error<DtypeError>("src", other_dtype);
  op_case(op::scatter_by)
      .errors_name("scatter")
      .dtypes(kAll)
      .gradient()
      .ulp(8)
      .reference(reduction(false))
      .samples([](Inputs& in) {
        in.add({in.tensor({3, 4}), 0, in.index({2, 4}, 3), in.tensor({2, 4})}, {{"reduce", "multiply"}});
        in.add({in.tensor({3, 4}), 1, in.index({3, 6}, 4), 2}, {{"reduce", "multiply"}});
        if (in.dtype() != kBool) in.add({in.tensor({3, 4}), 1, in.index({3, 6}, 4), 2}, {{"reduce", "add"}});
      })
      .error<ValueError>("reduce", [](Inputs& in) {
        in.add({in.tensor({3}), 0, in.integers({0}), 2}, {{"reduce", "sum"}});
      });

  const auto reductions = [](Inputs& in, bool slices) {
    const DType t = in.dtype();
    for (const char* reduce : {"sum", "prod", "mean", "amax", "amin"})
      for (const bool include : {true, false}) {
        const std::string name = reduce;
        const bool extreme = name == "amax" || name == "amin";
        if ((slices && name == "sum") || (extreme && is_complex(t)) ||
            (t == kBool && (name == "mean" || name == "sum")))
          continue;
        const auto add = [&](const Index& sizes, int64_t dim, const Tensor& index, const Index& from) -> Sample& {
          const bool small = name == "prod";  // products of integers wrap in bits they share with the reference
          const Tensor self = extreme ? distinct(in, sizes, 0) : in.tensor(sizes, small ? 1 : -4, small ? 2 : 4);
          const Tensor src = extreme ? distinct(in, from, 0.5) : in.tensor(from, small ? 1 : -4, small ? 2 : 4);
          return in.add({self, dim, index, src, name}, {{"include_self", include}});
        };
        if (slices) {
          add({5, 3}, 0, in.integers({4, 0, 4}), {3, 3});
          add({3, 5}, -1, in.integers({1, 1}), {3, 2});
          add({}, 0, in.integers({0}), {});
          add({4}, 0, in.integers({}, {0}), {0});
          add({40, 33}, 0, in.index({90}, 40), {90, 33}).no_gradient();
        } else {
          add({3, 4}, 0, in.index({2, 4}, 3), {2, 4});
          add({3, 4}, 1, in.index({3, 6}, 4), {3, 7});
          add({2, 4, 3}, -2, in.index({2, 5, 1}, 4), {2, 5, 3});
          add({5}, 0, in.index({9}, 5), {9});
          add({}, 0, in.integers({0}, {}), {});
          add({5}, 0, in.integers({}, {0}), {3});
          add({60, 70}, 1, in.index({60, 140}, 70), {60, 140}).no_gradient();
        }
      }
  };
  op_case(op::scatter_reduce)
      .dtypes(kAll)
      .gradient()
      .ulp(8)
      .reference(reduction(false))
      .samples([=](Inputs& in) { reductions(in, false); })
      .samples([](Inputs& in) {  // NaN stays, infinities and extreme integers are kept by what starts from them
        const Tensor special = in.special(2);
        const int64_t n = special.numel();
        for (const char* reduce : {"amax", "amin"})
          for (const bool include : {true, false})
            if (!is_complex(in.dtype()))
              in.add({in.tensor({4}), 0, in.index({n}, 4), special, reduce}, {{"include_self", include}}).no_gradient();
      })
      .error<IndexError>("index",
                         [](Inputs& in) {
                           in.add({in.tensor({3}), 0, in.integers({3}), in.tensor({1}), "amax"});
                           in.add({in.tensor({3}), 0, in.integers({-1}), in.tensor({1}), "mean"});
                         })
      .error<ValueError>("reduce",
                         [](Inputs& in) {
                           in.add({in.tensor({3}), 0, in.integers({0}), in.tensor({1}), "median"});
                         })
      .error<ShapeError>("", [](Inputs& in) {
        in.add({in.tensor({3}), 0, in.index({4}, 3), in.tensor({2}), "prod"});
      });
  op_case(op::index_reduce)
      .dtypes(kAll)
      .gradient()
      .ulp(8)
      .reference(reduction(true))
      .samples([=](Inputs& in) { reductions(in, true); })
      .error<IndexError>("index",
                         [](Inputs& in) {
                           in.add({in.tensor({3}), 0, in.integers({3}), in.tensor({1}), "prod"});
                         })
      .error<ValueError>("reduce",
                         [](Inputs& in) {
                           in.add({in.tensor({3}), 0, in.integers({0}), in.tensor({1}), "sum"});
                         })
      .error<ShapeError>("", [](Inputs& in) {
        in.add({in.tensor({5, 3}), 0, in.integers({0, 1}), in.tensor({1, 3}), "prod"});
      });
  op_case(op::index_fill)
      .dtypes(kAll)
      .gradient()
      .ulp(0)
      .reference(fill_reference)
      .samples([](Inputs& in) {
        in.add({in.tensor({5, 3}), 0, in.integers({4, 0, 4}), 3});
        in.add({in.tensor({3, 5}), -1, in.integers({1, -1}, {2}, kInt32), in.tensor({})});
        in.add({in.tensor({2, 4, 3}), 1, in.integers({2}, {}), 1});
        in.add({in.tensor({}), 0, in.integers({0}), 2});
        in.add({in.tensor({5}), 0, in.integers({}, {0}), 2});
      })
      .error<IndexError>("index",
                         [](Inputs& in) {
                           in.add({in.tensor({3}), 0, in.integers({3}), 1});
                           in.add({in.tensor({3}), 0, in.integers({-4}), 1});
                         })
      .error<ShapeError>("", [](Inputs& in) {
        in.add({in.tensor({3}), 0, in.integers({0}), in.tensor({1})});
        in.add({in.tensor({3}), 0, in.integers({0, 1}, {2, 1}), 1});
      });
}
