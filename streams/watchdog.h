// SPDX-License-Identifier: Apache-2.0
// The watchdog: a thread that asks the devices in use, every so often, whether they still work, and reports a fault within
// about one period, also when no call of the program comes by; every later call then fails at once and quotes it (Note
// [Broken devices] in streams/failure.h). With a time limit it names streams that hang, too. It touches no stream of the
// program, so that captures are left alone: faults are heard of through a stream of its own, hangs seen in the fences of
// blame mode. Opt-in; it ends with the process, and a forked child has none.
// Thread safety: everything, from any thread but the watchdog's.
#pragma once

#include <tenon/core/api.h>
#include <tenon/core/function.h>

#include <cstdint>
#include <string>

namespace tenon {

struct WatchdogOptions {
  int64_t period_ms = 20;
  /// A stream that finishes nothing for so long, with work launched, is reported once. 0: never. Needs blame mode, which
  /// is switched on. A long kernel is no hang: choose generously.
  int64_t hang_ms = 0;
  /// Called in the watchdog's thread with what happened, for each device and each hang once; it must not use a device.
  /// Empty: a line to stderr.
  Function<void(const std::string& text)> report = {};
};

/// Starts the thread; one that runs is stopped first. ValueError for a period below 1 or a negative limit.
TENON_API void start_watchdog(WatchdogOptions options = {});
/// Returns when the thread has ended.
TENON_API void stop_watchdog();
TENON_API bool watchdog_running() noexcept;

}  // namespace tenon
