// SPDX-License-Identifier: Apache-2.0
#include <tenon/core/error.h>
#include <tenon/streams/blame.h>
#include <tenon/streams/failure.h>
#include <tenon/streams/state.h>
#include <tenon/streams/watchdog.h>

#include <pthread.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <new>
#include <thread>
#include <utility>
#include <vector>

namespace tenon {
namespace {

using Clock = std::chrono::steady_clock;

struct Watchdog {
  std::mutex control;  // held while starting and stopping
  std::mutex mutex;    // guards `stop`
  std::condition_variable changed;
  std::thread thread;
  WatchdogOptions options;  // the thread's while it runs
  bool stop = false;
};
Watchdog& watchdog() {
  static auto* w = new Watchdog;  // never destroyed: its thread may outlive static objects
  return *w;
}

struct Progress {
  detail::FencedStream seen;
  Clock::time_point since;
  bool reported;
};

class Rounds {
 public:
  explicit Rounds(WatchdogOptions& options) : options_(options) {}
  void round() {
    for (const DeviceType type : {kCUDA, kSim}) {
      for (int i = 0; i < kMaxDevices; ++i) beat(Device(type, i));
    }
    if (options_.hang_ms > 0) look_for_hangs();
  }

 private:
  void report(const std::string& text) {
    try {
      if (options_.report) {
        options_.report(text);
      } else {
        std::fprintf(stderr, "tenon watchdog: %s\n", text.c_str());
      }
    } catch (...) {  // there is nobody to tell
    }
  }

  void beat(Device device) {
    const uint64_t bit = uint64_t{1} << detail::slot_of(device);
    if (!(detail::launched_mask() & bit)) return;
    RawStreams* raw = detail::registered_raw_streams(device.type());
    if (!raw) return;
    try {
      if (device.is_cuda()) set_current_device(device);
      raw->heartbeat(device.index());
      reported_ &= ~bit;  // a simulated device was mended
    } catch (const std::exception& e) {
      if (!(std::exchange(reported_, reported_ | bit) & bit)) report(e.what());
    } catch (...) {
    }
  }

  void look_for_hangs() {
    const auto now = Clock::now();
    for (const detail::FencedStream& s : detail::fenced_streams()) {
      if (__atomic_load_n(&detail::failed_devices, __ATOMIC_RELAXED) >> detail::slot_of(s.device) & 1u) continue;
      Progress* known = nullptr;
      for (Progress& p : progress_) {
        if (p.seen.device == s.device && p.seen.stream == s.stream) known = &p;
      }
      if (!known) known = &progress_.emplace_back(Progress{s, now, false});
      if (static_cast<int32_t>(s.launched - s.finished) <= 0 || s.finished != known->seen.finished ||
          known->seen.launched == known->seen.finished) {
        *known = {s, now, false};
        continue;
      }
      const auto waited = std::chrono::duration_cast<std::chrono::milliseconds>(now - known->since).count();
      if (known->reported || waited < options_.hang_ms) continue;
      known->reported = true;
      std::string work = "a launch";
      for (const Launch& l : suspects(s.device)) {
        if (l.stream == s.stream) work = l.str();
      }
      report(detail::concat(s.device.str(), " stream ", s.stream, " hangs: ", work, " has not finished for ", waited,
                            " ms"));
    }
  }

  WatchdogOptions& options_;
  uint64_t reported_ = 0;
  std::vector<Progress> progress_;
};

void run(Watchdog& w) {
  Rounds rounds(w.options);
  std::unique_lock lock(w.mutex);
  while (!w.stop) {
    w.changed.wait_for(lock, std::chrono::milliseconds(w.options.period_ms));
    if (w.stop) return;
    lock.unlock();
    rounds.round();
    lock.lock();
  }
}

// Under control.
void stop(Watchdog& w) {
  if (!w.thread.joinable()) return;
  {
    std::lock_guard lock(w.mutex);
    w.stop = true;
  }
  w.changed.notify_all();
  if (w.thread.get_id() == std::this_thread::get_id()) {  // exit() was called in its report
    w.thread.detach();
  } else {
    w.thread.join();
  }
  w.stop = false;
}

void in_child() {
  Watchdog& w = watchdog();
  if (w.thread.joinable()) {
    // The thread is not in this process: its handle and what it waited on are abandoned.
    ::new (static_cast<void*>(&w.thread)) std::thread;
    ::new (static_cast<void*>(&w.changed)) std::condition_variable;
  }
  w.mutex.unlock();
  w.control.unlock();
}

}  // namespace

void start_watchdog(WatchdogOptions options) {
  TENON_CHECK(options.period_ms >= 1 && options.hang_ms >= 0, ValueError,
              "start_watchdog: expected a period of at least 1 ms and no negative limit, got ", options.period_ms,
              " and ", options.hang_ms);
  Watchdog& w = watchdog();
  static const bool once = [] {
    std::atexit([] {
      Watchdog& last = watchdog();
      std::lock_guard control(last.control);
      stop(last);
    });
    return pthread_atfork([] { watchdog().control.lock(), watchdog().mutex.lock(); },
                          [] { watchdog().mutex.unlock(), watchdog().control.unlock(); }, in_child) == 0;
  }();
  (void)once;
  if (options.hang_ms > 0) set_blame_mode(true);
  std::lock_guard control(w.control);
  stop(w);
  w.options = static_cast<WatchdogOptions&&>(options);
  w.thread = std::thread([&w] { run(w); });
}

void stop_watchdog() {
  Watchdog& w = watchdog();
  std::lock_guard control(w.control);
  stop(w);
}

bool watchdog_running() noexcept {
  Watchdog& w = watchdog();
  std::lock_guard control(w.control);
  return w.thread.joinable();
}

}  // namespace tenon
