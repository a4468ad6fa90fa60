// SPDX-License-Identifier: Apache-2.0
// Memory of the simulated devices, and page-locked memory beside them on machines without CUDA. Each device has a range
// of addresses of its own and places segments first fit, so a seed sees the same order of addresses in every run.
#include <sys/mman.h>
#include <tenon/memory/allocator.h>
#include <tenon/memory/sim_memory.h>
#include <tenon/streams/sim_streams.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <map>
#include <mutex>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(p, n) ((void)(p), (void)(n))
#define ASAN_UNPOISON_MEMORY_REGION(p, n) ((void)(p), (void)(n))
#endif

namespace tenon::memory {
namespace {

using sim::CallKind;
using sim::SimStreams;

constexpr int64_t kAddresses = int64_t{1} << 38;  // of one device; only what is allocated costs memory
constexpr int64_t kPage = 4096;
constexpr int64_t kMapped = 2 << 20;  // what virtual memory is mapped in, as on a GPU
constexpr int64_t kCommitStep = 64 << 20;

int64_t round_up(int64_t n, int64_t step) { return (n + step - 1) / step * step; }

class SimMemory final : public RawMemory, public VirtualMemory {
 public:
  explicit SimMemory(int index) : index_(index) {
    void* p = mmap(nullptr, kAddresses, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    TENON_CHECK(p != MAP_FAILED, DeviceError, "sim: no address space for the memory of ", Device(kSim, index));
    base_ = static_cast<char*>(p);
    free_[-reinterpret_cast<intptr_t>(p) & (kMapped - 1)] = kAddresses - kMapped;  // ranges begin at multiples of it
    SimStreams::instance().set_place(base_, kAddresses, SimStreams::Place::device);
  }

  void* allocate(int64_t bytes) override {
    if (!SimStreams::instance().begin(CallKind::allocate, index_)) return nullptr;
    std::lock_guard lock(mutex_);
    if (bytes <= 0 || bytes > available()) return nullptr;
    const int64_t size = round_up(bytes, kPage), offset = take(size, kPage);
    if (offset < 0) return nullptr;
    if (!open(offset, size)) {
      give(offset, size);
      return nullptr;
    }
    used_ += bytes;
    return base_ + offset;
  }
  void release(void* p, int64_t bytes) noexcept override {
    wait();
    std::lock_guard lock(mutex_);
    const int64_t offset = static_cast<char*>(p) - base_, size = round_up(bytes, kPage);
    used_ -= bytes;
    close(offset, size);
    give(offset, size);
  }

  void info(int64_t& free, int64_t& total) override {
    total = SimStreams::instance().options().memory_bytes;
    std::lock_guard lock(mutex_);
    free = std::max<int64_t>(0, total - used_);
  }
  const char* name() const override { return "sim"; }
  bool host_accessible() const override { return true; }
  bool queued() const override { return true; }
  void fill(void* p, int64_t bytes, int value, void* stream) noexcept override {
    SimStreams::instance().fill(index_, stream, p, bytes, value);
  }
  VirtualMemory* virtual_memory() override { return this; }

  int64_t granularity() const override { return kMapped; }
  void* reserve(int64_t bytes) override {
    std::lock_guard lock(mutex_);
    const int64_t offset = bytes > 0 && bytes <= kAddresses ? take(bytes, kMapped) : -1;
    return offset < 0 ? nullptr : base_ + offset;
  }
  bool map(void* p, int64_t bytes) override {
    if (!SimStreams::instance().begin(CallKind::allocate, index_)) return false;
    std::lock_guard lock(mutex_);
    if (bytes > available() || !open(static_cast<char*>(p) - base_, bytes)) return false;
    used_ += bytes;
    return true;
  }
  void unmap(void* p, int64_t bytes) noexcept override {
    wait();
    std::lock_guard lock(mutex_);
    used_ -= bytes;
    close(static_cast<char*>(p) - base_, bytes);
  }
  void unreserve(void* p, int64_t bytes) noexcept override {
    std::lock_guard lock(mutex_);
    give(static_cast<char*>(p) - base_, bytes);
  }

 private:
  // As cudaFree does: what is queued may still use the memory.
  void wait() noexcept {
    SimStreams::instance().begin(CallKind::release, index_);
    SimStreams::instance().settle(index_);
  }
  int64_t available() const { return SimStreams::instance().options().memory_bytes - used_; }

  // The first hole that fits; -1 when there is none.
  int64_t take(int64_t size, int64_t alignment) {
    for (auto hole = free_.begin(); hole != free_.end(); ++hole) {
      const auto [begin, length] = *hole;
      const auto address = reinterpret_cast<intptr_t>(base_) + begin;
      const int64_t skipped = round_up(address, alignment) - address;
      if (length < skipped + size) continue;
      free_.erase(hole);
      if (skipped > 0) free_[begin] = skipped;
      if (length > skipped + size) free_[begin + skipped + size] = length - skipped - size;
      return begin + skipped;
    }
    return -1;
  }
  void give(int64_t offset, int64_t size) {
    auto after = free_.lower_bound(offset);
    if (after != free_.end() && offset + size == after->first) {
      size += after->second;
      after = free_.erase(after);
    }
    if (after != free_.begin()) {
      const auto before = std::prev(after);
      if (before->first + before->second == offset) {
        before->second += size;
        return;
      }
    }
    free_.emplace_hint(after, offset, size);
  }

  bool open(int64_t offset, int64_t size) {
    if (offset + size > committed_) {
      const int64_t wanted = std::min(round_up(offset + size, kCommitStep), kAddresses);
      if (mprotect(base_ + committed_, static_cast<std::size_t>(wanted - committed_), PROT_READ | PROT_WRITE) != 0)
        return false;
      committed_ = wanted;
    }
    ASAN_UNPOISON_MEMORY_REGION(base_ + offset, size);
    return true;
  }
  void close(int64_t offset, int64_t size) noexcept {
    madvise(base_ + offset, static_cast<std::size_t>(size), MADV_DONTNEED);
    ASAN_POISON_MEMORY_REGION(base_ + offset, size);
  }

  const int index_;
  std::mutex mutex_;
  char* base_;
  int64_t used_ = 0, committed_ = 0;
  std::map<int64_t, int64_t> free_;  // holes of addresses, by offset
};

class SimPinnedMemory final : public RawMemory {
 public:
  void* allocate(int64_t bytes) override {
    if (!SimStreams::instance().begin(CallKind::allocate, 0)) return nullptr;
    void* p = nullptr;
    if (posix_memalign(&p, kPage, static_cast<std::size_t>(bytes)) != 0) return nullptr;
    SimStreams::instance().set_place(p, bytes, SimStreams::Place::pinned);
    return p;
  }
  void release(void* p, int64_t) noexcept override {
    SimStreams::instance().begin(CallKind::release, 0);
    for (int d = 0; d < kMaxDevices; ++d) SimStreams::instance().settle(d);
    SimStreams::instance().set_place(p, 0, SimStreams::Place::pageable);
    std::free(p);
  }
  void info(int64_t& free, int64_t& total) override { free = total = 0; }
  const char* name() const override { return "sim pinned"; }
  bool host_accessible() const override { return true; }
};

constinit std::atomic<uint32_t> made{0};  // devices whose memory was asked for
constinit std::atomic<bool> pinned_made{false};

RawMemory* sim_pinned(int) {
  static auto* memory = new SimPinnedMemory;
  pinned_made = true;
  return memory;
}

// With a GPU its driver's pinned memory serves; copies from and to it are then staged, as if it were pageable.
void offer_pinned() {
  if (device_count(kCUDA) > 0) return;
  try {
    register_pinned_memory(&sim_pinned);
  } catch (const RegistrationError&) {  // there is another one
  }
}

// Devices that went away gave everything back then.
bool present(int device) { return (made.load() >> device & 1u) && device < SimStreams::instance().options().devices; }

int64_t in_use(int& device) {
  for (device = 0; device < kMaxDevices; ++device) {
    if (!present(device)) continue;
    if (const int64_t bytes = memory_stats(Device(kSim, device)).allocated; bytes != 0) return bytes;
  }
  return 0;
}
void trim() {
  for (int d = 0; d < kMaxDevices; ++d) {
    if (!present(d)) continue;
    empty_cache(Device(kSim, d));
    reset_accumulated_memory_stats(Device(kSim, d));  // of another configuration
    reset_peak_memory_stats(Device(kSim, d));
  }
  if (pinned_made) empty_pinned_cache();
}
[[maybe_unused]] const bool hooked = (sim::set_memory_hooks({&in_use, &trim, &offer_pinned}), true);

}  // namespace

RawMemory* sim_memory(int index) {
  offer_pinned();
  auto* memory = new SimMemory(index);
  made.fetch_or(1u << index);
  return memory;
}

}  // namespace tenon::memory
