// SPDX-License-Identifier: Apache-2.0
// The simulated device's controls: options, faults, counters, the log.
#include <tenon/streams/op_context.h>
#include <tenon/streams/sim_streams.h>
#include <tenon/streams/state.h>

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <new>
#include <string_view>
#include <utility>

namespace tenon::sim {
namespace {

constinit MemoryHooks hooks{};
constinit std::atomic<SimStreams*> existing{nullptr};
constexpr const char* kNames[kCallKinds] = {"allocate",     "release",    "create_stream", "create_event",
                                            "record_event", "wait_event", "query",         "synchronize",
                                            "copy",         "launch",     "callback"};

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

void SimStreams::enter(CallKind kind, int device) {
  const bool fails = count_call(kind);
  const int64_t number = counters_.calls[static_cast<int>(kind)];
  advance();
  if (!fails) return;
  note(nullptr, device, "fault", kNames[static_cast<int>(kind)]);
  const std::string_view schema = current_operator ? current_operator : "";
  const std::string_view op = schema.substr(0, schema.find('('));
  detail::fail<CudaError>(op, op.empty() ? "" : ": ", "sim: ", kNames[static_cast<int>(kind)], " on ",
                          Device(kSim, device), ", call ", number, " of its kind, was made to fail (sim::fail)");
}

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
void SimStreams::clear_faults() {
  std::lock_guard lock(mutex_);
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
    hooks.trim();
  }
  std::lock_guard lock(mutex_);
  unseen_.clear();
  for (int d = 0; d < kMaxDevices; ++d) {
    drain_device(d);
    if (errors_[d]) unseen_.push_back(Device(kSim, d).str() + ": " + text_of(errors_[d]));
    defaults_[d].number = -1;
    errors_[d] = nullptr;
  }
  for (auto& [handle, stream] : streams_) free_handles_.push_back(handle);
  std::sort(free_handles_.begin(), free_handles_.end(), std::greater<>());
  streams_.clear();
  gone_.clear();
  starved_ = nullptr;
  faults_.clear();
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
void fail_any(int64_t index, int64_t count) { SimStreams::instance().fail(-1, index, count); }
void clear_faults() { SimStreams::instance().clear_faults(); }
Counters counters() { return SimStreams::instance().counters(); }
std::vector<std::string> log() { return SimStreams::instance().log(); }
int64_t run(int64_t tasks) { return SimStreams::instance().run(tasks); }

}  // namespace tenon::sim
