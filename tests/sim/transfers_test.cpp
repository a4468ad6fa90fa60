// SPDX-License-Identifier: Apache-2.0
// Copies between host and device: staged through page-locked buffers where the host memory is not, what waits and what
// does not, what is said about it.
#include <tenon/core/warning.h>
#include <tenon/ops/staged_copy.h>
#include <tenon/streams/safety.h>
#include <tenon/streams/sim.h>
#include <tenon/tenon.h>

#include <algorithm>
#include <numeric>

#include "tests/support/catch.h"

using namespace tenon;
using tenon::testing::contains;
using tenon::testing::error_of;

namespace {

const Device kSim0(kSim, 0);
constexpr int64_t kChunk = detail::kStagingBytes;

// Element i is i, as far as the dtype goes.
Tensor counted(IntArrayRef sizes, DType t = kFloat32) {
  int64_t n = 1;
  for (const int64_t s : sizes) n *= s;
  return remainder(arange(n, TensorOptions(kInt64)), 101).to(t).view(sizes);
}
bool equal_on_host(const Tensor& a, const Tensor& b) {
  return a.sizes() == b.sizes() && a.dtype() == b.dtype() && a.eq(b).to(kInt64).sum().item<int64_t>() == a.numel();
}

std::vector<std::string>& warnings() {
  static std::vector<std::string> list;
  return list;
}
struct Warnings {
  WarningHandler before;
  Warnings() : before(set_warning_handler([](std::string_view text) { warnings().emplace_back(text); })) {
    warnings().clear();
  }
  ~Warnings() { set_warning_handler(before); }
};
struct SyncMode {
  explicit SyncMode(SyncDebugMode mode) { set_sync_debug_mode(mode); }
  ~SyncMode() { set_sync_debug_mode(SyncDebugMode::off); }
};

// Every shape that pieces can have: one, several, a last short one, rows longer than a buffer, many outer dimensions.
void check_round_trips(Device d) {
  const int64_t floats = kChunk / 4;
  const std::vector<Tensor> hosts = {
      counted({1}),
      counted({100}),
      counted({floats}),
      counted({floats + 1}),
      counted({2 * floats, 3}).slice(0, 1),
      counted({5 * floats / 2}),
      counted({3, floats + 7}),
      counted({7, 3, floats / 4 + 1}),
      counted({1500, 2000}).transpose(0, 1),
      counted({3000, 1500}).slice(1, 3, 1400, 2),
      counted({2, 3, 700, 800}).permute({3, 1, 0, 2}),
      counted({1, 1500}).expand({1500, 1500}),
      counted({2 * kChunk + 5}, kUInt8),
      counted({kChunk / 2 + 3}, kBFloat16),
      counted({kChunk / 8 + 3}, kComplex64).slice(0, 1),
      counted({0, 5}),
      full({}, 2.5),
  };
  for (const Tensor& host : hosts) {
    CAPTURE(std::vector<int64_t>(host.sizes().begin(), host.sizes().end()), int(host.dtype()));
    const Tensor expected = host.contiguous();
    const Tensor on_device = host.to(d);
    CHECK(equal_on_host(on_device.cpu(), expected));
    // Into host memory with gaps, and to a device tensor with gaps.
    DimVector wide(host.sizes());
    wide.push_back(2);
    Tensor gaps = zeros(wide, TensorOptions(host.dtype())).select(-1, 1);
    gaps.copy_(on_device);
    CHECK(equal_on_host(gaps, expected));
    Tensor device_gaps = zeros(wide, TensorOptions(host.dtype()).device(d)).select(-1, 0);
    device_gaps.copy_(host, true);
    CHECK(equal_on_host(device_gaps.cpu(), expected));
    if (is_complex(host.dtype())) continue;
    CHECK(equal_on_host(host.to(d, kFloat64).cpu(), expected.to(kFloat64)));
    CHECK(equal_on_host(on_device.to(Device(kCPU), kInt64), expected.to(kInt64)));
  }
  // Broadcast into the destination, from either side.
  Tensor spread = zeros({300, 2000}, TensorOptions(d));
  spread.copy_(counted({2000}));
  CHECK(equal_on_host(spread.cpu(), counted({2000}).expand({300, 2000})));
  Tensor host_spread = zeros({300, 2000});
  host_spread.copy_(counted({2000}).to(d));
  CHECK(equal_on_host(host_spread, counted({2000}).expand({300, 2000})));
  // From and to page-locked memory, contiguous and not.
  const Tensor pinned = counted({1200, 1000}).pin_memory();
  CHECK(equal_on_host(pinned.to(d, true).cpu(), pinned));
  CHECK(equal_on_host(pinned.transpose(0, 1).to(d, true).cpu(), pinned.transpose(0, 1).contiguous()));
  const Tensor back = pinned.to(d).to(kCPU, true);
  CHECK(back.is_pinned());
  synchronize(d);
  CHECK(equal_on_host(back, pinned));
}

}  // namespace

TEST_CASE("transfers: staged copies give the same data, whatever the layout", "[transfers]") {
  for (uint64_t s = 0; s < 3; ++s) {
    sim::configure({.devices = 1, .seed = s + tenon::testing::seed()});
    check_round_trips(kSim0);
  }
  sim::configure({});
}

TEST_CASE("transfers: pageable memory may be written again at once, and nothing is waited for", "[transfers]") {
  sim::configure({.devices = 1, .schedule = sim::Schedule::lazy});
  Tensor host = ones({kChunk / 4});
  const int64_t waits = sync_count();
  const Tensor x = host.to(kSim0);
  host.fill_(9);
  CHECK(sync_count() == waits);
  if (!cuda::is_available()) CHECK(sim::counters().run == 0);
  CHECK(x.mean().item<float>() == 1);
  // More than both buffers hold: the first is waited for.
  Tensor large = ones({3 * kChunk / 4});
  const int64_t before = sync_count();
  const Tensor y = large.to(kSim0);
  CHECK(sync_count() == before + 1);
  large.fill_(9);
  CHECK(y.mean().item<float>() == 1);
}

TEST_CASE("transfers: staging memory is taken from the cache and goes back", "[transfers]") {
  sim::configure({.devices = 1});
  const Tensor host = ones({5 * kChunk / 4});
  const auto program = [&] { CHECK(host.to(kSim0).cpu().sum().item<float>() == 5.0f * kChunk / 4); };
  program();
  synchronize(kSim0);
  const memory::MemoryStats warm = memory::pinned_memory_stats();
  for (int i = 0; i < 5; ++i) program();
  CHECK(memory::pinned_memory_stats().segments_allocated == warm.segments_allocated);
  CHECK(memory::pinned_memory_stats().allocated == 0);
  sim::configure({});
}

TEST_CASE("transfers: every failing call of a staged copy is reported and leaves nothing behind", "[transfers]") {
  sim::configure({.devices = 1});
  const Tensor host = counted({3, kChunk / 4 + 5}), strided = host.transpose(0, 1);
  const auto program = [&](bool gaps) {
    return equal_on_host((gaps ? strided : host).to(kSim0).cpu(), (gaps ? strided : host));
  };
  for (const bool gaps : {false, true}) {
    sim::configure({.devices = 1});
    CHECK(program(gaps));
    int64_t calls = 0;
    for (const int64_t n : sim::counters().calls) calls += n;
    for (int64_t i = 1; i <= calls; ++i) {
      sim::configure({.devices = 1});
      sim::fail_any(i);
      bool right = true;
      try {
        right = program(gaps);
      } catch (const Error&) {
      }
      CHECK(right);
      sim::clear_faults();
      CHECK(program(gaps));
      synchronize(kSim0);
      CHECK(memory::memory_allocated(kSim0) == 0);
    }
  }
  sim::configure({});
}

TEST_CASE("transfers: non_blocking that cannot be is said once per place", "[transfers]") {
  sim::configure({.devices = 1});
  const Warnings guard;
  const Tensor x = ones({100}, device(kSim0));
  Tensor pageable = zeros({100}), pinned = zeros({100}, TensorOptions(kCPU).pinned_memory(true));
  for (int i = 0; i < 3; ++i) pageable.copy_(x, true);
  REQUIRE(warnings().size() == 1);
  CHECK(contains(warnings()[0], "copy: non_blocking has no effect: the destination is pageable memory"));
  CHECK(contains(warnings()[0], "\n  at sim_tests"));
  pageable.copy_(x, true);  // another place
  CHECK(warnings().size() == 2);
  const Tensor large = ones({3 * kChunk / 4});
  for (int i = 0; i < 3; ++i) large.to(kSim0, true);
  REQUIRE(warnings().size() == 3);
  CHECK(contains(warnings()[2], "_to_copy: non_blocking has no effect: the source is pageable memory"));
  // These do not wait.
  pinned.copy_(x, true);
  ones({1000}).to(kSim0, true);
  x.to(kCPU, true);
  pinned.to(kSim0, true);
  pageable.copy_(x);
  CHECK(warnings().size() == 3);
  synchronize(kSim0);
}

TEST_CASE("sync debug: each operator that waits is found, once, and no other", "[sync]") {
  sim::configure({.devices = 1});
  const Tensor x = arange(12, device(kSim0)).to(kFloat32), small = ones({4}), one = ones({1}, device(kSim0));
  const Tensor large = ones({3 * kChunk / 4}), mask = x.gt(3);
  Tensor pinned = zeros({12}, TensorOptions(kCPU).pinned_memory(true)), pageable = zeros({12});
  synchronize(kSim0);
  struct Case {
    const char* op;
    Function<void()> call;
  };
  std::vector<Case> waiting, asynchronous;
  waiting.push_back({"item", [&] { one.item<float>(); }});
  waiting.push_back({"to", [&] { x.cpu(); }});
  waiting.push_back({"to", [&] { x.to_vector<float>(); }});
  waiting.push_back({"copy", [&] { pageable.copy_(x); }});
  waiting.push_back({"copy", [&] { pinned.copy_(x); }});
  waiting.push_back({"to", [&] { large.to(kSim0); }});
  waiting.push_back({"nonzero", [&] { nonzero(x); }});
  waiting.push_back({"masked_select", [&] { masked_select(x, mask); }});
  asynchronous.push_back({"add", [&] { x.add(1).mul_(2).sum(); }});
  asynchronous.push_back({"to", [&] { small.to(kSim0); }});
  asynchronous.push_back({"to non_blocking", [&] { x.to(kCPU, true); }});
  asynchronous.push_back({"copy non_blocking", [&] { pinned.copy_(x, true); }});
  asynchronous.push_back({"matmul", [&] { x.view({3, 4}).matmul(x.view({4, 3})); }});
  asynchronous.push_back({"views", [&] { x.view({3, 4}).transpose(0, 1).contiguous(); }});
  asynchronous.push_back({"events", [&] { current_stream(kSim0).record_event().wait(current_stream(kSim0)); }});
  asynchronous.push_back({"factories", [&] { zeros({3}, device(kSim0)), rand({3}, device(kSim0)); }});
  asynchronous.push_back({"cpu", [&] { small.sum().item<float>(); }});

  const Warnings guard;
  for (const Case& c : waiting) {
    CAPTURE(c.op);
    const SyncMode mode(SyncDebugMode::warn);
    warnings().clear();
    for (int i = 0; i < 3; ++i) c.call();
    const auto sites = sync_sites();
    REQUIRE(sites.size() == 1);
    CHECK(sites[0].op == c.op);
    CHECK(sites[0].count == 3);
    CHECK(contains(sites[0].site, "sim_tests"));
    REQUIRE(warnings().size() == 1);
    CHECK(contains(warnings()[0], std::string(c.op) + ": makes the host wait for the device"));
    set_sync_debug_mode(SyncDebugMode::error);
    const auto text = error_of<SyncError>(c.call);
    CHECK(contains(text, std::string(c.op) + ": makes the host wait for the device"));
  }
  for (const Case& c : asynchronous) {
    CAPTURE(c.op);
    const SyncMode mode(SyncDebugMode::error);
    CHECK_NOTHROW(c.call());
    CHECK(sync_sites().empty());
  }
  // What the program asks for itself is counted and allowed.
  const SyncMode mode(SyncDebugMode::error);
  for (int i = 0; i < 5; ++i) current_stream(kSim0).synchronize();
  synchronize(kSim0);
  const auto sites = sync_sites();
  REQUIRE(sites.size() == 2);
  CHECK(sites[0].op == "Stream::synchronize");
  CHECK(sites[0].count == 5);
  CHECK(sites[1].op == "synchronize(device)");
}

TEST_CASE("transfers on the GPU", "[transfers][cuda]") {
  TENON_REQUIRE_CUDA();
  check_round_trips(Device(kCUDA, 0));
}
