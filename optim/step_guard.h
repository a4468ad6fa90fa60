// SPDX-License-Identifier: Apache-2.0
// StepGuard: what a step of training may cost, as a test. A regression (an item() in the loop, memory that is asked for anew
// each step, a fused operator that fell apart) fails instead of being slow:
//
//   optim::StepGuard guard({.max_syncs = 1, .max_allocs = 0, .max_kernels = 120}, device);
//   step();
//   guard.check();
#pragma once

#include <tenon/core/device.h>
#include <tenon/core/error.h>

#include <cstdint>

namespace tenon::optim {

/// A step cost more than it may.
class TENON_API BudgetError : public Error {
 public:
  using Error::Error;
  ~BudgetError() override;
};

/// Negative: no limit.
struct StepLimits {
  int64_t max_syncs = -1;    ///< times the host waited for a device
  int64_t max_allocs = -1;   ///< segments the allocator had to ask the device (or the system) for
  int64_t max_kernels = -1;  ///< launches on devices; what the CPU computes is none
  int64_t max_peak = -1;     ///< bytes allocated on the device above what was allocated at the beginning
};
struct StepCosts {
  int64_t syncs = 0, allocs = 0, kernels = 0, peak = 0;
};

/// Counts from its construction, in the whole process: nothing else should run. It resets the device's peak statistics.
/// Thread safety: none.
class TENON_API StepGuard {
 public:
  explicit StepGuard(const StepLimits& limits, Device device = Device(kCPU));
  StepCosts costs() const;
  /// BudgetError naming each limit that was passed, with how much it cost; then counts from here again.
  void check();
  /// Counts from here.
  void restart();

 private:
  StepLimits limits_;
  Device device_;
  StepCosts begin_;
};

}  // namespace tenon::optim
