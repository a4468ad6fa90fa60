// SPDX-License-Identifier: Apache-2.0
#include <tenon/streams/guard.h>
#include <tenon/streams/state.h>

namespace tenon {

DeviceGuard::DeviceGuard(Device device) {
  if (detail::runs_inline(device.type())) return;
  previous_ = Device(device.type(), current_device(device.type()));
  if (device.has_index() && device != previous_) set_current_device(device);
}

DeviceGuard::~DeviceGuard() {
  if (detail::runs_inline(previous_.type())) return;
  if (detail::thread_state.device[static_cast<int>(previous_.type())] == previous_.index() + 1) return;
  try {
    set_current_device(previous_);
  } catch (...) {  // the device is failing; whoever uses it next is told by its own call
  }
}

StreamGuard::StreamGuard(const Stream& stream) : device_(stream.device()), previous_(current_stream(stream.device())) {
  set_current_stream(stream);
}

// The slot was valid when the guard was made, so this cannot throw.
StreamGuard::~StreamGuard() { set_current_stream(previous_); }

}  // namespace tenon
