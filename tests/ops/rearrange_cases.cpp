// SPDX-License-Identifier: Apache-2.0
// Rows of ops/rearrange.h.
#include <tenon/ops/rearrange.h>

#include "tests/support/op_case.h"

#include <algorithm>

using namespace tenon;
using namespace tenon::testing;

namespace {

using Index = std::vector<int64_t>;
using Arrays = std::vector<Array>;
const Dtypes kSome = {kFloat64, kFloat32, kBFloat16, kInt64, kUInt8, kBool, kComplex64, kComplex128};

int64_t wrap(int64_t d, int64_t rank) { return d < 0 ? d + std::max<int64_t>(rank, 1) : d; }

template <class F>
Reference one(F f) {
  return [=](const Args& args) { return Arrays{f(args)}; };
}
template <class Op>
OpCase& copy_row(const Op& op, Reference reference, Dtypes dtypes = kSome) {
  return op_case(op).dtypes(dtypes).gradient().ulp(0).reference(std::move(reference));
}

Array flipped(const Array& x, const Index& dims) {
  return pick(x, x.sizes, [&](Index at) {
    for (const int64_t d : dims)
      if (x.dim() > 0) at[wrap(d, x.dim())] = x.sizes[wrap(d, x.dim())] - 1 - at[wrap(d, x.dim())];
    return at;
  });
}
Array rolled(const Array& x, const Index& shifts, const Index& dims) {
  return pick(x, x.sizes, [&](Index at) {
    for (std::size_t i = 0; i < dims.size(); ++i) {
      const int64_t d = wrap(dims[i], x.dim()), n = x.sizes[d];
      at[d] = ((at[d] - shifts[i] % n) % n + n) % n;
    }
    return at;
  });
}
Array repeated(Array x, const Index& repeats) {
  while (x.sizes.size() < repeats.size()) x.sizes.insert(x.sizes.begin(), 1);
  Index sizes = x.sizes;
  for (std::size_t d = 0; d < sizes.size(); ++d) sizes[d] *= repeats[d];
  return pick(x, sizes, [&](Index at) {
    for (std::size_t d = 0; d < at.size(); ++d) at[d] %= x.sizes[d];
    return at;
  });
}
// Entry i of dimension dim (none: of all elements in a row) counts[i] times, the one count for all.
Array interleaved(Array x, bool whole, int64_t dim, Index counts) {
  if (whole || x.dim() == 0) x.sizes = {x.numel()};
  const int64_t d = whole ? 0 : wrap(dim, x.dim());
  if (counts.size() == 1) counts.assign(static_cast<std::size_t>(x.sizes[d]), counts[0]);
  Index from, sizes = x.sizes;
  for (int64_t i = 0; i < x.sizes[d]; ++i) from.insert(from.end(), static_cast<std::size_t>(counts[i]), i);
  sizes[d] = static_cast<int64_t>(from.size());
  return pick(x, sizes, [&](Index at) {
    at[d] = from[at[d]];
    return at;
  });
}
Index integers_of(const Array& a) {
  Index list;
  for (const Number& n : a.data) list.push_back(n.i);
  return list;
}
// x with src at the places `to` gives.
Array scattered(Array x, const Array& src, const std::function<Index(const Index&)>& to) {
  std::size_t n = 0;
  each_index(src.sizes, [&](const Index& at) { x.data[flat_index(to(at), x.sizes)] = src.data[n++]; });
  return x;
}

}  // namespace

TENON_OP_CASES(rearrange_order) {
  copy_row(op::flip, one([](const Args& a) { return flipped(a.array(0), a.ints(1)); }), kAllWithFloat8)
      .samples([](Inputs& in) {
        in.add({in.tensor({5}), ints({0})});
        in.add({in.tensor({2, 3, 4}), ints({0, -1})});
        in.add({in.tensor({2, 3, 4}), ints({1})});
        in.add({in.tensor({2, 1, 4}), ints({0, 1, 2})});
        in.add({in.tensor({2, 3}), ints({})});
        in.add({in.tensor({0, 3}), ints({0, 1})});
        in.add({in.tensor({}), ints({0})});
        in.add({in.tensor({3, 300}), ints({1})}).no_gradient();
        in.add({in.tensor({70, 90}), ints({0})}).no_gradient();
      })
      .error<ShapeError>("dims",
                         [](Inputs& in) {
                           in.add({in.tensor({2, 3}), ints({1, -1})});
                         })
      .error<IndexError>("",
                         [](Inputs& in) {
                           in.add({in.tensor({2, 3}), ints({2})});
                         })
      .benchmark([](Inputs& in) {
        in.add({in.tensor({4096, 4096}), ints({1})});
        in.add({in.tensor({4096, 4096}), ints({0})});
      });
  const Maker matrix = [](Inputs& in) {
    in.add({in.tensor({2, 3})});
    in.add({in.tensor({4, 3, 2})});
  };
  copy_row(op::fliplr, one([](const Args& a) { return flipped(a.array(0), {1}); }))
      .samples(matrix)
      .error<ShapeError>("self", [](Inputs& in) { in.add({in.tensor({2})}); });
  copy_row(op::flipud, one([](const Args& a) { return flipped(a.array(0), {0}); }))
      .samples(matrix)
      .error<ShapeError>("self", [](Inputs& in) { in.add({in.tensor({})}); });
  copy_row(op::roll, one([](const Args& a) {
             const Array x = a.array(0);
             if (!a.ints(2).empty()) return x.numel() == 0 ? x : rolled(x, a.ints(1), a.ints(2));
             Array flat = x;
             flat.sizes = {x.numel()};
             if (x.numel() > 0) flat = rolled(flat, a.ints(1), {0});
             flat.sizes = x.sizes;
             return flat;
           }))
      .samples([](Inputs& in) {
        in.add({in.tensor({5}), ints({2}), ints({0})});
        in.add({in.tensor({2, 3, 4}), ints({1, -7}), ints({0, 2})});
        in.add({in.tensor({2, 3, 4}), ints({1, 1, 2}), ints({1, 1, -1})});
        in.add({in.tensor({2, 3}), ints({4})});
        in.add({in.tensor({2, 3}), ints({INT64_MIN})});
        in.add({in.tensor({2, 3}), ints({3}), ints({1})});
        in.add({in.tensor({0, 3}), ints({1, 2}), ints({0, 1})});
        in.add({in.tensor({}), ints({5})});
      })
      .error<ShapeError>("shifts",
                         [](Inputs& in) {
                           in.add({in.tensor({5}), ints({})});
                           in.add({in.tensor({5}), ints({1, 2})});
                           in.add({in.tensor({5, 5}), ints({2, 1}), ints({0})});
                         })
      .error<IndexError>("", [](Inputs& in) {
        in.add({in.tensor({5}), ints({1}), ints({1})});
      });
  copy_row(op::rot90, one([](const Args& a) {
             const Array x = a.array(0);
             const Index dims = a.ints(2);
             const int64_t p = wrap(dims[0], x.dim()), q = wrap(dims[1], x.dim()), k = (a.integer(1) % 4 + 4) % 4;
             Index sizes = x.sizes;
             if (k % 2) std::swap(sizes[p], sizes[q]);
             return pick(x, sizes, [&](Index at) {
               const int64_t i = at[p], j = at[q], n = x.sizes[p], m = x.sizes[q];
               if (k == 1) at[p] = j, at[q] = m - 1 - i;
               if (k == 2) at[p] = n - 1 - i, at[q] = m - 1 - j;
               if (k == 3) at[p] = n - 1 - j, at[q] = i;
               return at;
             });
           }))
      .samples([](Inputs& in) {
        for (const int64_t k : {-5, -1, 0, 1, 2, 3, 4}) in.add({in.tensor({2, 3}), k});
        in.add({in.tensor({2, 3, 4}), 1, ints({-1, 0})});
      })
      .error<ShapeError>("dims",
                         [](Inputs& in) {
                           in.add({in.tensor({2, 3}), 1, ints({1, 1})});
                           in.add({in.tensor({2, 3}), 1, ints({0})});
                         })
      .error<ShapeError>("self", [](Inputs& in) {
        in.add({in.tensor({2}), 1, ints({0, 1})});
      });
}

TENON_OP_CASES(rearrange_repeats) {
  copy_row(op::repeat, one([](const Args& a) { return repeated(a.array(0), a.ints(1)); }), kAllWithFloat8)
      .samples([](Inputs& in) {
        in.add({in.tensor({2, 3}), ints({2, 3})});
        in.add({in.tensor({2, 1}), ints({3, 1, 4})});
        in.add({in.tensor({2}), ints({1})});
        in.add({in.tensor({}), ints({2, 3})});
        in.add({in.tensor({2, 3}), ints({0, 2})});
        in.add({in.tensor({0, 3}), ints({2, 2})});
        in.add({in.tensor({}), ints({})});
      })
      .error<ShapeError>("repeats",
                         [](Inputs& in) {
                           in.add({in.tensor({2, 3}), ints({2})});
                           in.add({in.tensor({2, 3}), ints({INT64_MAX, 1})});
                         })
      .error<ValueError>("repeats", [](Inputs& in) {
        in.add({in.tensor({2}), ints({-1})});
      });
  copy_row(op::tile, one([](const Args& a) {
             Index repeats = a.ints(1);
             while (static_cast<int64_t>(repeats.size()) < a.array(0).dim()) repeats.insert(repeats.begin(), 1);
             return repeated(a.array(0), repeats);
           }))
      .samples([](Inputs& in) {
        in.add({in.tensor({2, 3}), ints({2})});
        in.add({in.tensor({2}), ints({3, 2})});
        in.add({in.tensor({2, 3}), ints({})});
      });
  copy_row(op::repeat_interleave, one([](const Args& a) {
             return interleaved(a.array(0), a.is_none(2), a.is_none(2) ? 0 : a.integer(2), {a.integer(1)});
           }))
      .samples([](Inputs& in) {
        in.add({in.tensor({2, 3}), 2});
        in.add({in.tensor({2, 3}), 3, 0});
        in.add({in.tensor({2, 3, 2}), 2, -2}, {{"output_size", 6}});
        in.add({in.tensor({}), 4});
        in.add({in.tensor({3}), 0});
      })
      .error<ValueError>("repeats",
                         [](Inputs& in) {
                           in.add({in.tensor({2}), -1});
                         })
      .error<ValueError>("output_size", [](Inputs& in) {
        in.add({in.tensor({2}), 2}, {{"output_size", 5}});
      });
  copy_row(op::repeat_interleave_each, one([](const Args& a) {
             return interleaved(a.array(0), a.is_none(2), a.is_none(2) ? 0 : a.integer(2), integers_of(a.array(1)));
           }))
      .no_meta()
      .samples([](Inputs& in) {
        in.add({in.tensor({3, 2}), in.integers({2, 0, 3}), 0});
        in.add({in.tensor({2, 2}), in.integers({1, 2, 3, 0}, {4}, kInt32)});
        in.add({in.tensor({2, 3}), in.integers({2}, {1}), 1}, {{"output_size", 6}});
        in.add({in.tensor({2, 3}), in.integers({2}, {}), 0});
        in.add({in.tensor({2}), in.integers({0, 0}), 0});
      })
      .error<ShapeError>("repeats",
                         [](Inputs& in) {
                           in.add({in.tensor({3}), in.integers({1, 2}), 0});
                           in.add({in.tensor({4}), in.integers({1, 2, 3, 4}, {2, 2})});
                         })
      .error<DtypeError>("repeats",
                         [](Inputs& in) {
                           in.add({in.tensor({2}), in.tensor({2})});
                         })
      .error<ValueError>("repeats", [](Inputs& in) {
        in.add({in.tensor({2}), in.integers({-1, 2})});
      });
  op_case(op::repeated_places)
      .dtypes({kInt64, kInt32})
      .ulp(0)
      .reference(one([](const Args& a) {
        const Array counts = a.array(0);
        Array out = make_array(counts.dtype, {0});
        for (int64_t i = 0; i < counts.numel(); ++i)
          for (int64_t k = 0; k < counts.data[i].i; ++k) out.data.push_back(i), ++out.sizes[0];
        return out;
      }))
      .samples([](Inputs& in) {
        in.add({in.integers({2, 0, 1}, {3}, in.dtype())});
        in.add({in.integers({1, 4}, {2}, in.dtype())}, {{"output_size", 5}}).no_layouts();
        in.add({in.integers({}, {0}, in.dtype())});
      });
}

TENON_OP_CASES(rearrange_scatter) {
  copy_row(op::select_scatter, one([](const Args& a) {
             const Array x = a.array(0);
             const int64_t d = wrap(a.integer(2), x.dim()), i = wrap(a.integer(3), x.sizes[d]);
             return scattered(x, a.array(1), [&](Index at) {
               at.insert(at.begin() + d, i);
               return at;
             });
           }))
      .samples([](Inputs& in) {
        in.add({in.tensor({3, 4}), in.tensor({4}), 0, 1});
        in.add({in.tensor({3, 4, 2}), in.tensor({3, 2}), -2, -1});
      })
      .error<ShapeError>("src", [](Inputs& in) {
        in.add({in.tensor({3, 4}), in.tensor({3}), 0, 1});
      });
  copy_row(op::slice_scatter, one([](const Args& a) {
             const Array x = a.array(0);
             const int64_t d = wrap(a.integer(2), x.dim()), n = x.sizes[d];
             const int64_t from = a.is_none(3) ? 0 : std::clamp<int64_t>(wrap(a.integer(3), n), 0, n);
             return scattered(x, a.array(1), [&](Index at) {
               at[d] = from + at[d] * a.integer(5);
               return at;
             });
           }))
      .samples([](Inputs& in) {
        in.add({in.tensor({5, 2}), in.tensor({5, 2})});
        in.add({in.tensor({5, 2}), in.tensor({3, 2}), 0, 1, 4});
        in.add({in.tensor({2, 7}), in.tensor({2, 3}), -1, -6, 99, 2});
      })
      .error<ShapeError>("src", [](Inputs& in) {
        in.add({in.tensor({5}), in.tensor({1}), 0, 0, 2});
      });
  copy_row(op::diagonal_scatter, one([](const Args& a) {
             const Array x = a.array(0);
             const int64_t k = a.integer(2), d1 = wrap(a.integer(3), x.dim()), d2 = wrap(a.integer(4), x.dim());
             return scattered(x, a.array(1), [&](const Index& at) {
               Index to;
               std::size_t n = 0;
               for (int64_t d = 0; d < x.dim(); ++d)
                 to.push_back(d == d1   ? at.back() + std::max<int64_t>(-k, 0)
                              : d == d2 ? at.back() + std::max<int64_t>(k, 0)
                                        : at[n++]);
               return to;
             });
           }))
      .samples([](Inputs& in) {
        in.add({in.tensor({3, 5}), in.tensor({3}), 1});
        in.add({in.tensor({3, 2, 4}), in.tensor({2, 3}), -1, -1, 0});
      })
      .error<ShapeError>("src", [](Inputs& in) {
        in.add({in.tensor({3, 3}), in.tensor({2})});
      });
  copy_row(op::as_strided_scatter, one([](const Args& a) {
             Array x = a.array(0);
             const Index strides = a.ints(3), sizes = x.sizes;
             x.sizes = {x.numel()};
             x = scattered(x, a.array(1), [&](const Index& at) {
               int64_t place = a.is_none(4) ? 0 : a.integer(4);
               for (std::size_t d = 0; d < at.size(); ++d) place += at[d] * strides[d];
               return Index{place};
             });
             x.sizes = sizes;
             return x;
           }))
      .samples([](Inputs& in) {
        in.add({in.tensor({3, 4}), in.tensor({2, 2}), ints({2, 2}), ints({1, 2}), 3}).no_layouts();
        in.add({in.tensor({10}), in.tensor({3}), ints({3}), ints({4})}).no_layouts();
      })
      .error<ShapeError>("src", [](Inputs& in) {
        in.add({in.tensor({4}), in.tensor({1}), ints({2}), ints({1})});
      });
  const auto sized = [](const auto& op, auto sizes, const Maker& samples) {
    op_case(op)
        .dtypes({kFloat32, kInt64, kBool, kComplex128})
        .uninitialised()
        .no_inplace()
        .reference(one([=](const Args& a) { return make_array(a.array(0).dtype, sizes(a)); }))
        .samples(samples);
  };
  sized(
      op::resize, [](const Args& a) { return a.ints(1); },
      [](Inputs& in) {
        in.add({in.tensor({2, 3}), ints({4, 5})});
        in.add({in.tensor({2, 3}), ints({2})});
        in.add({in.tensor({}), ints({0, 3})});
      });
  sized(
      op::resize_as, [](const Args& a) { return a.array(1).sizes; },
      [](Inputs& in) {
        in.add({in.tensor({2, 3}), in.tensor({7})});
      });
}
