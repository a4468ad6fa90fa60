// SPDX-License-Identifier: Apache-2.0
// The worker behind background_trim_ms: one thread for all allocators that gives back what has been idle for a whole
// period. Stopped before static objects are destroyed; a forked child starts its own when it first grows.
// Internal: not for users' files.
#pragma once

#include <tenon/core/api.h>

#include <cstdint>

namespace tenon::memory {

/// Changes the period; 0 stops the worker and waits for it. `round` is what it calls.
void set_background_trim(int64_t milliseconds, void (*round)());
/// Starts the worker again where a fork has left it behind. One load when there is nothing to do.
void ensure_background_trim() noexcept;
/// Around fork, and in the child.
void lock_background_trim();
void unlock_background_trim(bool child);

/// The longest time in nanoseconds that a round held a lock, since the start of the process.
TENON_API int64_t longest_trim_hold() noexcept;
void note_trim_hold(int64_t nanoseconds) noexcept;

}  // namespace tenon::memory
