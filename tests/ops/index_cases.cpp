// SPDX-License-Identifier: Apache-2.0
// Rows of ops/cat.h and ops/index.h, and of the gradients of views in ops/backward.h.
#include <tenon/ops/backward.h>
#include <tenon/ops/cat.h>
#include <tenon/ops/index.h>

#include "tests/support/op_case.h"

#include <algorithm>

using namespace tenon;
using namespace tenon::testing;

namespace {

using Index = std::vector<int64_t>;
using List = std::vector<Tensor>;

int64_t wrap(int64_t d, int64_t rank) { return d < 0 ? d + std::max<int64_t>(rank, 1) : d; }
Array at_least_1d(Array a) {
  if (a.sizes.empty()) a.sizes = {1};
  return a;
}
// One addition after the other, each rounded: what may be lost is in proportion to the partial sums.
void add_to(Number& to, const Number& v, DType t, double& scale) {
  scale += (std::abs(v.z) + std::abs(to.z)) * (is_half(t) ? epsilon(t) / epsilon(kFloat32) / 8 : 1);
  if (t == kBool)
    to = Number(int64_t(to.i != 0 || v.i != 0));
  else if (is_integral(t))
    to = convert(static_cast<int64_t>(static_cast<uint64_t>(to.i) + static_cast<uint64_t>(v.i)), kInt64, t);
  else
    to = Number(to.z + v.z);
}

std::vector<Array> cat_reference(const Args& args) {
  std::vector<Array> all = args.arrays(0), list;
  DType t = DType::undefined;
  for (const Array& a : all) {
    t = t == DType::undefined ? a.dtype : promote_pair(t, a.dtype);
    if (!(a.sizes.size() == 1 && a.sizes[0] == 0)) list.push_back(a);
  }
  if (list.empty()) list.push_back(all[0]);
  const int64_t d = wrap(args.integer(1), list[0].dim());
  Index sizes = list[0].sizes;
  sizes[d] = 0;
  for (const Array& a : list) sizes[d] += a.sizes[d];
  Array out = make_array(t, sizes);
  int64_t start = 0;
  for (const Array& a : list) {
    const Array c = cast(a, t);
    std::size_t n = 0;
    each_index(a.sizes, [&](const Index& at) {
      Index to = at;
      to[d] += start;
      out.data[flat_index(to, sizes)] = c.data[n++];
    });
    start += a.sizes[d];
  }
  return {out};
}
std::vector<Array> stack_reference(const Args& args) {
  const std::vector<Array> list = args.arrays(0);
  const int64_t d = args.integer(1) < 0 ? args.integer(1) + list[0].dim() + 1 : args.integer(1);
  Index sizes = list[0].sizes;
  sizes.insert(sizes.begin() + d, static_cast<int64_t>(list.size()));
  Array out = make_array(list[0].dtype, sizes);
  std::size_t n = 0;
  each_index(sizes, [&](const Index& at) {
    Index from = at;
    from.erase(from.begin() + d);
    out.data[n++] = list[at[d]].data[flat_index(from, list[0].sizes)];
  });
  return {out};
}

std::vector<Array> select_reference(const Args& args) {
  const Array x = args.array(0), i = args.array(2);
  if (x.sizes.empty()) return {x};
  const int64_t d = wrap(args.integer(1), x.dim());
  Index sizes = x.sizes;
  sizes[d] = i.numel();
  return {pick(x, sizes, [&](Index at) {
    at[d] = i.data[at[d]].i;
    return at;
  })};
}
std::vector<Array> gather_reference(const Args& args) {
  const Array x = at_least_1d(args.array(0)), i = at_least_1d(args.array(2));
  const int64_t d = wrap(args.integer(1), x.dim());
  Array out = pick(x, i.sizes, [&](Index at) {
    at[d] = i.data[flat_index(at, i.sizes)].i;
    return at;
  });
  out.sizes = args.array(2).sizes;
  return {out};
}
// index_add (adds alpha times) and index_copy.
Reference slices_reference(bool add) {
  return [=](const Args& args) {
    Array out = args.array(0);
    const Array i = args.array(2), source = args.array(3);
    const int64_t d = wrap(args.integer(1), out.dim());
    out.scale.assign(out.data.size(), 0);
    for (std::size_t n = 0; n < out.data.size(); ++n) out.scale[n] = std::abs(out.data[n].z);
    std::size_t n = 0;
    each_index(source.sizes, [&](const Index& at) {
      Index to = at;
      if (!to.empty()) to[d] = i.data[at[d]].i;
      const int64_t place = flat_index(to, out.sizes);
      Number v = source.data[n++];
      if (!add) {
        out.data[place] = v;
        return;
      }
      const Number alpha = args.number(4);
      v = is_integral(out.dtype, true) ? Number(v.i * alpha.i) : Number(v.z * alpha.z);
      add_to(out.data[place], v, out.dtype, out.scale[place]);
    });
    return std::vector<Array>{out};
  };
}
std::vector<Array> scatter_reference(const Args& args) {
  Array out = args.array(0);
  const Array i = args.array(2), source = args.array(3);
  const int64_t d = wrap(args.integer(1), out.dim());
  out.scale.assign(out.data.size(), 4);
  std::size_t n = 0;
  each_index(i.sizes, [&](const Index& at) {
    Index to = at;
    if (!to.empty()) to[d] = i.data[n].i;
    const int64_t place = flat_index(to, out.sizes);
    add_to(out.data[place], source.data[flat_index(at, source.sizes)], out.dtype, out.scale[place]);
    ++n;
  });
  return {out};
}
std::vector<Array> embedding_reference(const Args& args) {
  const Array i = args.array(0), w = args.array(1);
  Index sizes = i.sizes;
  sizes.push_back(w.sizes[1]);
  return {pick(w, sizes, [&](const Index& at) {
    return Index{i.data[flat_index(Index(at.begin(), at.end() - 1), i.sizes)].i, at.back()};
  })};
}
std::vector<Array> embedding_gradient(const Args& args) {
  const Array g = args.array(0), i = args.array(1);
  const int64_t rows = args.integer(2), padding = args.integer(3), columns = g.sizes.back();
  Array out = make_array(g.dtype, {rows, columns});
  out.scale.assign(out.data.size(), 0);
  std::vector<double> uses(static_cast<std::size_t>(rows), 0);
  for (const Number& v : i.data) uses[v.i] += 1;
  for (int64_t n = 0; n < i.numel(); ++n) {
    const int64_t row = i.data[n].i;
    if (row == padding) continue;
    for (int64_t c = 0; c < columns; ++c)
      add_to(out.data[row * columns + c], Number(g.data[n * columns + c].z / (args.integer(4) ? uses[row] : 1.0)),
             g.dtype, out.scale[row * columns + c]);
  }
  return {out};
}

// Integer tensors broadcast and pick; bool tensors stand for where they are true. Advanced dimensions side by side keep
// their place, apart they come first.
struct Advanced {
  Index sizes;                              // of the result
  std::function<Index(const Index&)> from;  // index of self for one of the result
};
Advanced advanced(const Array& x, const std::vector<Array>& given) {
  std::vector<Array> per_dim;
  for (const Array& a : given) {
    if (!a.defined() || (a.dtype != kBool && a.dtype != kUInt8)) {
      per_dim.push_back(a);
      continue;
    }
    std::vector<Array> columns(a.sizes.size(), make_array(kInt64, {0}));
    each_index(a.sizes, [&](const Index& at) {
      if (a.data[flat_index(at, a.sizes)].i == 0) return;
      for (std::size_t d = 0; d < at.size(); ++d) {
        columns[d].data.push_back(at[d]);
        columns[d].sizes[0]++;
      }
    });
    per_dim.insert(per_dim.end(), columns.begin(), columns.end());
  }
  per_dim.resize(x.sizes.size());
  Index common;
  std::vector<std::size_t> dims;
  for (std::size_t d = 0; d < per_dim.size(); ++d)
    if (per_dim[d].defined()) {
      common = broadcast(common, per_dim[d].sizes);
      dims.push_back(d);
    }
  bool adjacent = true;
  for (std::size_t k = 1; k < dims.size(); ++k) adjacent = adjacent && dims[k] == dims[k - 1] + 1;
  const std::size_t place = adjacent ? dims[0] : 0;
  Advanced r;
  std::size_t before = 0;
  for (std::size_t d = 0; d < per_dim.size(); ++d) {
    if (before == place && (per_dim[d].defined() || !adjacent))
      r.sizes.insert(r.sizes.end(), common.begin(), common.end()), before = 1000;
    if (!per_dim[d].defined()) {
      r.sizes.push_back(x.sizes[d]);
      if (before < 1000) ++before;
    }
  }
  r.from = [=](const Index& at) {
    const Index picked(at.begin() + static_cast<int64_t>(place),
                       at.begin() + static_cast<int64_t>(place + common.size()));
    Index from;
    std::size_t next = 0;
    for (std::size_t d = 0; d < per_dim.size(); ++d) {
      if (!per_dim[d].defined()) {
        if (next == place) next += common.size();
        from.push_back(at[next++]);
        continue;
      }
      const Array& a = per_dim[d];
      Index own(picked.end() - a.dim(), picked.end());
      for (std::size_t k = 0; k < own.size(); ++k)
        if (a.sizes[k] == 1) own[k] = 0;
      const int64_t v = a.data[flat_index(own, a.sizes)].i;
      from.push_back(v < 0 ? v + x.sizes[d] : v);
    }
    return from;
  };
  return r;
}
std::vector<Array> index_reference(const Args& args) {
  const Array x = args.array(0);
  const Advanced a = advanced(x, args.arrays(1));
  return {pick(x, a.sizes, a.from)};
}
std::vector<Array> put_reference(const Args& args) {
  Array out = args.array(0);
  const Array v = args.array(2);
  const Advanced a = advanced(out, args.arrays(1));
  const Array wide =
      pointwise({make_array(v.dtype, a.sizes), v}, DType::undefined, v.dtype, [](const Number* n) { return n[1]; });
  out.scale.assign(out.data.size(), 4);
  std::size_t n = 0;
  each_index(a.sizes, [&](const Index& at) {
    const int64_t place = flat_index(a.from(at), out.sizes);
    if (args.integer(3))
      add_to(out.data[place], wide.data[n], out.dtype, out.scale[place]);
    else
      out.data[place] = wide.data[n];
    ++n;
  });
  return {out};
}

// Zeros with grad added where a view of `base` (sizes, strides, offset) lies.
Array spread(const Array& grad, const Index& sizes, const Index& strides, int64_t offset, const Index& base) {
  Array out = make_array(grad.dtype, base);
  out.scale.assign(out.data.size(), 0);
  std::size_t n = 0;
  each_index(sizes, [&](const Index& at) {
    int64_t place = offset;
    for (std::size_t d = 0; d < at.size(); ++d) place += at[d] * strides[d];
    add_to(out.data[place], grad.data[n++], grad.dtype, out.scale[place]);
  });
  return out;
}

}  // namespace

TENON_OP_CASES(index) {
  op_case(op::cat)
      .dtypes(kAllWithFloat8)
      .gradient()
      .ulp(0)
      .reference(cat_reference)
      .samples([](Inputs& in) {
        in.add({List{in.tensor({2, 3}), in.tensor({1, 3}), in.tensor({4, 3})}});
        in.add({List{in.tensor({2, 3}), in.tensor({2, 1})}, 1});
        in.add({List{in.tensor({2, 3, 4}), in.tensor({2, 3, 4})}, -2});
        in.add({List{in.tensor({5})}});
        in.add({List{in.tensor({0}), in.tensor({2, 3}), in.tensor({0, 3})}});
        in.add({List{in.tensor({0}), in.tensor({0})}});
        in.add({List{in.tensor({70, 130}), in.tensor({70, 67})}, 1}).no_gradient();
        std::vector<Tensor> many;
        for (int64_t i = 0; i < 40; ++i) many.push_back(in.tensor({3, 1 + i % 3}));
        in.add({many, 1}).no_gradient();
        if (!is_float8(in.dtype()))
          in.add({List{in.tensor({3}), in.tensor({2}, 0, 4, kInt16), in.tensor({2}, 0, 4, kFloat64)}}).no_gradient();
      })
      .benchmark([](Inputs& in) {
        in.add({List{in.tensor({512, 1024}), in.tensor({512, 1024})}, 1});
      })
      .error<ValueError>("tensors", [](Inputs& in) { in.add({List{}}); })
      .error<ShapeError>("tensors",
                         [](Inputs& in) {
                           in.add({List{in.tensor({2, 3}), in.tensor({2, 4})}});
                           in.add({List{in.tensor({2, 3}), in.tensor({2})}});
                           in.add({List{in.tensor({}), in.tensor({})}});
                         })
      .error<IndexError>("", [](Inputs& in) {
        in.add({List{in.tensor({2, 3})}, 2});
      });
  op_case(op::stack)
      .dtypes(kAllWithFloat8)
      .gradient()
      .ulp(0)
      .reference(stack_reference)
      .samples([](Inputs& in) {
        for (const int64_t d : {0, 1, 2, -1, -3}) in.add({List{in.tensor({2, 3}), in.tensor({2, 3})}, d});
        in.add({List{in.tensor({}), in.tensor({}), in.tensor({})}});
        in.add({List{in.tensor({0, 2})}});
      })
      .error<ShapeError>("tensors", [](Inputs& in) {
        in.add({List{in.tensor({2}), in.tensor({3})}});
      });

  const Maker out_of_range = [](Inputs& in) {
    in.add({in.tensor({3}), 0, in.integers({10})});
    in.add({in.tensor({3}), 0, in.integers({-4})});
    in.add({in.tensor({3}), 0, in.integers({0, 1, 3})});
  };
  op_case(op::index_select)
      .dtypes(kAllWithFloat8)
      .gradient()
      .ulp(0)
      .reference(select_reference)
      .samples([](Inputs& in) {
        in.add({in.tensor({5, 3}), 0, in.index({4}, 5)});
        in.add({in.tensor({5, 3}), -1, in.index({7}, 3)});
        in.add({in.tensor({2, 4, 3}), 1, in.integers({3, 0, 3})});
        in.add({in.tensor({5}), 0, in.integers({2}, {})});
        in.add({in.tensor({}), 0, in.integers({0})});
        in.add({in.tensor({5, 3}), 0, in.integers({}, {0})});
        in.add({in.tensor({0, 3}), 1, in.integers({0, 2})});
        in.add({in.tensor({5, 3}), 0, in.integers({1, 4}, {2}, kInt32)});
        in.add({in.tensor({300, 70}), 0, in.index({400}, 300)}).no_gradient();
        in.add({in.tensor({70, 300}), 1, in.index({400}, 300)}).no_gradient();
      })
      .benchmark([](Inputs& in) {
        in.add({in.tensor({4096, 256}), 0, in.index({4096}, 4096)});
      })
      .error<IndexError>("index", out_of_range)
      .error<IndexError>("",
                         [](Inputs& in) {
                           in.add({in.tensor({3}), 1, in.integers({0})});
                         })
      .error<DtypeError>("index",
                         [](Inputs& in) {
                           in.add({in.tensor({3}), 0, in.tensor({2})});
                         })
      .error<ShapeError>("index", [](Inputs& in) {
        in.add({in.tensor({3}), 0, in.integers({0, 1}, {1, 2})});
      });
  op_case(op::gather)
      .dtypes(kAllWithFloat8)
      .gradient()
      .ulp(0)
      .reference(gather_reference)
      .samples([](Inputs& in) {
        in.add({in.tensor({3, 4}), 0, in.index({2, 4}, 3)});
        in.add({in.tensor({3, 4}), 1, in.index({3, 6}, 4)});
        in.add({in.tensor({3, 4, 2}), -2, in.index({2, 5, 1}, 4)});
        in.add({in.tensor({5}), 0, in.index({9}, 5)});
        in.add({in.tensor({}), 0, in.integers({0}, {})});
        in.add({in.tensor({3, 4}), 1, in.integers({}, {3, 0})});
        in.add({in.tensor({200, 90}), 1, in.index({200, 120}, 90)}).no_gradient();
        in.add({in.tensor({90, 400}), 0, in.index({120, 400}, 90)}).no_gradient();
      })
      .benchmark([](Inputs& in) {
        in.add({in.tensor({4096, 256}), 0, in.index({4096, 256}, 4096)});
      })
      .error<IndexError>("index", out_of_range)
      .error<ShapeError>("index", [](Inputs& in) {
        in.add({in.tensor({3, 4}), 0, in.index({2, 5}, 3)});
        in.add({in.tensor({3, 4}), 0, in.index({2}, 3)});
      });
  const Dtypes addable = kAll;
  const Maker slices = [](Inputs& in) {
    in.add({in.tensor({5, 3}), 0, in.integers({4, 0}), in.tensor({2, 3})});
    in.add({in.tensor({3, 5}), 1, in.integers({1, 2, 4}), in.tensor({3, 3})});
    in.add({in.tensor({2, 4, 3}), -2, in.integers({2}), in.tensor({2, 1, 3})});
    in.add({in.tensor({5}), 0, in.integers({}, {0}), in.tensor({0})});
    in.add({in.tensor({100, 67}), 0, in.integers({99, 5, 50}), in.tensor({3, 67})}).no_gradient();
  };
  const Maker bad_slices = [](Inputs& in) {
    in.add({in.tensor({5, 3}), 0, in.integers({0}), in.tensor({1, 4})});
    in.add({in.tensor({5, 3}), 0, in.integers({0, 1}), in.tensor({1, 3})});
  };
  const Maker slice_range = [](Inputs& in) {
    in.add({in.tensor({3}), 0, in.integers({3}), in.tensor({1})});
    in.add({in.tensor({3}), 0, in.integers({-4}), in.tensor({1})});
  };
  op_case(op::index_add)
      .dtypes(addable)
      .gradient()
      .ulp(8)
      .reference(slices_reference(true))
      .samples(slices)
      .samples([](Inputs& in) {
        in.add({in.tensor({4, 3}), 0, in.integers({1, 1, 1, 2}), in.tensor({4, 3})});
        if (in.dtype() == kBool) return;
        in.add({in.tensor({4, 3}), 0, in.integers({1, 3, 1}), in.tensor({3, 3})}, {{"alpha", 2}});
        in.add({in.tensor({50, 40}), 0, in.index({500}, 50), in.tensor({500, 40}, -1, 1)}).no_gradient();
      })
      .error<IndexError>("index", slice_range)
      .error<ShapeError>("", bad_slices)
      .error<DtypeError>("source", [](Inputs& in) {
        in.add({in.tensor({3}), 0, in.integers({0}), in.tensor({1}, 0, 1, kFloat64)});
      });
  op_case(op::index_copy)
      .dtypes(kAllWithFloat8)
      .gradient()
      .ulp(0)
      .reference(slices_reference(false))
      .samples([slices](Inputs& in) {
        // An expanded index names one row several times, and which source wins is not defined.
        slices(in);
        for (Sample& sample : in.samples) sample.no_layouts();
      })
      .error<IndexError>("index", slice_range)
      .error<ShapeError>("", bad_slices);
  op_case(op::scatter_add)
      .dtypes(addable)
      .gradient()
      .ulp(8)
      .reference(scatter_reference)
      .samples([](Inputs& in) {
        in.add({in.tensor({3, 4}), 0, in.index({2, 4}, 3), in.tensor({2, 4})});
        in.add({in.tensor({3, 4}), 1, in.index({3, 6}, 4), in.tensor({3, 7})});
        in.add({in.tensor({5}), 0, in.index({9}, 5), in.tensor({9})});
        in.add({in.tensor({5}), 0, in.integers({}, {0}), in.tensor({3})});
        if (in.dtype() != kBool)
          in.add({in.tensor({60, 70}), 1, in.index({60, 140}, 70), in.tensor({60, 140}, -1, 1)}).no_gradient();
      })
      .benchmark([](Inputs& in) {
        in.add({in.tensor({4096, 256}), 0, in.index({4096, 256}, 4096), in.tensor({4096, 256})});
      })
      .error<IndexError>("index",
                         [](Inputs& in) {
                           in.add({in.tensor({3}), 0, in.integers({3}), in.tensor({1})});
                         })
      .error<ShapeError>("", [](Inputs& in) {
        in.add({in.tensor({3}), 0, in.index({4}, 3), in.tensor({2})});
      });
  op_case(op::embedding, "of other dtypes")
      .dtypes(kComplexes + kIntegers)
      .ulp(0)
      .reference(embedding_reference)
      .samples([](Inputs& in) {
        in.add({in.index({2, 5}, 6), in.tensor({6, 3})});
      });
  op_case(op::embedding)
      .dtypes(kFloats)
      .gradient()
      .ulp(0)
      .reference(embedding_reference)
      .samples([](Inputs& in) {
        in.add({in.index({4}, 6), in.tensor({6, 3})});
        in.add({in.index({2, 5}, 6), in.tensor({6, 3})});
        in.add({in.integers({5}, {}), in.tensor({6, 3})});
        in.add({in.integers({}, {0, 2}), in.tensor({6, 3})});
        in.add({in.integers({1, 3, 1}), in.tensor({6, 3}), 1}).no_gradient();
        in.add({in.index({300}, 90), in.tensor({90, 65})}).no_gradient();
      })
      .benchmark([](Inputs& in) {
        in.add({in.index({8192}, 50000), in.tensor({50000, 128})});
      })
      .error<IndexError>("",
                         [](Inputs& in) {
                           in.add({in.integers({6}), in.tensor({6, 3})});
                           in.add({in.integers({-1}), in.tensor({6, 3})});
                         })
      .error<ShapeError>("weight",
                         [](Inputs& in) {
                           in.add({in.integers({0}), in.tensor({6})});
                         })
      .error<DtypeError>("input",
                         [](Inputs& in) {
                           in.add({in.tensor({2}), in.tensor({6, 3})});
                         })
      .error<ValueError>("padding_idx", [](Inputs& in) {
        in.add({in.integers({0}), in.tensor({6, 3}), 6});
      });
  op_case(op::embedding_backward)
      .dtypes(kFloats)
      .gradient()
      .ulp(8)
      .reference(embedding_gradient)
      .samples([](Inputs& in) {
        for (const bool scale : {false, true}) {
          in.add({in.tensor({4, 3}), in.integers({1, 5, 1, 0}), 6, -1, scale});
          in.add({in.tensor({2, 3, 2}), in.index({2, 3}, 4), 4, 2, scale});
          in.add({in.tensor({600, 33}, -1, 1), in.index({600}, 20), 20, -1, scale}).no_gradient();
        }
        in.add({in.tensor({0, 3}), in.integers({}, {0}), 6, -1, false});
      });

  op_case(op::index)
      .dtypes(kAllWithFloat8)
      .gradient()
      .ulp(0)
      .reference(index_reference)
      .no_meta()
      .samples([](Inputs& in) {
        const Tensor none;
        in.add({in.tensor({5, 3}), List{in.index({4}, 5)}});
        in.add({in.tensor({5, 3}), List{in.index({2, 2}, 5, -5)}});
        in.add({in.tensor({5, 3, 4}), List{none, in.index({2}, 3, -3)}});
        in.add({in.tensor({5, 3, 4}), List{in.index({2, 1}, 5), none, in.index({3}, 4)}});
        in.add({in.tensor({5, 3, 4}), List{none, in.index({2, 1}, 3), in.index({2}, 4)}});
        in.add({in.tensor({5, 3}), List{in.boolean({5})}}).no_layouts();
        in.add({in.tensor({5, 3}), List{in.boolean({5, 3})}}).no_layouts();
        in.add({in.tensor({5, 3}), List{none, in.boolean({3})}}).no_layouts();
        in.add({in.tensor({5, 3}), List{in.integers({}, {0})}});
      })
      .error<IndexError>("", [](Inputs& in) {
        in.add({in.tensor({3}), List{in.integers({10})}});
        in.add({in.tensor({3}), List{in.integers({-4})}});
        in.add({in.tensor({3}), List{in.integers({0}), in.integers({0})}});
        in.add({in.tensor({3}), List{in.boolean({4})}});
      });
  op_case(op::index_put)
      .dtypes(kAll)
      .gradient()
      .ulp(8)
      .reference(put_reference)
      .no_meta()
      .samples([](Inputs& in) {
        in.add({in.tensor({5, 3}), List{in.integers({4, 0})}, in.tensor({2, 3})}).no_layouts();
        in.add({in.tensor({5, 3}), List{in.integers({4, -5})}, in.tensor({})}).no_layouts();
        in.add({in.tensor({5, 3}), List{in.integers({1, 2}), in.integers({0, 2})}, in.tensor({2})}).no_layouts();
        if (in.dtype() != kBool) {
          in.add({in.tensor({3}), List{in.integers({0, 0, 2}, {1, 3})}, in.tensor({}), true});
          in.add({in.tensor({5, 4, 3}), List{in.integers({0, 2}, {2, 1}), in.integers({1, 0})}, in.tensor({3}), true});
        }
        in.add({in.tensor({5, 3}), List{in.boolean({5, 3})}, in.tensor({})}).no_layouts();
      })
      .error<IndexError>("",
                         [](Inputs& in) {
                           in.add({in.tensor({3}), List{in.integers({10})}, in.tensor({1})});
                         })
      .error<ShapeError>("values",
                         [](Inputs& in) {
                           in.add({in.tensor({3}), List{in.integers({1})}, in.tensor({2})});
                         })
      .error<DtypeError>("values", [](Inputs& in) {
        in.add({in.tensor({3}), List{in.integers({0})}, in.tensor({1}, 0, 1, kFloat64)});
      });

  const Dtypes grads = kFloats + kComplexes;
  op_case(op::as_strided_backward)
      .dtypes(grads)
      .gradient()
      .reference([](const Args& a) {
        Index base = a.ints(4);
        return std::vector<Array>{spread(a.array(0), a.ints(1), a.ints(2), a.integer(3) - a.integer(6), base)};
      })
      .samples([](Inputs& in) {
        in.add({in.tensor({3, 2}), ints({3, 2}), ints({1, 4}), 0, ints({3, 4}), ints({4, 1}), 0});
        in.add({in.tensor({3, 3}), ints({3, 3}), ints({1, 1}), 2, ints({12}), ints({1}),
                0});  // elements shown several times
      });
}
