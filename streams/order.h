// SPDX-License-Identifier: Apache-2.0
// Internal: which work comes before which, as far as streams, events and waits of the host say so.
//
// Note [Stream clocks]. Every stream has a number, and a tick that grows whenever it is marked (an event is recorded, the
// host begins to wait). Work queued on a stream belongs to a StreamPoint: the stream's number and its tick then. A clock
// holds for every stream the latest tick that is known to come before: a recorded event takes a copy of its stream's,
// a stream that waits for the event takes the greater of both, and what the host has seen finished is in `done`, for
// whoever queues anything from then on. A point comes before what `by` queues next when by's clock, or `done`, has
// reached its tick. Nothing is asked of the device, so the answer depends on the program and not on its luck.
// Thread safety: the functions that take a Lock need it, the others take it themselves.
#pragma once

#include <tenon/streams/stream.h>

#include <cstdint>
#include <mutex>
#include <vector>

namespace tenon::detail {

/// Stream safety may have been switched by another thread: whatever touches streams looks.
extern constinit uint32_t watch_changes;
extern constinit thread_local uint32_t watch_seen __attribute__((tls_model("initial-exec")));
void follow_watch_now();
inline void follow_watch() {
  if (__atomic_load_n(&watch_changes, __ATOMIC_ACQUIRE) != watch_seen) [[unlikely]]
    follow_watch_now();
}

struct StreamPoint {
  uint32_t stream;
  uint32_t tick;
};
using StreamClock = std::vector<uint32_t>;  // by number of the stream

extern TENON_API constinit bool order_tracked;
inline bool tracks_order() { return __atomic_load_n(&order_tracked, __ATOMIC_RELAXED); }

class TENON_API StreamOrder {
 public:
  /// Holds the one lock of all clocks. No other lock may be taken, and nothing waited for, while it is held.
  class Lock {
   public:
    Lock() : lock_(mutex()) {}

   private:
    std::lock_guard<std::mutex> lock_;
  };

  /// On: everything queued before counts as done.
  static void turn(bool on);
  static uint32_t number(const Lock&, const Stream& stream);
  static uint32_t tick(uint32_t stream) noexcept;
  static bool passed(const Lock&, StreamPoint point, uint32_t by) noexcept;
  static bool done(const Lock&, StreamPoint point) noexcept;
  static Stream stream_of(const Lock&, uint32_t number);

  // What streams and events report, while tracks_order().
  static void recorded(DeviceType type, void* event, const Stream& stream);
  static void waits(const Stream& stream, void* event);
  /// What will be done when the stream, the device or the event is.
  static StreamClock ahead(const Stream& stream);
  static StreamClock ahead(Device device);
  static StreamClock ahead(void* event);
  static void finished(const StreamClock& clock);
  /// The stream is gone and its work done; its number may serve another one.
  static void retire(const Stream& stream) noexcept;
  /// The implementation of the type starts anew, with nothing queued.
  static void forget(DeviceType type) noexcept;

 private:
  static std::mutex& mutex();
};

}  // namespace tenon::detail
