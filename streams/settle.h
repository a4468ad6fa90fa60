// SPDX-License-Identifier: Apache-2.0
// Internal: waiting on behalf of the library, for memory that goes back. Nothing here throws or takes the errors that
// queued work has left for the next wait of a user.
#pragma once

#include <tenon/streams/stream.h>

namespace tenon::detail {

/// True while the calling thread runs a host callback or a kernel of the simulated device, where nothing may wait for
/// a device or ask one for memory.
TENON_API bool in_device_work() noexcept;

/// Waits for the work queued on the stream, or failing that for its device. False when that could not be done: inside
/// device work, while the stream is captured, or because the device refused.
TENON_API bool settle(const Stream& stream) noexcept;

}  // namespace tenon::detail
