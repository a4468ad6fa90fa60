// SPDX-License-Identifier: Apache-2.0
#include <tenon/core/error.h>
#include <tenon/memory/allocator.h>
#include <tenon/memory/debug.h>
#include <tenon/memory/env_report.h>
#include <tenon/memory/size_text.h>
#include <tenon/memory/summary.h>
#include <tenon/streams/blame.h>
#include <tenon/streams/failure.h>
#include <tenon/streams/op_context.h>
#include <tenon/streams/watchdog.h>

#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string_view>
#include <vector>

namespace tenon::debug {
namespace {

constinit int enabled = -1;     // atomic; -1: the environment has not been asked
constinit int64_t counter = 0;  // atomic

struct Output {
  std::mutex mutex;
  Function<void(const std::string&)> write;
};
Output& output() {
  static auto* o = new Output;
  return *o;
}

void write(const std::string& line) {
  Output& o = output();
  const std::lock_guard lock(o.mutex);
  if (o.write) {
    o.write(line);
  } else {
    std::fprintf(stderr, "%s\n", line.c_str());
  }
}

std::string line_of(int64_t number, const char* tag, Device device) {
  const memory::MemoryStats s = memory::memory_stats(device);
  return detail::concat("[checkpoint ", number, "] ", tag, ": ", device.str(), " live ", memory::size_text(s.allocated),
                        " (peak ", memory::size_text(s.peak_allocated), "), reserved ", memory::size_text(s.reserved),
                        ", ", launch_count(), " launches");
}

// A section whose question may fail.
template <class F>
void section(std::string& text, const char* title, F&& body) {
  text.append("\n").append(title).append("\n");
  try {
    body();
  } catch (const std::exception& e) {
    text.append("  not to be had: ").append(e.what()).append("\n");
  }
}

}  // namespace

bool checkpoints_enabled() noexcept {
  int known = __atomic_load_n(&enabled, __ATOMIC_RELAXED);
  if (known < 0) [[unlikely]] {
    const char* text = std::getenv("TENON_CHECKPOINTS");
    const int found = text && std::string_view(text) == "1";
    if (__atomic_compare_exchange_n(&enabled, &known, found, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) known = found;
  }
  return known != 0;
}
void enable_checkpoints(bool on) noexcept { __atomic_store_n(&enabled, int{on}, __ATOMIC_RELAXED); }

void set_checkpoint_output(Function<void(const std::string&)> to) {
  Output& o = output();
  const std::lock_guard lock(o.mutex);
  o.write = static_cast<Function<void(const std::string&)>&&>(to);
}

void checkpoint(const char* tag) {
  if (!checkpoints_enabled()) return;
  const std::string name = std::string("checkpoint ") + tag;
  const OpContext context(name.c_str());
  const int64_t number = __atomic_add_fetch(&counter, int64_t{1}, __ATOMIC_RELAXED);
  const std::vector<Device> devices = launched_devices();
  for (const Device device : devices) {
    synchronize(device);
    write(line_of(number, tag, device));
  }
  if (devices.empty()) write(line_of(number, tag, Device(kCPU)));
}

std::string report() {
  std::string text;
  try {
    text = env_report();
  } catch (const std::exception& e) {
    text = std::string("Environment\n  not to be had: ") + e.what() + "\n";
  }
  const std::vector<Device> devices = launched_devices();
  section(text, "Devices in use", [&] {
    for (const Device d : devices) {
      const std::string broken = device_failure(d);
      text += detail::concat("  ", d.str(), ": ", broken.empty() ? "works" : "broken; first cause: " + broken, "\n");
      for (const Launch& l : suspects(d)) text += "    unfinished: " + l.str() + "\n";
    }
    text += detail::concat("  blame mode ", blame_mode() ? "on" : "off", ", watchdog ",
                           watchdog_running() ? "on" : "off", "\n");
  });
  section(text, "Streams", [&] {
    for (const Device d : devices) {
      const StreamPoolStats s = stream_pool_stats(d);
      int64_t handed[2] = {};
      for (int level = 0; level < 2; ++level) {
        for (const int64_t n : s.handouts[level]) handed[level] += n;
      }
      text += detail::concat("  ", d.str(), ": current stream of this thread ", current_stream(d).id(),
                             "; from the pools ", handed[0], ", with priority ", handed[1], "\n");
    }
  });
  section(text, "Launches", [&] { text += detail::launches_text(Device()); });
  for (const Device d : devices) {
    section(text, d.is_sim() ? "Memory of a simulated device" : "Memory of a device",
            [&] { text += memory::memory_summary(d); });
  }
  section(text, "Memory of the CPU", [&] { text += memory::memory_summary(Device(kCPU)); });
  return text;
}

}  // namespace tenon::debug
