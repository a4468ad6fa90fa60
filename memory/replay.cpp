// SPDX-License-Identifier: Apache-2.0
#include <tenon/memory/caching_allocator.h>
#include <tenon/memory/replay.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <unordered_map>

namespace tenon::memory {
namespace {

using Kind = AllocatorEventKind;

/// Addresses without memory; every allocation gets new ones. `expands`: has virtual memory, as the recorded source.
class AddressSpace final : public RawMemory, public VirtualMemory {
 public:
  AddressSpace(int64_t capacity, bool expands) : capacity_(capacity), expands_(expands) {}
  void* allocate(int64_t bytes) override { return map(nullptr, bytes) ? reserve(bytes) : nullptr; }
  void release(void* p, int64_t bytes) noexcept override { unmap(p, bytes); }
  void info(int64_t& free, int64_t& total) override {
    free = capacity_ - used_;
    total = capacity_;
  }
  const char* name() const override { return "replay"; }
  VirtualMemory* virtual_memory() override { return expands_ ? this : nullptr; }

  int64_t granularity() const override { return kGranularity; }
  void* reserve(int64_t bytes) override {
    void* p = reinterpret_cast<void*>(next_);
    next_ += static_cast<uint64_t>((bytes + kGranularity - 1) / kGranularity * kGranularity);
    return p;
  }
  bool map(void*, int64_t bytes) override {
    if (bytes > capacity_ - used_) return false;
    used_ += bytes;
    return true;
  }
  void unmap(void*, int64_t bytes) noexcept override { used_ -= bytes; }
  void unreserve(void*, int64_t) noexcept override {}

 private:
  static constexpr int64_t kGranularity = 2 << 20;  // as CUDA's on all present cards
  const int64_t capacity_;
  const bool expands_;
  int64_t used_ = 0;
  uint64_t next_ = uint64_t{1} << 40;
};

struct InitialBlock {
  uint64_t address;
  int64_t size, requested;
  int32_t stream;
};

const SnapshotAllocator& chosen(const MemorySnapshot& snapshot, int allocator) {
  TENON_CHECK(allocator >= 0 && static_cast<size_t>(allocator) < snapshot.allocators.size(), IndexError,
              "replay: allocator: expected 0 to ", static_cast<int64_t>(snapshot.allocators.size()) - 1, ", got ",
              allocator);
  return snapshot.allocators[static_cast<size_t>(allocator)];
}

/// Alive before the first event: freed without having been allocated, or there at the end all along.
std::vector<InitialBlock> initial_blocks(const MemorySnapshot& snapshot, int allocator) {
  std::map<uint64_t, InitialBlock> initial;
  std::unordered_map<uint64_t, bool> alive;  // of the addresses that events speak of
  for (const SnapshotEvent& e : snapshot.events) {
    if (e.allocator != allocator) continue;
    if (e.kind == Kind::alloc) {
      alive[e.address] = true;
    } else if (e.kind == Kind::free_completed) {
      if (!alive.contains(e.address)) initial[e.address] = {e.address, e.size, e.requested, e.stream};
      alive[e.address] = false;
    }
  }
  for (const SnapshotSegment& segment : chosen(snapshot, allocator).segments) {
    for (const SnapshotBlock& b : segment.blocks) {
      if (b.state == SnapshotBlockState::free || alive.contains(b.address)) continue;
      initial[b.address] = {b.address, b.size, b.requested, segment.stream};
    }
  }
  std::vector<InitialBlock> list;
  for (auto& [address, block] : initial) list.push_back(block);
  return list;
}

/// Watched allocators merge every free at once (Note [Observed]); so must this one, or it would cut differently.
struct Watcher final : AllocatorObserver {
  void on_event(const AllocatorEvent&) noexcept override {}
};

MemoryKind kind_of(const SnapshotAllocator& a) {
  return a.name == "cpu" ? MemoryKind::host : a.name == "pinned" ? MemoryKind::pinned : MemoryKind::device;
}

/// One run: the allocator, and which of its blocks stands for which recorded address.
class Player {
 public:
  Player(const SnapshotAllocator& recorded, const std::string& settings, int64_t capacity)
      : space_(capacity, recorded.virtual_memory), allocator_(Device(kSim, 0), &space_, nullptr, kind_of(recorded)) {
    static auto* watcher = new Watcher;
    allocator_.observe(watcher);
    allocator_.configure(AllocatorSettings::parse(settings));
  }
  // Streams of the CPU: they tell pools apart by their id, and nobody ever waits for them.
  bool allocate(uint64_t address, int64_t bytes, int32_t stream) {
    free(address);  // its free is missing in the record
    ++result_.allocations;
    try {
      blocks_[address] = allocator_.allocate(std::max<int64_t>(bytes, 1), Stream(Device(kCPU), stream, nullptr));
    } catch (const OutOfMemoryError&) {
      blocks_.erase(address);
      ++result_.failed;
      return false;
    }
    int64_t allocated, peak_allocated, reserved;
    allocator_.usage(allocated, peak_allocated, reserved);
    if (reserved > result_.peak_reserved) {
      result_.peak_reserved = reserved;
      result_.allocated_at_peak = allocated;
      result_.peak_segments = std::max(result_.peak_segments, allocator_.stats().segments);
    }
    return true;
  }
  void free(uint64_t address) {
    const auto found = blocks_.find(address);
    if (found == blocks_.end()) return;
    if (found->second) allocator_.free(found->second);
    blocks_.erase(found);
  }
  ReplayResult finish() {
    const MemoryStats s = allocator_.stats();
    result_.settings = allocator_.settings_text();
    result_.segments_allocated = s.segments_allocated;
    result_.segments_released = s.segments_released;
    result_.allocated = s.allocated;
    result_.reserved = s.reserved;
    result_.peak_allocated = s.peak_allocated;
    result_.peak_requested = s.peak_requested;
    result_.peak_reserved = s.peak_reserved;
    return result_;
  }

 private:
  AddressSpace space_;
  CachingAllocator allocator_;
  std::unordered_map<uint64_t, Block*> blocks_;
  ReplayResult result_;
};

bool better(const ReplayResult& a, const ReplayResult& b) {
  const auto rank = [](const ReplayResult& r) {
    return std::tuple(r.failed, r.peak_reserved, r.segments_allocated, r.settings.size());
  };
  return rank(a) < rank(b);
}

// Peaks within 0.5 % of the lowest are as good: of those the one with the fewest calls to the device comes first.
void put_best_first(std::vector<ReplayResult>& results) {
  std::stable_sort(results.begin(), results.end(), better);
  auto best = results.begin();
  for (auto r = results.begin(); r != results.end() && r->failed == results.front().failed; ++r) {
    const bool as_good =
        static_cast<double>(r->peak_reserved) <= 1.005 * static_cast<double>(results.front().peak_reserved);
    if (as_good && r->segments_allocated < best->segments_allocated) best = r;
  }
  std::rotate(results.begin(), best, best + 1);
}

}  // namespace

ReplayResult recorded_usage(const MemorySnapshot& snapshot, int allocator) {
  const SnapshotAllocator& a = chosen(snapshot, allocator);
  ReplayResult r;
  r.settings = a.settings;
  // Backwards from the end to the beginning, then forwards for the peaks.
  int64_t allocated = 0, requested = 0, reserved = 0, segments = static_cast<int64_t>(a.segments.size());
  for (const SnapshotSegment& segment : a.segments) {
    reserved += segment.size;
    for (const SnapshotBlock& b : segment.blocks) {
      if (b.state == SnapshotBlockState::in_use) allocated += b.size, requested += b.requested;
    }
  }
  r.allocated = allocated;
  r.reserved = reserved;
  const auto apply = [&](const SnapshotEvent& e, int64_t sign) {
    switch (e.kind) {
      case Kind::alloc:
      case Kind::free_requested:
        if (e.kind == Kind::free_requested) sign = -sign;
        allocated += sign * e.size;
        requested += sign * e.requested;
        break;
      case Kind::segment_alloc:
      case Kind::segment_map:
      case Kind::segment_free:
      case Kind::segment_unmap:
        if (e.kind == Kind::segment_free || e.kind == Kind::segment_unmap) sign = -sign;
        reserved += sign * e.size;
        segments += e.kind == Kind::segment_alloc || e.kind == Kind::segment_free ? sign : 0;
        break;
      default:
        break;
    }
  };
  for (size_t i = snapshot.events.size(); i-- > 0;) {
    if (snapshot.events[i].allocator == allocator) apply(snapshot.events[i], -1);
  }
  const auto look = [&] {
    r.peak_allocated = std::max(r.peak_allocated, allocated);
    r.peak_requested = std::max(r.peak_requested, requested);
    r.peak_segments = std::max(r.peak_segments, segments);
    if (reserved > r.peak_reserved) {
      r.peak_reserved = reserved;
      r.allocated_at_peak = allocated;
    } else if (reserved == r.peak_reserved) {
      r.allocated_at_peak = std::max(r.allocated_at_peak, allocated);
    }
  };
  look();
  for (const SnapshotEvent& e : snapshot.events) {
    if (e.allocator != allocator) continue;
    apply(e, 1);
    look();
    r.allocations += e.kind == Kind::alloc;
    r.failed += e.kind == Kind::out_of_memory;
    r.segments_allocated += e.kind == Kind::segment_alloc || e.kind == Kind::segment_map;
    r.segments_released += e.kind == Kind::segment_free || e.kind == Kind::segment_unmap;
  }
  return r;
}

ReplayResult replay(const MemorySnapshot& snapshot, int allocator, const std::string& settings, int64_t capacity) {
  if (capacity == 0) capacity = chosen(snapshot, allocator).total;
  if (capacity <= 0) capacity = int64_t{64} << 40;  // the recorded device did not say
  Player player(chosen(snapshot, allocator), settings, capacity);
  for (const InitialBlock& b : initial_blocks(snapshot, allocator)) {
    player.allocate(b.address, b.requested > 0 ? b.requested : b.size, b.stream);
  }
  for (const SnapshotEvent& e : snapshot.events) {
    if (e.allocator != allocator) continue;
    if (e.kind == Kind::alloc) {
      player.allocate(e.address, e.requested, e.stream);
    } else if (e.kind == Kind::free_completed) {
      player.free(e.address);
    } else if (e.kind == Kind::out_of_memory) {
      // What would have failed may succeed now; what the program had done with it is unknown, so it goes at once.
      if (player.allocate(0, e.requested, e.stream)) player.free(0);
    }
  }
  return player.finish();
}

std::vector<std::string> tune_candidates() {
  static constexpr const char* kCandidates[] = {"expandable_segments:True",
                                                "max_split_size_mb:20",
                                                "max_split_size_mb:32",
                                                "max_split_size_mb:64",
                                                "max_split_size_mb:128",
                                                "max_split_size_mb:256",
                                                "max_split_size_mb:512",
                                                "roundup_power2_divisions:2",
                                                "roundup_power2_divisions:4",
                                                "roundup_power2_divisions:8",
                                                "roundup_power2_divisions:16",
                                                "small_pool_limit:256",
                                                "small_pool_limit:512",
                                                "small_pool_limit:2048",
                                                "large_segment_size_mb:10",
                                                "large_segment_size_mb:40",
                                                "large_segment_size_mb:80",
                                                "garbage_collection_threshold:0.6",
                                                "garbage_collection_threshold:0.8"};
  std::vector<std::string> list;
  for (const char* text : kCandidates) {
    try {
      AllocatorSettings::parse(text);
      list.emplace_back(text);
    } catch (const ValueError&) {  // a key, or a value, of another version
    }
  }
  return list;
}

std::vector<ReplayResult> tune(const MemorySnapshot& snapshot, int allocator, int64_t capacity) {
  std::map<std::string, size_t> tried;
  std::vector<ReplayResult> results;
  const auto attempt = [&](const std::string& settings) {
    const auto [found, added] = tried.try_emplace(AllocatorSettings::parse(settings).str(), results.size());
    if (added) results.push_back(replay(snapshot, allocator, settings, capacity));
    return results[found->second];
  };
  const ReplayResult plain = attempt("");
  attempt(chosen(snapshot, allocator).settings);
  // The best value of each key that helps by itself, in the order of what it saves.
  std::map<std::string, std::pair<std::string, ReplayResult>> best;
  for (const std::string& candidate : tune_candidates()) {
    const bool expands = AllocatorSettings::parse(candidate).expandable_segments;
    if (expands && !chosen(snapshot, allocator).virtual_memory) continue;  // no effect there
    const ReplayResult r = attempt(candidate);
    const std::string key = candidate.substr(0, candidate.find(':'));
    const auto known = best.find(key);
    if (better(r, plain) && (known == best.end() || better(r, known->second.second))) best[key] = {candidate, r};
  }
  std::vector<std::pair<std::string, ReplayResult>> helpful;
  for (const auto& [key, entry] : best) helpful.push_back(entry);
  std::stable_sort(helpful.begin(), helpful.end(),
                   [](const auto& a, const auto& b) { return better(a.second, b.second); });
  std::string joined;
  for (const auto& [candidate, result] : helpful) {
    const std::string more = joined.empty() ? candidate : joined + "," + candidate;
    if (joined.empty() || better(attempt(more), attempt(joined))) joined = more;
  }
  put_best_first(results);
  return results;
}

}  // namespace tenon::memory
