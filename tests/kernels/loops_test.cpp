// SPDX-License-Identifier: Apache-2.0
// elementwise() on random plans against a walk that computes every address from its index.
#include "tests/support/catch.h"

#include <tenon/kernels/cpu/loops.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

using namespace tenon;

namespace {

struct Array {
  std::vector<char> bytes;
  DType dtype;
  std::vector<int64_t> strides;  // bytes, innermost first
};

float load(const char* p, DType t) {
  switch (t) {
    case kFloat16: {
      float16 v;
      std::memcpy(&v, p, 2);
      return v;
    }
    case kBFloat16: {
      bfloat16 v;
      std::memcpy(&v, p, 2);
      return v;
    }
    case kBool:
      return *p ? 1.f : 0.f;
    default: {
      float v;
      std::memcpy(&v, p, 4);
      return v;
    }
  }
}
void store(char* p, DType t, float f) {
  switch (t) {
    case kFloat16: {
      const float16 v(f);
      std::memcpy(p, &v, 2);
      break;
    }
    case kBFloat16: {
      const bfloat16 v(f);
      std::memcpy(p, &v, 2);
      break;
    }
    case kBool:
      *p = f != 0;
      break;
    default:
      std::memcpy(p, &f, 4);
  }
}

// A layout of `shape`: dimensions in random order, random gaps, inputs broadcast along some dimensions.
Array make_array(std::mt19937& rng, const std::vector<int64_t>& shape, DType dtype, bool output, bool plain) {
  Array a{{}, dtype, std::vector<int64_t>(shape.size(), 0)};
  std::vector<std::size_t> order(shape.size());
  for (std::size_t d = 0; d < order.size(); ++d) order[d] = d;
  if (!plain && rng() % 2) std::shuffle(order.begin(), order.end(), rng);
  int64_t step = item_size(dtype) * (!plain && rng() % 4 == 0 ? 3 : 1);
  for (const std::size_t d : order) {
    if (!output && !plain && rng() % 3 == 0) continue;
    a.strides[d] = step;
    step *= shape[d] + (!plain && rng() % 4 == 0 ? 2 : 0);
  }
  a.bytes.resize(static_cast<std::size_t>(std::max<int64_t>(step, 16)));
  std::uniform_real_distribution<float> value(-4, 4);
  for (std::size_t p = 0; p + static_cast<std::size_t>(item_size(dtype)) <= a.bytes.size();
       p += static_cast<std::size_t>(item_size(dtype)))
    store(&a.bytes[p], dtype, dtype == kBool ? static_cast<float>(rng() % 2) : value(rng));
  return a;
}

int64_t offset(const Array& a, const std::vector<int64_t>& shape, int64_t position) {
  int64_t o = 0;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    o += position % shape[d] * a.strides[d];
    position /= shape[d];
  }
  return o;
}

void fill_plan(LoopPlan& plan, const std::vector<int64_t>& shape, std::vector<Array*> arrays, int outputs) {
  plan.ndim = static_cast<int>(shape.size());
  plan.operands = static_cast<int>(arrays.size());
  plan.outputs = outputs;
  plan.numbers = 0;
  plan.numel = 1;
  plan.contiguous = shape.size() <= 1;
  for (int d = 0; d < plan.ndim; ++d) plan.numel *= plan.shape[d] = shape[static_cast<std::size_t>(d)];
  for (int i = 0; i < plan.operands; ++i) {
    const Array& a = *arrays[static_cast<std::size_t>(i)];
    plan.data[i] = const_cast<char*>(a.bytes.data());
    plan.dtype[i] = a.dtype;
    for (int d = 0; d < plan.ndim; ++d) plan.strides[i][d] = a.strides[static_cast<std::size_t>(d)];
    plan.contiguous = plan.contiguous && (a.strides[0] == item_size(a.dtype) || (i >= outputs && a.strides[0] == 0));
  }
}

}  // namespace

TEST_CASE("elementwise reaches every element of any plan") {
  std::mt19937 rng(tenon::testing::seed());
  const DType float_types[] = {kFloat32, kFloat16, kBFloat16};
  const std::vector<std::vector<int64_t>> shapes = {{1},        {5},      {64},        {1000},       {100003},
                                                    {3, 7},     {40, 20}, {33, 17, 5}, {2, 3, 4, 5}, {257, 130},
                                                    {3, 40000}, {1, 1},   {2048, 48}};
  for (int round = 0; round < 300; ++round) {
    const auto& shape = shapes[rng() % shapes.size()];
    const bool plain = rng() % 4 == 0;
    const DType t = float_types[rng() % 3];
    Array a = make_array(rng, shape, t, false, plain), b = make_array(rng, shape, t, false, plain),
          c = make_array(rng, shape, kBool, false, plain), out = make_array(rng, shape, t, true, plain),
          flag = make_array(rng, shape, kBool, true, plain);
    const Array before = out;
    LoopPlan plan;
    int64_t wrong = 0, numel = 1;
    for (const int64_t s : shape) numel *= s;
    CAPTURE(shape.size(), shape[0], plain, name(t), round);

    const auto check = [&](auto expected) {
      for (int64_t i = 0; i < numel; ++i) {
        char reference[4];
        store(reference, t, expected(i));
        wrong += std::memcmp(reference, &out.bytes[static_cast<std::size_t>(offset(out, shape, i))],
                             static_cast<std::size_t>(item_size(t))) != 0;
      }
      CHECK(wrong == 0);
    };
    const auto at = [&](const Array& x, int64_t i) {
      return load(&x.bytes[static_cast<std::size_t>(offset(x, shape, i))], x.dtype);
    };

    fill_plan(plan, shape, {&out, &a}, 1);
    cpu::elementwise(plan, [](float v) { return v * 3 + 1; });
    check([&](int64_t i) { return at(a, i) * 3 + 1; });

    fill_plan(plan, shape, {&out, &a, &b}, 1);
    cpu::elementwise(
        plan, [](float v, float w) { return v - w; }, 4096);
    check([&](int64_t i) { return at(a, i) - at(b, i); });

    fill_plan(plan, shape, {&out, &c, &a, &b}, 1);
    cpu::elementwise(plan, [](bool k, float v, float w) { return k ? v : w; });
    check([&](int64_t i) { return at(c, i) != 0 ? at(a, i) : at(b, i); });

    fill_plan(plan, shape, {&out, &flag, &a}, 2);  // two outputs, one of another dtype
    cpu::elementwise(plan, [](float v) { return cpu::Pair<float, bool>{-v, v > 0}; });
    check([&](int64_t i) { return -at(a, i); });
    for (int64_t i = 0; i < numel; ++i) wrong += at(flag, i) != (at(a, i) > 0 ? 1.f : 0.f);
    CHECK(wrong == 0);

    fill_plan(plan, shape, {&out, &a}, 1);  // a number in place of the second input
    plan.operands = 3;
    plan.numbers = 4;
    plan.dtype[2] = kFloat32;
    const float number = 0.75f;
    std::memcpy(plan.number[2], &number, 4);
    plan.data[2] = reinterpret_cast<char*>(plan.number[2]);
    for (int d = 0; d < plan.ndim; ++d) plan.strides[2][d] = 0;
    cpu::elementwise(plan, [](float v, float w) { return v * w; });
    check([&](int64_t i) { return at(a, i) * number; });

    Array self = before;  // in place: the output is the first input
    fill_plan(plan, shape, {&self, &self, &b}, 1);
    cpu::elementwise(plan, [](float v, float w) { return v + w; });
    out = self;
    check([&](int64_t i) { return at(before, i) + at(b, i); });
  }
}

TEST_CASE("elementwise writes large results around the caches") {
  std::mt19937 rng(tenon::testing::seed());
  for (const DType t : {kFloat32, kBFloat16})
    for (const bool transposed : {false, true}) {
      const std::vector<int64_t> shape =
          t == kFloat32 ? std::vector<int64_t>{2099, 2111} : std::vector<int64_t>{3001, 3011};
      const int64_t numel = shape[0] * shape[1], size = item_size(t);
      Array a = make_array(rng, shape, t, false, true), out = make_array(rng, shape, t, true, true);
      a.strides =
          transposed ? std::vector<int64_t>{size * shape[1], size} : std::vector<int64_t>{size, size * shape[0]};
      a.bytes.resize(static_cast<std::size_t>(numel * size));
      for (int64_t i = 0; i < numel; ++i)
        store(&a.bytes[static_cast<std::size_t>(i * size)], t, static_cast<float>(i % 251) - 100);
      out.strides = {size, size * shape[0]};
      out.bytes.assign(static_cast<std::size_t>(numel * size) + 64, 77);
      LoopPlan plan;
      fill_plan(plan, shape, {&out, &a}, 1);
      if (!transposed) {  // one dimension, and not aligned
        plan.ndim = 1;
        plan.shape[0] = numel;
        plan.contiguous = true;
        plan.data[0] += size;
      }
      cpu::elementwise(plan, [](float v) { return v * 2; });
      int64_t wrong = 0;
      for (int64_t i = 0; i < numel; ++i)
        wrong += load(&out.bytes[static_cast<std::size_t>(i * size + (transposed ? 0 : size))], t) !=
                 2 * load(&a.bytes[static_cast<std::size_t>(transposed ? offset(a, shape, i) : i * size)], t);
      CAPTURE(name(t), transposed);
      CHECK(wrong == 0);
      for (std::size_t i = static_cast<std::size_t>(numel * size) + (transposed ? 0 : static_cast<std::size_t>(size));
           i < out.bytes.size(); ++i)
        wrong += out.bytes[i] != 77;
      CHECK(wrong == 0);
    }
}

TEST_CASE("elementwise refuses arrays of another dtype") {
  std::mt19937 rng(1);
  Array a = make_array(rng, {8}, kFloat32, false, true), out = make_array(rng, {8}, kFloat32, true, true);
  a.dtype = kInt32;
  LoopPlan plan;
  fill_plan(plan, {8}, {&out, &a}, 1);
  CHECK_THROWS_AS(cpu::elementwise(plan, [](float v) { return v; }), DtypeError);
}
