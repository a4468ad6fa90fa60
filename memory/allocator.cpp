// SPDX-License-Identifier: Apache-2.0
// The allocators of the process: made at first use, found by device in one atomic load, never destroyed
// (tensors may outlive every static object), and kept whole across fork.
#include <tenon/memory/allocator.h>
#include <tenon/memory/background_trim.h>
#include <tenon/memory/caching_allocator.h>
#include <tenon/memory/host_memory.h>
#include <tenon/memory/sim_memory.h>
#include <tenon/streams/raw_streams.h>

#include <pthread.h>

#include <atomic>
#include <cstdlib>
#include <mutex>
#include <utility>

namespace tenon::memory {
namespace {

constexpr int kPinned = kDeviceTypes;  // pinned memory has the row after the device types
constexpr int kRows = kDeviceTypes + 1;

constinit std::atomic<CachingAllocator*> allocators[kRows][kMaxDevices] = {};
constinit std::atomic<RawMemoryFactory> factories[kRows] = {};
constinit std::mutex registry_mutex;  // guards creation and settings
constinit bool settings_read = false;
constinit bool trimming = false;                  // under registry_mutex
constinit AllocatorObserver* observer = nullptr;  // under registry_mutex

AllocatorSettings& settings() {  // under registry_mutex
  static auto* value = new AllocatorSettings;
  if (!settings_read) {
    if (const char* conf = std::getenv("TENON_ALLOC_CONF")) {
      try {
        *value = AllocatorSettings::parse(conf);
      } catch (const ValueError& e) {
        detail::fail<ValueError>("TENON_ALLOC_CONF: ", e.what());
      }
    }
    settings_read = true;
  }
  return *value;
}

template <class F>
void for_each_allocator(F f) {
  for (auto& row : allocators) {
    for (auto& slot : row) {
      if (CachingAllocator* allocator = slot.load(std::memory_order_acquire)) f(*allocator);
    }
  }
}

void trim_round() {
  for_each_allocator([](CachingAllocator& a) { note_trim_hold(a.trim()); });
}

void before_fork() {
  registry_mutex.lock();
  lock_background_trim();
  for (int row = kRows - 1; row >= 0; --row) {
    for (auto& slot : allocators[row]) {
      if (CachingAllocator* made = slot.load(std::memory_order_acquire)) made->lock_device_for_fork();
    }
  }
  for_each_allocator([](CachingAllocator& a) { a.lock_for_fork(); });
}

void after_fork(bool child) {
  for_each_allocator([](CachingAllocator& a) { a.unlock_after_fork(); });
  unlock_background_trim(child);
  registry_mutex.unlock();
}

void watch_forks() {  // under registry_mutex
  static const bool once = pthread_atfork(
                               before_fork, [] { after_fork(false); }, [] { after_fork(true); }) == 0;
  (void)once;
}

void register_factory(int row, const char* what, RawMemoryFactory factory) {
  RawMemoryFactory expected = nullptr;
  if (!factories[row].compare_exchange_strong(expected, factory)) {
    TENON_CHECK(expected == factory, RegistrationError, "register_raw_memory: ", what, " memory is already registered");
  }
}

RawMemory* make_raw(int row, Device device) {
  if (row == static_cast<int>(kCPU)) return host_memory();
  RawMemoryFactory factory = factories[row].load(std::memory_order_acquire);
  // Questions about CUDA load its library, which registers here; its absence is an error with the reason.
  if (!factory && (row == kPinned || device.is_cuda())) {
    raw_streams(kCUDA);
    factory = factories[row].load(std::memory_order_acquire);
  }
  if (!factory && device.is_sim()) factory = &sim_memory;
  TENON_CHECK(factory, DeviceError, "allocate: no memory is registered for ",
              row == kPinned ? "pinned host memory" : name(device.type()));
  return factory(device.index());
}

[[gnu::noinline]] CachingAllocator& make_allocator(int row, Device device) {
  TENON_CHECK(!device.is_meta(), DeviceError, "allocator: meta tensors have no memory");
  std::lock_guard lock(registry_mutex);
  auto& slot = allocators[row][device.index()];
  if (CachingAllocator* made = slot.load(std::memory_order_acquire)) return *made;
  const AllocatorSettings& conf = settings();
  RawMemory* raw = make_raw(row, device);
  const bool host = row == static_cast<int>(kCPU);
  const MemoryKind kind = host ? MemoryKind::host : row == kPinned ? MemoryKind::pinned : MemoryKind::device;
  auto* made = new CachingAllocator(device, raw, host ? exact_host_memory() : nullptr, kind);
  made->configure(conf);
  made->observe(observer);
  watch_forks();
  slot.store(made, std::memory_order_release);
  // The first allocator starts the worker that TENON_ALLOC_CONF asks for.
  if (conf.background_trim_ms > 0 && !std::exchange(trimming, true)) {
    set_background_trim(conf.background_trim_ms, trim_round);
  }
  return *made;
}

CachingAllocator& find(int row, Device device) {
  CachingAllocator* made = allocators[row][device.index()].load(std::memory_order_acquire);
  return made ? *made : make_allocator(row, device);
}

CachingAllocator& find(Device device) {
  if (!device.is_cpu()) device = resolve(device);
  return find(static_cast<int>(device.type()), device);
}

CachingAllocator& pinned() { return find(kPinned, Device(kCPU)); }

DataPtr take(CachingAllocator& allocator, int64_t bytes, const Stream& stream) {
  TENON_CHECK(bytes >= 0, ValueError, "allocate: bytes: expected at least 0, got ", bytes);
  if (bytes == 0) return {};
  Block* block = allocator.allocate(bytes, stream);
  return {block->ptr, block, &CachingAllocator::release};
}

}  // namespace

void register_raw_memory(DeviceType type, RawMemoryFactory factory) {
  register_factory(static_cast<int>(type), name(type), factory);
}

void register_pinned_memory(RawMemoryFactory factory) { register_factory(kPinned, "pinned", factory); }

std::vector<AllocatorEntry> existing_allocators() {
  std::vector<AllocatorEntry> list;
  for (int row = 0; row < kRows; ++row) {
    for (auto& slot : allocators[row]) {
      if (CachingAllocator* made = slot.load(std::memory_order_acquire)) list.push_back({made, row == kPinned});
    }
  }
  return list;
}

DataPtr allocate(Device device, int64_t bytes) {
  if (device.is_cpu()) [[likely]]
    return take(find(0, device), bytes, Stream());
  if (device.is_meta()) return {};
  device = resolve(device);
  return take(find(static_cast<int>(device.type()), device), bytes, current_stream(device));
}

DataPtr allocate_pinned(int64_t bytes) { return take(pinned(), bytes, Stream()); }

Storage make_storage(Device device, int64_t bytes, bool pin) {
  TENON_CHECK(!pin || device.is_cpu(), DeviceError, "make_storage: pinned: expected a CPU device, got ", device);
  if (!device.is_cpu() && !device.is_meta()) device = resolve(device);
  const DataPtr memory = pin ? allocate_pinned(bytes) : allocate(device, bytes);
  StorageImpl* storage = nullptr;
  try {
    storage = StorageImpl::create(memory, bytes, device);
  } catch (...) {
    if (memory.deleter) memory.deleter(memory.context);
    throw;
  }
  if (pin) storage->set_pinned(true);
  return Storage::adopt(storage);
}

void record_stream(const Storage& storage, const Stream& stream) {
  if (!storage) return;
  TENON_CHECK(stream.device().type() == storage->device().type() || storage->pinned(), DeviceError,
              "record_stream: stream: expected one of ", storage->device(), ", got one of ", stream.device());
  if (!storage->owned_by(&CachingAllocator::release)) return;  // foreign memory: its owner's business
  auto* block = static_cast<Block*>(storage->context());
  block->pool->owner->record_stream(block, stream);
}

MemoryStats memory_stats(Device device) { return find(device).stats(); }
void reset_peak_memory_stats(Device device) { find(device).reset_peaks(); }
void reset_accumulated_memory_stats(Device device) { find(device).reset_accumulated(); }

int64_t memory_allocated(Device device) {
  int64_t allocated, peak, reserved;
  find(device).usage(allocated, peak, reserved);
  return allocated;
}

int64_t max_memory_allocated(Device device) {
  int64_t allocated, peak, reserved;
  find(device).usage(allocated, peak, reserved);
  return peak;
}

int64_t memory_reserved(Device device) {
  int64_t allocated, peak, reserved;
  find(device).usage(allocated, peak, reserved);
  return reserved;
}

int64_t max_memory_reserved(Device device) { return find(device).stats().peak_reserved; }

void empty_cache(Device device) { find(device).empty_cache(); }
MemoryStats pinned_memory_stats() { return pinned().stats(); }
void empty_pinned_cache() { pinned().empty_cache(); }

void set_allocator_settings(const std::string& conf) { set_allocator_settings(AllocatorSettings::parse(conf)); }

void set_allocator_settings(const AllocatorSettings& parsed) {
  parsed.check();
  std::lock_guard lock(registry_mutex);
  const AllocatorSettings before = settings_read ? settings() : AllocatorSettings();
  settings_read = true;  // explicit settings win over the environment, also over a mistake in it
  try {
    for_each_allocator([&](CachingAllocator& a) { a.configure(parsed); });
  } catch (...) {  // all or none
    for_each_allocator([&](CachingAllocator& a) {
      try {
        a.configure(before);
      } catch (...) {
      }
    });
    throw;
  }
  settings() = parsed;
  if (parsed.background_trim_ms == 0 && !trimming) return;
  trimming = parsed.background_trim_ms > 0;
  watch_forks();
  set_background_trim(parsed.background_trim_ms, trim_round);  // a round takes no registry_mutex
}

AllocatorObserver* set_allocator_observer(AllocatorObserver* next) {
  std::lock_guard lock(registry_mutex);
  for_each_allocator([&](CachingAllocator& a) { a.observe(next); });
  return std::exchange(observer, next);
}

std::string allocator_settings() {
  std::lock_guard lock(registry_mutex);
  return settings().str();
}

}  // namespace tenon::memory
