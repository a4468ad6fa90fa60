// SPDX-License-Identifier: Apache-2.0
// What operators may do while a graph is captured, tested before the driver sees them: a CaptureError says which
// operator broke which rule. lint_capture runs a function under the same rules on any device, a machine without a GPU
// included, and lists everything that a capture would stop at.
//
// Note [Capture rules]. Not in a capture: operators that wait for the device (item, equal, ...) or whose results' sizes
// depend on data (nonzero, unique, ...); operands on the CPU, which are read once, at the capture, but for copies from
// and to pinned memory with non_blocking; operators on another device or on a stream that the capture does not cover,
// which would run at once and not in a replay; waits by hand. Views and composites are seen through.
#pragma once

#include <tenon/core/device.h>
#include <tenon/core/function.h>
#include <tenon/dispatch/thread_state.h>

#include <string>
#include <vector>

namespace tenon {

/// One operator, or wait, that a capture would refuse.
struct CaptureOffence {
  std::string where;   ///< "nonzero", "Stream::synchronize"
  std::string reason;  ///< "the sizes of its results depend on data"
  int64_t count;       ///< how often it was met
};
struct TENON_API CaptureReport {
  std::vector<CaptureOffence> offences;  ///< in the order they were met
  int64_t operators = 0;                 ///< that were looked at
  std::string stopped;                   ///< the error that ended the function early, or empty
  bool clean() const { return offences.empty() && stopped.empty(); }
  /// A line each, or "capturable: N operators".
  std::string str() const;
};
/// Runs `f` for real, but under the rules of a capture on `device`; nothing is refused, everything is listed. With the
/// CPU (or meta tensors) rules about operands on the CPU are left out.
TENON_API CaptureReport lint_capture(const Function<void()>& f, Device device = kCPU);

namespace dispatch {
struct LayerCall;
/// In ThreadState::always while the thread captures, or is linted.
inline constexpr uint32_t kCaptureLayer = 32;
/// Throws, or lists, what the rules say of the call; a capture holds its tensors.
void check_capture(const LayerCall& call);
}  // namespace dispatch

}  // namespace tenon
