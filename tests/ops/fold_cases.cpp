// SPDX-License-Identifier: Apache-2.0
// Rows of ops/fold.h and ops/embedding_bag.h.
#include <tenon/ops/embedding_bag.h>
#include <tenon/ops/fold.h>

#include "tests/support/op_case.h"

#include <algorithm>
#include <cmath>

using namespace tenon;
using namespace tenon::testing;

namespace {

using Sizes = std::vector<int64_t>;
int64_t at(const Sizes& list, std::size_t d) { return list[list.size() == 1 ? 0 : d]; }

/// f(position in the image's plane or -1, position in the plane's columns) for every element of every block.
template <class F>
void each_block(const Sizes& in, const Sizes& kernel, const Sizes& dilation, const Sizes& padding, const Sizes& stride,
                const F& f) {
  Sizes out(2);
  for (std::size_t d = 0; d < 2; ++d)
    out[d] = (in[d] + 2 * at(padding, d) - at(dilation, d) * (at(kernel, d) - 1) - 1) / at(stride, d) + 1;
  int64_t column = 0;
  each_index({at(kernel, 0), at(kernel, 1), out[0], out[1]}, [&](const Sizes& i) {
    const int64_t y = i[2] * at(stride, 0) - at(padding, 0) + i[0] * at(dilation, 0);
    const int64_t x = i[3] * at(stride, 1) - at(padding, 1) + i[1] * at(dilation, 1);
    f(y >= 0 && y < in[0] && x >= 0 && x < in[1] ? y * in[1] + x : -1, column++, out[0] * out[1]);
  });
}
std::vector<Array> columns_of(const Args& a) {
  const Array x = a.array(0);
  const Sizes in(x.sizes.end() - 2, x.sizes.end());
  const int64_t planes = x.numel() / count(in), channels = x.sizes[x.sizes.size() - 3];
  std::vector<int64_t> from;
  int64_t blocks = 0;
  each_block(in, a.ints(1), a.ints(2), a.ints(3), a.ints(4), [&](int64_t place, int64_t, int64_t n) {
    from.push_back(place);
    blocks = n;
  });
  const auto each = static_cast<int64_t>(from.size());
  Array out = make_array(x.dtype, {channels * each / blocks, blocks});
  if (x.dim() == 4) out.sizes.insert(out.sizes.begin(), x.sizes[0]);
  out.data.assign(static_cast<std::size_t>(planes * each),
                  is_integral(x.dtype, true) ? Number(int64_t{0}) : Number(0.0));
  for (int64_t p = 0; p < planes; ++p)
    for (int64_t i = 0; i < each; ++i)
      if (from[i] >= 0) out.data[p * each + i] = x.data[p * count(in) + from[i]];
  return {out};
}
std::vector<Array> image_of(const Args& a) {
  const Array x = a.array(0);
  const Sizes in = {at(a.ints(1), 0), at(a.ints(1), 1)}, kernel = a.ints(2);
  const int64_t window = at(kernel, 0) * at(kernel, 1), rows = x.sizes[x.sizes.size() - 2];
  const int64_t planes = (x.dim() == 3 ? x.sizes[0] : 1) * rows / window, pixels = count(in);
  Array out = make_array(x.dtype, {rows / window, in[0], in[1]});
  if (x.dim() == 3) out.sizes.insert(out.sizes.begin(), x.sizes[0]);
  out.data.assign(static_cast<std::size_t>(planes * pixels),
                  is_integral(x.dtype, true) ? Number(int64_t{0}) : Number(0.0));
  out.scale.assign(out.data.size(), 0);
  const int64_t each = x.numel() / std::max<int64_t>(1, planes);
  for (int64_t p = 0; p < planes; ++p)
    each_block(in, kernel, a.ints(3), a.ints(4), a.ints(5), [&](int64_t place, int64_t column, int64_t) {
      if (place < 0) return;
      const Number v = x.data[p * each + column];
      Number& to = out.data[p * pixels + place];
      out.scale[p * pixels + place] += std::abs(v.z);
      if (x.dtype == kBool)
        to = Number(int64_t(to.i != 0 || v.i != 0));
      else if (is_integral(x.dtype))
        to = convert(Number(to.i + v.i), kInt64, x.dtype);
      else
        to = Number(to.z + v.z);
    });
  return {out};
}

void fold_rows() {
  op_case(op::im2col)
      .dtypes(kAll)
      .gradient()
      .reference(columns_of)
      .samples([](Inputs& in) {
        in.add({in.tensor({2, 3, 4, 5}), ints({2, 3})});
        in.add({in.tensor({2, 4, 5}), 3, 1, 1, 2});
        in.add({in.tensor({1, 2, 5, 6}), ints({2, 2}), ints({2, 3}), ints({1, 2}), ints({2, 1})});
        in.add({in.tensor({1, 1, 2, 2}), 1, 1, 3, 2});
        in.add({in.tensor({0, 2, 4, 4}), 2});
      })
      .error<ShapeError>("self",
                         [](Inputs& in) {
                           in.add({in.tensor({2, 0, 4, 4}), 2});
                         })
      .error<ShapeError>("kernel_size",
                         [](Inputs& in) {
                           in.add({in.tensor({2, 1, 1, 4}), 2});
                         })
      .error<ShapeError>("padding",
                         [](Inputs& in) {
                           in.add({in.tensor({2, 4, 4}), 2, 1, ints({0, 0, 0})});
                         })
      .error<ValueError>("stride",
                         [](Inputs& in) {
                           in.add({in.tensor({2, 4, 4}), 2, 1, 0, 0});
                         })
      .error<ValueError>("padding", [](Inputs& in) {
        in.add({in.tensor({2, 4, 4}), 2, 1, -1});
      });
  op_case(op::col2im)
      .dtypes(kAll)
      .gradient()
      .reference(image_of)
      .samples([](Inputs& in) {
        in.add({in.tensor({2, 3 * 6, 9}), ints({4, 5}), ints({2, 3})});
        in.add({in.tensor({2 * 9, 6}), ints({4, 5}), 3, 1, 1, 2});
        in.add({in.tensor({1, 2 * 4, 21}), ints({5, 6}), 2, ints({2, 3}), ints({1, 2}), ints({2, 1})});
        in.add({in.tensor({0, 4, 9}), 4, 2});
      })
      .errors_name("fold")
      .error<ShapeError>("self",
                         [](Inputs& in) {
                           in.add({in.tensor({1, 5, 9}), 4, 2});
                         })
      .error<ShapeError>("blocks",
                         [](Inputs& in) {
                           in.add({in.tensor({1, 4, 8}), 4, 2});
                         })
      .error<ShapeError>("output_size",
                         [](Inputs& in) {
                           in.add({in.tensor({1, 4, 9}), ints({4, 4, 4}), 2});
                         })
      .error<ValueError>("output_size", [](Inputs& in) {
        in.add({in.tensor({1, 4, 9}), -4, 2});
      });

  // Element [.., c, y * r + i, x * r + j] is element [.., (c * r + i) * r + j, y, x] of the other.
  const auto shuffled = [](bool back) {
    return [=](const Args& a) {
      const Array x = a.array(0);
      const int64_t r = a.integer(1);
      Sizes sizes = x.sizes;
      int64_t *const c = &sizes[sizes.size() - 3], *const h = c + 1, *const w = c + 2;
      if (back)
        *c *= r * r, *h /= r, *w /= r;
      else
        *c /= r * r, *h *= r, *w *= r;
      return std::vector<Array>{pick(x, sizes, [=](Sizes i) {
        int64_t *const d = &i[i.size() - 3], *const y = d + 1, *const z = d + 2;
        if (back) {
          *y = *y * r + *d / r % r, *z = *z * r + *d % r, *d /= r * r;
        } else {
          *d = (*d * r + *y % r) * r + *z % r, *y /= r, *z /= r;
        }
        return i;
      })};
    };
  };
  op_case(op::pixel_shuffle)
      .dtypes(kAll)
      .gradient()
      .reference(shuffled(false))
      .samples([](Inputs& in) {
        in.add({in.tensor({2, 8, 2, 3}), 2});
        in.add({in.tensor({9, 1, 2}), 3});
        in.add({in.tensor({2, 1, 4, 2, 2}), 2});
        in.add({in.tensor({2, 2, 3}), 1}).no_destinations();
        in.add({in.tensor({1, 4, 0, 2}), 2});
      })
      .error<ShapeError>("channels",
                         [](Inputs& in) {
                           in.add({in.tensor({7, 2, 2}), 2});
                         })
      .error<ShapeError>("self",
                         [](Inputs& in) {
                           in.add({in.tensor({2, 2}), 1});
                         })
      .error<ValueError>("upscale_factor", [](Inputs& in) {
        in.add({in.tensor({4, 2, 2}), 0});
      });
  op_case(op::pixel_unshuffle)
      .dtypes(kAll)
      .gradient()
      .reference(shuffled(true))
      .samples([](Inputs& in) {
        in.add({in.tensor({2, 2, 4, 6}), 2});
        in.add({in.tensor({1, 3, 6}), 3});
        in.add({in.tensor({1, 2, 0, 2}), 2});
      })
      .error<ShapeError>("self",
                         [](Inputs& in) {
                           in.add({in.tensor({1, 5, 4}), 2});
                         })
      .error<ValueError>("downscale_factor", [](Inputs& in) {
        in.add({in.tensor({4, 2, 2}), -1});
      });
  op_case(op::channel_shuffle)
      .dtypes(kAll)
      .gradient()
      .reference([](const Args& a) {
        const Array x = a.array(0);
        const int64_t groups = a.integer(1), each = x.sizes[1] / groups;
        return std::vector<Array>{pick(x, x.sizes, [=](Sizes i) {
          i[1] = i[1] % groups * each + i[1] / groups;
          return i;
        })};
      })
      .samples([](Inputs& in) {
        in.add({in.tensor({2, 6, 2, 3}), 3});
        in.add({in.tensor({1, 8, 3}), 2});
        in.add({in.tensor({1, 4, 0, 3}), 2});
      })
      .error<ShapeError>("channels",
                         [](Inputs& in) {
                           in.add({in.tensor({1, 6, 2, 2}), 4});
                         })
      .error<ShapeError>("self",
                         [](Inputs& in) {
                           in.add({in.tensor({6, 2}), 3});
                         })
      .error<ValueError>("groups", [](Inputs& in) {
        in.add({in.tensor({1, 6, 2}), 0});
      });
}

struct Bags {
  Array output, bag_of, counts, places;
};
Bags bags_of(const Array& weight, const Sizes& indices, const Sizes& offsets, int64_t mode, const Array& scales,
             bool last, int64_t padding) {
  const auto n = static_cast<int64_t>(indices.size()), columns = weight.sizes[1];
  const int64_t bags = static_cast<int64_t>(offsets.size()) - (last ? 1 : 0);
  Bags r{make_array(weight.dtype, {bags, columns}), make_array(kInt64, {n}), make_array(kInt64, {bags}),
         make_array(kInt64, mode == kBagMax ? Sizes{bags, columns} : Sizes{0})};
  for (Number& v : r.bag_of.data) v = int64_t{-1};
  r.output.scale.assign(r.output.data.size(), 0);
  for (int64_t b = 0; b < bags; ++b) {
    const int64_t end = b + 1 < static_cast<int64_t>(offsets.size()) ? offsets[b + 1] : n;
    Sizes members;
    for (int64_t i = offsets[b]; i < end; ++i)
      if (indices[i] != padding) members.push_back(i), r.bag_of.data[i] = b;
    r.counts.data[b] = static_cast<int64_t>(members.size());
    for (int64_t c = 0; c < columns; ++c) {
      double sum = 0, scale = 0;
      int64_t best = -1;
      for (const int64_t i : members) {
        const double v = weight.data[indices[i] * columns + c].re() * (scales.defined() ? scales.data[i].re() : 1);
        sum += v, scale += std::abs(v);
        if (best < 0 || v > weight.data[best * columns + c].re()) best = indices[i];
      }
      const auto to = static_cast<std::size_t>(b * columns + c);
      if (mode == kBagMax) {
        r.places.data[to] = best;
        r.output.data[to] = best < 0 ? Number(0.0) : weight.data[best * columns + c];
        continue;
      }
      const double by = mode == kBagMean && !members.empty() ? static_cast<double>(members.size()) : 1;
      r.output.data[to] = sum / by;
      r.output.scale[to] = scale / by;
    }
  }
  return r;
}
Sizes integers_of(const Array& a) {
  Sizes v;
  for (const Number& n : a.data) v.push_back(n.i);
  return v;
}

void bag_rows() {
  op_case(op::embedding_bag_forward)
      .dtypes(kFloats)
      .gradient()
      .gradient_of(1u | 1u << 4, 1)
      .errors_name("embedding_bag")
      .reference([](const Args& a) {
        const Bags r = bags_of(a.array(0), integers_of(a.array(1)), integers_of(a.array(2)), a.integer(3), a.array(4),
                               a.integer(6) != 0, a.integer(7));
        return std::vector<Array>{r.output, r.bag_of, r.counts, r.places};
      })
      .samples([](Inputs& in) {
        for (const int64_t mode : {0, 1, 2}) {
          in.add({in.tensor({5, 3}), in.index({7}, 5), in.integers({0, 2, 2, 5}), mode, Tensor()});
          in.add({in.tensor({5, 3}), in.index({7}, 5), in.integers({0, 3, 7}), mode, Tensor(), false, true, 1});
          in.add({in.tensor({4, 2}), in.integers({1, 1, 3, 1}), in.integers({0, 1}), mode, Tensor(), mode != 2})
              .no_gradient();
          in.add({in.tensor({4, 70}), in.index({9}, 4), in.integers({0, 4}), mode, Tensor(), false, false, 2});
        }
        in.add({in.tensor({5, 3}), in.index({6}, 5), in.integers({0, 1, 4}), 0, in.tensor({6})});
        in.add({in.tensor({5, 3}), in.index({6}, 5), in.integers({0, 1, 4, 5}), 0, in.tensor({6}), false, true, 0});
        in.add({in.tensor({5, 3}), in.integers({}, {0}), in.integers({0, 0}), 1, Tensor()});
      })
      .error<IndexError>("input",
                         [](Inputs& in) {
                           in.add({in.tensor({3, 2}), in.integers({0, 3}), in.integers({0}), 0, Tensor()});
                           in.add({in.tensor({3, 2}), in.integers({0, -1}), in.integers({0}), 0, Tensor()});
                         })
      .error<IndexError>("offsets", [](Inputs& in) {
        in.add({in.tensor({3, 2}), in.integers({0, 1}), in.integers({0, 3}), 0, Tensor()});
      });
  op_case(op::embedding_bag)
      .dtypes(kFloats)
      .gradient()
      .gradient_of(1u << 1 | 1u << 8)
      .no_inplace()
      .reference([](const Args& a) {
        const Array input = a.array(0);
        Array weight = a.array(1), offsets = a.array(2);
        Sizes starts = integers_of(offsets);
        if (input.dim() == 2)
          for (int64_t b = 0; b < input.sizes[0]; ++b) starts.push_back(b * input.sizes[1]);
        const int64_t mode = a.text(6) == "sum" ? kBagSum : a.text(6) == "mean" ? kBagMean : kBagMax;
        const int64_t rows = weight.sizes[0], padding = a.is_none(10) ? -1 : (a.integer(10) + rows) % rows;
        return std::vector<Array>{
            bags_of(weight, integers_of(input), starts, mode, a.array(8), a.integer(9) != 0, padding).output};
      })
      .samples([](Inputs& in) {
        for (const char* mode : {"sum", "mean", "max"}) {
          in.add({in.index({3, 4}, 5), in.tensor({5, 3})}, {{"mode", mode}});
          in.add({in.index({7}, 5), in.tensor({5, 3}), in.integers({0, 0, 3})}, {{"mode", mode}, {"padding_idx", -2}});
          in.add({in.index({7}, 5), in.tensor({5, 3}), in.integers({0, 2, 6})},
                 {{"mode", mode}, {"include_last_offset", true}});
          in.add({in.index({0, 3}, 5), in.tensor({5, 3})}, {{"mode", mode}});
        }
        in.add({in.index({3, 4}, 5), in.tensor({5, 3})},
               {{"mode", "sum"}, {"per_sample_weights", in.tensor({3, 4})}, {"padding_idx", 1}});
        in.add({in.index({8}, 4), in.tensor({4, 3}), in.integers({0, 3})},
               {{"mode", "mean"}, {"scale_grad_by_freq", true}})
            .no_gradient();
      })
      .error<ValueError>("mode",
                         [](Inputs& in) {
                           in.add({in.index({3, 4}, 5), in.tensor({5, 3})}, {{"mode", "prod"}});
                         })
      .error<ValueError>(
          "per_sample_weights",
          [](Inputs& in) {
            in.add({in.index({3, 4}, 5), in.tensor({5, 3})}, {{"per_sample_weights", in.tensor({3, 4})}});
          })
      .error<ShapeError>("per_sample_weights",
                         [](Inputs& in) {
                           in.add({in.index({3, 4}, 5), in.tensor({5, 3})}, {{"per_sample_weights", in.tensor({3})}});
                         })
      .error<ShapeError>("offsets",
                         [](Inputs& in) {
                           in.add({in.index({3}, 5), in.tensor({5, 3})});
                         })
      .error<ShapeError>("offsets",
                         [](Inputs& in) {
                           in.add({in.index({3, 4}, 5), in.tensor({5, 3}), in.integers({0})});
                         })
      .error<ValueError>(
          "scale_grad_by_freq",
          [](Inputs& in) {
            in.add({in.index({3, 4}, 5), in.tensor({5, 3})}, {{"mode", "max"}, {"scale_grad_by_freq", true}});
          })
      .error<ValueError>("padding_idx",
                         [](Inputs& in) {
                           in.add({in.index({3, 4}, 5), in.tensor({5, 3})}, {{"padding_idx", 5}});
                         })
      .error<DtypeError>("input", [](Inputs& in) {
        in.add({in.tensor({3, 4}), in.tensor({5, 3})});
      });
}

}  // namespace

TENON_OP_CASES(fold) {
  fold_rows();
  bag_rows();
}
