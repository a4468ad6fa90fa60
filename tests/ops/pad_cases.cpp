// SPDX-License-Identifier: Apache-2.0
// Rows of ops/pad.h.
#include <tenon/ops/pad.h>

#include "tests/support/op_case.h"

#include <algorithm>

using namespace tenon;
using namespace tenon::testing;

namespace {

using Index = std::vector<int64_t>;
const Dtypes kSome = {kFloat64, kFloat32, kFloat16, kInt64, kUInt8, kBool, kComplex64};
const Dtypes kSummed = {kFloat64, kFloat32, kFloat16, kBFloat16, kComplex128};

int64_t before(const Index& pad, std::size_t rank, std::size_t d) {
  const std::size_t k = 2 * (rank - 1 - d);
  return k < pad.size() ? pad[k] : 0;
}
int64_t after(const Index& pad, std::size_t rank, std::size_t d) {
  const std::size_t k = 2 * (rank - 1 - d) + 1;
  return k < pad.size() ? pad[k] : 0;
}
Index grown(Index sizes, const Index& pad, int64_t sign = 1) {
  for (std::size_t d = 0; d < sizes.size(); ++d)
    sizes[d] += sign * (before(pad, sizes.size(), d) + after(pad, sizes.size(), d));
  return sizes;
}

// Where an index of the padded tensor lies in one of `sizes`: walking from it into the tensor step by step.
Index source(Index at, const Index& sizes, const Index& pad, const std::string& mode) {
  for (std::size_t d = 0; d < at.size(); ++d) {
    int64_t i = at[d] - before(pad, at.size(), d), low = 0, high = sizes[d];
    if (mode == "circular") {
      low = std::max<int64_t>(-before(pad, at.size(), d), 0);
      high -= std::max<int64_t>(-after(pad, at.size(), d), 0);
    }
    while (mode != "constant" && (i < low || i >= high)) {
      if (mode == "reflect") i = i < low ? 2 * low - i : 2 * (high - 1) - i;
      if (mode == "replicate") i = i < low ? low : high - 1;
      if (mode == "circular") i += i < low ? high - low : low - high;
    }
    at[d] = i;
  }
  return at;
}
bool inside(const Index& at, const Index& sizes) {
  for (std::size_t d = 0; d < at.size(); ++d)
    if (at[d] < 0 || at[d] >= sizes[d]) return false;
  return true;
}
Array padded(const Array& x, const Index& pad, const std::string& mode, Number value) {
  Array out = make_array(x.dtype, grown(x.sizes, pad));
  std::size_t n = 0;
  each_index(out.sizes, [&](const Index& at) {
    const Index from = source(at, x.sizes, pad, mode);
    out.data[n++] = inside(from, x.sizes) ? x.data[static_cast<std::size_t>(flat_index(from, x.sizes))] : value;
  });
  return out;
}
Array folded(const Array& grad, const Index& sizes, const Index& pad, const std::string& mode) {
  Array out = make_array(grad.dtype, sizes);
  out.scale.assign(out.data.size(), 0);
  std::size_t n = 0;
  each_index(grad.sizes, [&](const Index& at) {
    const auto to = static_cast<std::size_t>(flat_index(source(at, sizes, pad, mode), sizes));
    out.data[to].z += grad.data[n].z;
    out.scale[to] += std::abs(grad.data[n++].z);
  });
  return out;
}
Reference by_mode(int pad, int mode) {
  return [=](const Args& a) {
    return std::vector<Array>{padded(a.array(0), a.ints(pad), a.text(mode), Number(int64_t(0)))};
  };
}

struct Padding {
  Index sizes, pad;
  const char* mode = "";
};
const std::vector<Padding> kEdges = {
    {{2, 5}, {1, 2}, "reflect"},
    {{2, 3, 5}, {4, 4}, "reflect"},
    {{2, 3, 5}, {-1, 3}, "reflect"},
    {{2, 3, 5}, {-2, -1}, "reflect"},
    {{3, 4, 5}, {1, 0, 2, 3}, "reflect"},
    {{2, 2, 4, 5}, {2, 3, 1, -1}, "reflect"},
    {{2, 3, 2, 4}, {1, 2, 1, 0, 0, 1}, "reflect"},
    {{1, 2, 3, 4, 2}, {1, 1, 2, 1, 1, 2}, "reflect"},
    {{0, 3, 4}, {1, 1}, "reflect"},
    {{2, 5}, {7, 2}, "replicate"},
    {{2, 3, 5}, {5, -4}, "replicate"},
    {{2, 3, 5}, {-6, 9}, "replicate"},
    {{3, 4, 5}, {1, 0, 2, 6}, "replicate"},
    {{2, 2, 4, 5}, {2, 3, 1, -1}, "replicate"},
    {{1, 2, 3, 4, 2}, {1, 3, 2, 1, 1, 2}, "replicate"},
    {{0, 3, 4, 4}, {0, 2, 0, 1}, "replicate"},
    {{2, 5}, {5, 5}, "circular"},
    {{2, 3, 5}, {-1, 3}, "circular"},
    {{2, 3, 5}, {2, -4}, "circular"},
    {{2, 3, 5}, {-5, 0}, "circular"},
    {{2, 2, 4, 5}, {2, 3, 1, -1}, "circular"},
    {{1, 2, 3, 4, 2}, {1, 2, 2, 1, 1, 2}, "circular"},
    {{2, 0, 5}, {1, 1}, "circular"},
};

}  // namespace

TENON_OP_CASES(pad_constant) {
  op_case(op::constant_pad_nd)
      .dtypes(kAll)
      .gradient()
      .ulp(0)
      .reference([](const Args& a) {
        const Array x = a.array(0);
        return std::vector<Array>{padded(x, a.ints(1), "constant", convert(a.number(2), kFloat64, x.dtype))};
      })
      .samples([](Inputs& in) {
        in.add({in.tensor({3}), ints({1, 2})}, {{"value", 2.0}});
        in.add({in.tensor({2, 3, 4}), ints({-1, 1, -2, 1})}, {{"value", 3.0}});
        in.add({in.tensor({2, 3, 4}), ints({0, 0, 0, 0, 2, 1})});
        in.add({in.tensor({2, 3}), ints({})}, {{"value", 1.0}});
        in.add({in.tensor({2, 3}), ints({-1, -1})});
        in.add({in.tensor({2, 3}), ints({-3, 0})});
        in.add({in.tensor({0, 3}), ints({1, 1, 2, 0})}, {{"value", 1.0}});
        in.add({in.tensor({}), ints({})});
        in.add({in.tensor({2, 3, 4, 5}).contiguous(MemoryFormat::channels_last), ints({1, 2, 3, 1})}).no_gradient();
      })
      .error<ShapeError>("pad",
                         [](Inputs& in) {
                           in.add({in.tensor({2, 3}), ints({1})});
                         })
      .error<ShapeError>("pad",
                         [](Inputs& in) {
                           in.add({in.tensor({2}), ints({1, 1, 1, 1})});
                         })
      .error<ShapeError>("pad",
                         [](Inputs& in) {
                           in.add({in.tensor({2, 3}), ints({-2, -2})});
                         })
      .error<ShapeError>("pad",
                         [](Inputs& in) {
                           in.add({in.tensor({2, 3}), ints({INT64_MAX, 1})});
                         })
      .error<ValueError>(
          "value",
          [](Inputs& in) {
            in.add({in.tensor({2}), ints({1, 1})}, {{"value", 300}});
          },
          kUInt8)
      .benchmark([](Inputs& in) {
        in.add({in.tensor({32, 64, 56, 56}), ints({1, 1, 1, 1})});
      });
}

TENON_OP_CASES(pad_edges) {
  const auto edges = [](const char* only, std::size_t numbers, auto add) {
    return [=](Inputs& in) {
      for (const Padding& p : kEdges)
        if ((!*only || std::string(p.mode) == only) && (!numbers || p.pad.size() == numbers)) add(in, p);
    };
  };
  const auto named = [](Inputs& in, const Padding& p) { in.add({in.tensor(p.sizes), ints(p.pad), Value(p.mode)}); };
  for (const bool front : {false, true}) {
    OpCase& row = front ? op_case(op::pad) : op_case(op::pad_edges);
    row.dtypes(kSome).gradient().ulp(0).reference(by_mode(1, 2)).samples(edges("", 0, named));
    row.samples([](Inputs& in) {
      in.add({in.tensor({2, 3, 40, 70}), ints({9, 1, 3, 4}), Value("reflect")}).no_gradient();
      in.add({in.tensor({2, 3, 4, 5}).contiguous(MemoryFormat::channels_last), ints({1, 2, 3, 1}), Value("reflect")})
          .no_gradient();
      in.add({in.tensor({2, 19, 4, 5}).contiguous(MemoryFormat::channels_last), ints({1, 2, 3, 1}), Value("circular")})
          .no_gradient();
    });
    row.error<ShapeError>("pad",
                          [](Inputs& in) {
                            in.add({in.tensor({2, 3, 4}), ints({4, 0}), Value("reflect")});
                          })
        .error<ShapeError>("pad",
                           [](Inputs& in) {
                             in.add({in.tensor({2, 3, 4}), ints({5, 0}), Value("circular")});
                           })
        .error<ShapeError>("pad",
                           [](Inputs& in) {
                             in.add({in.tensor({2, 3, 4}), ints({-2, -2}), Value("replicate")});
                           })
        .error<ShapeError>("pad",
                           [](Inputs& in) {
                             in.add({in.tensor({2, 3, 4}), ints({1}), Value("reflect")});
                           })
        .error<ShapeError>("self",
                           [](Inputs& in) {
                             in.add({in.tensor({3}), ints({1, 1}), Value("reflect")});
                           })
        .error<ShapeError>("self",
                           [](Inputs& in) {
                             in.add({in.tensor({2, 0, 4}), ints({1, 1}), Value("reflect")});
                           })
        .error<ShapeError>("self",
                           [](Inputs& in) {
                             in.add({in.tensor({2, 3, 0}), ints({1, 0}), Value("replicate")});
                           })
        .error<ValueError>("mode",
                           [](Inputs& in) {
                             in.add({in.tensor({2, 3}), ints({1, 1}), Value("mirror")});
                           })
        .benchmark([](Inputs& in) {
          in.add({in.tensor({32, 64, 56, 56}), ints({1, 1, 1, 1}), Value("reflect")});
        });
    if (front)
      row.error<ValueError>("value", [](Inputs& in) {
        in.add({in.tensor({2, 3}), ints({1, 1}), Value("reflect"), Value(1.0)});
      });
  }
  op_case(op::pad, "constant")
      .dtypes(kSome)
      .gradient()
      .ulp(0)
      .reference([](const Args& a) {
        const Array x = a.array(0);
        const Number value = a.is_none(3) ? Number(int64_t(0)) : convert(a.number(3), kFloat64, x.dtype);
        return std::vector<Array>{padded(x, a.ints(1), "constant", value)};
      })
      .samples([](Inputs& in) {
        in.add({in.tensor({2, 3, 4}), ints({-1, 1, 2, 1})});
        in.add({in.tensor({2, 3, 4}), ints({1, 1}), Value("constant"), Value(2.0)});
      })
      .error<ShapeError>("pad", [](Inputs& in) {
        in.add({in.tensor({2, 3}), ints({1, 1, 1})});
      });
  op_case(op::pad_edges_backward)
      .dtypes(kSummed)
      .gradient()
      .reference([](const Args& a) {
        const Array grad = a.array(0);
        return std::vector<Array>{folded(grad, grown(grad.sizes, a.ints(1), -1), a.ints(1), a.text(2))};
      })
      .samples(edges("", 0, [](Inputs& in, const Padding& p) {
        in.add({in.tensor(grown(p.sizes, p.pad)), ints(p.pad), Value(p.mode)});
      }));

  const Maker circular = edges("circular", 0, [](Inputs& in, const Padding& p) {
    in.add({in.tensor(p.sizes), ints(p.pad)});
  });
  op_case(op::pad_circular)
      .dtypes(kSome)
      .gradient()
      .ulp(0)
      .reference([](const Args& a) {
        return std::vector<Array>{padded(a.array(0), a.ints(1), "circular", Number(int64_t(0)))};
      })
      .samples(circular)
      .error<ShapeError>("pad", [](Inputs& in) {
        in.add({in.tensor({2, 3}), ints({1, 4})});
      });
  op_case(op::pad_enum)
      .dtypes(kSome)
      .gradient()
      .ulp(0)
      .reference([](const Args& a) {
        const char* const modes[] = {"reflect", "replicate", "circular", "constant"};
        return std::vector<Array>{padded(a.array(0), a.ints(1), modes[a.integer(2)], Number(int64_t(0)))};
      })
      .samples([](Inputs& in) {
        for (const int64_t mode : {0, 1, 2, 3}) in.add({in.tensor({2, 3, 4}), ints({2, 1}), Value(mode)});
      })
      .error<ValueError>("mode", [](Inputs& in) {
        in.add({in.tensor({2, 3}), ints({1, 1}), Value(int64_t(4))});
      });

  const auto family = [&](OpCase& row, OpCase& back, const char* mode, std::size_t numbers) {
    const std::string m = mode;
    const Maker forwards = edges(mode, numbers, [](Inputs& in, const Padding& p) {
      in.add({in.tensor(p.sizes), ints(p.pad)});
    });
    const Maker backwards = edges(mode, numbers, [](Inputs& in, const Padding& p) {
      in.add({in.tensor(grown(p.sizes, p.pad)), in.tensor(p.sizes), ints(p.pad)});
    });
    row.dtypes(kSome)
        .gradient()
        .ulp(0)
        .reference(
            [m](const Args& a) { return std::vector<Array>{padded(a.array(0), a.ints(1), m, Number(int64_t(0)))}; })
        .samples(forwards)
        .error<ShapeError>("padding",
                           [](Inputs& in) {
                             in.add({in.tensor({2, 3, 4}), ints({1})});
                           })
        .error<ShapeError>("self", [=](Inputs& in) {
          in.add({in.tensor({}), ints(Index(numbers, 1))});
        });
    back.dtypes(kSummed)
        .gradient()
        .gradient_of(1)
        .reference(
            [m](const Args& a) { return std::vector<Array>{folded(a.array(0), a.array(1).sizes, a.ints(2), m)}; })
        .samples(backwards)
        .error<ShapeError>("grad_output", [=](Inputs& in) {
          const Index sizes = {2, 3, 4, 5};
          in.add({in.tensor({1}), in.tensor(Index(sizes.begin(), sizes.begin() + 1 + int64_t(numbers / 2))),
                  ints(Index(numbers, 1))});
        });
  };
  family(op_case(op::reflection_pad1d), op_case(op::reflection_pad1d_backward), "reflect", 2);
  family(op_case(op::reflection_pad2d), op_case(op::reflection_pad2d_backward), "reflect", 4);
  family(op_case(op::reflection_pad3d), op_case(op::reflection_pad3d_backward), "reflect", 6);
  family(op_case(op::replication_pad1d), op_case(op::replication_pad1d_backward), "replicate", 2);
  family(op_case(op::replication_pad2d), op_case(op::replication_pad2d_backward), "replicate", 4);
  family(op_case(op::replication_pad3d), op_case(op::replication_pad3d_backward), "replicate", 6);
}
