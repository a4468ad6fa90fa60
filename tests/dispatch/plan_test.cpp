// SPDX-License-Identifier: Apache-2.0
// Loop and reduce plans against naive index arithmetic, overlap against sets of addresses; random geometries.
#include <tenon/dispatch/loop_plan.h>
#include <tenon/dispatch/make_tensor.h>
#include <tenon/dispatch/reduce_plan.h>
#include <tenon/ops/binary.h>
#include <tenon/ops/factory.h>
#include <tenon/ops/view.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "tests/support/catch.h"

using namespace tenon;
using namespace tenon::dispatch;
using tenon::testing::seed;

namespace {

using Sizes = std::vector<int64_t>;

// Every element's address, in logical order, broadcast to `shape`.
std::vector<const char*> addresses(const Tensor& t, const Sizes& shape) {
  std::vector<const char*> list;
  Sizes at(shape.size(), 0);
  int64_t n = 1;
  for (const int64_t s : shape) n *= s;
  const auto lead = static_cast<int64_t>(shape.size()) - t.dim();
  for (; n > 0; --n) {
    int64_t offset = 0;
    for (int64_t d = 0; d < t.dim(); ++d) offset += t.sizes()[d] == 1 ? 0 : at[lead + d] * t.strides()[d];
    list.push_back(static_cast<const char*>(t.data_ptr()) + offset * t.itemsize());
    for (std::size_t d = shape.size(); d-- > 0;) {
      if (++at[d] < shape[d]) break;
      at[d] = 0;
    }
  }
  return list;
}

// A view of random geometry into one buffer of 4096 elements.
Tensor random_view(std::mt19937& random, const Sizes& sizes, bool allow_expanded) {
  const auto below = [&](int64_t n) { return static_cast<int64_t>(random() % static_cast<uint64_t>(n)); };
  static const Tensor buffer = zeros({1 << 16});
  Sizes order(sizes.size()), strides(sizes.size());
  for (std::size_t d = 0; d < order.size(); ++d) order[d] = static_cast<int64_t>(d);
  std::shuffle(order.begin(), order.end(), random);
  int64_t step = 1 + below(2);
  for (const int64_t d : order) {
    strides[d] = step;
    step *= sizes[d] + below(2);
    if (allow_expanded && below(6) == 0) strides[d] = 0;
  }
  return as_strided(buffer, sizes, strides, below(50));
}
Sizes random_sizes(std::mt19937& random, int rank) {
  Sizes s;
  for (int d = 0; d < rank; ++d) s.push_back(1 + static_cast<int64_t>(random() % 4));
  return s;
}

}  // namespace

TEST_CASE("a loop plan visits the same tuples of addresses as nested loops") {
  std::mt19937 random(seed());
  for (int round = 0; round < 600; ++round) {
    const Sizes shape = random_sizes(random, static_cast<int>(random() % 6));
    std::vector<Tensor> tensors = {random_view(random, shape, false)};
    for (int k = 0; k < 2; ++k) {
      Sizes own = shape;  // some sizes 1, some leading ones missing: it broadcasts
      for (auto& s : own) s = random() % 3 == 0 ? 1 : s;
      if (!own.empty() && random() % 3 == 0) own.erase(own.begin());
      tensors.push_back(random_view(random, own, true));
    }
    std::vector<PlanOperand> operands;
    for (const Tensor& t : tensors) operands.push_back({&t, nullptr, t.dtype()});
    LoopPlan plan;
    make_plan(plan, shape, operands, 1);
    std::vector<std::vector<const char*>> expected;
    for (const Tensor& t : tensors) expected.push_back(addresses(t, shape));
    std::set<std::vector<const char*>> want, got;
    for (std::size_t i = 0; i < expected[0].size(); ++i) want.insert({expected[0][i], expected[1][i], expected[2][i]});
    REQUIRE(plan.numel == static_cast<int64_t>(expected[0].size()));
    int64_t product = 1;
    for (int d = 0; d < plan.ndim; ++d) product *= plan.shape[d];
    REQUIRE(product == plan.numel);
    for (int64_t n = 0; n < plan.numel; ++n) {
      std::vector<const char*> at(plan.data, plan.data + 3);
      int64_t rest = n;
      for (int d = 0; d < plan.ndim; ++d) {
        for (int k = 0; k < 3; ++k) at[k] += rest % plan.shape[d] * plan.strides[k][d];
        rest /= plan.shape[d];
      }
      got.insert(at);
    }
    INFO("round " << round << " of seed " << seed());
    REQUIRE(got == want);
    if (plan.contiguous) REQUIRE(plan.ndim <= 1);
  }
}

TEST_CASE("contiguous operands of any rank make one dimension") {
  const Tensor a = zeros({2, 3, 4, 5}), b = zeros({2, 3, 4, 5});
  const PlanOperand operands[] = {{&a, nullptr, kFloat32}, {&b, nullptr, kFloat32}};
  LoopPlan plan;
  make_plan(plan, a.sizes(), operands, 1);
  CHECK(plan.ndim == 1);
  CHECK(plan.contiguous);
  CHECK(plan.shape[0] == 120);
  const Tensor t = a.permute({3, 1, 0, 2}), u = b.permute({3, 1, 0, 2});
  const PlanOperand permuted[] = {{&t, nullptr, kFloat32}, {&u, nullptr, kFloat32}};
  LoopPlan same;
  make_plan(same, t.sizes(), permuted, 1);
  CHECK(same.ndim == 1);
  CHECK(same.contiguous);
}

TEST_CASE("a reduce plan gives every result the addresses of its elements, in order where asked") {
  std::mt19937 random(seed());
  for (int round = 0; round < 400; ++round) {
    const int rank = 1 + static_cast<int>(random() % 5);
    const Sizes shape = random_sizes(random, rank);
    const Tensor input = random_view(random, shape, true);
    const uint32_t mask = random() % (1u << rank);
    Sizes kept = shape;
    for (int d = 0; d < rank; ++d)
      if (mask >> d & 1u) kept[d] = 1;
    const Tensor out = zeros(kept);
    const bool keep_order = random() % 2 == 0;
    ReducePlan plan;
    make_plan(plan, input, {&out, 1}, mask, keep_order);
    std::map<const char*, std::vector<const char*>> want, got;
    const std::vector<const char*> from = addresses(input, shape), to = addresses(out, shape);
    for (std::size_t i = 0; i < from.size(); ++i) want[to[i]].push_back(from[i]);
    for (int64_t k = 0; k < plan.kept_numel; ++k) {
      const char *target = plan.output[0], *base = plan.input;
      int64_t rest = k;
      for (int d = 0; d < plan.kept_ndim; ++d) {
        target += rest % plan.kept_shape[d] * plan.output_strides[0][d];
        base += rest % plan.kept_shape[d] * plan.kept_strides[d];
        rest /= plan.kept_shape[d];
      }
      for (int64_t r = 0; r < plan.reduced_numel; ++r) {
        const char* p = base;
        rest = r;
        for (int d = 0; d < plan.reduced_ndim; ++d) {
          p += rest % plan.reduced_shape[d] * plan.reduced_strides[d];
          rest /= plan.reduced_shape[d];
        }
        got[target].push_back(p);
      }
    }
    if (!keep_order)
      for (auto* m : {&want, &got})
        for (auto& entry : *m) std::sort(entry.second.begin(), entry.second.end());
    INFO("round " << round << " of seed " << seed());
    REQUIRE(got == want);
  }
}

TEST_CASE("overlap never misses shared memory, and sees that rows, columns and halves are apart") {
  std::mt19937 random(seed());
  const Tensor buffer = zeros({400});
  int none = 0;
  for (int round = 0; round < 4000; ++round) {
    const int rank = 1 + static_cast<int>(random() % 2);
    const auto view = [&](const Sizes& strides) {
      Sizes sizes;
      for (int d = 0; d < rank; ++d) sizes.push_back(1 + static_cast<int64_t>(random() % 9));
      return as_strided(buffer, sizes, strides, static_cast<int64_t>(random() % 60));
    };
    Sizes strides;
    for (int d = 0; d < rank; ++d) strides.push_back(static_cast<int64_t>(random() % 12));
    const Tensor a = view(strides), b = random() % 2 ? view(strides) : view({strides.rbegin(), strides.rend()});
    const auto pa = addresses(a, a.sizes().vec()), pb = addresses(b, b.sizes().vec());
    const std::set<const char*> sa(pa.begin(), pa.end()), sb(pb.begin(), pb.end());
    bool shared = false;
    for (const char* p : sa) shared = shared || sb.count(p) != 0;
    INFO("round " << round << " of seed " << seed());
    const Overlap o = overlap(a, b);
    none += o == Overlap::none;
    if (shared) REQUIRE(o != Overlap::none);
    if (o == Overlap::full) REQUIRE(pa == pb);
    if (sa.size() != pa.size()) REQUIRE(overlaps_itself(a));
  }
  CHECK(none > 500);
  const Tensor m = zeros({6, 8});
  CHECK(overlap(m.select(0, 1), m.select(0, 2)) == Overlap::none);
  CHECK(overlap(m.select(1, 1), m.select(1, 2)) == Overlap::none);
  CHECK(overlap(m.slice(1, 0, 4), m.slice(1, 4, 8)) == Overlap::none);
  CHECK(overlap(m.slice(1, 0, 8, 2), m.slice(1, 1, 8, 2)) == Overlap::none);
  CHECK(overlap(m.slice(1, 0, 5), m.slice(1, 4, 8)) == Overlap::partial);
  CHECK(overlap(m, m) == Overlap::full);
  CHECK(overlap(m, m.transpose(0, 1)) == Overlap::partial);
  CHECK(overlap(m, zeros({6, 8})) == Overlap::none);
  CHECK_FALSE(overlaps_itself(m.transpose(0, 1)));
  CHECK(overlaps_itself(zeros({1}).expand({4})));
}

TEST_CASE("writing where elements share an address or an input lies askew is refused") {
  Tensor x = ones({1});
  Tensor wide = x.expand({4});
  CHECK_THROWS_AS(wide.add_(1), AliasError);
  CHECK(x.item<float>() == 1);
  Tensor v = arange(0, 6, 1, kFloat32);
  Tensor head = v.slice(0, 0, 5), tail = v.slice(0, 1, 6);
  CHECK_THROWS_AS(head.add_(tail), AliasError);
  CHECK_THROWS_AS(op::add.out(head, tail, tail, 1), AliasError);
  CHECK(v.to_vector<float>() == std::vector<float>{0, 1, 2, 3, 4, 5});
  head.add_(head);  // the same elements: fine
  CHECK(v.to_vector<float>() == std::vector<float>{0, 2, 4, 6, 8, 5});
  // out= that is also an input and would have to grow.
  Tensor small = zeros({2});
  CHECK_THROWS_AS(op::add.out(small, small, ones({2, 2}), 1), ShapeError);
  CHECK(small.sizes() == IntArrayRef({2}));
}
