// SPDX-License-Identifier: Apache-2.0
#include <tenon/memory/caching_allocator.h>
#include <tenon/memory/context.h>
#include <tenon/memory/size_text.h>
#include <tenon/streams/state.h>

namespace tenon {

Context Context::of(Device device) {
  device = resolve(device);
  Context c;
  c.device = device;
  c.stream = current_stream(device);
  c.current = current_device(device.type()) == device.index() || detail::runs_inline(device.type());
  c.pool = stream_pool_stats(device);
  c.exclusive_streams = detail::exclusive_streams(device);
  c.pooled_events = detail::pooled_events(device);
  c.device_changes = detail::set_device_calls();
  if (!device.is_meta()) c.memory = memory::memory_stats(device);
  for (const memory::AllocatorEntry& e : memory::existing_allocators())
    if (e.pinned) c.pinned = e.allocator->stats();
  return c;
}

std::string Context::str() const {
  int64_t handouts[2] = {}, used[2] = {};
  for (int level = 0; level < 2; ++level) {
    for (const int64_t n : pool.handouts[level]) handouts[level] += n, used[level] += n > 0;
  }
  const auto stream_text = stream.id() == 0 ? std::string("default") : std::to_string(stream.id());
  std::string text = detail::concat(
      device, current ? " (current)" : "", "\n  stream   ", stream_text, ", priority ", stream.priority(),
      "\n  pool     ", handouts[0], " hand-outs of ", used[0], " streams, ", handouts[1], " of ", used[1],
      " with high priority; ", exclusive_streams, " exclusive\n  events   ", pooled_events, " at rest\n  memory   ",
      memory::size_text(memory.allocated), " in use, at most ", memory::size_text(memory.peak_allocated), "; ",
      memory::size_text(memory.reserved), " reserved");
  if (pinned.reserved > 0)
    text += detail::concat("\n  pinned   ", memory::size_text(pinned.allocated), " in use; ",
                           memory::size_text(pinned.reserved), " reserved");
  return text + "\n";
}

}  // namespace tenon
