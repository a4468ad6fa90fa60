// SPDX-License-Identifier: Apache-2.0
// The lock of an allocator: held for a few nanoseconds around list surgery, never across a driver call or a
// wait. Under contention it spins briefly and then yields, so that a preempted holder can finish.
// Internal: not for users' files.
#pragma once

#include <tenon/core/api.h>

#include <cstdint>

namespace tenon::memory {

class SpinLock {
 public:
  /// True when another thread held it.
  bool lock() {
    if (__atomic_exchange_n(&held_, 1u, __ATOMIC_ACQUIRE) == 0u) [[likely]]
      return false;
    wait();
    return true;
  }
  void unlock() { __atomic_store_n(&held_, 0u, __ATOMIC_RELEASE); }

 private:
  TENON_API void wait();
  uint32_t held_ = 0;
};

/// Holds the lock for a scope. Not movable: the scope is the critical section.
class SpinGuard {
 public:
  explicit SpinGuard(SpinLock& lock) : lock_(lock) { lock_.lock(); }
  ~SpinGuard() { lock_.unlock(); }
  SpinGuard(const SpinGuard&) = delete;
  SpinGuard& operator=(const SpinGuard&) = delete;

 private:
  SpinLock& lock_;
};

}  // namespace tenon::memory
