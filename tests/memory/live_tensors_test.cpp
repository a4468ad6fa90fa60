// SPDX-License-Identifier: Apache-2.0
// The list of live tensors: what it says of each, what it costs when off, and that a leak is traced to who made it.
#include <tenon/memory/live_tensors.h>
#include <tenon/ops/binary.h>
#include <tenon/ops/factory.h>
#include <tenon/ops/view.h>

#include <algorithm>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/catch.h"

using namespace tenon;
using namespace tenon::memory;

namespace {

struct Recording {
  Recording() { record_live_tensors(true); }
  ~Recording() { record_live_tensors(false); }
};

std::vector<Tensor> cache;  // "forgotten" tensors

}  // namespace

// Exported from the program (it is linked with -rdynamic), so that a place has their names.
extern "C" [[gnu::noinline, gnu::visibility("default")]] void test_leaky_step(int64_t n) {
  const Tensor x = zeros({n, 3});
  cache.push_back(x + 1.0);
  asm volatile("" ::: "memory");
}
extern "C" [[gnu::noinline, gnu::visibility("default")]] void test_tidy_step(int64_t n) {
  const Tensor x = zeros({n, 3});
  const Tensor y = x + 1.0;
  asm volatile("" ::: "memory");
}

TEST_CASE("live tensors: sizes, dtype, bytes, device, operator") {
  CHECK_FALSE(recording_live_tensors());
  const Tensor before = zeros({4});
  const Recording recording;
  CHECK(recording_live_tensors());
  CHECK(live_tensors().empty());
  const Tensor a = ones({2, 3}, DType::float64);
  const Tensor b = a + a;
  const Tensor view = b.view({6});
  const std::vector<LiveTensor> all = live_tensors();
  REQUIRE(all.size() == 3);
  CHECK(all[0].sizes == std::vector<int64_t>{2, 3});
  CHECK(all[0].dtype == DType::float64);
  CHECK(all[0].device == Device(kCPU));
  CHECK(all[0].bytes == 48);
  CHECK(all[0].op == "ones");
  CHECK_FALSE(all[0].shares_storage);
  CHECK(all[1].op == "add");
  CHECK(all[1].storage != all[0].storage);
  CHECK(all[2].sizes == std::vector<int64_t>{6});
  CHECK(all[2].storage == all[1].storage);
  CHECK(all[2].shares_storage);
  CHECK(all[1].str().rfind("float64[2, 3] 48 bytes on cpu, made by add at ", 0) == 0);
}

TEST_CASE("live tensors: a leak is traced to the function that made it") {
  const Recording recording;
  for (int i = 1; i <= 5; ++i) {
    test_tidy_step(100);
    test_leaky_step(10 * i);
  }
  const std::vector<LiveTensor> all = live_tensors();
  REQUIRE(all.size() == 5);
  int64_t bytes = 0;
  for (const LiveTensor& t : all) {
    CAPTURE(t.str());
    CHECK(t.site().find("test_leaky_step+0x") != std::string::npos);
    CHECK(t.site().find("test_tidy_step") == std::string::npos);
    CHECK(t.op == "add");
    CHECK(t.site().find("memory_tests") != std::string::npos);  // not a frame of the library
    CHECK(t.site().rfind("tenon::", 0) != 0);
    bytes += t.bytes;
  }
  CHECK(bytes == 150 * 3 * 4);
  const std::string report = live_tensors_report();
  CAPTURE(report);
  CHECK(report.rfind("5 live tensors made at ", 0) == 0);
  CHECK(report.find(", 1800 bytes\n") != std::string::npos);
  CHECK(report.find("by add at ") != std::string::npos);
  cache.clear();
  CHECK(live_tensors().empty());
}

TEST_CASE("live tensors: a report cut short says so, and pinned memory is told apart") {
  const Recording recording;
  const Tensor a = zeros({1000});
  const Tensor b = zeros({30});
  CHECK(live_tensors_report(1).find("... and 1 more place, 120 bytes\n") != std::string::npos);
  CHECK(live_tensors_report(0).find("... and 2 more places, 4120 bytes\n") != std::string::npos);
  CHECK(live_tensors_report(2).find("...") == std::string::npos);
  LiveTensor t = live_tensors().front();
  CHECK(t.str().find(" on cpu,") != std::string::npos);
  CHECK_FALSE(t.pinned);
  t.pinned = true;
  CHECK(t.str().find(" on cpu (pinned),") != std::string::npos);
}

TEST_CASE("live tensors: off means forgotten") {
  Tensor a;
  {
    const Recording recording;
    a = ones({3});
    CHECK(live_tensors().size() == 1);
  }
  CHECK(live_tensors().empty());
  const Recording recording;
  CHECK(live_tensors().empty());
  a = Tensor();  // dies unknown
  CHECK(live_tensors().empty());
}

TEST_CASE("live tensors: threads make and drop while others list and switch") {
  record_live_tensors(true);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([] {
      for (int i = 0; i < 300; ++i) {
        const Tensor a = zeros({i % 7 + 1});
        const Tensor b = a.view({-1});
      }
    });
  }
  for (int i = 0; i < 50; ++i) {
    for (const LiveTensor& t : live_tensors()) {
      if (t.sizes.empty()) FAIL("a tensor without sizes");
    }
    if (i == 25) record_live_tensors(false);
    if (i == 30) record_live_tensors(true);
  }
  for (auto& t : threads) t.join();
  CHECK(live_tensors().empty());
  record_live_tensors(false);
}
