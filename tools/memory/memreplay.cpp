// SPDX-License-Identifier: Apache-2.0
// tenon-memreplay: repeats a recorded memory history under other allocator settings, without the device and without
// the memory, and searches for the settings that reserve least.
#include "snapshot_file.h"

#include <tenon/memory/replay.h>
#include <tenon/memory/settings.h>

#include <nlohmann/json.hpp>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>

namespace {

using namespace tenon;
using namespace tenon::memory;

constexpr char kUsage[] =
    "usage: tenon-memreplay SNAPSHOT.json [--conf SETTINGS]... [--tune] [--device NAME] [--capacity MIB] [--json]\n"
    "  --conf SETTINGS  as in TENON_ALLOC_CONF, such as max_split_size_mb:128; may be repeated\n"
    "  --tune           tries the settings below one by one, then the best of each together\n"
    "  --device NAME    which allocator: cpu, pinned, cuda:0 ... (default: the one with most events)\n"
    "  --capacity MIB   size of the device (default: that of the recorded one)\n";

constexpr double kMiB = 1 << 20;

void print_row(const char* name, const ReplayResult& r) {
  const double ratio = r.peak_allocated > 0 ? double(r.peak_reserved) / double(r.peak_allocated) : 0.0;
  std::printf("%-36s %11.2f %11.2f %7.3f %6.1f%% %9lld %6lld\n", name, double(r.peak_allocated) / kMiB,
              double(r.peak_reserved) / kMiB, ratio, 100 * r.fragmentation(),
              static_cast<long long>(r.segments_allocated), static_cast<long long>(r.failed));
}

nlohmann::json as_json(const char* role, const ReplayResult& r) {
  return {{"role", role},
          {"settings", r.settings},
          {"allocations", r.allocations},
          {"failed", r.failed},
          {"segments_allocated", r.segments_allocated},
          {"segments_released", r.segments_released},
          {"peak_segments", r.peak_segments},
          {"allocated", r.allocated},
          {"reserved", r.reserved},
          {"peak_allocated", r.peak_allocated},
          {"peak_requested", r.peak_requested},
          {"peak_reserved", r.peak_reserved},
          {"fragmentation", r.fragmentation()}};
}

int choose(const MemorySnapshot& snapshot, const std::string& device) {
  std::string names;
  for (size_t i = 0; i < snapshot.allocators.size(); ++i) {
    if (snapshot.allocators[i].name == device) return static_cast<int>(i);
    names += (i ? ", " : "") + snapshot.allocators[i].name;
  }
  TENON_CHECK(device.empty(), ValueError, "--device: expected one of ", names, ", got '", device, "'");
  std::vector<int64_t> events(snapshot.allocators.size());
  for (const SnapshotEvent& e : snapshot.events) ++events[static_cast<size_t>(e.allocator)];
  int most = 0;
  for (size_t i = 0; i < events.size(); ++i) {
    if (events[i] > events[static_cast<size_t>(most)]) most = static_cast<int>(i);
  }
  return most;
}

}  // namespace

int main(int argc, char** argv) try {
  std::string path, device;
  std::vector<std::string> confs;
  bool tuning = false, json = false, bad = false;
  int64_t capacity = 0;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const bool more = i + 1 < argc;
    if (argument == "--conf" && more) {
      confs.emplace_back(argv[++i]);
    } else if (argument == "--device" && more) {
      device = argv[++i];
    } else if (argument == "--capacity" && more) {
      capacity = std::atoll(argv[++i]) << 20;
      bad = bad || capacity <= 0;
    } else if (argument == "--tune") {
      tuning = true;
    } else if (argument == "--json") {
      json = true;
    } else if (argument == "--help" || argument == "-h") {
      std::fputs(kUsage, stdout);
      std::printf("settings tried by --tune:");
      for (const std::string& text : tune_candidates()) std::printf(" %s", text.c_str());
      std::printf("\n");
      return 0;
    } else if (argument[0] == '-' || !path.empty()) {
      bad = true;
    } else {
      path = argument;
    }
  }
  if (path.empty() || bad) {
    std::fputs(kUsage, stderr);
    return 2;
  }
  const MemorySnapshot snapshot = tenon::tools::parse_snapshot(tenon::tools::read_file(path), path);
  TENON_CHECK(!snapshot.allocators.empty(), ValueError, path, ": holds no allocator");
  const int allocator = choose(snapshot, device);
  const SnapshotAllocator& recorded = snapshot.allocators[static_cast<size_t>(allocator)];

  nlohmann::json out = nlohmann::json::array();
  const auto report = [&](const char* role, const ReplayResult& r) {
    if (json) {
      out.push_back(as_json(role, r));
    } else {
      print_row(std::strcmp(role, "recorded") == 0 ? "(recorded)" : r.settings.c_str(), r);
    }
  };
  const ReplayResult was = recorded_usage(snapshot, allocator);
  if (!json) {
    std::printf("%s of %s: %lld allocations, recorded with %s\n", recorded.name.c_str(), path.c_str(),
                static_cast<long long>(was.allocations), recorded.settings.c_str());
    std::printf("%-36s %11s %11s %7s %7s %9s %6s\n", "settings (peaks in MiB)", "allocated", "reserved", "ratio",
                "holes", "segments", "failed");
  }
  report("recorded", was);
  report("replayed", replay(snapshot, allocator, recorded.settings, capacity));
  for (const std::string& conf : confs) report("conf", replay(snapshot, allocator, conf, capacity));
  if (tuning) {
    const std::vector<ReplayResult> results = tune(snapshot, allocator, capacity);
    for (const ReplayResult& r : results) report("tuned", r);
    if (!json) {
      const std::string now = AllocatorSettings::parse(recorded.settings).str();
      for (const ReplayResult& r : results) {
        if (r.settings != now) continue;
        const double saved = double(r.peak_reserved - results[0].peak_reserved);
        if (r.failed <= results[0].failed && saved <= 0.005 * double(r.peak_reserved)) {
          std::printf("\nnothing helps: the recorded settings are as good\n");
          break;
        }
        std::printf("\nbest: TENON_ALLOC_CONF=%s\nsaves %.2f MiB of %.2f (%.1f %%), %lld failures instead of %lld\n",
                    results[0].settings.c_str(), saved / kMiB, double(r.peak_reserved) / kMiB,
                    r.peak_reserved > 0 ? 100 * saved / double(r.peak_reserved) : 0.0,
                    static_cast<long long>(results[0].failed), static_cast<long long>(r.failed));
      }
    }
  }
  if (json) std::printf("%s\n", out.dump(1).c_str());
  return 0;
} catch (const std::exception& e) {
  std::fprintf(stderr, "tenon-memreplay: %s\n", e.what());
  return 1;
}
