// SPDX-License-Identifier: Apache-2.0
// Blame mode: which operator made a fault that some later call was told of. After every launch its stream writes the
// launch's number to a word in page-locked host memory. When the device has broken down, the words are still there to be
// read: what a stream wrote last is done, and the launch after it is the one to blame. Without blame mode all that can be
// said is what was launched last (streams/launch_ring.h).
//
// Note [Fences]. Events would not do: once a CUDA context is broken, asking an event only repeats the error. A fence
// is one write by the stream itself (a stream memory operation, no kernel). Captured work has none: it is launched as one.
// Launches of several streams may be under way at once; then the oldest unfinished one of each is a suspect.
// Thread safety: everything, from any thread.
#pragma once

#include <tenon/streams/launch_ring.h>

namespace tenon {

/// Off at first, unless TENON_BLAME is 1. On keeps 4096 launches in the ring. What was launched before has no fences.
TENON_API void set_blame_mode(bool on);
TENON_API bool blame_mode() noexcept;

/// The oldest unfinished launch of each stream of `device`, oldest first, as fences tell: after a fault, the suspects.
/// Empty when all that is known has finished, or nothing is.
TENON_API std::vector<Launch> suspects(Device device);

namespace detail {
/// To be called after a launch that note_launch() gave a number.
TENON_API void fence_launch(const Stream& stream, uint64_t sequence);
/// Where fences of a device type are written to: memory that its streams can write, never given back.
TENON_API void set_fence_memory(DeviceType type, void* (*allocate)(int64_t bytes)) noexcept;

/// A stream with fences, as the watchdog sees it.
struct FencedStream {
  Device device;
  int32_t stream = 0;
  uint32_t launched = 0, finished = 0;  ///< numbers of launches, their low 32 bits
};
TENON_API std::vector<FencedStream> fenced_streams();
/// Forgets the fences of a device type whose streams were made anew.
TENON_API void forget_fences(DeviceType type) noexcept;
}  // namespace detail

}  // namespace tenon
