// SPDX-License-Identifier: Apache-2.0
// The allocators of the process: CPU memory, the simulated device through the registry, settings, fork, pinned
// and CUDA memory where there is a GPU.
#include <tenon/memory/allocator.h>
#include <tenon/memory/raw_memory.h>
#include <tenon/memory/settings.h>
#include <tenon/streams/guard.h>
#include <tenon/streams/raw_streams.h>
#include <tenon/tenon.h>

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/fake_memory.h"

using namespace tenon;
using memory::MemoryStats;
using testing::contains;
using testing::error_of;
using testing::FakeMemory;
using testing::FakeStreams;

namespace {

constexpr int64_t MiB = 1 << 20;
const Device kHost(kCPU);

// The registry's memory of sim:0 and sim:1; lives as long as the process, like its allocators.
FakeMemory& sim_memory(int index) {
  static FakeMemory* const memories[2] = {new FakeMemory(256 * MiB), new FakeMemory(256 * MiB)};
  return *memories[index];
}

void use_sim() {
  FakeStreams::instance();
  memory::register_raw_memory(kSim, [](int index) -> memory::RawMemory* { return &sim_memory(index); });
}

struct Settings {
  explicit Settings(const char* conf) : before(memory::allocator_settings()) { memory::set_allocator_settings(conf); }
  ~Settings() { memory::set_allocator_settings(before); }
  std::string before;
};

void give(const DataPtr& p) {
  if (p.deleter) p.deleter(p.context);
}

}  // namespace

TEST_CASE("allocate: CPU memory is aligned, writable, counted, and cached") {
  const int64_t before = memory::memory_allocated(kHost);
  for (const int64_t bytes : {int64_t{1}, int64_t{63}, int64_t{4097}, MiB, 3 * MiB, 70 * MiB}) {
    CAPTURE(bytes);
    const DataPtr p = memory::allocate(kHost, bytes);
    REQUIRE(p.data);
    CHECK(reinterpret_cast<uintptr_t>(p.data) % 64 == 0);
    std::memset(p.data, 1, static_cast<size_t>(bytes));
    CHECK(memory::memory_allocated(kHost) >= before + bytes);
    CHECK(memory::max_memory_allocated(kHost) >= before + bytes);
    CHECK(memory::memory_reserved(kHost) >= memory::memory_allocated(kHost));
    give(p);
  }
  CHECK(memory::memory_allocated(kHost) == before);
  memory::reset_peak_memory_stats(kHost);
  CHECK(memory::max_memory_allocated(kHost) == before);
}

TEST_CASE("allocate: nothing for zero bytes and for meta, errors for nonsense") {
  const MemoryStats before = memory::memory_stats(kHost);
  const DataPtr none = memory::allocate(kHost, 0);
  CHECK(none.data == nullptr);
  CHECK(none.deleter == nullptr);
  CHECK(memory::allocate(Device(kMeta), 1000).data == nullptr);
  CHECK(memory::memory_stats(kHost).allocations == before.allocations);
  CHECK_THROWS_AS(memory::allocate(kHost, -1), ValueError);
  CHECK_THROWS_AS(memory::allocate(kHost, INT64_MAX), OutOfMemoryError);
  CHECK_THROWS_AS(memory::memory_stats(Device(kMeta)), DeviceError);
  CHECK_THROWS_AS(memory::make_storage(Device(kMeta), 8, true), DeviceError);
}

TEST_CASE("make_storage: the storage knows its device and returns its memory") {
  const Settings settings("backend:caching");
  const int64_t before = memory::memory_allocated(kHost);
  {
    const Storage s = memory::make_storage(kHost, 1000);
    CHECK(s->bytes() == 1000);
    CHECK(s->device() == kHost);
    CHECK_FALSE(s->pinned());
    const Storage shared = s;
    memory::record_stream(shared, Stream());
    CHECK(memory::memory_allocated(kHost) == before + 1024);
    const Storage meta = memory::make_storage(Device(kMeta), 1000);
    CHECK(meta->data() == nullptr);
    CHECK(meta->bytes() == 1000);
  }
  CHECK(memory::memory_allocated(kHost) == before);
  memory::record_stream(Storage(), Stream());
}

TEST_CASE("CPU memory: large blocks fault once per huge page, and not at all when cached") {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  TENON_SKIP("sanitizers fault on their own");
#else
  const Settings settings("backend:caching");
  constexpr int64_t bytes = 64 * MiB;
  const auto faults_of = [&](auto f) {
    rusage a{}, b{};
    getrusage(RUSAGE_SELF, &a);
    f();
    getrusage(RUSAGE_SELF, &b);
    return b.ru_minflt - a.ru_minflt;
  };
  const auto touch = [&] {
    const DataPtr p = memory::allocate(kHost, bytes);
    std::memset(p.data, 1, bytes);
    give(p);
  };
  std::ifstream file("/sys/kernel/mm/transparent_hugepage/enabled");
  const std::string mode(std::istreambuf_iterator<char>(file), {});
  memory::empty_cache(kHost);
  const auto fresh = faults_of(touch);
  if (contains(mode, "[always]") || contains(mode, "[madvise]")) CHECK(fresh < 4000);  // 16,384 with 4 KiB pages
  CHECK(faults_of(touch) < 100);
#endif
}

TEST_CASE("settings: in force at once, and an error leaves the old ones") {
  const Settings settings("max_split_size_mb:64");
  CHECK(memory::allocator_settings() == "backend:caching,max_split_size_mb:64");
  CHECK_THROWS_AS(memory::set_allocator_settings("nonsense:1"), ValueError);
  CHECK(memory::allocator_settings() == "backend:caching,max_split_size_mb:64");
  memory::set_allocator_settings("backend:direct");
  const int64_t before = memory::memory_allocated(kHost);
  const DataPtr p = memory::allocate(kHost, 1001);
  CHECK(memory::memory_allocated(kHost) == before + 1001);
  give(p);
  CHECK(memory::memory_allocated(kHost) == before);
}

TEST_CASE("sim: each device has its memory, work goes to the current stream") {
  use_sim();
  use_sim();  // the same factory again is no conflict
  CHECK_THROWS_AS(memory::register_raw_memory(kSim, [](int) -> memory::RawMemory* { return nullptr; }),
                  RegistrationError);
  const Settings settings("backend:caching");
  FakeStreams& device = FakeStreams::instance();
  const Device sim0(kSim, 0), sim1(kSim, 1);
  const DataPtr a = memory::allocate(sim0, 1000);
  const DataPtr b = memory::allocate(sim1, 1000);
  CHECK(sim_memory(0).contains(a.data, 1000));
  CHECK(sim_memory(1).contains(b.data, 1000));
  give(b);
  DataPtr c;
  {
    const StreamGuard guard(device.stream(4));
    c = memory::allocate(sim0, 1000);
    give(a);
    const DataPtr d = memory::allocate(sim0, 1000);  // not the block of the default stream
    CHECK(d.data != a.data);
    give(d);
  }
  const DataPtr e = memory::allocate(sim0, 1000);
  CHECK(e.data == a.data);
  give(e);
  give(c);
  Storage s = memory::make_storage(sim0, 4 * MiB);
  void* const at = s->data();
  memory::record_stream(s, device.stream(8));
  s = Storage();
  s = memory::make_storage(sim0, 4 * MiB);
  CHECK(s->data() != at);
  s = Storage();
  for (const Device d : {sim0, sim1}) {
    memory::empty_cache(d);
    CHECK(memory::memory_reserved(d) == 0);
  }
  CHECK(sim_memory(0).used() + sim_memory(1).used() == 0);
}

TEST_CASE("fork: the child allocates and frees, also blocks of the parent, while threads were busy") {
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  // AddressSanitizer's own allocator may be locked by a thread the child does not have.
  TENON_SKIP("the sanitizers follow no fork of a threaded process");
#else
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      while (!stop) {
        give(memory::allocate(kHost, 100));
        give(memory::allocate(kHost, 2 * MiB));
      }
    });
  }
  int failed = 0;
  for (int round = 0; round < 20; ++round) {
    const DataPtr parents = memory::allocate(kHost, 5000);
    const pid_t child = fork();
    if (child == 0) {
      alarm(20);  // a lock that nobody holds any more shows as a signal
      give(parents);
      for (int i = 0; i < 1000; ++i) {
        const DataPtr p = memory::allocate(kHost, 1 << (i % 22));
        std::memset(p.data, 1, size_t{1} << (i % 22));
        give(p);
      }
      memory::empty_cache(kHost);
      _exit(memory::memory_stats(kHost).frees > 0 ? 0 : 1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    failed += status != 0;
    give(parents);
  }
  stop = true;
  for (auto& t : threads) t.join();
  CHECK(failed == 0);
#endif
}

TEST_CASE("settings: the struct is as good as the text, and refused where the text could not say it") {
  const Settings restore("");
  memory::AllocatorSettings typed;
  typed.max_split_size = 64 * MiB;
  typed.poison_free = true;
  memory::set_allocator_settings(typed);
  CHECK(memory::allocator_settings() == "backend:caching,max_split_size_mb:64,poison_free:True");
  typed.small_pool_limit = 700;
  const std::string error = error_of<ValueError>([&] { memory::set_allocator_settings(typed); });
  CHECK(contains(error, "small_pool_limit"));
  CHECK(contains(error, "KiB"));
  CHECK(memory::allocator_settings() == "backend:caching,max_split_size_mb:64,poison_free:True");
}

TEST_CASE("record_stream: a stream of another device type is an error") {
  use_sim();
  const Tensor on_host = ones({100}), on_sim = empty({100}, device(Device(kSim, 0)));
  CHECK(contains(error_of<DeviceError>([&] { on_host.record_stream(current_stream(Device(kSim, 0))); }),
                 "record_stream"));
  CHECK(contains(error_of<DeviceError>([&] { on_sim.record_stream(current_stream(kHost)); }), "expected one of sim:0"));
  CHECK_NOTHROW(on_sim.record_stream(current_stream(Device(kSim, 0))));
  CHECK_NOTHROW(on_host.record_stream(current_stream(kHost)));
}

TEST_CASE("pinned memory without CUDA: an error that says why") {
  if (testing::cuda_available()) TENON_SKIP("there is a CUDA device");
  CHECK_THROWS_AS(memory::allocate_pinned(100), DeviceError);
  CHECK_THROWS_AS(memory::make_storage(kHost, 100, true), DeviceError);
  CHECK_THROWS_AS(memory::allocate(Device(kCUDA, 0), 100), DeviceError);
  CHECK(error_of<DeviceError>([] { (void)memory::allocate_pinned(100); }).size() > 20);
}

TEST_CASE("CUDA memory: allocated, cached, given back, out of memory with the card's numbers", "[cuda]") {
  TENON_REQUIRE_CUDA();
  const Settings settings("backend:caching");
  const Device cuda(kCUDA, 0);
  const DataPtr p = memory::allocate(cuda, 100 * MiB);
  REQUIRE(p.data);
  CHECK(memory::memory_allocated(cuda) == 100 * MiB);
  give(p);
  CHECK(memory::memory_reserved(cuda) == 100 * MiB);
  const DataPtr again = memory::allocate(Device(kCUDA), 100 * MiB);
  CHECK(again.data == p.data);
  give(again);
  try {
    give(memory::allocate(cuda, int64_t{1} << 45));
    FAIL("32 TiB were granted");
  } catch (const OutOfMemoryError& e) {
    CHECK(e.numbers().total > int64_t{1} << 30);
    CHECK(e.numbers().free > 0);
    CHECK(contains(e.what(), "cuda:0"));
  }
  memory::empty_cache(cuda);
  CHECK(memory::memory_reserved(cuda) == 0);
  memory::set_allocator_settings("backend:direct");
  const DataPtr exact = memory::allocate(cuda, 1001);
  CHECK(memory::memory_reserved(cuda) == 1001);
  give(exact);
  CHECK(memory::memory_reserved(cuda) == 0);
}

TEST_CASE("CUDA memory: a block used by a side stream waits for it", "[cuda]") {
  TENON_REQUIRE_CUDA();
  const Settings settings("backend:caching");
  const Device cuda(kCUDA, 0);
  const Stream side = Stream::from_pool(0, cuda);
  for (int i = 0; i < 100; ++i) {
    const Storage s = memory::make_storage(cuda, 4 * MiB);
    memory::record_stream(s, side);
  }
  side.synchronize();
  memory::empty_cache(cuda);
  const MemoryStats s = memory::memory_stats(cuda);
  CHECK(s.active == s.allocated);
  CHECK(s.reserved == 0);
}

TEST_CASE("pinned memory: page-locked, cached, waiting for the streams that copy", "[cuda]") {
  TENON_REQUIRE_CUDA();
  const Settings settings("backend:caching");
  {
    const Storage s = memory::make_storage(kHost, 3 * MiB, true);
    CHECK(s->pinned());
    CHECK(s->device() == kHost);
    std::memset(s->data(), 1, 3 * MiB);
    memory::record_stream(s, Stream::default_stream(Device(kCUDA, 0)));
  }
  MemoryStats s = memory::pinned_memory_stats();
  CHECK(s.allocated == 0);
  CHECK(s.reserved == 20 * MiB);
  memory::empty_pinned_cache();
  CHECK(memory::pinned_memory_stats().reserved == 0);
}

TEST_CASE("CUDA memory: the driver's free memory moves with what is reserved", "[cuda]") {
  TENON_REQUIRE_CUDA();
  const Settings settings("backend:caching");
  const Device cuda(kCUDA, 0);
  memory::empty_cache(cuda);
  const DataPtr kept = memory::allocate(cuda, 64 * MiB), idle = memory::allocate(cuda, 512 * MiB);
  give(idle);
  int64_t before = 0, after = 0, total = 0;
  raw_streams(kCUDA).memory_info(0, before, total);
  const int64_t cached = memory::memory_reserved(cuda) - memory::memory_stats(cuda).active;
  memory::empty_cache(cuda);
  raw_streams(kCUDA).memory_info(0, after, total);
  CHECK(cached == 512 * MiB);
  CHECK(after - before == cached);
  give(kept);
}

TEST_CASE("CUDA memory: expandable segments grow, lose pages and fill their holes", "[cuda]") {
  TENON_REQUIRE_CUDA();
  const Device cuda(kCUDA, 0);
  memory::empty_cache(cuda);
  {
    const Settings settings("expandable_segments:True");
    std::vector<Tensor> tensors;
    for (int i = 0; i < 6; ++i)
      tensors.push_back(full({5 << 20}, i, TensorOptions(kFloat32).device(cuda)));  // 20 MiB each
    const int64_t grown = memory::memory_reserved(cuda);
    CHECK(grown >= 120 * MiB);
    CHECK(grown <= 126 * MiB);
    tensors[1].reset();
    tensors[4].reset();
    memory::empty_cache(cuda);
    CHECK(memory::memory_reserved(cuda) <= grown - 36 * MiB);
    Tensor hole = full({4 << 20}, 7, TensorOptions(kFloat32).device(cuda));
    Tensor large = full({12 << 20}, 8, TensorOptions(kFloat32).device(cuda));
    for (const int i : {0, 2, 3, 5}) {
      CHECK(tensors[static_cast<size_t>(i)].sum().item<double>() == i * double{5 << 20});
    }
    CHECK(hole.sum().item<double>() == 7.0 * (4 << 20));
    CHECK(large.sum().item<double>() == 8.0 * (12 << 20));
    CHECK(hole.to(kCPU).sum().item<double>() == 7.0 * (4 << 20));
  }
  memory::empty_cache(cuda);
  CHECK(memory::memory_stats(cuda).segments == 0);
}

TEST_CASE("pinned memory: from huge pages and cudaHostRegister", "[cuda]") {
  TENON_REQUIRE_CUDA();
  memory::empty_pinned_cache();
  const Settings settings("pinned_use_cuda_host_register:True");
  const Device cuda(kCUDA, 0);
  {
    const Tensor host = full({3 << 20}, 2, TensorOptions()).pin_memory();
    CHECK(host.is_pinned());
    const Tensor device = host.to(cuda, /*non_blocking=*/true);
    CHECK(device.sum().item<double>() == 2.0 * (3 << 20));
  }
  memory::empty_pinned_cache();
  CHECK(memory::pinned_memory_stats().reserved == 0);
}
