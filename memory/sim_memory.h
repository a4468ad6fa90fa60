// SPDX-License-Identifier: Apache-2.0
// Internal: the memory of the simulated device.
#pragma once

#include <tenon/memory/raw_memory.h>

namespace tenon::memory {

/// Memory of one simulated device: as much as sim::Options says, at addresses that keep their order from run to run.
RawMemory* sim_memory(int index);

}  // namespace tenon::memory
