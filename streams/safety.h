// SPDX-License-Identifier: Apache-2.0
// Stream safety: races between streams found, or mended; and the watch for operators that make the host wait.
//
// Note [Stream safety]. Work of one stream runs in order, work of two only as far as events and waits say. With
// `check`, every operator that touches memory which another stream touched before it, one of them writing, throws
// RaceError unless its stream waits for the other: both operators and streams are named. So does a read on the host of
// memory that a copy may still be writing to (data_ptr, item, accessor, printing), and an operator whose memory was
// given back while another stream, of which record_stream has not told, still used it. With `automatic`, tenon inserts
// the wait in the first two cases and tells the allocator in the third. The answer follows from what the program said,
// not from what the device was doing just then, so one run is enough.
// What counts: operators on memory of tenon's allocators, by bytes of a storage; Stream, Event and synchronize() of
// tenon. Kernels of your own that no operator wraps, raw handles, the inside of a replayed graph, and memory of others
// (from_blob) are not seen. A captured stream and one that is not are never made to wait for each other.
// Thread safety: everything, from any thread. A mode holds for all threads; others than the one that sets it follow at
// their next use of a stream, an event or a guard, or after their first operator on a device.
#pragma once

#include <tenon/core/error.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tenon {

enum class StreamSafety : uint8_t {
  off,       ///< costs nothing
  check,     ///< throws RaceError
  automatic  ///< waits where the program forgot to ("auto" in TENON_STREAM_SAFETY)
};

/// Two streams, or a stream and the host, touch one memory and nothing puts them in order.
class TENON_API RaceError : public Error {
 public:
  using Error::Error;
  ~RaceError() override;
};
/// An operator would make the host wait while SyncDebugMode::error forbids it.
class TENON_API SyncError : public Error {
 public:
  using Error::Error;
  ~SyncError() override;
};

/// At first what the environment variable TENON_STREAM_SAFETY says: off, check or auto, with ",sites" behind. `sites`
/// keeps the call stack of every operator, so that a RaceError has the place of both (about 2 us an operator).
TENON_API void set_stream_safety(StreamSafety mode, bool sites = false);
TENON_API StreamSafety stream_safety() noexcept;
/// How many races have been found, or mended, since the start.
TENON_API int64_t stream_races() noexcept;

enum class SyncDebugMode : uint8_t {
  off,
  warn,  ///< a warning (core/warning.h) once per place, and sync_sites() counts
  error  ///< SyncError before the host waits
};
/// Operators that make the host wait for a device, with the place of the call. Waits that the program asks for itself
/// (Stream::synchronize and its kind outside of operators) are counted and never complained about.
TENON_API void set_sync_debug_mode(SyncDebugMode mode);
TENON_API SyncDebugMode sync_debug_mode() noexcept;

/// A place that made the host wait.
struct SyncSite {
  std::string op;    ///< the outermost operator, or what was called: "Stream::synchronize"
  std::string site;  ///< as core/stack_trace.h writes it
  int64_t count;     ///< calls of the operator, however often it waited inside
};
/// By count, the most first; since the mode was last set.
TENON_API std::vector<SyncSite> sync_sites();
/// How often the host has waited for a device since the start of the process, in any mode.
TENON_API int64_t sync_count() noexcept;

namespace detail {
extern TENON_API constinit uint8_t stream_safety_mode;
/// Called in each thread after either mode has changed, with whether any of them needs to see operators. Set once, by
/// dispatch.
TENON_API void set_watch_hook(void (*hook)(bool watching)) noexcept;
/// Throws what is wrong with TENON_STREAM_SAFETY.
TENON_API void check_safety_environment();
TENON_API bool safety_sites() noexcept;
TENON_API void count_race() noexcept;

/// The host is about to wait; `what` is a literal that names the call.
TENON_API void note_wait(const char* what);
/// The outermost operator of the calling thread, for note_wait.
class TENON_API WatchedOperator {
 public:
  explicit WatchedOperator(std::string_view name) noexcept;
  ~WatchedOperator();
  WatchedOperator(const WatchedOperator&) = delete;
  WatchedOperator& operator=(const WatchedOperator&) = delete;
};
/// Waits inside are the library's own business, or have been noted.
class TENON_API QuietWaits {
 public:
  QuietWaits() noexcept;
  ~QuietWaits();
  QuietWaits(const QuietWaits&) = delete;
  QuietWaits& operator=(const QuietWaits&) = delete;
};
}  // namespace detail

}  // namespace tenon
