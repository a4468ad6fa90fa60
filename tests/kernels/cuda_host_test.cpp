// SPDX-License-Identifier: Apache-2.0
// Host parts of CUDA kernels that need no GPU: the mailbox for faults, the keys of cached matrix products, and the
// random numbers both devices share.
#include "tests/support/catch.h"

#include <tenon/kernels/cuda/cublaslt.h>
#include <tenon/kernels/cuda/device_error.h>
#include <tenon/kernels/philox.h>

#include <set>
#include <thread>
#include <vector>

using namespace tenon;
using tenon::testing::contains;

TEST_CASE("a fault is taken once and tells operator, argument, range and index", "[kernels]") {
  cuda::Fault box{"gather", "index", 7, 5, 3, 1, 0};
  cuda::Fault taken{};
  CHECK_FALSE(cuda::take_fault(box, taken));
  box.ready = 1;
  REQUIRE(cuda::take_fault(box, taken));
  CHECK_FALSE(cuda::take_fault(box, taken));
  CHECK(box.ready == 0);
  const std::string text = cuda::fault_text(taken, 2);
  CHECK(contains(text, "gather: index: expected 0 to 4 for dimension 1, got 7 at element 3"));
  CHECK(contains(text, "cuda:2"));
  taken.dim = -1;
  CHECK_FALSE(contains(cuda::fault_text(taken, 0), "dimension"));
}

TEST_CASE("of many threads one takes a fault", "[kernels]") {
  for (int round = 0; round < 50; ++round) {
    cuda::Fault box{"embedding", "input", -1, 10, 0, 0, 1};
    std::vector<std::thread> threads;
    std::vector<int> won(4, 0);
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([&, t] {
        cuda::Fault taken{};
        won[static_cast<std::size_t>(t)] = cuda::take_fault(box, taken) && taken.index == -1 && taken.size == 10;
      });
    for (auto& t : threads) t.join();
    REQUIRE(won[0] + won[1] + won[2] + won[3] == 1);
  }
}

TEST_CASE("keys of matrix products differ in every field and spread over the table", "[kernels]") {
  cuda::ProductKey base{};
  base.m = 64, base.n = 32, base.k = 16, base.batch = 1;
  cuda::ProductKey same = base;
  CHECK(same == base);
  CHECK(same.hash() == base.hash());
  // Any changed byte is another product.
  for (std::size_t i = 0; i < sizeof base; ++i) {
    cuda::ProductKey other = base;
    reinterpret_cast<unsigned char*>(&other)[i] ^= 1;
    CHECK_FALSE(other == base);
    CHECK(other.hash() != base.hash());
  }
  std::set<uint64_t> slots;
  for (int64_t m = 1; m <= 256; ++m) {
    base.m = m * 8;
    slots.insert(base.hash() % 1024);
  }
  CHECK(slots.size() > 180);  // 226 expected of a random function
}

TEST_CASE("alignment is the largest power of two up to 256 in address and step", "[kernels]") {
  const auto at = [](uintptr_t a, int64_t step = 0) { return cuda::alignment(reinterpret_cast<const void*>(a), step); };
  CHECK(at(0x10000) == 256);
  CHECK(at(0x10010) == 16);
  CHECK(at(0x10002) == 2);
  CHECK(at(0x10000, 24) == 8);
  CHECK(at(0x10000, 1024) == 256);
}

TEST_CASE("Philox-4x32-10 gives the published numbers", "[kernels]") {
  // Key 0, counter 0, from the authors' known-answer file.
  const philox::Block zero = philox::generate(0, 0);
  CHECK(zero.word[0] == 0x6627e8d5u);
  CHECK(zero.word[1] == 0xe169c58du);
  CHECK(zero.word[2] == 0xbc57ac4cu);
  CHECK(zero.word[3] == 0x9b00dbd8u);
  CHECK(zero.wide(1) == 0x9b00dbd8bc57ac4cull);
}
