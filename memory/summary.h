// SPDX-License-Identifier: Apache-2.0
// The state of a device's memory as text for people, at most 80 columns wide.
#pragma once

#include <tenon/memory/snapshot.h>

#include <string>

namespace tenon::memory {

/// Live, cached and reserved bytes of `device` with their peaks, what the words mean, page-locked host memory if there
/// is any, and the settings in force. `abbreviated`: the table only.
TENON_API std::string memory_summary(Device device, bool abbreviated = false);

/// The same text of a snapshot's allocator; `pinned` may be null.
TENON_API std::string summarize(const SnapshotAllocator& allocator, const SnapshotAllocator* pinned = nullptr,
                                bool abbreviated = false);

}  // namespace tenon::memory
