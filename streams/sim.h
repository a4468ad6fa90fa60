// SPDX-License-Identifier: Apache-2.0
// The simulated device: `Device(kSim, i)` for tensors, streams and events on a machine without a GPU. Operators use the
// CPU's kernels, but queued on virtual streams. At every call that touches a stream, a scheduler chooses by a seed which
// streams advance and how far, so wrong orders show without luck, and a seed repeats them exactly. Memory is bounded,
// and any call can be made to fail. docs/simulated_device.md shows how to find a missing record_stream with it.
//
//   sim::configure({.devices = 1, .memory_bytes = 64 << 20, .seed = 7});
//   Tensor x = ones({4}, device(kSim));
//
// Thread safety: everything, from any thread. With several threads the order of their calls is part of the schedule.
#pragma once

#include <tenon/core/device.h>

#include <cstdint>
#include <string>
#include <vector>

namespace tenon::sim {

enum class Schedule : uint8_t {
  seeded,  ///< as the seed says: streams run ahead, fall behind, starve
  lazy,    ///< nothing runs before somebody waits for it
  eager    ///< everything that can run does so at once
};

struct Options {
  int devices = 2;                          ///< 1 to kMaxDevices
  int64_t memory_bytes = int64_t{1} << 30;  ///< of each device
  uint64_t seed = 0;
  Schedule schedule = Schedule::seeded;
  bool log = false;  ///< keep what log() tells
};

/// Sets the devices up; without it they are as Options says. No tensor, event or exclusive stream of the simulated
/// device may be in use in any thread: DeviceError when memory still is. Cached memory is given back, streams are made
/// anew, faults, counters, the log and the statistics of the devices' memory begin anew, and the calling thread's current
/// streams are the default ones. Returns how many errors in data nobody has waited for: unseen_errors() has them.
TENON_API int64_t configure(const Options& options);
/// configure() with the options in force and another seed; cheap, for many small programs.
TENON_API int64_t reset(uint64_t seed);
/// What queued kernels threw and no wait has reported before the last configure or reset (the first of each device):
/// "sim:0: index_select: ...". A program that ends without waiting for its stream has not heard of them.
TENON_API std::vector<std::string> unseen_errors();
TENON_API Options options();

/// What can be counted, and can fail. A failing allocation is a device without memory (the allocator's ladder goes on,
/// OutOfMemoryError at its end); the other calls throw CudaError, as the same call on a GPU would.
enum class CallKind : uint8_t {
  allocate,  ///< of device or pinned memory, from the device, not from the allocator's cache
  release,   ///< cannot fail
  create_stream,
  create_event,
  record_event,
  wait_event,
  query,        ///< of an event or a stream
  synchronize,  ///< an event, a stream or a device
  copy,
  launch,  ///< an operator's kernel
  callback
};
inline constexpr int kCallKinds = 11;
TENON_API const char* name(CallKind kind);

/// The `index`-th call of that kind from now on fails (1: the next one), and the `count - 1` ones after it.
TENON_API void fail(CallKind kind, int64_t index = 1, int64_t count = 1);
/// The same over calls of all kinds.
TENON_API void fail_any(int64_t index, int64_t count = 1);
TENON_API void clear_faults();

struct Counters {
  int64_t calls[kCallKinds];  ///< by kind
  int64_t queued, run;        ///< tasks: kernels, copies, callbacks, event marks and waits
  int64_t faults;             ///< calls that were made to fail
};
TENON_API Counters counters();
/// What was called and what ran, in order, one line each: "12 sim:0 stream 1 queue add". The first number tells how many
/// tasks had run by then; streams are numbered by first use. Empty unless Options::log.
TENON_API std::vector<std::string> log();

/// Lets up to `tasks` tasks run, chosen by the seed; returns how many there were to run. Nothing waits.
TENON_API int64_t run(int64_t tasks = INT64_MAX);

}  // namespace tenon::sim
