// SPDX-License-Identifier: Apache-2.0
// Both free lists against a sorted multiset.
#include <tenon/memory/free_list.h>

#include <random>
#include <set>
#include <vector>

#include "tests/support/catch.h"

using namespace tenon::memory;

namespace {

template <class List>
void check_against_multiset(int64_t largest, int count) {
  const uint32_t seed = tenon::testing::seed();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  std::vector<Block> storage(static_cast<size_t>(count));
  std::vector<Block*> out, in;
  for (Block& b : storage) out.push_back(&b);
  auto list = std::make_unique<List>();
  std::multiset<int64_t> sizes;
  int64_t wrong = 0;
  for (int step = 0; step < 60 * count; ++step) {
    // Few distinct sizes at first, many later: both the lists and the tree's shape are exercised.
    const int64_t classes = step < 30 * count ? 7 : largest / kMinBlock;
    if (in.empty() || (!out.empty() && random() % 2 == 0)) {
      const size_t i = random() % out.size();
      Block* b = out[i];
      out[i] = out.back();
      out.pop_back();
      b->size = kMinBlock * (1 + static_cast<int64_t>(random() % static_cast<uint64_t>(classes)));
      list->insert(b);
      sizes.insert(b->size);
      in.push_back(b);
    } else {
      const size_t i = random() % in.size();
      Block* b = in[i];
      in[i] = in.back();
      in.pop_back();
      list->remove(b);
      sizes.erase(sizes.find(b->size));
      out.push_back(b);
    }
    const int64_t ask = kMinBlock * (1 + static_cast<int64_t>(random() % static_cast<uint64_t>(largest / kMinBlock)));
    const auto expected = sizes.lower_bound(ask);
    const Block* found = list->best(ask);
    wrong += (expected == sizes.end()) != (found == nullptr);
    wrong += found && expected != sizes.end() && found->size != *expected;
    wrong += list->largest() != (sizes.empty() ? 0 : *sizes.rbegin());
  }
  CHECK(wrong == 0);
  while (!in.empty()) {
    Block* b = list->best(kMinBlock);
    REQUIRE(b);
    list->remove(b);
    in.pop_back();
  }
  CHECK(list->best(kMinBlock) == nullptr);
}

}  // namespace

TEST_CASE("free lists: the bins find the best fit of every size") {
  check_against_multiset<SizeBins>(kSmallSegment, 500);
}

TEST_CASE("free lists: the tree finds the best fit of every size") { check_against_multiset<SizeTree>(1 << 24, 500); }

TEST_CASE("free lists: equal blocks come back last in, first out from the bins") {
  auto bins = std::make_unique<SizeBins>();
  Block a{}, b{};
  a.size = b.size = 4096;
  bins->insert(&a);
  bins->insert(&b);
  CHECK(bins->best(4096) == &b);
  bins->remove(&b);
  CHECK(bins->best(4096) == &a);
}
