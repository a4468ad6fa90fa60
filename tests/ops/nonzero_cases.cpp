// SPDX-License-Identifier: Apache-2.0
// Rows of ops/nonzero.h: positions, masks and reading and writing by position.
#include <tenon/ops/nonzero.h>

#include "tests/support/op_case.h"

#include <algorithm>

using namespace tenon;
using namespace tenon::testing;

namespace {

using Index = std::vector<int64_t>;

// Rows of positions where an element is not zero.
std::vector<Index> places_of(const Array& x) {
  std::vector<Index> rows;
  each_index(x.sizes, [&](const Index& at) {
    if (x.data[flat_index(at, x.sizes)].z != Complex(0)) rows.push_back(at);
  });
  return rows;
}
std::vector<Array> nonzero_reference(const Args& args) {
  const Array x = args.array(0);
  const auto rows = places_of(x);
  Array out = make_array(kInt64, {static_cast<int64_t>(rows.size()), x.dim()});
  for (std::size_t r = 0; r < rows.size(); ++r)
    for (std::size_t d = 0; d < rows[r].size(); ++d) out.data[r * rows[r].size() + d] = Number(rows[r][d]);
  return {out};
}
std::vector<Array> columns_reference(const Args& args) {
  Array x = args.array(0);
  if (x.sizes.empty()) x.sizes = {1};
  const auto rows = places_of(x);
  std::vector<Array> columns(x.sizes.size(), make_array(kInt64, {static_cast<int64_t>(rows.size())}));
  for (std::size_t r = 0; r < rows.size(); ++r)
    for (std::size_t d = 0; d < rows[r].size(); ++d) columns[d].data[r] = Number(rows[r][d]);
  return columns;
}

// Zeros and ones, about a third of them ones.
Tensor sparse(Inputs& in, const Index& sizes) {
  std::vector<double> v(static_cast<std::size_t>(count(sizes)));
  for (double& x : v) x = in.integer(0, 2) == 0 ? 1 : 0;
  return in.values(v, sizes);
}

Array spread(const Array& x, const Index& sizes) {
  return pointwise({make_array(x.dtype, sizes), x}, DType::undefined, x.dtype, [](const Number* n) { return n[1]; });
}
std::vector<Array> select_reference(const Args& args) {
  const Index sizes = broadcast(args.array(0).sizes, args.array(1).sizes);
  const Array x = spread(args.array(0), sizes), mask = spread(args.array(1), sizes);
  Array out = make_array(x.dtype, {0});
  for (std::size_t n = 0; n < x.data.size(); ++n)
    if (mask.data[n].i != 0) out.data.push_back(x.data[n]);
  out.sizes[0] = static_cast<int64_t>(out.data.size());
  return {out};
}
std::vector<Array> masked_scatter_reference(const Args& args) {
  const Index sizes = broadcast(args.array(0).sizes, args.array(1).sizes);
  Array out = spread(args.array(0), sizes);
  const Array mask = spread(args.array(1), sizes), source = args.array(2);
  std::size_t next = 0;
  for (std::size_t n = 0; n < out.data.size(); ++n)
    if (mask.data[n].i != 0) out.data[n] = source.data[next++];
  return {out};
}
std::vector<Array> take_reference(const Args& args) {
  const Array x = args.array(0), index = args.array(1);
  Array out = make_array(x.dtype, index.sizes);
  for (std::size_t n = 0; n < out.data.size(); ++n)
    out.data[n] = x.data[index.data[n].i < 0 ? index.data[n].i + x.numel() : index.data[n].i];
  return {out};
}
std::vector<Array> put_reference(const Args& args) {
  Array out = args.array(0);
  const Array index = args.array(1), source = args.array(2);
  out.scale.assign(out.data.size(), 64 * (is_half(out.dtype) ? epsilon(out.dtype) / epsilon(kFloat32) : 1));
  for (std::size_t n = 0; n < index.data.size(); ++n) {
    Number& to = out.data[index.data[n].i < 0 ? index.data[n].i + out.numel() : index.data[n].i];
    const Number v = source.data[n];
    if (args.integer(3) == 0)
      to = v;
    else if (out.dtype == kBool)
      to = Number(int64_t(to.i != 0 || v.i != 0));
    else
      to = is_integral(out.dtype) ? convert(to.i + v.i, kInt64, out.dtype) : Number(to.z + v.z);
  }
  return {out};
}
std::vector<Array> along_reference(const Args& args) {
  Array x = args.array(0), index = args.array(1);
  if (args.is_none(2)) {
    x.sizes = {x.numel()}, index.sizes = {index.numel()};
    return {pick(x, index.sizes, [&](const Index& at) {
      const int64_t i = index.data[at[0]].i;
      return Index{i < 0 ? i + x.numel() : i};
    })};
  }
  const int64_t d = args.integer(2) < 0 ? args.integer(2) + x.dim() : args.integer(2);
  Index from = x.sizes;
  from[d] = index.sizes[d];
  const Index sizes = broadcast(from, index.sizes);
  const Array by = spread(index, sizes);
  return {pick(x, sizes, [&](Index at) {
    const int64_t place = by.data[flat_index(at, sizes)].i;
    for (std::size_t k = 0; k < at.size(); ++k)
      if (x.sizes[k] == 1) at[k] = 0;
    at[d] = place < 0 ? place + x.sizes[d] : place;
    return at;
  })};
}
std::vector<Array> unravel_reference(const Args& args) {
  const Array x = args.array(0);
  const Index shape = args.ints(1);
  std::vector<Array> out(shape.size(), make_array(kInt64, x.sizes));
  for (std::size_t n = 0; n < x.data.size(); ++n) {
    int64_t rest = x.data[n].i;
    for (std::size_t d = shape.size(); d-- > 0; rest /= shape[d]) out[d].data[n] = Number(rest % shape[d]);
  }
  return out;
}

}  // namespace

TENON_OP_CASES(nonzero) {
  const Maker masks = [](Inputs& in) {
    in.add({sparse(in, {7})});
    in.add({sparse(in, {3, 5})});
    in.add({sparse(in, {2, 3, 4})});
    in.add({sparse(in, {})});
    in.add({sparse(in, {0, 3})});
    in.add({in.values({0, 0, 0})});
    in.add({sparse(in, {300, 700})});  // several pieces that begin within a row
    if (is_floating_point(in.dtype())) in.add({in.special(3)});
  };
  op_case(op::nonzero).dtypes(kAll).reference(nonzero_reference).no_meta().samples(masks).benchmark([](Inputs& in) {
    in.add({sparse(in, {1024, 1024})});
  });
  op_case(op::nonzero_tuple).dtypes(kAll).reference(columns_reference).no_meta().no_out().samples([](Inputs& in) {
    in.add({sparse(in, {3, 5})}, {{"as_tuple", true}});
    in.add({sparse(in, {})}, {{"as_tuple", true}});
  });
  op_case(op::where_positions).dtypes(kAll).reference(columns_reference).no_meta().no_out().samples([=](Inputs& in) {
    masks(in);
  });
  op_case(op::masked_select)
      .dtypes(kAllWithFloat8)
      .gradient()
      .ulp(0)
      .reference(select_reference)
      .no_meta()
      .samples([](Inputs& in) {
        in.add({in.tensor({5, 3}), in.boolean({5, 3})});
        in.add({in.tensor({5, 3}), in.boolean({3})});
        in.add({in.tensor({3}), in.boolean({5, 1})});
        in.add({in.tensor({}), in.boolean({})});
        in.add({in.tensor({0, 3}), in.boolean({0, 3})});
        in.add({in.tensor({300, 90}), in.boolean({300, 90})}).no_gradient();
      })
      .error<DtypeError>("mask",
                         [](Inputs& in) {
                           in.add({in.tensor({3}), in.tensor({3})});
                         })
      .error<ShapeError>("", [](Inputs& in) {
        in.add({in.tensor({3}), in.boolean({4})});
      });
  op_case(op::masked_scatter)
      .dtypes(kAllWithFloat8)
      .gradient()
      .ulp(0)
      .reference(masked_scatter_reference)
      .no_meta()
      .samples([](Inputs& in) {
        in.add({in.tensor({5, 3}), in.boolean({5, 3}), in.tensor({16})});
        in.add({in.tensor({5, 3}), in.boolean({3}), in.tensor({4, 5})});
        in.add({in.tensor({3}), in.boolean({2, 3}), in.tensor({6})}).no_destinations();
        in.add({in.tensor({}), in.boolean({}), in.tensor({2})});
        in.add({in.tensor({0, 3}), in.boolean({0, 3}), in.tensor({0})});
      })
      .error<DtypeError>("mask",
                         [](Inputs& in) {
                           in.add({in.tensor({1, 3}), in.tensor({1, 3}), in.tensor({3, 4})});
                         })
      .error<DtypeError>("source",
                         [](Inputs& in) {
                           in.add({in.tensor({3}), in.boolean({3}), in.tensor({3}, 0, 1, kFloat64)});
                         })
      .error<ShapeError>("source", [](Inputs& in) {
        in.add({in.tensor({3}), in.values({1, 1, 0}, {3}, kBool), in.tensor({1})});
      });
  op_case(op::take)
      .dtypes(kAllWithFloat8)
      .gradient()
      .ulp(0)
      .reference(take_reference)
      .samples([](Inputs& in) {
        in.add({in.tensor({5, 3}), in.index({2, 4}, 15, -15)});
        in.add({in.tensor({5, 3}), in.integers({3, -1}, {2}, kInt32)});
        in.add({in.tensor({}), in.integers({0, -1})});
        in.add({in.tensor({5}), in.integers({2}, {})});
        in.add({in.tensor({5}), in.integers({}, {0, 2})});
        in.add({in.tensor({0}), in.integers({}, {0})});
      })
      .error<IndexError>("index",
                         [](Inputs& in) {
                           in.add({in.tensor({2, 2}), in.integers({4})});
                           in.add({in.tensor({2, 2}), in.integers({-5})});
                           in.add({in.tensor({0}), in.integers({0})});
                         })
      .error<DtypeError>("index", [](Inputs& in) {
        in.add({in.tensor({3}), in.tensor({2})});
      });
  op_case(op::put)
      .dtypes(kAll)
      .gradient()
      .reference(put_reference)
      .samples([](Inputs& in) {
        in.add({in.tensor({5, 3}), in.integers({3, -1, 0}), in.tensor({3})}).no_layouts();
        in.add({in.tensor({5, 3}), in.integers({3, 3, 0, -15}, {2, 2}), in.tensor({4}), true});
        in.add({in.tensor({}), in.integers({0}), in.tensor({})});
        in.add({in.tensor({5}), in.integers({}, {0}), in.tensor({0}), true});
      })
      .error<IndexError>("index",
                         [](Inputs& in) {
                           in.add({in.tensor({2, 2}), in.integers({4}), in.tensor({1})});
                         })
      .error<ShapeError>("source",
                         [](Inputs& in) {
                           in.add({in.tensor({2, 2}), in.integers({0, 1}), in.tensor({3})});
                         })
      .error<DtypeError>("source", [](Inputs& in) {
        in.add({in.tensor({2, 2}), in.integers({0}), in.tensor({1}, 0, 1, kFloat64)});
      });
  op_case(op::take_along_dim)
      .dtypes(kAllWithFloat8)
      .gradient()
      .ulp(0)
      .reference(along_reference)
      .samples([](Inputs& in) {
        in.add({in.tensor({5, 4}), in.index({1, 2}, 4, -4), 1});
        in.add({in.tensor({1, 4}), in.index({5, 2}, 4), -1});
        in.add({in.tensor({3, 1, 2}), in.index({1, 4, 2}, 3), 0});
        in.add({in.tensor({5, 4}), in.index({2, 3}, 20, -20)});
        in.add({in.tensor({5, 4}), in.integers({}, {5, 0}), 1});
      })
      .error<ShapeError>("indices",
                         [](Inputs& in) {
                           in.add({in.tensor({5, 4}), in.index({2}, 4), 1});
                         })
      .error<IndexError>("index", [](Inputs& in) {
        in.add({in.tensor({5, 4}), in.integers({4}, {1, 1}), 1});
      });
  op_case(op::unravel_index)
      .dtypes(kIntegers)
      .reference(unravel_reference)
      .no_out()
      .samples([](Inputs& in) {
        in.add({in.values({0, 5, 23, 7}), ints({2, 3, 4})});
        in.add({in.values({1, 0, 3, 2}, {2, 2}), ints({4})});
        in.add({in.values({3}, {}), ints({2, 2})});
        in.add({in.values({}, {0}), ints({2, 2})});
      })
      .error<DtypeError>("indices",
                         [](Inputs& in) {
                           in.add({in.tensor({2}), ints({2, 2})});
                         })
      .error<ValueError>("shape", [](Inputs& in) {
        in.add({in.integers({0}), ints({2, 0})});
      });
}
