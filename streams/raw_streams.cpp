// SPDX-License-Identifier: Apache-2.0
// Which implementation serves a device type, how libtenon_cuda is found, what survives a fork, and the
// calling thread's current device.
#include <dlfcn.h>
#include <pthread.h>
#include <tenon/streams/availability.h>
#include <tenon/streams/raw_streams.h>
#include <tenon/streams/settle.h>
#include <tenon/streams/sim_streams.h>
#include <tenon/streams/state.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <string>

namespace tenon {

RawStreams::~RawStreams() = default;
void RawStreams::launch(int, void*, const char*, Function<void()> kernel) { kernel(); }
bool RawStreams::settle_stream(int device, void* stream) noexcept {
  try {
    synchronize_stream(device, stream);
    return true;
  } catch (...) {
    return false;
  }
}
bool RawStreams::settle_device(int device) noexcept {
  try {
    synchronize_device(device);
    return true;
  } catch (...) {
    return false;
  }
}
bool RawStreams::device_properties(int, cuda::DeviceProperties&) { return false; }
void RawStreams::memory_info(int, int64_t& free, int64_t& total) { free = total = 0; }
int RawStreams::runtime_version() { return 0; }
int RawStreams::driver_version() { return 0; }
const char* RawStreams::arch_list() { return ""; }
void RawStreams::describe_error(int, const char*&, const char*&) {}
void RawStreams::check_device(int) {}

using detail::runs_inline;
using detail::thread_state;

namespace {

constinit std::atomic<RawStreams*> registered[kDeviceTypes]{};
constinit std::atomic<int> counts[kDeviceTypes]{};                // device count + 1; 0: not asked yet
constinit std::atomic<uint32_t> checked_devices[kDeviceTypes]{};  // bit per ordinal that resolve() has seen
static_assert(kMaxDevices <= 32);
constinit std::atomic<int64_t> set_device_count{0};
constinit std::atomic<bool> cuda_used{false}, forked{false};

// ---- loading libtenon_cuda ----

[[maybe_unused]] constexpr const char* kCudaLibraries[] = {"libtenon_cuda.so", "libtenon_cuda.so.0"};

struct Loader {
  std::recursive_mutex mutex;  // the library's initialisers may ask again
  bool tried = false;
  std::string error;
};
Loader& loader() {
  static Loader* const instance = new Loader;
  return *instance;
}

[[maybe_unused]] std::string library_folder() {
  Dl_info info{};
  if (!dladdr(static_cast<const void*>(&registered), &info) || !info.dli_fname) return {};
  const std::string path = info.dli_fname;
  const auto slash = path.rfind('/');
  return slash == std::string::npos ? std::string() : path.substr(0, slash + 1);
}

void load_cuda_library() {
  Loader& l = loader();
  std::lock_guard lock(l.mutex);
  if (l.tried || registered[static_cast<int>(kCUDA)].load()) return;
  l.tried = true;
#ifdef TENON_STATIC
  // The kernels would be linked in; another copy of them would serve another copy of tenon.
  l.error = "this program links tenon statically and without CUDA";
#else
  // Beside libtenon first, then wherever the system looks. A file that is there and does not load has the better
  // reason, which is kept.
  void* library = nullptr;
  const std::string folder = library_folder();
  for (const char* file : kCudaLibraries) {
    const std::string path = folder + file;
    if (library || folder.empty() || access(path.c_str(), F_OK) != 0) continue;
    library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library) l.error = dlerror();
  }
  for (const char* file : kCudaLibraries) {
    if (library) break;
    library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (!library && l.error.empty()) l.error = dlerror();
  }
  if (!library) return;
  l.error.clear();
  if (!registered[static_cast<int>(kCUDA)].load()) {
    l.error = "libtenon_cuda was loaded but serves another copy of libtenon";
  }
#endif
}

// ---- fork ----

// The child gets a copy of the driver's state that the driver refuses to use. Everything about CUDA is
// forgotten there, so that every path ends at raw_streams(), which says why.
void in_child() {
  if (!cuda_used.load(std::memory_order_relaxed)) return;
  forked.store(true, std::memory_order_relaxed);
  constexpr int cuda = static_cast<int>(kCUDA);
  registered[cuda].store(nullptr, std::memory_order_relaxed);
  counts[cuda].store(1, std::memory_order_relaxed);
  checked_devices[cuda].store(0, std::memory_order_relaxed);
  thread_state.device[cuda] = 0;
  for (int i = 0; i < kMaxDevices; ++i) thread_state.streams[detail::slot_of(Device(kCUDA, i))] = {};
}
[[maybe_unused]] const int fork_handler = pthread_atfork(nullptr, nullptr, in_child);

void check_ordinal(DeviceType type, int index) {
  RawStreams& raw = raw_streams(type);
  const int count = device_count(type);
  TENON_CHECK(index < count, DeviceError, "device: expected an ordinal below ", count, ", got ", Device(type, index),
              "; ", count, count == 1 ? " device is" : " devices are", " visible");
  raw.check_device(index);
  checked_devices[static_cast<int>(type)].fetch_or(1u << index, std::memory_order_release);
}

}  // namespace

void register_raw_streams(DeviceType type, RawStreams* streams) {
  TENON_CHECK(streams && !runs_inline(type), RegistrationError,
              "register_raw_streams: expected streams for cuda or sim, got ", streams ? name(type) : "null");
  RawStreams* expected = nullptr;
  const bool won = registered[static_cast<int>(type)].compare_exchange_strong(expected, streams);
  TENON_CHECK(won || expected == streams, RegistrationError, "register_raw_streams: ", name(type),
              " has another implementation already");
}

RawStreams* find_raw_streams(DeviceType type) noexcept {
  RawStreams* streams = registered[static_cast<int>(type)].load(std::memory_order_acquire);
  if (!streams && type == kSim) {
    // Always there, but made on the first question, so that another implementation can take its place before.
    registered[static_cast<int>(kSim)].compare_exchange_strong(streams, &sim::SimStreams::instance());
    return registered[static_cast<int>(kSim)].load(std::memory_order_acquire);
  }
  if (streams || type != kCUDA || forked.load(std::memory_order_relaxed)) return streams;
  try {
    load_cuda_library();
  } catch (...) {  // no memory: as good as no library
  }
  return registered[static_cast<int>(type)].load(std::memory_order_acquire);
}

RawStreams& raw_streams(DeviceType type) {
  // A library without a device is no implementation: its first call would fail with less to say.
  RawStreams* streams = device_count(type) > 0 ? find_raw_streams(type) : nullptr;
  if (streams) [[likely]]
    return *streams;
  if (type == kCUDA) {
    const cuda::CudaAvailability a = cuda::availability();
    detail::fail<DeviceError>("cuda is unavailable: ", a.reason, a.remedy.empty() ? "" : "\n  ", a.remedy);
  }
  detail::fail<DeviceError>(name(type), runs_inline(type)
                                            ? ": work runs in the calling thread, there are no raw streams"
                                            : " is unavailable: no implementation is registered");
}

int device_count(DeviceType type) {
  if (runs_inline(type)) return 1;
  std::atomic<int>& known = counts[static_cast<int>(type)];
  const int cached = known.load(std::memory_order_acquire);
  if (cached > 0) [[likely]]
    return cached - 1;
  RawStreams* streams = find_raw_streams(type);
  if (!streams) return 0;  // not remembered: a plugin may still register one
  int count = 0;
  try {
    if (type == kCUDA) detail::note_cuda_used();
    count = std::min(streams->device_count(), kMaxDevices);
  } catch (const std::exception&) {  // availability() tells why
  }
  known.store(count + 1, std::memory_order_release);
  return count;
}

Device resolve(Device device) {
  const DeviceType type = device.type();
  if (runs_inline(type)) return device;
  const int index = device.has_index() ? device.index() : current_device(type);
  const uint32_t checked = checked_devices[static_cast<int>(type)].load(std::memory_order_acquire);
  if (index >= kMaxDevices || !(checked >> index & 1u)) [[unlikely]]
    check_ordinal(type, index);
  return Device(type, index);
}

int current_device(DeviceType type) {
  if (runs_inline(type)) return 0;
  int8_t& known = thread_state.device[static_cast<int>(type)];
  if (known == 0) [[unlikely]]
    known = static_cast<int8_t>(detail::usable_raw_streams(type).current_device() + 1);
  return known - 1;
}

void set_current_device(Device device) {
  device = resolve(device);
  if (runs_inline(device.type()) || device.index() == current_device(device.type())) return;
  detail::usable_raw_streams(device.type()).set_device(device.index());
  set_device_count.fetch_add(1, std::memory_order_relaxed);
  thread_state.device[static_cast<int>(device.type())] = static_cast<int8_t>(device.index() + 1);
}

namespace detail {

RawStreams& usable_raw_streams(DeviceType type) {
  TENON_CHECK(!thread_state.in_callback, DeviceError, "a host callback of a stream must not use a device: no ",
              name(type), " call is allowed in it\n  Queue the work from the thread that added the callback.");
  return raw_streams(type);
}

RawStreams* registered_raw_streams(DeviceType type) noexcept {
  return registered[static_cast<int>(type)].load(std::memory_order_acquire);
}

std::string cuda_library_error() {
  Loader& l = loader();
  std::lock_guard lock(l.mutex);
  return l.error;
}

bool forked_after_cuda() noexcept { return forked.load(std::memory_order_relaxed); }
void note_cuda_used() noexcept { cuda_used.store(true, std::memory_order_relaxed); }
int64_t set_device_calls() noexcept { return set_device_count.load(std::memory_order_relaxed); }
bool in_host_callback() noexcept { return thread_state.in_callback; }
bool in_device_work() noexcept { return thread_state.in_callback || thread_state.in_task; }

RawStreams* exchange_raw_streams(DeviceType type, RawStreams* streams) {
  forget_pooled_streams(type);
  forget_pooled_events(type);
  const int t = static_cast<int>(type);
  counts[t].store(0);
  checked_devices[t].store(0);
  thread_state.device[t] = 0;
  return registered[t].exchange(streams);
}

}  // namespace detail

}  // namespace tenon
