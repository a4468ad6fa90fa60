// SPDX-License-Identifier: Apache-2.0
#include <tenon/memory/caching_allocator.h>
#include <tenon/memory/history.h>
#include <tenon/memory/size_text.h>
#include <tenon/memory/summary.h>

#include <algorithm>
#include <cstdio>

namespace tenon::memory {
namespace {

constexpr size_t kWidth = 80;

/// Free bytes by what they are good for.
struct Cached {
  int64_t whole = 0;  ///< segments without any block in use: empty_cache() returns them
  int64_t holes = 0, largest_hole = 0;
};

Cached cached_bytes(const SnapshotAllocator& a) {
  Cached c;
  for (const SnapshotSegment& segment : a.segments) {
    for (const SnapshotBlock& b : segment.blocks) {
      if (b.state != SnapshotBlockState::free) continue;
      if (segment.blocks.size() == 1) {
        c.whole += b.size;
      } else {
        c.holes += b.size;
        c.largest_hole = std::max(c.largest_hole, b.size);
      }
    }
  }
  return c;
}

class Text {
 public:
  void rule(char c) { text_ += std::string(kWidth, c) + '\n'; }
  void line(const std::string& text) { text_ += text + '\n'; }
  /// A name and up to four numbers of bytes; negative: left empty.
  void row(const char* name, int64_t current, int64_t peak = -1, int64_t total = -1, int64_t freed = -1) {
    std::string row(name);
    row.resize(28, ' ');
    for (const int64_t bytes : {current, peak, total, freed}) {
      const std::string number = bytes < 0 ? std::string() : size_text(bytes);
      row += std::string(13 - std::min<size_t>(13, number.size()), ' ') + number;
    }
    row.erase(row.find_last_not_of(' ') + 1);
    line(row);
  }
  /// Breaks at spaces and behind commas.
  void wrap(const std::string& text, const std::string& indent = "") {
    std::string current;
    size_t begin = 0;
    while (begin < text.size()) {
      size_t end = text.find_first_of(" ,", begin);
      end = end == std::string::npos ? text.size() : end + 1;
      std::string word = text.substr(begin, end - begin);
      const size_t visible = word.size() - (word.back() == ' ' ? 1 : 0);
      if (!current.empty() && current.size() + visible > kWidth) {
        current.erase(current.find_last_not_of(' ') + 1);
        line(current);
        current = indent;
      }
      current += word;
      begin = end;
    }
    current.erase(current.find_last_not_of(' ') + 1);
    line(current);
  }
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

std::string count(int64_t n, const char* one, const char* many) {
  return std::to_string(n) + ' ' + (n == 1 ? one : many);
}

}  // namespace

std::string size_text(int64_t bytes) {
  static constexpr const char* kUnits[] = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (bytes < 1024) return std::to_string(bytes) + " bytes";
  double value = static_cast<double>(bytes);
  int unit = 0;
  for (; value >= 1024; ++unit) value /= 1024;
  char buffer[48];
  std::snprintf(buffer, sizeof buffer, "%.2f %s", value, kUnits[unit]);
  return buffer;
}

std::string summarize(const SnapshotAllocator& a, const SnapshotAllocator* pinned, bool abbreviated) {
  const MemoryStats& s = a.stats;
  const Cached cached = cached_bytes(a);
  Text t;
  t.line("Memory of " + a.name + " (" + a.source + (a.total > 0 ? ", " + size_text(a.total) : "") + ")");
  t.rule('=');
  t.line("                                  current         peak    allocated        freed");
  t.row("Live: blocks in use", s.allocated, s.peak_allocated, s.total_allocated, s.total_freed);
  t.row("  small pool", s.small.allocated);
  t.row("  large pool", s.large.allocated);
  t.row("  asked for", s.requested, s.peak_requested);
  if (a.tape_bytes > 0) t.row("  kept for backward", a.tape_bytes);
  t.row("Waiting for other streams", s.active - s.allocated);
  t.row("Cached: free, kept", s.reserved - s.active);
  t.row("  whole segments", cached.whole);
  t.row("  holes beside live blocks", cached.holes);
  t.row("  largest hole", cached.largest_hole);
  t.row("Reserved from the device", s.reserved, s.peak_reserved, s.total_reserved, s.total_released);
  t.row("  small pool", s.small.reserved);
  t.row("  large pool", s.large.reserved);
  if (pinned) {
    t.row("Pinned host memory: live", pinned->stats.allocated, pinned->stats.peak_allocated,
          pinned->stats.total_allocated, pinned->stats.total_freed);
    t.row("  reserved", pinned->stats.reserved, pinned->stats.peak_reserved, pinned->stats.total_reserved,
          pinned->stats.total_released);
  }
  t.rule('-');
  if (abbreviated) return t.take();
  t.wrap("Blocks: " + std::to_string(s.live_blocks) + " live, " + std::to_string(s.cached_blocks) + " cached, in " +
         count(s.segments, "segment", "segments") + " (small " + std::to_string(s.small.segments) + ", large " +
         std::to_string(s.large.segments) + ")");
  t.wrap("So far: " + count(s.allocations, "allocation", "allocations") + ", " + count(s.frees, "free", "frees") +
             ", " + count(s.splits, "split", "splits") + ", " + count(s.merges, "merge", "merges"),
         "  ");
  t.wrap("Device: " + count(s.segments_allocated, "segment taken", "segments taken") + ", " +
             std::to_string(s.segments_released) + " given back, refused " + count(s.retries, "time", "times") +
             ", out of memory " + count(s.out_of_memory, "time", "times"),
         "  ");
  t.wrap("Settings: " + a.settings, "  ");
  t.rule('-');
  t.wrap("Live memory belongs to tensors and falls when the last tensor of a storage goes.");
  t.wrap(
      "Cached memory is free, but kept for the next allocation; the device and other programs count it as used. "
      "empty_cache() gives the whole segments back; holes go when the live blocks beside them do.");
  return t.take();
}

std::string memory_summary(Device device, bool abbreviated) {
  memory_stats(device);  // makes the allocator, or says why there is none
  if (!device.is_cpu()) device = resolve(device);
  SnapshotAllocator own, pinned;
  bool has_pinned = false;
  for (const AllocatorEntry& entry : existing_allocators()) {
    if (entry.pinned) {
      pinned = describe_allocator(entry, {});
      has_pinned = true;
    } else if (entry.allocator->device() == device) {
      own = describe_allocator(entry, {});
    }
  }
  return summarize(own, has_pinned ? &pinned : nullptr, abbreviated);
}

}  // namespace tenon::memory
