// SPDX-License-Identifier: Apache-2.0
#include <tenon/memory/spin_lock.h>

#include <sched.h>

namespace tenon::memory {

void SpinLock::wait() {
  int spins = 0;
  do {
    while (__atomic_load_n(&held_, __ATOMIC_RELAXED) != 0u) {
      if (++spins < 64) {
#if defined(__x86_64__)
        __builtin_ia32_pause();
#endif
      } else {
        sched_yield();
      }
    }
  } while (__atomic_exchange_n(&held_, 1u, __ATOMIC_ACQUIRE) != 0u);
}

}  // namespace tenon::memory
