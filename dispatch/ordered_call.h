// SPDX-License-Identifier: Apache-2.0
// A call's memory as stream safety sees it (streams/safety.h): which storages the operator reads, which it writes, on
// which streams. The one place where every operator passes while it is on.
// Internal: not for users' files.
#pragma once

#include <tenon/dispatch/layers.h>

namespace tenon::dispatch {

/// A layer of its own in the thread's mask, set by streams/safety.h: either mode wants to see every operator.
inline constexpr uint32_t kStreamsLayer = 16;

/// Runs the operator below all layers, its arguments ordered before. Results are known since their memory was handed out.
void run_ordered(const LayerCall& call);

}  // namespace tenon::dispatch
