// SPDX-License-Identifier: Apache-2.0
// Rows of ops/convolution.h. Expected values come from the definition: every pair of a big and a small place that meet in a
// tap, whichever of the three tensors is asked for.
#include <tenon/ops/convolution.h>

#include "tests/support/op_case.h"

#include <algorithm>
#include <cmath>

using namespace tenon;
using namespace tenon::testing;

namespace {

using Sizes = std::vector<int64_t>;

struct Spec {
  Sizes stride, padding, dilation;  // padding before the first element
  int64_t groups = 1;
};

// Sums of products in double or wrapping integers.
struct Sums {
  Array out;
  std::vector<uint64_t> whole;
  std::vector<double> terms;
  explicit Sums(Array a) : out(std::move(a)), whole(out.data.size(), 0), terms(out.data.size(), 0) {
    out.scale.assign(out.data.size(), 0);
    for (Number& v : out.data) v = is_integral(out.dtype) ? Number(int64_t{0}) : Number(Complex(0));
  }
  void add(int64_t at, const Number& x, const Number& y) {
    const auto i = static_cast<std::size_t>(at);
    out.data[i].z += x.z * y.z;
    whole[i] += static_cast<uint64_t>(x.i) * static_cast<uint64_t>(y.i);
    out.scale[i] += std::abs(x.z) * std::abs(y.z);
    terms[i] += 1;
  }
  Array finish() {
    for (std::size_t i = 0; i < whole.size(); ++i) {
      if (is_integral(out.dtype)) out.data[i] = convert(static_cast<int64_t>(whole[i]), kInt64, out.dtype);
      out.scale[i] *= std::max({1.0, std::sqrt(terms[i]) / 2, terms[i] / 32});
    }
    return std::move(out);
  }
};

// Calls f(big element, small element, weight element) for all that meet, as flat indices.
template <class F>
void each_product(const Sizes& big, const Sizes& small, const Sizes& weight, const Spec& s, F&& f) {
  const std::size_t rank = big.size() - 2;
  const int64_t width = weight[0] / s.groups;
  Sizes range = small;  // small index, then weight index but for its first
  range.insert(range.end(), weight.begin() + 1, weight.end());
  each_index(range, [&](const Sizes& i) {
    Sizes at{i[0], i[1] / width * weight[1] + i[rank + 2]}, w{i[1]};
    w.insert(w.end(), i.begin() + static_cast<int64_t>(rank) + 2, i.end());
    for (std::size_t d = 0; d < rank; ++d) {
      const int64_t place = i[d + 2] * s.stride[d] + i[rank + 3 + d] * s.dilation[d] - s.padding[d];
      if (place < 0 || place >= big[d + 2]) return;
      at.push_back(place);
    }
    f(flat_index(at, big), flat_index(Sizes(i.begin(), i.begin() + static_cast<int64_t>(rank) + 2), small),
      flat_index(w, weight));
  });
}

Sizes spread(Sizes list, std::size_t rank) {
  if (list.size() == 1) list.resize(rank, list[0]);
  return list;
}

Array with_batch(Array a, std::size_t rank) {
  if (a.sizes.size() == rank + 1) a.sizes.insert(a.sizes.begin(), 1);
  return a;
}

// Sizes of the result; `padding` on both sides together.
Sizes out_sizes(const Array& input, const Array& weight, const Spec& s, const Sizes& padding, bool transposed,
                const Sizes& extra) {
  Sizes out{input.sizes[0], transposed ? weight.sizes[1] * s.groups : weight.sizes[0]};
  for (std::size_t d = 0; d < s.stride.size(); ++d) {
    const int64_t n = input.sizes[d + 2], reach = (weight.sizes[d + 2] - 1) * s.dilation[d];
    out.push_back(transposed ? (n - 1) * s.stride[d] - padding[d] + reach + 1 + extra[d]
                             : (n + padding[d] - reach - 1) / s.stride[d] + 1);
  }
  return out;
}

Array convolved(Array input, const Array& weight, const Array& bias, const Spec& s, const Sizes& padding,
                bool transposed, const Sizes& extra) {
  const std::size_t rank = s.stride.size();
  const bool alone = input.sizes.size() == rank + 1;
  input = with_batch(std::move(input), rank);
  Sums sums(make_array(input.dtype, out_sizes(input, weight, s, padding, transposed, extra)));
  const Sizes out = sums.out.sizes;
  each_product(transposed ? out : input.sizes, transposed ? input.sizes : out, weight.sizes, s,
               [&](int64_t b, int64_t m, int64_t w) {
                 sums.add(transposed ? b : m, input.data[static_cast<std::size_t>(transposed ? m : b)],
                          weight.data[static_cast<std::size_t>(w)]);
               });
  if (bias.defined())
    each_index(out, [&](const Sizes& i) {
      sums.add(flat_index(i, out), bias.data[static_cast<std::size_t>(i[1])],
               is_integral(bias.dtype) ? Number(int64_t{1}) : Number(1.0));
    });
  Array result = sums.finish();
  if (alone) result.sizes.erase(result.sizes.begin());
  return result;
}

Sizes doubled(Sizes v) {
  for (int64_t& x : v) x *= 2;
  return v;
}

std::vector<Array> plain(const Args& a) {
  const std::size_t rank = a.array(1).sizes.size() - 2;
  const Spec s{spread(a.ints(3), rank), spread(a.ints(4), rank), spread(a.ints(5), rank), a.integer(6)};
  return {convolved(a.array(0), a.array(1), a.array(2), s, doubled(s.padding), false, {})};
}
std::vector<Array> padded(const Args& a) {
  const Array weight = a.array(1);
  const std::size_t rank = weight.sizes.size() - 2;
  Spec s{spread(a.ints(3), rank), Sizes(rank, 0), spread(a.ints(5), rank), a.integer(6)};
  Sizes all(rank, 0);
  if (a.text(4) == "same")
    for (std::size_t d = 0; d < rank; ++d) {
      all[d] = (weight.sizes[d + 2] - 1) * s.dilation[d];
      s.padding[d] = all[d] / 2;
    }
  return {convolved(a.array(0), weight, a.array(2), s, all, false, {})};
}
std::vector<Array> transposed(const Args& a) {
  const std::size_t rank = a.array(1).sizes.size() - 2;
  const Spec s{spread(a.ints(3), rank), spread(a.ints(4), rank), spread(a.ints(7), rank), a.integer(6)};
  return {convolved(a.array(0), a.array(1), a.array(2), s, doubled(s.padding), true, spread(a.ints(5), rank))};
}

// Arguments from `first` on: stride, padding, dilation, transposed, output_padding, groups.
struct General {
  Spec spec;
  Sizes padding, extra;
  bool transposed;
  General(const Args& a, int first, std::size_t rank)
      : spec{spread(a.ints(first), rank), {}, spread(a.ints(first + 2), rank), a.integer(first + 5)},
        extra(spread(a.ints(first + 4), rank)),
        transposed(a.value(first + 3).number().to<bool>()) {
    const Sizes given = a.ints(first + 1);
    const bool two = given.size() == 2 * rank;
    spec.padding = two ? Sizes(given.begin(), given.begin() + static_cast<int64_t>(rank)) : spread(given, rank);
    for (std::size_t d = 0; d < rank; ++d)
      padding.push_back(spec.padding[d] + (two ? given[rank + d] : spec.padding[d]));
  }
};
std::vector<Array> general(const Args& a) {
  const General g(a, 3, a.array(1).sizes.size() - 2);
  return {convolved(a.array(0), a.array(1), a.array(2), g.spec, g.padding, g.transposed, g.extra)};
}
std::vector<Array> backward(const Args& a) {
  const Array grad = a.array(0), input = a.array(1), weight = a.array(2);
  const General g(a, 3, weight.sizes.size() - 2);
  Sums dx(make_array(input.dtype, input.sizes)), dw(make_array(input.dtype, weight.sizes)),
      db(make_array(input.dtype, {grad.sizes[1]}));
  const auto conjugate = [&](const Number& v) { return is_integral(input.dtype) ? v : Number(std::conj(v.z)); };
  each_product(g.transposed ? grad.sizes : input.sizes, g.transposed ? input.sizes : grad.sizes, weight.sizes, g.spec,
               [&](int64_t b, int64_t m, int64_t w) {
                 const int64_t in = g.transposed ? m : b, out = g.transposed ? b : m;
                 const Number& y = grad.data[static_cast<std::size_t>(out)];
                 dx.add(in, y, conjugate(weight.data[static_cast<std::size_t>(w)]));
                 dw.add(w, y, conjugate(input.data[static_cast<std::size_t>(in)]));
               });
  const Number one = is_integral(input.dtype) ? Number(int64_t{1}) : Number(1.0);
  each_index(grad.sizes, [&](const Sizes& i) {
    db.add(i[1], grad.data[static_cast<std::size_t>(flat_index(i, grad.sizes))], one);
  });
  const int64_t mask = a.integer(9);
  std::vector<Array> out{dx.finish(), dw.finish(), db.finish()};
  for (int64_t i = 0; i < 3; ++i)
    if ((mask >> i & 1) == 0) out[static_cast<std::size_t>(i)] = Array();
  return out;
}

// [n, c, ...] of `rank` spatial dimensions from the last numbers given.
Sizes shape(int64_t n, int64_t c, Sizes spatial, std::size_t rank) {
  Sizes s{n, c};
  s.insert(s.end(), spatial.end() - static_cast<int64_t>(rank), spatial.end());
  return s;
}
Tensor small_numbers(Inputs& in, const Sizes& s) { return in.tensor(s, -2, 2); }

Maker plain_samples(std::size_t rank) {
  return [rank](Inputs& in) {
    const auto x = [&](int64_t n, int64_t c, Sizes s) { return small_numbers(in, shape(n, c, std::move(s), rank)); };
    const auto bias = [&](int64_t n) { return small_numbers(in, {n}); };
    in.add({x(2, 3, {3, 4, 5}), x(2, 3, {2, 1, 3}), bias(2)});
    in.add({x(1, 4, {4, 5, 6}), x(6, 2, {1, 3, 2})}, {{"groups", 2}, {"stride", 2}, {"padding", 1}});
    in.add({x(2, 2, {2, 5, 4}), x(4, 1, {2, 3, 2}), bias(4)}, {{"groups", 2}, {"padding", 2}, {"dilation", 2}});
    in.add({small_numbers(in, shape(0, 3, {4, 4, 4}, rank)), x(2, 3, {2, 2, 2}), bias(2)});
    Sizes alone = shape(1, 3, {2, 3, 4}, rank);
    alone.erase(alone.begin());
    in.add({small_numbers(in, alone), x(4, 3, {1, 2, 3}), bias(4)}, {{"padding", 3}, {"stride", 3}});
    in.add({x(1, 3, {1, 1, 2}), x(2, 3, {1, 1, 1}), bias(2)});
    // Enough channels for vectors of them, uneven ones too; rows beyond a vector.
    in.add({x(1, 5, {1, 4, 5}), x(17, 5, {1, 3, 3}), bias(17)}, {{"padding", rank == 3 ? ints({0, 1, 1}) : 1}})
        .no_gradient();
    in.add({x(1, 8, {1, 4, 7}), x(24, 4, {1, 2, 3})}, {{"groups", 2}, {"stride", 2}, {"padding", 1}}).no_gradient();
    in.add({x(1, 2, {1, 4, 70}), x(2, 1, {1, 2, 3}), bias(2)}, {{"groups", 2}, {"padding", 0}}).no_gradient();
    in.add({x(1, 2, {1, 3, 200}), x(4, 1, {1, 2, 3}), bias(4)},
           {{"groups", 2}, {"stride", rank == 1 ? ints({3}) : 3}, {"padding", 1}})
        .no_gradient();
    in.add({x(1, 4, {1, 12, 13}), x(5, 4, {1, 1, 1}), bias(5)}).no_gradient();
    in.add({x(1, 1, {1, 6, 9}), x(9, 1, {1, 3, 3})}).no_gradient();
  };
}
Maker padded_samples(std::size_t rank) {
  return [rank](Inputs& in) {
    const auto x = [&](int64_t n, int64_t c, Sizes s) { return small_numbers(in, shape(n, c, std::move(s), rank)); };
    in.add({x(2, 2, {3, 4, 5}), x(2, 2, {2, 1, 4}), small_numbers(in, {2})}, {{"padding", "same"}});
    in.add({x(1, 4, {3, 4, 5}), x(2, 2, {1, 3, 3})}, {{"padding", "same"}, {"groups", 2}, {"dilation", 2}});
    in.add({x(1, 2, {3, 4, 5}), x(2, 2, {2, 3, 2})}, {{"padding", "valid"}, {"stride", 2}});
    Sizes alone = shape(1, 2, {2, 3, 4}, rank);
    alone.erase(alone.begin());
    in.add({small_numbers(in, alone), x(1, 2, {1, 1, 2})}, {{"padding", "same"}});
  };
}
Maker transposed_samples(std::size_t rank) {
  return [rank](Inputs& in) {
    const auto x = [&](int64_t n, int64_t c, Sizes s) { return small_numbers(in, shape(n, c, std::move(s), rank)); };
    in.add({x(2, 3, {2, 3, 4}), x(3, 2, {2, 1, 3}), small_numbers(in, {2})});
    in.add({x(1, 4, {3, 2, 3}), x(4, 3, {2, 3, 2})},
           {{"groups", 2}, {"stride", 2}, {"padding", 1}, {"output_padding", 1}});
    in.add({x(2, 2, {2, 1, 3}), x(2, 1, {2, 3, 3}), small_numbers(in, {2})},
           {{"groups", 2}, {"dilation", 2}, {"output_padding", 1}});
    in.add({small_numbers(in, shape(0, 3, {2, 2, 2}, rank)), x(3, 2, {2, 2, 2})});
    Sizes alone = shape(1, 3, {2, 1, 4}, rank);
    alone.erase(alone.begin());
    in.add({small_numbers(in, alone), x(3, 2, {1, 2, 2}), small_numbers(in, {2})}, {{"stride", 3}});
    in.add({x(1, 5, {1, 3, 4}), x(5, 17, {1, 3, 3}), small_numbers(in, {17})},
           {{"stride", rank == 3 ? ints({1, 2, 2}) : 2}, {"padding", rank == 3 ? ints({0, 1, 1}) : 1}})
        .no_gradient();
    in.add({x(1, 2, {1, 3, 70}), x(2, 1, {1, 3, 3})}, {{"groups", 2}, {"stride", rank == 3 ? ints({1, 1, 2}) : 2}})
        .no_gradient();
    in.add({x(1, 4, {1, 12, 13}), x(4, 5, {1, 1, 1}), small_numbers(in, {5})}).no_gradient();
  };
}

template <class Op, class Padded>
void rows(const Op& op, const Padded& with_text, std::size_t rank) {
  const auto x = [rank](Inputs& in, int64_t n, int64_t c, int64_t s) {
    return in.tensor(shape(n, c, {s, s, s}, rank));
  };
  const std::string what = rank == 1 ? "1" : rank == 2 ? "2" : "3";
  op_case(op)
      .dtypes(kNumbers)
      .gradient()
      .ulp(8)
      .reference(plain)
      .samples(plain_samples(rank))
      .benchmark([rank](Inputs& in) {
        in.add({in.tensor(shape(4, 32, {8, 28, 28}, rank)), in.tensor(shape(32, 32, {3, 3, 3}, rank))},
               {{"padding", 1}});
      })
      .template error<ShapeError>("channels",
                                  [x](Inputs& in) {
                                    in.add({x(in, 1, 3, 4), x(in, 2, 2, 3)});
                                  })
      .template error<ShapeError>("groups",
                                  [x](Inputs& in) {
                                    in.add({x(in, 1, 6, 4), x(in, 4, 2, 3)}, {{"groups", 3}});
                                  })
      .template error<ShapeError>("too small",
                                  [x](Inputs& in) {
                                    in.add({x(in, 1, 2, 2), x(in, 2, 2, 5)}, {{"padding", 1}});
                                  })
      .template error<ShapeError>("bias",
                                  [x](Inputs& in) {
                                    in.add({x(in, 1, 2, 4), x(in, 2, 2, 3), in.tensor({3})});
                                  })
      .template error<ShapeError>("dimensions",
                                  [x](Inputs& in) {
                                    in.add({in.tensor({4}), x(in, 2, 2, 3)});
                                  })
      .template error<DtypeError>(
          "weight",
          [rank](Inputs& in) {
            in.add({in.tensor(shape(1, 2, {4, 4, 4}, rank)), in.tensor(shape(2, 2, {3, 3, 3}, rank), -1, 1, kFloat64)});
          })
      .template error<ValueError>("stride",
                                  [x](Inputs& in) {
                                    in.add({x(in, 1, 2, 4), x(in, 2, 2, 3)}, {{"stride", 0}});
                                  })
      .template error<ValueError>("padding",
                                  [x](Inputs& in) {
                                    in.add({x(in, 1, 2, 4), x(in, 2, 2, 3)}, {{"padding", -1}});
                                  })
      .template error<ValueError>("dilation",
                                  [x](Inputs& in) {
                                    in.add({x(in, 1, 2, 4), x(in, 2, 2, 3)}, {{"dilation", ints({1, 1, 1, 1})}});
                                  })
      .template error<ValueError>("groups", [x](Inputs& in) {
        in.add({x(in, 1, 2, 4), x(in, 2, 2, 3)}, {{"groups", 0}});
      });
  op_case(with_text)
      .dtypes(kNumbers)
      .gradient()
      .ulp(8)
      .reference(padded)
      .samples(padded_samples(rank))
      .template error<ValueError>("padding",
                                  [x](Inputs& in) {
                                    in.add({x(in, 1, 2, 4), x(in, 2, 2, 3)}, {{"padding", "full"}});
                                  })
      .template error<ValueError>("'same' needs stride 1", [x](Inputs& in) {
        in.add({x(in, 1, 2, 4), x(in, 2, 2, 3)}, {{"padding", "same"}, {"stride", 2}});
      });
}
template <class Op>
void transposed_rows(const Op& op, std::size_t rank) {
  const auto x = [rank](Inputs& in, int64_t n, int64_t c, int64_t s) {
    return in.tensor(shape(n, c, {s, s, s}, rank));
  };
  op_case(op)
      .dtypes(kNumbers)
      .gradient()
      .ulp(8)
      .reference(transposed)
      .samples(transposed_samples(rank))
      .benchmark([rank](Inputs& in) {
        in.add({in.tensor(shape(4, 32, {8, 14, 14}, rank)), in.tensor(shape(32, 32, {3, 3, 3}, rank))},
               {{"stride", 2}});
      })
      .template error<ShapeError>("channels",
                                  [x](Inputs& in) {
                                    in.add({x(in, 1, 3, 4), x(in, 2, 2, 3)});
                                  })
      .template error<ValueError>("output_padding",
                                  [x](Inputs& in) {
                                    in.add({x(in, 1, 2, 4), x(in, 2, 2, 3)}, {{"output_padding", 1}});
                                  })
      .template error<ShapeError>("too small", [x](Inputs& in) {
        in.add({x(in, 1, 2, 2), x(in, 2, 2, 2)}, {{"padding", 2}});
      });
}

}  // namespace

TENON_OP_CASES(convolution) {
  rows(op::conv1d, op::conv1d_padding, 1);
  rows(op::conv2d, op::conv2d_padding, 2);
  rows(op::conv3d, op::conv3d_padding, 3);
  transposed_rows(op::conv_transpose1d, 1);
  transposed_rows(op::conv_transpose2d, 2);
  transposed_rows(op::conv_transpose3d, 3);
  op_case(op::convolution)
      .dtypes(kNumbers)
      .gradient()
      .ulp(8)
      .reference(general)
      .samples([](Inputs& in) {
        in.add({in.tensor({2, 2, 4, 5}, -2, 2), in.tensor({3, 2, 2, 3}, -2, 2), in.tensor({3}), ints({2, 1}),
                ints({0, 1, 2, 0}), ints({1}), false, ints({0}), 1});
        in.add({in.tensor({1, 2, 5}, -2, 2), in.tensor({2, 3, 3}, -2, 2), Tensor(), ints({2}), ints({1, 0}), ints({1}),
                true, ints({1}), 1});
        in.add({in.tensor({2, 0, 4}, -2, 2), in.tensor({3, 0, 2}, -2, 2), in.tensor({3}), ints({1}), ints({0}),
                ints({1}), false, ints({0}), 1})
            .no_gradient();
      })
      .error<ShapeError>("weight", [](Inputs& in) {
        in.add({in.tensor({2, 3}), in.tensor({2, 3}), Tensor(), ints({1}), ints({0}), ints({1}), false, ints({0}), 1});
      });
  const auto gradients = [](bool channels) {
    return [channels](Inputs& in) {
      const auto add = [&](Sizes grad, Sizes x, Sizes w, Value stride, Value padding, Value dilation, bool transposed,
                           Value extra, int64_t groups, int64_t mask) -> Sample& {
        return in.add({small_numbers(in, grad), small_numbers(in, x), small_numbers(in, w), stride, padding, dilation,
                       transposed, extra, groups, mask});
      };
      if (!channels) {
        add({2, 3, 3, 3}, {2, 2, 4, 4}, {3, 2, 2, 2}, ints({1}), ints({0}), ints({1}), false, ints({0}), 1, 7);
        add({2, 4, 3}, {2, 4, 6}, {4, 1, 3}, ints({2}), ints({1}), ints({1}), false, ints({0}), 4, 7);
        add({1, 2, 5, 6}, {1, 3, 2, 3}, {3, 2, 3, 2}, ints({2}), ints({0}), ints({1}), true, ints({0}), 1, 7);
        add({1, 2, 2, 2, 2}, {1, 2, 3, 3, 3}, {2, 1, 2, 2, 2}, ints({1}), ints({0}), ints({1}), false, ints({0}), 2, 5);
        add({1, 2, 3}, {1, 2, 3}, {2, 2, 1}, ints({1}), ints({0}), ints({1}), false, ints({0}), 1, 2);
        add({0, 2, 3}, {0, 2, 3}, {2, 2, 1}, ints({1}), ints({0}), ints({1}), false, ints({0}), 1, 7).no_gradient();
        return;
      }
      add({1, 17, 4, 5}, {1, 5, 4, 5}, {17, 5, 3, 3}, ints({1}), ints({1}), ints({1}), false, ints({0}), 1, 7)
          .no_gradient();
      add({2, 24, 3, 4}, {2, 8, 5, 7}, {24, 4, 3, 2}, ints({2}), ints({1}), ints({1}), false, ints({0}), 2, 7)
          .no_gradient();
      add({1, 17, 5, 7}, {1, 6, 3, 4}, {6, 17, 3, 3}, ints({2}), ints({1}), ints({1}), true, ints({0}), 1, 7)
          .no_gradient();
      add({1, 2, 2, 66}, {1, 2, 4, 70}, {2, 1, 3, 5}, ints({1}), ints({0}), ints({1}), false, ints({0}), 2, 7)
          .no_gradient();
      add({1, 2, 2, 70}, {1, 2, 4, 140}, {2, 1, 3, 3}, ints({2}), ints({1}), ints({1}), false, ints({0}), 2, 7)
          .no_gradient();
      add({1, 5, 12, 13}, {1, 4, 12, 13}, {5, 4, 1, 1}, ints({1}), ints({0}), ints({1}), false, ints({0}), 1, 7)
          .no_gradient();
      add({2, 9, 3, 3}, {2, 7, 3, 3}, {9, 7, 1, 1}, ints({1}), ints({0}), ints({1}), false, ints({0}), 1, 7)
          .no_gradient();
      add({1, 8, 2, 4}, {1, 3, 4, 8}, {8, 3, 7, 7}, ints({2}), ints({3}), ints({1}), false, ints({0}), 1, 7)
          .no_gradient();
    };
  };
  op_case(op::convolution_backward)
      .dtypes(kNumbers)
      .gradient()
      .ulp(8)
      .reference(backward)
      .samples(gradients(false))
      .error<ShapeError>("grad_output", [](Inputs& in) {
        in.add({in.tensor({1, 2, 4}), in.tensor({1, 2, 4}), in.tensor({2, 2, 2}), ints({1}), ints({0}), ints({1}),
                false, ints({0}), 1});
      });
  op_case(op::convolution_backward, "of many channels")
      .dtypes(kNumbers)
      .gradient()
      .ulp(8)
      .reference(backward)
      .samples(gradients(false))
      .samples(gradients(true));
}
