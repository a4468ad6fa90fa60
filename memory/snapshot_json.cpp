// SPDX-License-Identifier: Apache-2.0
// The snapshot as JSON. docs/memory_tools.md describes the format; rows that are many are arrays, not objects.
#include <tenon/memory/snapshot.h>
#include <tenon/version.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string_view>

namespace tenon::memory {
namespace {

// Bytes of the UTF-8 character that begins at `i`; 0 when none does (a path may be any bytes).
size_t character(std::string_view text, size_t i) {
  const auto at = [&](size_t k) { return k < text.size() ? static_cast<unsigned char>(text[k]) : 0u; };
  const unsigned first = at(i);
  if (first < 0x80) return 1;
  const size_t n = first >= 0xc2 && first < 0xe0   ? 2
                   : first >= 0xe0 && first < 0xf0 ? 3
                   : first >= 0xf0 && first < 0xf5 ? 4
                                                   : 0;
  for (size_t k = 1; k < n; ++k) {
    if ((at(i + k) & 0xc0u) != 0x80) return 0;
  }
  const unsigned second = at(i + 1);
  const bool overlong = (first == 0xe0 && second < 0xa0) || (first == 0xf0 && second < 0x90);
  const bool outside = (first == 0xed && second > 0x9f) || (first == 0xf4 && second > 0x8f);
  return overlong || outside ? 0 : n;
}

void append_quoted(std::string& out, std::string_view text) {
  out += '"';
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const auto byte = static_cast<unsigned char>(c);
    if (const size_t n = character(text, i); n != 1) {
      out += n == 0 ? std::string_view("\xef\xbf\xbd") : text.substr(i, n);
      i += n == 0 ? 0 : n - 1;
    } else if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20 || byte == 0x7f) {
      char buffer[8];
      std::snprintf(buffer, sizeof buffer, "\\u%04x", byte);
      out += buffer;
    } else {
      out += c;
    }
  }
  out += '"';
}

/// Writes one array or object: a comma before everything but the first.
class List {
 public:
  List(std::string& out, char open, char close) : out_(out), close_(close) { out_ += open; }
  ~List() { out_ += close_; }
  List(const List&) = delete;
  List& operator=(const List&) = delete;
  std::string& next() {
    if (!first_) out_ += ',';
    first_ = false;
    return out_;
  }
  void add(int64_t value) { next() += std::to_string(value); }
  void add(std::string_view value) { append_quoted(next(), value); }
  std::string& key(std::string_view name) {
    append_quoted(next(), name);
    return out_ += ':';
  }
  void add(std::string_view name, int64_t value) { key(name) += std::to_string(value); }
  void add(std::string_view name, std::string_view value) { append_quoted(key(name), value); }

 private:
  std::string& out_;
  const char close_;
  bool first_ = true;
};

void write_pool(std::string& out, const MemoryPoolStats& s) {
  List o(out, '{', '}');
  o.add("allocated", s.allocated);
  o.add("reserved", s.reserved);
  o.add("allocations", s.allocations);
  o.add("frees", s.frees);
  o.add("segments", s.segments);
}

void write_stats(std::string& out, const MemoryStats& s) {
  List o(out, '{', '}');
  const std::pair<const char*, int64_t> rows[] = {{"allocated", s.allocated},
                                                  {"peak_allocated", s.peak_allocated},
                                                  {"reserved", s.reserved},
                                                  {"peak_reserved", s.peak_reserved},
                                                  {"active", s.active},
                                                  {"peak_active", s.peak_active},
                                                  {"requested", s.requested},
                                                  {"peak_requested", s.peak_requested},
                                                  {"live_blocks", s.live_blocks},
                                                  {"cached_blocks", s.cached_blocks},
                                                  {"segments", s.segments},
                                                  {"largest_free_block", s.largest_free_block},
                                                  {"allocations", s.allocations},
                                                  {"frees", s.frees},
                                                  {"segments_allocated", s.segments_allocated},
                                                  {"segments_released", s.segments_released},
                                                  {"splits", s.splits},
                                                  {"merges", s.merges},
                                                  {"out_of_memory", s.out_of_memory},
                                                  {"retries", s.retries},
                                                  {"total_allocated", s.total_allocated},
                                                  {"total_freed", s.total_freed},
                                                  {"total_reserved", s.total_reserved},
                                                  {"total_released", s.total_released}};
  for (const auto& [key, value] : rows) o.add(key, value);
  write_pool(o.key("small"), s.small);
  write_pool(o.key("large"), s.large);
}

void write_segment(std::string& out, const SnapshotSegment& segment) {
  List o(out, '{', '}');
  o.add("address", static_cast<int64_t>(segment.address));
  o.add("size", segment.size);
  o.add("stream", int64_t{segment.stream});
  o.add("pool", segment.small ? "small" : "large");
  List blocks(o.key("blocks"), '[', ']');
  for (const SnapshotBlock& b : segment.blocks) {
    List row(blocks.next(), '[', ']');
    row.add(static_cast<int64_t>(b.address - segment.address));
    row.add(b.size);
    row.add(b.requested);
    row.add(name(b.state));
    row.add(int64_t{b.stack});
    row.add(int64_t{b.op});
  }
}

void write_allocator(std::string& out, const SnapshotAllocator& a) {
  List o(out, '{', '}');
  o.add("name", a.name);
  o.add("source", a.source);
  o.add("settings", a.settings);
  o.add("total", a.total);
  o.add("tape_bytes", a.tape_bytes);
  o.add("virtual_memory", int64_t{a.virtual_memory});
  write_stats(o.key("stats"), a.stats);
  List segments(o.key("segments"), '[', ']');
  for (const SnapshotSegment& segment : a.segments) write_segment(segments.next() += '\n', segment);
}

void write_event(std::string& out, const SnapshotEvent& e) {
  List row(out, '[', ']');
  row.add(e.microseconds);
  row.add(int64_t{e.allocator});
  row.add(static_cast<int64_t>(e.kind));
  row.add(static_cast<int64_t>(e.address));
  row.add(e.size);
  row.add(e.requested);
  row.add(int64_t{e.stream});
  row.add(int64_t{e.stack});
  row.add(int64_t{e.op});
}

}  // namespace

std::string to_json(const MemorySnapshot& s) {
  std::string out;
  out.reserve(4096 + s.events.size() * 72);
  {
    List o(out, '{', '}');
    o.add("format", "tenon-memory-snapshot");
    o.add("version", int64_t{1});
    o.add("tenon", TENON_VERSION);
    o.add("dropped_events", s.dropped_events);
    {
      List kinds(o.key("event_kinds"), '[', ']');
      for (int k = 0; k <= static_cast<int>(AllocatorEventKind::out_of_memory); ++k)
        kinds.add(name(static_cast<AllocatorEventKind>(k)));
    }
    {
      List list(o.key("allocators"), '[', ']');
      for (const SnapshotAllocator& a : s.allocators) write_allocator(list.next() += '\n', a);
    }
    {
      List list(o.key("operators"), '[', ']');
      for (const std::string& op : s.operators) list.add(op);
    }
    {
      List list(o.key("frames"), '[', ']');
      for (const StackFrame& f : s.frames) {
        List row(list.next() += '\n', '[', ']');
        row.add(frame_text(f));
        row.add(f.module);
        row.add(static_cast<int64_t>(f.module_offset));
        row.add(int64_t{f.in_library});
      }
    }
    {
      List list(o.key("stacks"), '[', ']');
      for (const std::vector<int32_t>& stack : s.stacks) {
        List row(list.next() += '\n', '[', ']');
        for (const int32_t frame : stack) row.add(int64_t{frame});
      }
    }
    List list(o.key("events"), '[', ']');
    for (const SnapshotEvent& e : s.events) write_event(list.next() += '\n', e);
  }
  return out += '\n';
}

void save_memory_snapshot(const std::string& path) {
  const std::string text = to_json(memory_snapshot());
  std::FILE* file = std::fopen(path.c_str(), "wb");
  TENON_CHECK(file, Error, "save_memory_snapshot: path: cannot write '", path, "': ", std::strerror(errno));
  const bool written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  const bool closed = std::fclose(file) == 0;
  TENON_CHECK(written && closed, Error, "save_memory_snapshot: path: writing '", path,
              "' failed: ", std::strerror(errno));
}

}  // namespace tenon::memory
