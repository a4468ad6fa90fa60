// SPDX-License-Identifier: Apache-2.0
#include "tests/support/catch.h"

#include <tenon/core/error.h>
#include <tenon/kernels/cpu/parallel.h>

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

using namespace tenon;

namespace {
struct RestoreThreads {
  int before = num_threads();
  ~RestoreThreads() { set_num_threads(before); }
};

// Whether every index of [begin, end) was visited exactly once.
bool covers_once(int64_t begin, int64_t end, int64_t grain) {
  std::vector<std::atomic<int>> visits(static_cast<std::size_t>(end - begin));
  std::atomic<bool> in_range{true};
  parallel_for(begin, end, grain, [&](int64_t b, int64_t e) {
    if (b < begin || e > end || b >= e) in_range = false;
    for (int64_t i = b; i < e; ++i) ++visits[static_cast<std::size_t>(i - begin)];
  });
  for (auto& v : visits)
    if (v != 1) return false;
  return in_range;
}
}  // namespace

TEST_CASE("parallel_for visits every index once") {
  const RestoreThreads restore;
  for (const int threads : {1, 2, 3, 8}) {
    set_num_threads(threads);
    CHECK(num_threads() == threads);
    for (const int64_t n : {0, 1, 2, 7, 100, 4097, 300000})
      for (const int64_t grain : {0, 1, 5, 1000}) {
        CAPTURE(threads, n, grain);
        CHECK(covers_once(0, n, grain));
        CHECK(covers_once(-3, n, grain));
      }
  }
  CHECK_FALSE(in_parallel_region());
}

TEST_CASE("run_chunks takes more chunks than one word counts") {
  const RestoreThreads restore;
  set_num_threads(3);
  std::atomic<int64_t> sum{0};
  detail::run_chunks(
      200001, [](void* p, int64_t i) { *static_cast<std::atomic<int64_t>*>(p) += i; }, &sum);
  CHECK(sum == 200001ll * 200000 / 2);
}

TEST_CASE("parallel_for rethrows and stays usable") {
  const RestoreThreads restore;
  set_num_threads(4);
  for (int round = 0; round < 200; ++round) {
    std::atomic<int> ran{0};
    bool caught = false;
    try {
      parallel_for(0, 64, 1, [&](int64_t b, int64_t) {
        ++ran;
        if (b >= 20) throw std::runtime_error("chunk");
      });
    } catch (const std::runtime_error& e) {
      caught = std::string(e.what()) == "chunk";
    }
    if (!caught || ran < 1) FAIL("round " << round);
  }
  CHECK(covers_once(0, 10000, 10));
}

TEST_CASE("a nested parallel_for runs inline") {
  const RestoreThreads restore;
  set_num_threads(4);
  std::atomic<int> wrong{0};
  std::atomic<int64_t> total{0};
  parallel_for(0, 32, 1, [&](int64_t b, int64_t e) {
    if (!in_parallel_region()) ++wrong;
    const auto self = std::this_thread::get_id();
    parallel_for(b * 100, e * 100, 1, [&](int64_t nb, int64_t ne) {
      if (std::this_thread::get_id() != self) ++wrong;
      total += ne - nb;
    });
  });
  CHECK(wrong == 0);
  CHECK(total == 3200);
}

TEST_CASE("several threads call parallel_for at once") {
  const RestoreThreads restore;
  set_num_threads(4);
  std::atomic<int> wrong{0};
  std::vector<std::thread> callers;
  for (int c = 0; c < 6; ++c)
    callers.emplace_back([&, c] {
      for (int round = 0; round < 300; ++round) {
        std::vector<int> data(1000 + static_cast<std::size_t>(c), 0);
        parallel_for(0, static_cast<int64_t>(data.size()), 16, [&](int64_t b, int64_t e) {
          for (int64_t i = b; i < e; ++i) data[static_cast<std::size_t>(i)] += round + 1;
        });
        for (const int v : data)
          if (v != round + 1) ++wrong;
      }
    });
  for (auto& t : callers) t.join();
  CHECK(wrong == 0);
}

TEST_CASE("workers that slept wake up again") {
  const RestoreThreads restore;
  set_num_threads(3);
  for (int round = 0; round < 20; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    if (!covers_once(0, 1000, 1)) FAIL("round " << round);
  }
  // Long chunks, so that the caller itself goes to sleep waiting for the others.
  std::atomic<int> ran{0};
  parallel_for(0, 6, 1, [&](int64_t b, int64_t e) {
    std::this_thread::sleep_for(std::chrono::milliseconds(3));
    ran += static_cast<int>(e - b);
  });
  CHECK(ran == 6);
}

#if !defined(__SANITIZE_THREAD__)
TEST_CASE("the pool works in the child of a fork") {
  const RestoreThreads restore;
  set_num_threads(3);
  REQUIRE(covers_once(0, 1000, 1));
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) _exit(covers_once(0, 100000, 10) && num_threads() == 3 ? 0 : 1);
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  CHECK(covers_once(0, 1000, 1));
}
#endif

TEST_CASE("set_num_threads checks its argument") {
  const int before = num_threads();
  CHECK_THROWS_AS(set_num_threads(0), ValueError);
  CHECK_THROWS_AS(set_num_threads(-2), ValueError);
  CHECK(num_threads() == before);
}

TEST_CASE("what the child of the next test runs", "[.environment]") {
  if (!std::getenv("TENON_TEST_THREADS")) return;
  CHECK_THROWS_AS(num_threads(), ValueError);
}

TEST_CASE("a TENON_NUM_THREADS that is no number is an error") {
  char self[4096] = {};
  REQUIRE(readlink("/proc/self/exe", self, sizeof self - 1) > 0);
  const auto child = [&](const std::string& value) {
    return std::system(
        ("TENON_TEST_THREADS=1 TENON_NUM_THREADS=" + value + " '" + self + "' '[.environment]' > /dev/null 2>&1")
            .c_str());
  };
  for (const char* value : {"abc", "0", "-1", "2x"}) CHECK(child(value) == 0);
  CHECK(child("2") != 0);  // no error there
}
