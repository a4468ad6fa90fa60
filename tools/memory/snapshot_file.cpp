// SPDX-License-Identifier: Apache-2.0
#include "snapshot_file.h"

#include <nlohmann/json.hpp>

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <map>

namespace tenon::tools {
namespace {

using Json = nlohmann::json;
using namespace memory;

Json parse(const std::string& text, const std::string& path) {
  Json json;
  try {
    json = Json::parse(text);
  } catch (const Json::exception& e) {
    detail::fail<ValueError>(path, ": not JSON: ", e.what());
  }
  TENON_CHECK(json.is_object() && json.value("format", "") == "tenon-memory-snapshot", ValueError, path,
              ": not a memory snapshot; save_memory_snapshot() writes them");
  TENON_CHECK(json.value("version", 0) == 1, ValueError, path, ": version ", json.value("version", 0),
              " of the format; this tool reads 1");
  return json;
}

SnapshotBlockState block_state(const std::string& text) {
  for (const auto state : {SnapshotBlockState::in_use, SnapshotBlockState::free, SnapshotBlockState::pending}) {
    if (text == name(state)) return state;
  }
  throw ValueError("block state '" + text + "'");
}

SnapshotAllocator read_allocator(const Json& j) {
  SnapshotAllocator a;
  a.name = j.at("name");
  a.source = j.at("source");
  a.settings = j.at("settings");
  a.total = j.at("total");
  // Files of the first days do not say.
  a.virtual_memory = j.value("virtual_memory", a.name != "cpu" && a.name != "pinned" ? 1 : 0) != 0;
  const Json& stats = j.at("stats");
  a.stats.allocated = stats.at("allocated");
  a.stats.reserved = stats.at("reserved");
  a.stats.peak_allocated = stats.at("peak_allocated");
  a.stats.peak_reserved = stats.at("peak_reserved");
  for (const Json& s : j.at("segments")) {
    SnapshotSegment& segment = a.segments.emplace_back();
    segment.address = s.at("address");
    segment.size = s.at("size");
    segment.stream = s.at("stream");
    segment.small = s.at("pool") == "small";
    for (const Json& b : s.at("blocks")) {
      SnapshotBlock& block = segment.blocks.emplace_back();
      block.address = segment.address + b.at(0).get<uint64_t>();
      block.size = b.at(1);
      block.requested = b.at(2);
      block.state = block_state(b.at(3));
      block.stack = b.at(4);
      block.op = b.at(5);
    }
  }
  return a;
}

SnapshotEvent read_event(const Json& j, const std::vector<AllocatorEventKind>& kinds, size_t allocators) {
  SnapshotEvent e;
  e.microseconds = j.at(0);
  e.allocator = j.at(1);
  e.kind = kinds.at(j.at(2).get<size_t>());
  e.address = j.at(3);
  e.size = j.at(4);
  e.requested = j.at(5);
  e.stream = j.at(6);
  e.stack = j.at(7);
  e.op = j.at(8);
  if (e.allocator < 0 || static_cast<size_t>(e.allocator) >= allocators) throw ValueError("an event's allocator");
  return e;
}

// -1 is unknown; anything else must exist.
void check_indices(const MemorySnapshot& s) {
  const auto check = [](int32_t index, size_t size, const char* what) {
    if (index < -1 || (index >= 0 && static_cast<size_t>(index) >= size)) {
      throw ValueError(std::string("there is no ") + what + ' ' + std::to_string(index));
    }
  };
  const auto origin = [&](int32_t stack, int32_t op) {
    check(stack, s.stacks.size(), "stack");
    check(op, s.operators.size(), "operator");
  };
  for (const auto& stack : s.stacks) {
    for (const int32_t frame : stack) check(frame < 0 ? -2 : frame, s.frames.size(), "frame");
  }
  for (const SnapshotEvent& e : s.events) origin(e.stack, e.op);
  for (const SnapshotAllocator& a : s.allocators) {
    for (const SnapshotSegment& segment : a.segments) {
      for (const SnapshotBlock& b : segment.blocks) origin(b.stack, b.op);
    }
  }
}

std::string quoted(const std::string& path) {
  std::string text = "'";
  for (const char c : path) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

// "file:line" for every offset of one module; empty where the module does not know.
std::vector<std::string> lines_of(const std::string& module, const std::vector<int64_t>& offsets) {
  std::vector<std::string> lines(offsets.size());
  constexpr size_t kAtOnce = 1000;  // a command line has a limit
  for (size_t begin = 0; begin < offsets.size(); begin += kAtOnce) {
    std::string command = "addr2line -e " + quoted(module);
    const size_t end = std::min(offsets.size(), begin + kAtOnce);
    for (size_t i = begin; i < end; ++i) {
      char number[32];
      std::snprintf(number, sizeof number, " 0x%llx", static_cast<unsigned long long>(offsets[i]));
      command += number;
    }
    std::FILE* pipe = popen((command + " 2>/dev/null").c_str(), "r");
    if (!pipe) return lines;
    char line[4096];
    for (size_t i = begin; i < end && std::fgets(line, sizeof line, pipe); ++i) {
      line[std::strcspn(line, "\n")] = '\0';
      if (char* note = std::strstr(line, " (discriminator")) *note = '\0';
      if (line[0] != '?' && !std::strstr(line, ":?") && !std::strstr(line, ":0")) lines[i] = line;
    }
    pclose(pipe);
  }
  return lines;
}

}  // namespace

std::string read_file(const std::string& path) {
  std::FILE* file = std::fopen(path.c_str(), "rb");
  TENON_CHECK(file, Error, path, ": cannot be opened: ", std::strerror(errno));
  std::string text;
  char buffer[1 << 16];
  while (const size_t n = std::fread(buffer, 1, sizeof buffer, file)) text.append(buffer, n);
  const bool failed = std::ferror(file) != 0;
  std::fclose(file);
  TENON_CHECK(!failed, Error, path, ": cannot be read");
  return text;
}

MemorySnapshot parse_snapshot(const std::string& text, const std::string& path) {
  const Json json = parse(text, path);
  MemorySnapshot s;
  try {
    std::map<std::string, AllocatorEventKind> by_name;
    for (int k = 0; k <= static_cast<int>(AllocatorEventKind::out_of_memory); ++k) {
      by_name[name(static_cast<AllocatorEventKind>(k))] = static_cast<AllocatorEventKind>(k);
    }
    std::vector<AllocatorEventKind> kinds;
    for (const Json& kind : json.at("event_kinds")) kinds.push_back(by_name.at(kind));
    for (const Json& a : json.at("allocators")) s.allocators.push_back(read_allocator(a));
    s.dropped_events = json.at("dropped_events");
    s.operators = json.at("operators").get<std::vector<std::string>>();
    s.stacks = json.at("stacks").get<std::vector<std::vector<int32_t>>>();
    for (const Json& f : json.at("frames")) {
      StackFrame& frame = s.frames.emplace_back();
      frame.function = f.at(0);
      frame.module = f.at(1);
      frame.module_offset = f.at(2);
      frame.in_library = f.at(3) != 0;
    }
    s.events.reserve(json.at("events").size());
    for (const Json& e : json.at("events")) s.events.push_back(read_event(e, kinds, s.allocators.size()));
    check_indices(s);
  } catch (const std::exception& e) {
    detail::fail<ValueError>(path, ": damaged snapshot: ", e.what());
  }
  return s;
}

std::string with_lines(const std::string& text, const std::string& path) {
  Json json = parse(text, path);
  std::map<std::string, std::vector<size_t>> by_module;
  Json& frames = json.at("frames");
  for (size_t i = 0; i < frames.size(); ++i) by_module[frames[i].at(1)].push_back(i);
  for (const auto& [module, list] : by_module) {
    if (access(module.c_str(), R_OK) != 0) continue;
    std::vector<int64_t> offsets;
    for (const size_t i : list) offsets.push_back(frames[i].at(2));
    const std::vector<std::string> lines = lines_of(module, offsets);
    for (size_t k = 0; k < list.size(); ++k) {
      if (!lines[k].empty()) frames[list[k]][0] = frames[list[k]][0].get<std::string>() + " at " + lines[k];
    }
  }
  return json.dump();
}

}  // namespace tenon::tools
