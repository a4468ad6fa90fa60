// SPDX-License-Identifier: Apache-2.0
// Rows of ops/shape.h.
#include <tenon/ops/shape.h>

#include "tests/support/op_case.h"

#include <algorithm>
#include <numeric>

using namespace tenon;
using namespace tenon::testing;

namespace {

using Index = std::vector<int64_t>;
using List = std::vector<Tensor>;
using Arrays = std::vector<Array>;
const Dtypes kSome = {kFloat64, kFloat32, kBFloat16, kInt64, kUInt8, kBool, kComplex64, kFloat8_e5m2};
const Dtypes kJoined = {kFloat64, kFloat16, kInt32, kBool, kComplex128};

int64_t wrap(int64_t d, int64_t rank) { return d < 0 ? d + std::max<int64_t>(rank, 1) : d; }

template <class F>
Reference one(F f) {
  return [=](const Args& args) { return Arrays{f(args)}; };
}
template <class Op>
OpCase& shape_row(const Op& op, Reference reference, Dtypes dtypes = kSome) {
  return op_case(op).dtypes(dtypes).gradient().ulp(0).reference(std::move(reference));
}

Array with_sizes(Array x, Index sizes) {
  x.sizes = std::move(sizes);
  return x;
}
// order[i]: the dimension of x that dimension i of the result is.
Array permuted(const Array& x, const Index& order, bool conjugate = false) {
  Index sizes;
  for (const int64_t d : order) sizes.push_back(x.sizes[d]);
  Array y = pick(x, sizes, [&](const Index& at) {
    Index from(at.size());
    for (std::size_t k = 0; k < at.size(); ++k) from[order[k]] = at[k];
    return from;
  });
  if (conjugate && is_complex(x.dtype))
    for (Number& n : y.data) n = Number(std::conj(n.z));
  return y;
}
Index natural(int64_t rank) {
  Index order;
  for (int64_t d = 0; d < rank; ++d) order.push_back(d);
  return order;
}
Array last_two_swapped(const Array& x, bool conjugate) {
  Index order = natural(x.dim());
  if (x.dim() > 1) std::swap(order[order.size() - 1], order[order.size() - 2]);
  return permuted(x, order, conjugate);
}
Array diagonal_of(const Array& x, int64_t offset, int64_t d1, int64_t d2) {
  d1 = wrap(d1, x.dim()), d2 = wrap(d2, x.dim());
  const int64_t down = std::max<int64_t>(-offset, 0), right = std::max<int64_t>(offset, 0);
  Index sizes;
  for (int64_t d = 0; d < x.dim(); ++d)
    if (d != d1 && d != d2) sizes.push_back(x.sizes[d]);
  sizes.push_back(std::max<int64_t>(0, std::min(x.sizes[d1] - down, x.sizes[d2] - right)));
  return pick(x, sizes, [&](const Index& at) {
    Index from;
    std::size_t k = 0;
    for (int64_t d = 0; d < x.dim(); ++d)
      from.push_back(d == d1 ? at.back() + down : d == d2 ? at.back() + right : at[k++]);
    return from;
  });
}
Array cut(const Array& x, int64_t dim, int64_t from, int64_t to) {
  Index sizes = x.sizes;
  sizes[dim] = std::max<int64_t>(to - from, 0);
  return pick(x, sizes, [&](Index at) {
    at[dim] += from;
    return at;
  });
}
Arrays in_sections(const Array& x, int64_t n, int64_t dim) {
  Arrays list;
  for (int64_t i = 0, from = 0; i < n; ++i) {
    const int64_t to = from + x.sizes[dim] / n + (i < x.sizes[dim] % n ? 1 : 0);
    list.push_back(cut(x, dim, from, to));
    from = to;
  }
  return list;
}
Arrays at_indices(const Array& x, Index ends, int64_t dim) {
  const int64_t size = x.sizes[dim];
  const auto bound = [&](int64_t v) { return std::clamp<int64_t>(v < 0 ? v + size : v, 0, size); };
  Arrays list;
  int64_t from = 0;
  ends.push_back(size);
  for (const int64_t end : ends) {
    list.push_back(cut(x, dim, bound(from), bound(end)));
    from = end;
  }
  return list;
}
Array at_least(const Array& x, std::size_t rank) {
  Index s = x.sizes;
  if (s.empty()) s.assign(rank, 1);
  if (s.size() == 1 && rank > 1) s.insert(s.begin(), 1);
  if (s.size() == 2 && rank > 2) s.push_back(1);
  return with_sizes(x, s);
}
Array joined(Arrays list, int64_t dim) {
  Index sizes = list[0].sizes;
  sizes[dim] = 0;
  for (const Array& a : list) sizes[dim] += a.sizes[dim];
  Array out = make_array(list[0].dtype, sizes);
  int64_t start = 0;
  for (const Array& a : list) {
    std::size_t n = 0;
    each_index(a.sizes, [&](Index to) {
      to[dim] += start;
      out.data[flat_index(to, sizes)] = a.data[n++];
    });
    start += a.sizes[dim];
  }
  return out;
}
Arrays mapped(const Arrays& list, const std::function<Array(const Array&)>& f) {
  Arrays out;
  for (const Array& a : list) out.push_back(f(a));
  return out;
}
Array expanded(const Array& x, const Index& sizes) {
  const int64_t extra = static_cast<int64_t>(sizes.size()) - x.dim();
  return pick(x, sizes, [&](const Index& at) {
    Index from(at.begin() + extra, at.end());
    for (std::size_t d = 0; d < from.size(); ++d)
      if (x.sizes[d] == 1) from[d] = 0;
    return from;
  });
}
Arrays grid(const Arrays& list, bool xy) {
  Index sizes;
  for (const Array& a : list) sizes.push_back(a.numel());
  if (xy && list.size() > 1) std::swap(sizes[0], sizes[1]);
  Arrays out;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const std::size_t d = xy && list.size() > 1 && i < 2 ? 1 - i : i;
    out.push_back(pick(with_sizes(list[i], {list[i].numel()}), sizes, [&](const Index& at) { return Index{at[d]}; }));
  }
  return out;
}
void choose(Array& out, const Array& x, Index& chosen, int64_t from, std::size_t r, bool again) {
  if (chosen.size() == r) {
    for (const int64_t i : chosen) out.data.push_back(x.data[i]);
    ++out.sizes[0];
    return;
  }
  for (int64_t i = from; i < x.numel(); ++i) {
    chosen.push_back(i);
    choose(out, x, chosen, again ? i : i + 1, r, again);
    chosen.pop_back();
  }
}

}  // namespace

TENON_OP_CASES(shape_views) {
  const Maker diagonals = [](Inputs& in) {
    for (const int64_t k : {0, 1, -1, 2, -4, 9, -9}) in.add({in.tensor({3, 5})}, {{"offset", k}});
    in.add({in.tensor({2, 3, 4})}, {{"offset", -1}, {"dim1", 2}, {"dim2", 0}});
    in.add({in.tensor({2, 3, 4, 2})}, {{"dim1", -1}, {"dim2", 1}});
    in.add({in.tensor({0, 3})});
  };
  shape_row(op::diagonal,
            one([](const Args& a) { return diagonal_of(a.array(0), a.integer(1), a.integer(2), a.integer(3)); }))
      .samples(diagonals)
      .error<ShapeError>("dim1",
                         [](Inputs& in) {
                           in.add({in.tensor({3, 4}), 0, 1, 1});
                           in.add({in.tensor({3, 4}), 0, 1, -1});
                         })
      .error<IndexError>("", [](Inputs& in) {
        in.add({in.tensor({3, 4}), 0, 0, 2});
      });
  shape_row(op::linalg_diagonal,
            one([](const Args& a) { return diagonal_of(a.array(0), a.integer(1), a.integer(2), a.integer(3)); }))
      .samples(diagonals);
  shape_row(op::unfold, one([](const Args& a) {
              const Array x = a.array(0);
              const int64_t d = wrap(a.integer(1), x.dim()), size = a.integer(2), step = a.integer(3);
              if (x.dim() == 0) return pick(x, {size}, [](const Index&) { return Index{}; });
              Index sizes = x.sizes;
              sizes[d] = (sizes[d] - size) / step + 1;
              sizes.push_back(size);
              return pick(x, sizes, [&](Index at) {
                const int64_t i = at.back();
                at.pop_back();
                at[d] = at[d] * step + i;
                return at;
              });
            }))
      .samples([](Inputs& in) {
        in.add({in.tensor({7}), 0, 3, 1});
        in.add({in.tensor({7}), 0, 3, 2});
        in.add({in.tensor({2, 7, 3}), -2, 2, 3});
        in.add({in.tensor({5, 4}), 1, 4, 1});
        in.add({in.tensor({5}), 0, 0, 2});
        in.add({in.tensor({5}), 0, 2, int64_t{1} << 62});
        in.add({in.tensor({}), 0, 1, 1});
        in.add({in.tensor({0, 3}), 1, 2, 1});
      })
      .error<ValueError>("size",
                         [](Inputs& in) {
                           in.add({in.tensor({3}), 0, 4, 1});
                           in.add({in.tensor({3}), 0, -1, 1});
                         })
      .error<ValueError>("step", [](Inputs& in) {
        in.add({in.tensor({3}), 0, 2, 0});
      });

  shape_row(op::movedim, one([](const Args& a) {
              const Array x = a.array(0);
              Index order(x.sizes.size(), -1), from = a.ints(1), to = a.ints(2);
              for (std::size_t i = 0; i < from.size(); ++i) order[wrap(to[i], x.dim())] = wrap(from[i], x.dim());
              int64_t next = 0;
              for (int64_t& d : order)
                if (d < 0) {
                  while (std::count(order.begin(), order.end(), next)) ++next;
                  d = next;
                }
              return permuted(x, order);
            }))
      .samples([](Inputs& in) {
        in.add({in.tensor({2, 3, 4}), ints({0}), ints({2})});
        in.add({in.tensor({2, 3, 4}), ints({-1}), ints({0})});
        in.add({in.tensor({2, 3, 4, 5}), ints({0, -1}), ints({2, 0})});
        in.add({in.tensor({2, 3}), ints({}), ints({})});
      })
      .error<ShapeError>("",
                         [](Inputs& in) {
                           in.add({in.tensor({2, 3}), ints({0, 1}), ints({0})});
                           in.add({in.tensor({2, 3}), ints({0, 0}), ints({0, 1})});
                           in.add({in.tensor({2, 3}), ints({0, 1}), ints({1, 1})});
                         })
      .error<IndexError>("", [](Inputs& in) {
        in.add({in.tensor({2, 3}), ints({2}), ints({0})});
      });
  const Maker matrices = [](Inputs& in) {
    in.add({in.tensor({2, 3})});
    in.add({in.tensor({0, 3})});
  };
  const Maker batches = [](Inputs& in) { in.add({in.tensor({2, 3, 4})}); };
  const Maker vectors = [](Inputs& in) { in.add({in.tensor({3})}); };
  const Maker scalars = [](Inputs& in) { in.add({in.tensor({})}); };
  shape_row(op::numpy_T, one([](const Args& a) {
              Index order = natural(a.array(0).dim());
              std::reverse(order.begin(), order.end());
              return permuted(a.array(0), order);
            }))
      .samples(matrices)
      .samples(batches)
      .samples(scalars);
  shape_row(op::mT, one([](const Args& a) { return last_two_swapped(a.array(0), false); }))
      .samples(matrices)
      .samples(batches)
      .error<ShapeError>("self", vectors);
  shape_row(op::mH, one([](const Args& a) { return last_two_swapped(a.array(0), true); }))
      .samples(matrices)
      .samples(batches)
      .error<ShapeError>("self", vectors);
  shape_row(op::matrix_H, one([](const Args& a) { return last_two_swapped(a.array(0), true); }))
      .samples(matrices)
      .samples(scalars)
      .error<ShapeError>("self", vectors)
      .error<ShapeError>("self", batches);
  shape_row(op::ravel, one([](const Args& a) { return with_sizes(a.array(0), {a.array(0).numel()}); }))
      .samples(matrices)
      .samples(batches)
      .samples(scalars);
  shape_row(op::unflatten, one([](const Args& a) {
              const Array x = a.array(0);
              const int64_t d = wrap(a.integer(1), x.dim());
              Index given = a.ints(2), sizes = x.sizes;
              for (int64_t& s : given)
                if (s == -1)
                  s = x.sizes[d] / -std::accumulate(given.begin(), given.end(), int64_t{1}, std::multiplies<>());
              sizes.erase(sizes.begin() + d);
              sizes.insert(sizes.begin() + d, given.begin(), given.end());
              return with_sizes(x, sizes);
            }))
      .samples([](Inputs& in) {
        in.add({in.tensor({6}), 0, ints({2, 3})});
        in.add({in.tensor({2, 12, 3}), 1, ints({2, -1, 3})});
        in.add({in.tensor({2, 0}), -1, ints({0, 4})});
        in.add({in.tensor({4, 2}), 0, ints({4})});
      })
      .error<ShapeError>("sizes",
                         [](Inputs& in) {
                           in.add({in.tensor({6}), 0, ints({})});
                         })
      .error<ShapeError>("self", [](Inputs& in) {
        in.add({in.tensor({}), 0, ints({1})});
      });

  shape_row(op::unflatten, one([](const Args& a) { return with_sizes(a.array(0), a.ints(2)); }))
      .samples([](Inputs& in) {
        in.add({in.tensor({6}), 0, ints({2, 3})});
      })
      .errors_name("view")
      .error<ShapeError>("size", [](Inputs& in) {
        in.add({in.tensor({6}), 0, ints({4})});
        in.add({in.tensor({6}), 0, ints({-1, -1})});
        in.add({in.tensor({6}), 0, ints({-1, 4})});
        in.add({in.tensor({6}), 0, ints({0, -1})});
      });

  const auto at_least_rows = [](const auto& single, const auto& list, std::size_t rank) {
    shape_row(single, one([=](const Args& a) { return at_least(a.array(0), rank); })).samples([](Inputs& in) {
      for (const Index& s : {Index{}, {4}, {2, 3}, {2, 1, 2}, {0}}) in.add({in.tensor(s)});
    });
    shape_row(list, [=](const Args& a) {
      return mapped(a.arrays(0), [=](const Array& x) { return at_least(x, rank); });
    }).samples([](Inputs& in) {
      in.add({List{in.tensor({}), in.tensor({4}), in.tensor({2, 3})}});
      in.add({List{}});
    });
  };
  at_least_rows(op::atleast_1d, op::atleast_1d_list, 1);
  at_least_rows(op::atleast_2d, op::atleast_2d_list, 2);
  at_least_rows(op::atleast_3d, op::atleast_3d_list, 3);

  shape_row(op::broadcast_tensors,
            [](const Args& a) {
              Index sizes;
              for (const Array& x : a.arrays(0)) sizes = broadcast(sizes, x.sizes);
              return mapped(a.arrays(0), [&](const Array& x) { return expanded(x, sizes); });
            })
      .samples([](Inputs& in) {
        in.add({List{in.tensor({3, 1}), in.tensor({2, 1, 4}), in.tensor({})}});
        in.add({List{in.tensor({2})}});
        in.add({List{in.tensor({0, 1}), in.tensor({3})}});
      })
      .error<ShapeError>("", [](Inputs& in) {
        in.add({List{in.tensor({2}), in.tensor({3})}});
      });
  shape_row(op::meshgrid, [](const Args& a) { return grid(a.arrays(0), a.text(1) == "xy"); })
      .samples([](Inputs& in) {
        for (const char* indexing : {"ij", "xy"}) {
          in.add({List{in.tensor({3}), in.tensor({2})}}, {{"indexing", indexing}});
          in.add({List{in.tensor({3}), in.tensor({}), in.tensor({4})}}, {{"indexing", indexing}});
          in.add({List{in.tensor({3})}}, {{"indexing", indexing}});
          in.add({List{in.tensor({0}), in.tensor({2})}}, {{"indexing", indexing}});
        }
      })
      .error<ValueError>("indexing",
                         [](Inputs& in) {
                           in.add({List{in.tensor({2})}}, {{"indexing", "yx"}});
                         })
      .error<ValueError>("tensors", [](Inputs& in) { in.add({List{}}); })
      .error<ShapeError>("tensors",
                         [](Inputs& in) {
                           in.add({List{in.tensor({2, 2})}});
                         })
      .error<DtypeError>("tensors", [](Inputs& in) {
        in.add({List{in.tensor({2}), in.boolean({2})}});
      });
}

TENON_OP_CASES(shape_pieces) {
  shape_row(op::tensor_split,
            [](const Args& a) { return in_sections(a.array(0), a.integer(1), wrap(a.integer(2), a.array(0).dim())); })
      .samples([](Inputs& in) {
        in.add({in.tensor({7, 2}), 3});
        in.add({in.tensor({2, 5}), 7, -1});
        in.add({in.tensor({0, 2}), 2});
      })
      .error<ValueError>("sections",
                         [](Inputs& in) {
                           in.add({in.tensor({4}), 0});
                         })
      .error<ShapeError>("self", [](Inputs& in) {
        in.add({in.tensor({}), 1});
      });
  shape_row(op::tensor_split_at, [](const Args& a) {
    return at_indices(a.array(0), a.ints(1), wrap(a.integer(2), a.array(0).dim()));
  }).samples([](Inputs& in) {
    in.add({in.tensor({7, 2}), ints({2, 5})});
    in.add({in.tensor({2, 6}), ints({4, 1, -1, 99}), 1});
    in.add({in.tensor({3}), ints({})});
  });
  shape_row(op::tensor_split_by,
            [](const Args& a) {
              const Array by = a.array(1);
              const int64_t d = wrap(a.integer(2), a.array(0).dim());
              Index ends;
              for (const Number& n : by.data) ends.push_back(n.i);
              return by.dim() == 0 ? in_sections(a.array(0), ends[0], d) : at_indices(a.array(0), ends, d);
            })
      .no_meta()
      .samples([](Inputs& in) {
        in.add({in.tensor({7, 2}), in.integers({2, 5})});
        in.add({in.tensor({2, 5}), in.integers({3}, {}), -1});
      })
      .error<DtypeError>("tensor_indices_or_sections", [](Inputs& in) {
        in.add({in.tensor({4}), in.integers({1}, {1}, kInt32)});
        in.add({in.tensor({4}), in.integers({1, 2}, {1, 2})});
      });
  const auto split_rows = [](const auto& even, const auto& at, int64_t least) {
    const auto dim = [=](const Array& x) {
      return least == 1 ? std::min<int64_t>(x.dim() - 1, 1) : least == 2 ? 0 : 2;
    };
    const auto small = [=](Inputs& in) { in.add({in.tensor(Index(static_cast<std::size_t>(least) - 1, 2)), 1}); };
    shape_row(even, [=](const Args& a) { return in_sections(a.array(0), a.integer(1), dim(a.array(0))); })
        .samples([](Inputs& in) {
          in.add({in.tensor({6, 4, 2}), 2});
          in.add({in.tensor({6, 4, 2}), 1});
        })
        .template error<ValueError>("sections",
                                    [](Inputs& in) {
                                      in.add({in.tensor({5, 5, 5}), 2});
                                      in.add({in.tensor({5, 5, 5}), 0});
                                    })
        .template error<ShapeError>("self", small);
    shape_row(at, [=](const Args& a) {
      return at_indices(a.array(0), a.ints(1), dim(a.array(0)));
    }).samples([=](Inputs& in) {
      in.add({in.tensor({3, 4, 5}), ints({1, 3})});
      in.add({in.tensor(Index(static_cast<std::size_t>(least), 3)), ints({2})});
    });
  };
  split_rows(op::hsplit, op::hsplit_at, 1);
  split_rows(op::vsplit, op::vsplit_at, 2);
  split_rows(op::dsplit, op::dsplit_at, 3);

  const auto by_size = [](const Args& a) {
    const Array x = a.array(0);
    const int64_t d = wrap(a.integer(2), x.dim());
    Index ends;
    for (int64_t i = a.integer(1); i < x.sizes[d]; i += a.integer(1)) ends.push_back(i);
    return at_indices(x, ends, d);
  };
  shape_row(op::unsafe_split, by_size)
      .samples([](Inputs& in) {
        in.add({in.tensor({7, 2}), 3});
        in.add({in.tensor({2, 6}), 2, -1});
      })
      .errors_name("split")
      .error<ValueError>("split_size", [](Inputs& in) {
        in.add({in.tensor({4}), 0});
      });
  shape_row(op::unsafe_split_with_sizes, [](const Args& a) {
    Index ends = a.ints(1);
    for (std::size_t i = 1; i < ends.size(); ++i) ends[i] += ends[i - 1];
    ends.pop_back();
    return at_indices(a.array(0), ends, wrap(a.integer(2), a.array(0).dim()));
  }).samples([](Inputs& in) {
    in.add({in.tensor({7, 2}), ints({3, 0, 4})});
    in.add({in.tensor({2, 6}), ints({1, 5}), 1});
  });
  shape_row(op::unsafe_chunk,
            [=](const Args& a) {
              const Array x = a.array(0);
              const int64_t d = wrap(a.integer(2), x.dim()), n = x.sizes[d], chunks = a.integer(1);
              Index ends;
              for (int64_t i = 1; i < chunks; ++i)
                if (n == 0 || i * ((n + chunks - 1) / chunks) < n) ends.push_back(i * ((n + chunks - 1) / chunks));
              return at_indices(x, ends, d);
            })
      .samples([](Inputs& in) {
        in.add({in.tensor({7, 2}), 3});
        in.add({in.tensor({2}), 5});
        in.add({in.tensor({0, 2}), 3});
      })
      .errors_name("chunk")
      .error<ValueError>("chunks", [](Inputs& in) {
        in.add({in.tensor({4}), 0});
      });
}

TENON_OP_CASES(shape_joins) {
  const auto join_row = [](const auto& op, std::size_t rank, int64_t dim) {
    shape_row(op, one([=](const Args& a) {
                const Arrays list = mapped(a.arrays(0), [=](const Array& x) { return at_least(x, rank); });
                return joined(list, dim < list[0].dim() ? dim : 0);
              }),
              kJoined)
        .samples([](Inputs& in) {
          in.add({List{in.tensor({3}), in.tensor({3})}});
          in.add({List{in.tensor({2, 3}), in.tensor({2, 3})}});
          in.add({List{in.tensor({2, 3, 2})}});
          in.add({List{in.tensor({}), in.tensor({})}});
        })
        .template error<ValueError>("tensors", [](Inputs& in) { in.add({List{}}); });
  };
  join_row(op::hstack, 1, 1);
  join_row(op::vstack, 2, 0);
  join_row(op::dstack, 3, 2);
  shape_row(op::column_stack, one([](const Args& a) {
              return joined(mapped(a.arrays(0),
                                   [](const Array& x) {
                                     return x.dim() < 2 ? with_sizes(x, {x.numel(), 1}) : x;
                                   }),
                            1);
            }),
            kJoined)
      .samples([](Inputs& in) {
        in.add({List{in.tensor({3}), in.tensor({3, 2}), in.tensor({3})}});
        in.add({List{in.tensor({}), in.tensor({1, 2})}});
        in.add({List{in.tensor({2, 1, 2}), in.tensor({2, 3, 2})}});
      })
      .error<ValueError>("tensors", [](Inputs& in) { in.add({List{}}); });
  shape_row(op::block_diag, one([](const Args& a) {
              Index sizes = {0, 0};
              const Arrays list = mapped(a.arrays(0), [](const Array& x) { return at_least(x, 2); });
              for (const Array& x : list) sizes[0] += x.sizes[0], sizes[1] += x.sizes[1];
              if (list.empty()) return make_array(kFloat32, {1, 0});
              Array out = make_array(list[0].dtype, sizes);
              if (!is_integral(out.dtype, true)) std::fill(out.data.begin(), out.data.end(), Number(0.0));
              int64_t row = 0, column = 0;
              for (const Array& x : list) {
                std::size_t n = 0;
                each_index(x.sizes,
                           [&](const Index& at) { out.data[(row + at[0]) * sizes[1] + column + at[1]] = x.data[n++]; });
                row += x.sizes[0], column += x.sizes[1];
              }
              return out;
            }),
            kJoined)
      .samples([](Inputs& in) {
        in.add({List{in.tensor({2, 3}), in.tensor({}), in.tensor({2}), in.tensor({1, 2})}});
        in.add({List{in.tensor({2, 0}), in.tensor({1, 2})}});
        in.add({List{in.tensor({3})}});
      })
      .error<ShapeError>("tensors", [](Inputs& in) {
        in.add({List{in.tensor({2, 2, 2})}});
      });
  shape_row(op::cartesian_prod, one([](const Args& a) {
              const Arrays list = a.arrays(0);
              if (list.size() == 1) return list[0];
              Arrays columns = mapped(grid(list, false), [](const Array& x) { return with_sizes(x, {x.numel(), 1}); });
              return joined(columns, 1);
            }),
            kJoined)
      .samples([](Inputs& in) {
        in.add({List{in.tensor({3}), in.tensor({2})}});
        in.add({List{in.tensor({2}), in.tensor({1}), in.tensor({3})}});
        in.add({List{in.tensor({3})}});
        in.add({List{in.tensor({3}), in.tensor({0})}});
      })
      .error<ShapeError>("tensors", [](Inputs& in) {
        in.add({List{in.tensor({2, 2})}});
      });
  shape_row(op::combinations, one([](const Args& a) {
              const Array x = a.array(0);
              if (a.integer(1) == 0) return make_array(x.dtype, {0});
              Array out = make_array(x.dtype, {0, a.integer(1)});
              Index chosen;
              choose(out, x, chosen, 0, static_cast<std::size_t>(a.integer(1)), a.integer(2) != 0);
              return out;
            }),
            kJoined)
      .samples([](Inputs& in) {
        for (const bool again : {false, true}) {
          for (const int64_t r : {1, 2, 3}) in.add({in.tensor({4}), r, again});
          in.add({in.tensor({2}), 3, again});
          in.add({in.tensor({0}), 2, again});
          in.add({in.tensor({3}), 0, again}).no_gradient();
        }
      })
      .error<ShapeError>("self",
                         [](Inputs& in) {
                           in.add({in.tensor({2, 2})});
                         })
      .error<ValueError>("r", [](Inputs& in) {
        in.add({in.tensor({2}), -1});
      });
}
