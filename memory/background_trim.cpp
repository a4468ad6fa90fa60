// SPDX-License-Identifier: Apache-2.0
#include <tenon/memory/background_trim.h>

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <new>
#include <thread>

namespace tenon::memory {
namespace {

struct Worker {
  std::mutex control;  // held while starting and stopping
  std::mutex mutex;    // guards the rest
  std::condition_variable changed;
  std::thread thread;
  int64_t period = 0;
  void (*round)() = nullptr;
  bool stop = false;
};

Worker& worker() {
  static auto* w = new Worker;  // never destroyed: the thread may outlive static objects
  return *w;
}

constinit bool left_behind = false;  // by a fork; atomic
constinit int64_t longest_hold = 0;  // atomic

void run(Worker& w) {
  std::unique_lock lock(w.mutex);
  while (!w.stop) {
    w.changed.wait_for(lock, std::chrono::milliseconds(w.period));
    if (w.stop) return;
    void (*const round)() = w.round;
    lock.unlock();
    round();
    lock.lock();
  }
}

// Under control.
void stop(Worker& w) {
  if (!w.thread.joinable()) return;
  {
    std::lock_guard lock(w.mutex);
    w.stop = true;
  }
  w.changed.notify_all();
  w.thread.join();
  w.stop = false;
}

void start(Worker& w) {
  static const bool at_exit = std::atexit([] {
                                Worker& last = worker();
                                std::lock_guard control(last.control);
                                if (!__atomic_load_n(&left_behind, __ATOMIC_RELAXED)) stop(last);
                              }) == 0;
  (void)at_exit;
  w.thread = std::thread([&w] { run(w); });
}

}  // namespace

void set_background_trim(int64_t milliseconds, void (*round)()) {
  Worker& w = worker();
  std::lock_guard control(w.control);
  __atomic_store_n(&left_behind, false, __ATOMIC_RELAXED);
  stop(w);  // a thread that a fork has left behind is not joinable any more
  w.period = milliseconds;
  w.round = round;
  if (milliseconds > 0) start(w);
}

void ensure_background_trim() noexcept {
  if (!__atomic_load_n(&left_behind, __ATOMIC_RELAXED)) [[likely]]
    return;
  Worker& w = worker();
  // The caller holds an allocator's lock, which whoever forks wants while holding this one.
  std::unique_lock control(w.control, std::try_to_lock);
  if (!control.owns_lock()) return;
  if (!__atomic_exchange_n(&left_behind, false, __ATOMIC_RELAXED) || w.period == 0) return;
  try {
    start(w);
  } catch (...) {  // no thread to be had: the memory stays cached
  }
}

void lock_background_trim() {
  worker().control.lock();
  worker().mutex.lock();
}

void unlock_background_trim(bool child) {
  Worker& w = worker();
  if (child && w.thread.joinable()) {
    // The thread is not in this process: its handle and what it waited on are abandoned.
    ::new (static_cast<void*>(&w.thread)) std::thread;
    ::new (static_cast<void*>(&w.changed)) std::condition_variable;
    __atomic_store_n(&left_behind, true, __ATOMIC_RELAXED);
  }
  w.mutex.unlock();
  w.control.unlock();
}

int64_t longest_trim_hold() noexcept { return __atomic_load_n(&longest_hold, __ATOMIC_RELAXED); }

void note_trim_hold(int64_t nanoseconds) noexcept {
  if (nanoseconds > longest_trim_hold()) __atomic_store_n(&longest_hold, nanoseconds, __ATOMIC_RELAXED);
}

}  // namespace tenon::memory
