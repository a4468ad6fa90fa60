// SPDX-License-Identifier: Apache-2.0
// The simulated device's controls: options, faults, counters, the log.
#include <tenon/streams/blame.h>
#include <tenon/streams/failure.h>
#include <tenon/streams/op_context.h>
#include <tenon/streams/sim_streams.h>
#include <tenon/streams/state.h>

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <new>
#include <string_view>
#include <utility>

namespace tenon::sim {
namespace {

constinit MemoryHooks hooks{};
constinit std::atomic<SimStreams*> existing{nullptr};
constexpr const char* kNames[kCallKinds] = {"allocate",   "release", "create_stream", "create_event", "record_event",
                                            "wait_event", "query",   "synchronize",   "copy",         "launch",
                                            "callback",   "capture", "replay"};

// What an error says, for a list.
std::string text_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& e) {
    return e.what();
  } catch (...) {
    return "unknown error";
  }
}

}  // namespace

[[maybe_unused]] const bool fenced =
    (tenon::detail::set_fence_memory(kSim,
                                     [](int64_t bytes) { return std::calloc(static_cast<std::size_t>(bytes), 1); }),
     true);

void set_memory_hooks(const MemoryHooks& h) noexcept { hooks = h; }

SimStreams& SimStreams::instance() {
  static auto* const streams = [] {
    auto* made = new SimStreams;  // never destroyed: tensors may outlive static objects
    for (int i = 0; i < kMaxDevices; ++i) made->defaults_[i].device = i;
    existing = made;
    return made;
  }();
  return *streams;
}

// ---- fork ----

namespace {
thread_local SimStreams* locked = nullptr;
// Registered at load, before the allocators' handlers, and so run after them: whoever holds an allocator's lock may call
// the device, never the other way round.
[[maybe_unused]] const int fork_handler = pthread_atfork(
    [] {
      locked = existing.load();
      if (locked) locked->lock_for_fork();
    },
    [] {
      if (locked) locked->unlock_after_fork(false);
    },
    [] {
      if (locked) locked->unlock_after_fork(true);
    });
}  // namespace

void SimStreams::lock_for_fork() { mutex_.lock(); }
void SimStreams::unlock_after_fork(bool child) {
  if (child) {
    new (&idle_) std::condition_variable_any;  // the old one may count threads that are not here
    if (!tenon::detail::thread_state.in_task) {
      running_ = false;
      waiting_ = 0;
      for (auto& s : defaults_) s.running = false;
      for (auto& [handle, s] : streams_) s->running = false;
      for (auto& s : gone_) s->running = false;
    }
  }
  mutex_.unlock();
}

// ---- faults ----

bool SimStreams::count_call(CallKind kind) {
  ++counters_.calls[static_cast<int>(kind)];
  bool fails = false;
  for (Fault& f : faults_) {
    if (f.kind >= 0 && f.kind != static_cast<int>(kind)) continue;
    if (--f.index <= 0 && f.count > 0) {
      --f.count;
      fails = true;
    }
  }
  if (fails) ++counters_.faults;
  return fails;
}

void SimStreams::enter(CallKind kind, int device, void* stream) {
  const char* const call = kNames[static_cast<int>(kind)];
  const bool fails = count_call(kind);
  const int64_t number = counters_.calls[static_cast<int>(kind)];
  advance();
  if (device >= 0 && device < kMaxDevices && broken_[device]) [[unlikely]]
    fail_broken(device, call);
  if (!fails) return;
  note(nullptr, device, "fault", call);
  const std::string_view schema = current_operator ? current_operator : "";
  CudaFailure f;
  f.op = schema.substr(0, schema.find('('));
  f.device = device;
  f.memory.total = options_.memory_bytes;
  const bool on_stream = kind >= CallKind::record_event && kind != CallKind::query && kind != CallKind::synchronize;
  if (on_stream || stream) f.stream = tenon::detail::stream_of(Device(kSim, device), stream).id();
  f.report = tenon::detail::launches_text(Device(kSim, device));
  throw CudaError(
      detail::concat(f.op, f.op.empty() ? "" : ": ", "sim: ", call, " on ", Device(kSim, device),
                     f.stream < 0 ? "" : " stream ", f.stream < 0 ? std::string() : std::to_string(f.stream), ", call ",
                     number, " of its kind, was made to fail (sim::fail)"),
      f);
}

void SimStreams::fail_broken(int device, const char* call) {
  const Device d(kSim, device);
  const std::string text = std::string("sim: ") + call;
  if (!device_failure(d).empty()) tenon::detail::fail_broken(d, text.c_str());
  tenon::detail::fail_fault({d, 700, "cudaErrorIllegalAddress", "an illegal access was simulated: sim::fault_kernel",
                             text.c_str(), nullptr, 0});
}

void SimStreams::check_works(int device, const char* call) {
  std::lock_guard lock(mutex_);
  if (broken_[device]) fail_broken(device, call);
}
void SimStreams::heartbeat(int device) { check_works(device, "heartbeat"); }

bool SimStreams::begin(CallKind kind, int device) noexcept {
  std::lock_guard lock(mutex_);
  try {
    const bool fails = count_call(kind);
    note(nullptr, device, fails ? "fault" : "call", kNames[static_cast<int>(kind)]);
    advance();
    return !fails;
  } catch (...) {  // no memory for the log
    return false;
  }
}

void SimStreams::fail(int kind, int64_t index, int64_t count) {
  TENON_CHECK(index >= 1 && count >= 1, ValueError, "sim::fail: expected index and count of at least 1, got ", index,
              " and ", count);
  TENON_CHECK(kind != static_cast<int>(CallKind::release), ValueError, "sim::fail: giving memory back cannot fail");
  std::lock_guard lock(mutex_);
  std::erase_if(faults_, [](const Fault& f) { return f.count == 0; });
  faults_.push_back({kind, index, count});
}
void SimStreams::fault_kernel(int64_t index) {
  TENON_CHECK(index >= 1, ValueError, "sim::fault_kernel: expected an index of at least 1, got ", index);
  std::lock_guard lock(mutex_);
  faulty_kernel_ = index;
}
void SimStreams::clear_faults() {
  std::lock_guard lock(mutex_);
  faulty_kernel_ = 0;
  faults_.clear();
}

// ---- the rest ----

int64_t SimStreams::restart(const Options& o) {
  TENON_CHECK(o.devices >= 1 && o.devices <= kMaxDevices, ValueError, "sim::configure: devices: expected 1 to ",
              kMaxDevices, ", got ", o.devices);
  TENON_CHECK(o.memory_bytes > 0, ValueError, "sim::configure: memory_bytes: expected more than 0, got ",
              o.memory_bytes);
  TENON_CHECK(!tenon::detail::thread_state.in_task, DeviceError, "sim::configure: not inside a kernel or a callback");
  clear_faults();
  for (int d = 0; d < kMaxDevices; ++d) settle(d);
  if (hooks.in_use) {
    int device = 0;
    const int64_t bytes = hooks.in_use(device);
    TENON_CHECK(bytes == 0, DeviceError, "sim::configure: ", bytes, " bytes of ", Device(kSim, device),
                " are still in use; the devices can start anew only without tensors");
  }
  {
    std::lock_guard lock(mutex_);
    std::fill(std::begin(broken_), std::end(broken_), false);
    tenon::detail::clear_failures(kSim);
    tenon::detail::forget_fences(kSim);
  }
  if (hooks.trim) hooks.trim();
  std::lock_guard lock(mutex_);
  unseen_.clear();
  for (int d = 0; d < kMaxDevices; ++d) {
    drain_device(d);
    if (errors_[d]) unseen_.push_back(Device(kSim, d).str() + ": " + text_of(errors_[d]));
    defaults_[d].number = -1;
    errors_[d] = nullptr;
  }
  recordings_.clear();
  for (auto& [handle, stream] : streams_) free_handles_.push_back(handle);
  std::sort(free_handles_.begin(), free_handles_.end(), std::greater<>());
  streams_.clear();
  gone_.clear();
  starved_ = nullptr;
  faults_.clear();
  faulty_kernel_ = 0;
  log_.clear();
  counters_ = {};
  clock_ = 0;
  numbers_ = 0;
  options_ = o;
  random_ = o.seed * 0x9E3779B97F4A7C15u + 0x1234567;
  mood_ = static_cast<int>(draw(4));
  return static_cast<int64_t>(unseen_.size());
}

std::vector<std::string> SimStreams::unseen_errors() {
  std::lock_guard lock(mutex_);
  return unseen_;
}

Options SimStreams::options() {
  std::lock_guard lock(mutex_);
  return options_;
}
Counters SimStreams::counters() {
  std::lock_guard lock(mutex_);
  return counters_;
}
std::vector<std::string> SimStreams::log() {
  std::lock_guard lock(mutex_);
  return log_;
}
int64_t SimStreams::run(int64_t tasks) {
  std::lock_guard lock(mutex_);
  TENON_CHECK(!tenon::detail::thread_state.in_task, DeviceError, "sim::run: not inside a kernel or a callback");
  int64_t ran = 0;
  for (wait_idle(); ran < tasks && step(true); wait_idle()) ++ran;
  return ran;
}

int64_t configure(const Options& o) {
  const int64_t unseen = SimStreams::instance().restart(o);
  if (tenon::detail::registered_raw_streams(kSim) == &SimStreams::instance())
    tenon::detail::destroy_pooled_events(kSim);
  tenon::detail::exchange_raw_streams(kSim, &SimStreams::instance());
  if (hooks.started) hooks.started();
  return unseen;
}
int64_t reset(uint64_t seed) {
  Options o = options();
  o.seed = seed;
  const int64_t unseen = SimStreams::instance().restart(o);
  tenon::detail::forget_pooled_streams(kSim);
  tenon::detail::destroy_pooled_events(kSim);  // so that the same calls are made whatever ran before
  return unseen;
}
std::vector<std::string> unseen_errors() { return SimStreams::instance().unseen_errors(); }
Options options() { return SimStreams::instance().options(); }
const char* name(CallKind kind) { return kNames[static_cast<int>(kind)]; }
void fail(CallKind kind, int64_t index, int64_t count) {
  SimStreams::instance().fail(static_cast<int>(kind), index, count);
}
void fault_kernel(int64_t index) { SimStreams::instance().fault_kernel(index); }
void fail_any(int64_t index, int64_t count) { SimStreams::instance().fail(-1, index, count); }
void clear_faults() { SimStreams::instance().clear_faults(); }
Counters counters() { return SimStreams::instance().counters(); }
std::vector<std::string> log() { return SimStreams::instance().log(); }
int64_t run(int64_t tasks) { return SimStreams::instance().run(tasks); }

}  // namespace tenon::sim
