// SPDX-License-Identifier: Apache-2.0
// Rows of ops/view.h. That views share memory with their base is checked for every operator of kind view.
#include <tenon/ops/view.h>

#include "tests/support/op_case.h"

#include <algorithm>
#include <numeric>

using namespace tenon;
using namespace tenon::testing;

namespace {

using Index = std::vector<int64_t>;
const Dtypes kSome = {kFloat64, kFloat32, kBFloat16, kInt64, kUInt8, kBool, kComplex64, kFloat8_e5m2};

int64_t wrap(int64_t d, int64_t rank) { return d < 0 ? d + std::max<int64_t>(rank, 1) : d; }

/// The same elements in the same order.
Array reshaped(Array x, Index sizes) {
  const int64_t n = x.numel();
  for (int64_t& s : sizes)
    if (s == -1) {
      int64_t rest = 1;
      for (const int64_t o : sizes) rest *= o == -1 ? 1 : o;
      s = rest == 0 ? 0 : n / rest;
    }
  x.sizes = std::move(sizes);
  return x;
}
Array permuted(const Array& x, const Index& dims) {
  Index sizes;
  for (const int64_t d : dims) sizes.push_back(x.sizes[wrap(d, x.dim())]);
  return pick(x, sizes, [&](const Index& at) {
    Index from(at.size());
    for (std::size_t k = 0; k < at.size(); ++k) from[wrap(dims[k], x.dim())] = at[k];
    return from;
  });
}
Array sliced(const Array& x, int64_t dim, int64_t start, int64_t length, int64_t step = 1) {
  dim = wrap(dim, x.dim());
  Index sizes = x.sizes;
  sizes[dim] = length;
  return pick(x, sizes, [&](Index at) {
    at[dim] = start + at[dim] * step;
    return at;
  });
}
Array without(Array x, int64_t dim) {
  x.sizes.erase(x.sizes.begin() + wrap(dim, x.dim()));
  return x;
}
Array expanded(const Array& x, Index sizes) {
  const int64_t extra = static_cast<int64_t>(sizes.size()) - x.dim();
  for (int64_t d = 0; d < static_cast<int64_t>(sizes.size()); ++d)
    if (sizes[d] == -1) sizes[d] = x.sizes[d - extra];
  return pick(x, sizes, [&](const Index& at) {
    Index from(at.begin() + extra, at.end());
    for (std::size_t d = 0; d < from.size(); ++d)
      if (x.sizes[d] == 1) from[d] = 0;
    return from;
  });
}
std::vector<Array> pieces(const Array& x, const Index& lengths, int64_t dim) {
  std::vector<Array> list;
  int64_t start = 0;
  for (const int64_t n : lengths) {
    list.push_back(sliced(x, dim, start, n));
    start += n;
  }
  return list;
}
Index equal_lengths(int64_t n, int64_t piece) {
  Index lengths;
  for (int64_t start = 0; start < n || lengths.empty(); start += std::max<int64_t>(piece, 1))
    lengths.push_back(std::min(piece, n - start));
  return lengths;
}

template <class F>
Reference one(F f) {
  return [=](const Args& args) { return std::vector<Array>{f(args)}; };
}
template <class Op>
OpCase& view_row(const Op& op, Reference reference) {
  return op_case(op).dtypes(kSome).gradient().ulp(0).reference(std::move(reference));
}

}  // namespace

TENON_OP_CASES(view) {
  const Reference shaped = one([](const Args& a) { return reshaped(a.array(0), a.ints(1)); });
  const Maker shapes = [](Inputs& in) {
    in.add({in.tensor({3, 4}), ints({12})});
    in.add({in.tensor({3, 4}), ints({2, -1, 2})});
    in.add({in.tensor({}), ints({1, 1})});
    in.add({in.tensor({1}), ints({})});
    in.add({in.tensor({0, 3}), ints({3, 0, 2})});
  };
  const Maker bad_shapes = [](Inputs& in) {
    in.add({in.tensor({3, 4}), ints({5})});
    in.add({in.tensor({3, 4}), ints({-1, -1})});
    in.add({in.tensor({3, 4}), ints({5, -1})});
    in.add({in.tensor({3, 4}), ints({-2, -6})});
  };
  view_row(op::view, shaped).error<ShapeError>("", bad_shapes).samples([=](Inputs& in) {
    shapes(in);
    for (Sample& s : in.samples) s.layouts = false;  // strided tensors need not have the view
  });
  view_row(op::reshape, shaped).error<ShapeError>("", bad_shapes).samples(shapes);
  const Reference as_other = one([](const Args& a) { return reshaped(a.array(0), a.array(1).sizes); });
  view_row(op::view_as, as_other).samples([](Inputs& in) {
    in.add({in.tensor({3, 4}), in.tensor({2, 6})}).no_layouts().no_gradient();
  });
  view_row(op::reshape_as, as_other).samples([](Inputs& in) {
    in.add({in.tensor({3, 4}), in.tensor({2, 6})}).no_gradient();
  });

  view_row(op::permute, one([](const Args& a) { return permuted(a.array(0), a.ints(1)); }))
      .samples([](Inputs& in) {
        in.add({in.tensor({2, 3, 4}), ints({2, 0, 1})});
        in.add({in.tensor({2, 3, 4}), ints({-1, -2, -3})});
        in.add({in.tensor({}), ints({})});
        in.add({in.tensor({2, 0}), ints({1, 0})});
      })
      .error<ShapeError>("",
                         [](Inputs& in) {
                           in.add({in.tensor({2, 3}), ints({0})});
                         })
      .error<IndexError>("", [](Inputs& in) {
        in.add({in.tensor({2, 3}), ints({0, 2})});
      });
  view_row(op::transpose, one([](const Args& a) {
             const Array x = a.array(0);
             Index dims(x.sizes.size());
             std::iota(dims.begin(), dims.end(), 0);
             if (!dims.empty()) std::swap(dims[wrap(a.integer(1), x.dim())], dims[wrap(a.integer(2), x.dim())]);
             return permuted(x, dims);
           }))
      .samples([](Inputs& in) {
        in.add({in.tensor({2, 3, 4}), 0, 2});
        in.add({in.tensor({2, 3, 4}), -1, -2});
        in.add({in.tensor({5}), 0, 0});
        in.add({in.tensor({}), 0, -1});
      })
      .error<IndexError>("", [](Inputs& in) {
        in.add({in.tensor({2, 3}), 0, 2});
      });
  view_row(op::t, one([](const Args& a) {
             const Array x = a.array(0);
             return x.dim() < 2 ? x : permuted(x, {1, 0});
           }))
      .samples([](Inputs& in) {
        in.add({in.tensor({2, 3})});
        in.add({in.tensor({4})});
        in.add({in.tensor({})});
      })
      .error<ShapeError>("", [](Inputs& in) {
        in.add({in.tensor({2, 3, 4})});
      });
  view_row(op::expand, one([](const Args& a) { return expanded(a.array(0), a.ints(1)); }))
      .samples([](Inputs& in) {
        in.add({in.tensor({3, 1}), ints({3, 4})});
        in.add({in.tensor({3, 1}), ints({2, -1, 4})});
        in.add({in.tensor({}), ints({2, 3})});
        in.add({in.tensor({1, 3}), ints({0, 3})});
      })
      .error<ShapeError>("", [](Inputs& in) {
        in.add({in.tensor({3, 2}), ints({3, 4})});
        in.add({in.tensor({3, 2}), ints({2})});
        in.add({in.tensor({3}), ints({-1, 3})});
      });
  view_row(op::expand_as, one([](const Args& a) { return expanded(a.array(0), a.array(1).sizes); }))
      .samples([](Inputs& in) {
        in.add({in.tensor({3, 1}), in.tensor({3, 4})}).no_gradient();
      });
  view_row(op::squeeze, one([](const Args& a) {
             Array x = a.array(0);
             x.sizes.erase(std::remove(x.sizes.begin(), x.sizes.end(), 1), x.sizes.end());
             return x;
           }))
      .samples([](Inputs& in) {
        in.add({in.tensor({1, 3, 1, 2})});
        in.add({in.tensor({1, 1})});
        in.add({in.tensor({})});
        in.add({in.tensor({0, 1})});
      });
  view_row(op::squeeze_dims, one([](const Args& a) {
             Array x = a.array(0);
             Index kept;
             for (int64_t d = 0; d < x.dim(); ++d) {
               bool named = false;
               for (const int64_t e : a.ints(1)) named = named || wrap(e, x.dim()) == d;
               if (!named || x.sizes[d] != 1) kept.push_back(x.sizes[d]);
             }
             x.sizes = kept;
             return x;
           }))
      .samples([](Inputs& in) {
        in.add({in.tensor({1, 3, 1, 2}), ints({0, 1})});
        in.add({in.tensor({1, 3, 1}), ints({-1})});
      })
      .error<IndexError>("", [](Inputs& in) {
        in.add({in.tensor({1, 3}), ints({2})});
      });
  view_row(op::unsqueeze, one([](const Args& a) {
             Array x = a.array(0);
             x.sizes.insert(x.sizes.begin() + (a.integer(1) < 0 ? a.integer(1) + x.dim() + 1 : a.integer(1)), 1);
             return x;
           }))
      .samples([](Inputs& in) {
        for (const int64_t d : {0, 1, 2, -1, -3}) in.add({in.tensor({3, 2}), d});
        in.add({in.tensor({}), 0});
      })
      .error<IndexError>("", [](Inputs& in) {
        in.add({in.tensor({3}), 2});
      });
  view_row(op::select, one([](const Args& a) {
             const Array x = a.array(0);
             const int64_t d = wrap(a.integer(1), x.dim()), i = a.integer(2);
             return without(sliced(x, d, i < 0 ? i + x.sizes[d] : i, 1), d);
           }))
      .samples([](Inputs& in) {
        in.add({in.tensor({3, 4}), 0, 1});
        in.add({in.tensor({3, 4, 2}), 1, -1});
        in.add({in.tensor({3, 4}), -1, 0});
      })
      .error<IndexError>("",
                         [](Inputs& in) {
                           in.add({in.tensor({3, 4}), 0, 3});
                           in.add({in.tensor({3, 4}), 0, -4});
                           in.add({in.tensor({3, 4}), 2, 0});
                         })
      .error<IndexError>("", [](Inputs& in) {
        in.add({in.tensor({}), 0, 0});
      });
  view_row(op::slice, one([](const Args& a) {
             const Array x = a.array(0);
             const int64_t d = wrap(a.integer(1), x.dim()), n = x.sizes[d], step = a.integer(4);
             const auto bound = [&](int i, int64_t otherwise) {
               int64_t v = a.is_none(i) ? otherwise : a.integer(i);
               if (v < 0) v += n;
               return std::clamp<int64_t>(v, 0, n);
             };
             const int64_t from = bound(2, 0), to = bound(3, n);
             return sliced(x, d, from, to <= from ? 0 : (to - from + step - 1) / step, step);
           }))
      .samples([](Inputs& in) {
        in.add({in.tensor({10, 3})});
        in.add({in.tensor({10, 3}), 0, 2, 7});
        in.add({in.tensor({3, 10}), 1, 1, 9, 3});
        in.add({in.tensor({10, 3}), 0, -100, 3});
        in.add({in.tensor({10, 3}), 0, 0, -1});
        in.add({in.tensor({10, 3}), 0, 5, 2});
        in.add({in.tensor({10, 3}), 0, 5, int64_t{1} << 62, 4});
      })
      .error<ValueError>("step",
                         [](Inputs& in) {
                           in.add({in.tensor({10}), 0, 0, 5, 0});
                           in.add({in.tensor({10}), 0, 0, 5, -1});
                         })
      .error<IndexError>("", [](Inputs& in) {
        in.add({in.tensor({10}), 1, 0, 5});
      });
  view_row(op::narrow, one([](const Args& a) {
             return sliced(a.array(0), a.integer(1),
                           a.integer(2) < 0 ? a.integer(2) + a.array(0).sizes[wrap(a.integer(1), a.array(0).dim())]
                                            : a.integer(2),
                           a.integer(3));
           }))
      .samples([](Inputs& in) {
        in.add({in.tensor({5, 3}), 0, 1, 3});
        in.add({in.tensor({5, 3}), -1, -2, 2});
        in.add({in.tensor({5, 3}), 0, 5, 0});
      })
      .error<IndexError>("", [](Inputs& in) {
        in.add({in.tensor({5}), 0, 3, 3});
        in.add({in.tensor({5}), 0, 6, 0});
      });
  view_row(op::flatten, one([](const Args& a) {
             const Array x = a.array(0);
             if (x.dim() == 0) return reshaped(x, {1});
             const int64_t from = wrap(a.integer(1), x.dim()), to = wrap(a.integer(2), x.dim());
             Index sizes;
             int64_t n = 1;
             for (int64_t d = 0; d < x.dim(); ++d) {
               if (d >= from && d <= to) n *= x.sizes[d];
               if (d < from || d > to) sizes.push_back(x.sizes[d]);
               if (d == to) sizes.push_back(n);
             }
             return reshaped(x, sizes);
           }))
      .samples([](Inputs& in) {
        in.add({in.tensor({2, 3, 4})});
        in.add({in.tensor({2, 3, 4}), 1});
        in.add({in.tensor({2, 3, 4, 2}), 1, -2});
        in.add({in.tensor({})});
        in.add({in.tensor({0, 3})});
      });

  view_row(op::split,
           [](const Args& a) {
             const Array x = a.array(0);
             const int64_t d = wrap(a.integer(2), x.dim());
             return pieces(x, equal_lengths(x.sizes[d], a.integer(1)), d);
           })
      .samples([](Inputs& in) {
        in.add({in.tensor({7, 2}), 3});
        in.add({in.tensor({2, 6}), 2, -1});
        in.add({in.tensor({2}), 5});
        in.add({in.tensor({0, 2}), 1});
      })
      .error<ValueError>("split_size", [](Inputs& in) {
        in.add({in.tensor({4}), -1});
        in.add({in.tensor({4}), 0});
      });
  const Reference by_sizes = [](const Args& a) {
    return pieces(a.array(0), a.ints(1), wrap(a.integer(2), a.array(0).dim()));
  };
  const Maker lists = [](Inputs& in) {
    in.add({in.tensor({7, 2}), ints({3, 0, 4})});
    in.add({in.tensor({2, 6}), ints({1, 5}), 1});
  };
  view_row(op::split_sizes, by_sizes).samples(lists);
  view_row(op::split_with_sizes, by_sizes).samples(lists).error<ShapeError>("split_sizes", [](Inputs& in) {
    in.add({in.tensor({7}), ints({3, 3})});
  });
  view_row(op::chunk,
           [](const Args& a) {
             const Array x = a.array(0);
             const int64_t d = wrap(a.integer(2), x.dim()), n = x.sizes[d], chunks = a.integer(1);
             return pieces(x, equal_lengths(n, (n + chunks - 1) / chunks), d);
           })
      .samples([](Inputs& in) {
        in.add({in.tensor({7, 2}), 3});
        in.add({in.tensor({2, 6}), 4, 1});
        in.add({in.tensor({2}), 5});
      })
      .error<ValueError>("chunks", [](Inputs& in) {
        in.add({in.tensor({4}), 0});
      });
  view_row(op::unbind,
           [](const Args& a) {
             const Array x = a.array(0);
             const int64_t d = wrap(a.integer(1), x.dim());
             std::vector<Array> list;
             for (int64_t i = 0; i < x.sizes[d]; ++i) list.push_back(without(sliced(x, d, i, 1), d));
             return list;
           })
      .samples([](Inputs& in) {
        in.add({in.tensor({3, 2})});
        in.add({in.tensor({2, 4, 3}), -2});
      })
      .error<IndexError>("",
                         [](Inputs& in) {
                           in.add({in.tensor({3}), 1});
                         })
      .error<ShapeError>("self", [](Inputs& in) {
        in.add({in.tensor({}), 0});
      });
  view_row(op::as_strided, one([](const Args& a) {
             const Array x = a.array(0);
             const Index strides = a.ints(2);
             return pick(reshaped(x, {x.numel()}), a.ints(1), [&](const Index& at) {
               int64_t n = a.is_none(3) ? 0 : a.integer(3);
               for (std::size_t d = 0; d < at.size(); ++d) n += at[d] * strides[d];
               return Index{n};
             });
           }))
      .samples([](Inputs& in) {
        in.add({in.tensor({12}), ints({3, 2}), ints({1, 4})}).no_layouts();
        in.add({in.tensor({12}), ints({3, 3}), ints({1, 1}), 2}).no_layouts();
        in.add({in.tensor({12}), ints({4}), ints({0}), 5}).no_layouts();
        in.add({in.tensor({2}), ints({0, 3}), ints({3, 1})}).no_layouts();
      })
      .error<ShapeError>("", [](Inputs& in) {
        in.add({in.tensor({4}), ints({5}), ints({1})});
        in.add({in.tensor({4}), ints({2, 2}), ints({2, 1}), 1});
        in.add({in.tensor({4}), ints({2}), ints({1, 1})});
      });
  op_case(op::detach)
      .dtypes(kAllWithFloat8)
      .ulp(0)
      .reference(one([](const Args& a) { return a.array(0); }))
      .samples([](Inputs& in) {
        in.add({in.tensor({3, 4})});
        in.add({in.tensor({})});
      });
}
