// SPDX-License-Identifier: Apache-2.0
#include <tenon/memory/allocator.h>
#include <tenon/optim/step_guard.h>
#include <tenon/streams/launch_ring.h>
#include <tenon/streams/safety.h>
#include <tenon/streams/stream.h>

#include <string>

namespace tenon::optim {

BudgetError::~BudgetError() = default;

StepGuard::StepGuard(const StepLimits& limits, Device device) : limits_(limits), device_(resolve(device)) { restart(); }

void StepGuard::restart() {
  memory::reset_peak_memory_stats(device_);
  begin_.syncs = sync_count();
  begin_.kernels = static_cast<int64_t>(launch_count());
  const memory::MemoryStats stats = memory::memory_stats(device_);
  begin_.allocs = stats.segments_allocated;
  begin_.peak = stats.allocated;
}

StepCosts StepGuard::costs() const {
  const memory::MemoryStats stats = memory::memory_stats(device_);
  return {sync_count() - begin_.syncs, stats.segments_allocated - begin_.allocs,
          static_cast<int64_t>(launch_count()) - begin_.kernels, stats.peak_allocated - begin_.peak};
}

void StepGuard::check() {
  const StepCosts now = costs();
  std::string text;
  const auto look = [&](int64_t cost, int64_t limit, const char* what) {
    if (limit < 0 || cost <= limit) return;
    text +=
        (text.empty() ? "" : "; ") + std::to_string(cost) + what + ", at most " + std::to_string(limit) + " allowed";
  };
  look(now.syncs, limits_.max_syncs, " waits for a device");
  look(now.allocs, limits_.max_allocs, " segments of memory asked for");
  look(now.kernels, limits_.max_kernels, " kernels launched");
  look(now.peak, limits_.max_peak, " bytes at the peak");
  restart();
  if (!text.empty()) throw BudgetError("StepGuard: " + text);
}

}  // namespace tenon::optim
