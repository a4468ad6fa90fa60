// SPDX-License-Identifier: Apache-2.0
// The allocator's policy: sizes, caching, merging, the ladder, the settings. Where a device is needed that refuses or
// has an exact size, histories are replayed in the real allocator over one that has only addresses.
#include "claims.h"
#include "traces.h"

#include <tenon/memory/caching_allocator.h>
#include <tenon/memory/live_tensors.h>
#include <tenon/memory/summary.h>
#include <tenon/tenon.h>

#include <unistd.h>

#include <random>

namespace tenon::claims {
namespace {

using namespace memory;

constexpr int64_t kMiB = 1 << 20;

/// Sets the allocators' settings for a scope.
class Settings {
 public:
  explicit Settings(const std::string& text) : before_(allocator_settings()) { set_allocator_settings(text); }
  ~Settings() { set_allocator_settings(before_); }
  Settings(const Settings&) = delete;
  Settings& operator=(const Settings&) = delete;

 private:
  std::string before_;
};

bool has_key(const std::string& item) {
  try {
    AllocatorSettings::parse(item);
    return true;
  } catch (const ValueError&) {
    return false;
  }
}

/// For each device; the first that fails ends it.
template <class F>
Outcome on_each_device(F f) {
  std::string text;
  for (const Device device : devices()) {
    const Outcome o = f(device);
    text += (text.empty() ? "" : "; ") + device.str() + ": " + o.measured;
    if (o.verdict != Verdict::holds) return {o.verdict, text};
  }
  return judge(true, text);
}

// Row 32: a cached block among n others of different sizes, none of which can merge.
double best_fit_ns(int n) {
  Addresses space;
  CachingAllocator allocator(Device(kSim, 0), &space);
  const Stream stream(Device(kCPU), 0, nullptr);
  std::vector<Block*> live, freed;
  std::mt19937 random(1);
  for (int i = 0; i < n; ++i) {
    freed.push_back(allocator.allocate(2 * kMiB + 512 * static_cast<int64_t>(random() % 16384), stream));
    live.push_back(allocator.allocate(2 * kMiB, stream));  // between two free ones
  }
  for (Block* b : freed) allocator.free(b);
  const double ns = nanoseconds(
      [&] { allocator.free(allocator.allocate(2 * kMiB + 512 * static_cast<int64_t>(random() % 16384), stream)); });
  for (Block* b : live) allocator.free(b);
  return ns;
}

Outcome steady_state(Device device) {
  std::mt19937 random(2);
  const auto step = [&] {
    const int64_t rows = 1 + static_cast<int64_t>(random() % 512);
    const Tensor x = ones({rows, 256}, TensorOptions(device));
    const Tensor y = (x * 2.0 + 1.0).relu().sum();
  };
  for (int i = 0; i < 50; ++i) step();
  const int64_t before = memory_stats(device).segments_allocated;
  for (int i = 0; i < 500; ++i) step();
  const int64_t more = memory_stats(device).segments_allocated - before;
  return judge(more == 0, std::to_string(more) + " in 500 steps");
}

Outcome size_classes() {
  const int64_t rows[][3] = {{1, 512, 2},
                             {513, 1024, 2},
                             {kMiB, kMiB, 2},
                             {kMiB + 1, kMiB + 512, 20},
                             {10 * kMiB, 10 * kMiB, 20},
                             {10 * kMiB + 1, 10 * kMiB + 512, 12},
                             {100 * kMiB, 100 * kMiB, 100}};
  for (const auto& [bytes, block, segment] : rows) {
    Trace trace;
    trace.allocate(bytes);
    const ReplayResult r = replay(trace.snapshot(), 0, "");
    if (r.allocated != block || r.reserved != segment * kMiB) {
      return judge(false,
                   std::to_string(bytes) + " bytes became " + std::to_string(r.allocated) + " of " + mib(r.reserved));
    }
  }
  return judge(true, "7 sizes from 1 byte to 100 MiB");
}

Outcome tiling(Device device) {
  std::mt19937 random(3);
  std::vector<DataPtr> live;
  for (int i = 0; i < 3000; ++i) {
    if (live.size() > 100 || (!live.empty() && random() % 2)) {
      const size_t k = random() % live.size();
      live[k].deleter(live[k].context);
      live[k] = live.back();
      live.pop_back();
    }
    live.push_back(memory::allocate(device, 1 + static_cast<int64_t>(random() % (4u << 20))));
  }
  int64_t wrong = 0, blocks = 0;
  for (const SnapshotAllocator& a : memory_snapshot().allocators) {
    if (a.name != device.str()) continue;
    for (const SnapshotSegment& s : a.segments) {
      uint64_t next = s.address;
      for (const SnapshotBlock& b : s.blocks) {
        wrong += b.address != next || b.requested > b.size;
        next += static_cast<uint64_t>(b.size);
        ++blocks;
      }
      wrong += next != s.address + static_cast<uint64_t>(s.size);
    }
  }
  for (const DataPtr& p : live) p.deleter(p.context);
  return judge(wrong == 0, std::to_string(blocks) + " blocks, " + std::to_string(wrong) + " gaps or overlaps");
}

Outcome merging() {
  std::mt19937 random(4);
  Addresses space;
  CachingAllocator allocator(Device(kSim, 0), &space);
  const Stream stream(Device(kCPU), 0, nullptr);
  std::vector<Block*> live;
  for (int i = 0; i < 2000; ++i)
    live.push_back(allocator.allocate(1 + static_cast<int64_t>(random() % (3u << 20)), stream));
  std::shuffle(live.begin(), live.end(), random);
  for (Block* b : live) allocator.free(b);
  const MemoryStats s = allocator.stats();
  return judge(s.cached_blocks == s.segments, std::to_string(s.cached_blocks) + " blocks in " +
                                                  std::to_string(s.segments) +
                                                  " segments after 2,000 frees in random order");
}

Outcome small_pool_limit() {
  Trace trace;
  for (int i = 0; i < 64; ++i) trace.allocate(300 << 10);
  const ReplayResult plain = replay(trace.snapshot(), 0, ""), low = replay(trace.snapshot(), 0, "small_pool_limit:256");
  return judge(plain.segments_allocated != low.segments_allocated,
               std::to_string(plain.segments_allocated) + " segments for 64 blocks of 300 KiB by default, " +
                   std::to_string(low.segments_allocated) + " with small_pool_limit:256");
}

Outcome garbage_collection() {
  if (!has_key("garbage_collection_threshold:0.5")) return cannot_run("the setting is not in this version");
  Trace trace;  // idle blocks of one size, then many of another
  std::vector<uint64_t> first;
  for (int i = 0; i < 10; ++i) first.push_back(trace.allocate(40 * kMiB));
  for (const uint64_t a : first) trace.free(a);
  for (int i = 0; i < 60; ++i) trace.free(trace.allocate(30 * kMiB + i * 512));
  for (int i = 0; i < 10; ++i) trace.allocate(50 * kMiB);
  const int64_t capacity = 1000 * kMiB;
  const ReplayResult off = replay(trace.snapshot(), 0, "", capacity);
  const ReplayResult on = replay(trace.snapshot(), 0, "garbage_collection_threshold:0.5", capacity);
  return judge(on.peak_reserved < off.peak_reserved && on.segments_released > 0,
               "peak reserved " + mib(on.peak_reserved) + " with it, " + mib(off.peak_reserved) + " without");
}

Outcome background_trim() {
  if (!has_key("background_trim_ms:20")) return cannot_run("the setting is not in this version");
  const Device device = devices().back();
  const Settings settings("background_trim_ms:20");
  const DataPtr p = memory::allocate(device, 256 * kMiB);
  p.deleter(p.context);
  const int64_t before = memory_reserved(device);
  for (int i = 0; i < 100 && memory_reserved(device) >= before; ++i) usleep(20'000);
  return judge(memory_reserved(device) < before,
               mib(before) + " fell to " + mib(memory_reserved(device)) + " while idle");
}

Outcome ladder() {
  Trace trace;
  std::vector<uint64_t> blocks;
  for (int i = 0; i < 8; ++i) blocks.push_back(trace.allocate(100 * kMiB));
  for (const uint64_t a : blocks) trace.free(a);
  trace.allocate(700 * kMiB);  // fits only when the cache goes
  const ReplayResult r = replay(trace.snapshot(), 0, "", 800 * kMiB);
  return judge(r.failed == 0, std::to_string(r.segments_released) + " cached segments given back, " +
                                  std::to_string(r.failed) + " failures");
}

Outcome unknown_keys() {
  try {
    AllocatorSettings::parse("max_split_size:128");
  } catch (const ValueError& e) {
    const std::string text = e.what();
    return judge(text.find("max_split_size_mb") != std::string::npos, "the error names the valid keys");
  }
  return judge(false, "an unknown key was accepted");
}

Outcome expandable() {
  if (!has_key("expandable_segments:True")) return cannot_run("the setting is not in this version");
  const Trace trace = growing_batches();
  const ReplayResult off = replay(trace.snapshot(), 0, ""),
                     on = replay(trace.snapshot(), 0, "expandable_segments:True");
  const auto ratio = [](const ReplayResult& r) { return double(r.peak_reserved) / double(r.peak_allocated); };
  return judge(ratio(on) <= 1.05 && ratio(off) > ratio(on),
               "reserved/allocated " + number(ratio(on), 3) + " with, " + number(ratio(off), 3) + " without");
}

Outcome max_split_size() {
  const Trace trace = varying_lengths();
  const ReplayResult off = replay(trace.snapshot(), 0, "");
  ReplayResult best = off;
  for (const char* size : {"20", "32", "64", "128", "256"}) {
    const ReplayResult r = replay(trace.snapshot(), 0, std::string("max_split_size_mb:") + size);
    if (r.peak_reserved < best.peak_reserved) best = r;
  }
  const double saved = 100.0 * (1.0 - double(best.peak_reserved) / double(off.peak_reserved));
  return judge(saved >= 15, number(saved) + " % at best (" + best.settings + "): " + mib(best.peak_reserved) +
                                " instead of " + mib(off.peak_reserved) + " for " + mib(off.peak_allocated) +
                                " in use");
}

Outcome tuned() {
  const Trace trace = varying_lengths();
  const ReplayResult off = replay(trace.snapshot(), 0, ""), best = tune(trace.snapshot(), 0).front();
  const double saved = 100.0 * (1.0 - double(best.peak_reserved) / double(off.peak_reserved));
  return judge(saved >= 15, number(saved) + " % with " + best.settings);
}

Outcome empty_cache_returns(Device device) {
  const DataPtr p = memory::allocate(device, 300 * kMiB);
  p.deleter(p.context);
  const int64_t before = memory_reserved(device);
  empty_cache(device);
  const int64_t after = memory_reserved(device);
  int64_t live = 0;  // segments with a block in use stay
  for (const SnapshotAllocator& a : memory_snapshot().allocators) {
    if (a.name != device.str()) continue;
    for (const SnapshotSegment& s : a.segments) live += s.size;
  }
  return judge(before - after >= 300 * kMiB && after == live, mib(before) + " became " + mib(after));
}

Outcome exact_statistics(Device device) {
  reset_peak_memory_stats(device);
  const MemoryStats before = memory_stats(device);
  const DataPtr a = memory::allocate(device, 1000), b = memory::allocate(device, 3 * kMiB);
  b.deleter(b.context);
  const MemoryStats s = memory_stats(device);
  const bool exact = s.allocated - before.allocated == 1024 && s.peak_allocated - before.allocated == 3 * kMiB + 1024 &&
                     s.allocations - before.allocations == 2 && s.frees - before.frees == 1 &&
                     s.requested - before.requested == 1000;
  a.deleter(a.context);
  return judge(exact && memory_allocated(device) == before.allocated,
               exact ? "every number as expected" : "numbers differ");
}

Outcome summary_width(Device device) {
  const std::string text = memory_summary(device);
  size_t widest = 0;
  for (size_t begin = 0, end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1)
    widest = std::max(widest, end - begin);
  return judge(widest <= 80, std::to_string(widest) + " columns");
}

Outcome out_of_memory(Device device) {
  try {
    (void)memory::allocate(device, int64_t{1} << 50);
  } catch (const OutOfMemoryError& e) {
    const MemoryNumbers& n = e.numbers();
    const DataPtr p = memory::allocate(device, 4096);  // as usable as before
    p.deleter(p.context);
    return judge(n.requested == int64_t{1} << 50 && n.total > 0,
                 "asked for 1 PiB: typed error with the numbers, then 4 KiB");
  }
  return judge(false, "no error");
}

Outcome verdicts() {
  const auto message = [](int64_t block, int64_t wanted) -> std::string {
    Addresses space(100 * kMiB);
    CachingAllocator allocator(Device(kSim, 0), &space);
    const Stream stream(Device(kCPU), 0, nullptr);
    std::vector<Block*> blocks;
    for (int i = 0; i < 50; ++i) blocks.push_back(allocator.allocate(block, stream));
    for (size_t i = 0; i < blocks.size(); i += 2) allocator.free(blocks[i]);
    try {
      allocator.allocate(wanted, stream);
    } catch (const OutOfMemoryError& e) {
      return e.what();
    }
    return "no error";
  };
  const bool holes = message(2 * kMiB, 30 * kMiB).find("fragmentation") != std::string::npos;
  const bool full = message(2 * kMiB, 90 * kMiB).find("full") != std::string::npos;
  return judge(holes && full, holes && full ? "both told apart"
                              : holes       ? "full memory not named"
                                            : "fragmentation not named");
}

[[gnu::noinline]] Tensor forgotten() { return ones({10}) + 1.0; }

Outcome leak() {
  record_live_tensors(true);
  const Tensor leaked = forgotten();
  const std::vector<LiveTensor> all = live_tensors();
  record_live_tensors(false);
  if (all.size() != 1) return judge(false, std::to_string(all.size()) + " tensors listed");
  return judge(all[0].op == "add" && all[0].site().find("tenon-claims") != std::string::npos, all[0].str());
}

Outcome tape_in_message() {
  const Tensor w = ones({1000, 1000}, TensorOptions().requires_grad(true));
  const Tensor y = (w * w).exp();
  try {
    (void)memory::allocate(kCPU, int64_t{1} << 50);
  } catch (const OutOfMemoryError& e) {
    const std::string text = e.what();
    const size_t at = std::min(text.find("tape"), text.find("backward"));
    return judge(at != std::string::npos,
                 at != std::string::npos ? text.substr(at, 60) : "the message does not speak of it");
  }
  return judge(false, "no error");
}

Outcome failing_operators(Device device) {
  const Tensor a = ones({100, 100}, TensorOptions(device)), b = ones({7}, TensorOptions(device));
  const int64_t before = memory_allocated(device);
  int thrown = 0;
  const auto attempt = [&](auto f) {
    try {
      f();
    } catch (const Error&) {
      ++thrown;
    }
  };
  attempt([&] { (void)(a + b); });
  attempt([&] { (void)a.matmul(b); });
  attempt([&] { (void)ones({int64_t{1} << 24, int64_t{1} << 24}, TensorOptions(device)); });
  attempt([&] { (void)(a * 2.0).softmax(-1).view({7}); });
  const int64_t left = memory_allocated(device) - before;
  return judge(left == 0 && thrown == 4,
               std::to_string(thrown) + " operators threw, " + std::to_string(left) + " bytes left");
}

const Area area(
    "memory",
    {
        {29, "after warm-up a loop of steps of random sizes takes no memory from the device",
         [] { return on_each_device(steady_state); }},
        {30, "size classes: 512 bytes; up to 1 MiB from 2 MiB segments, to 10 MiB from 20 MiB, above in steps of 2 MiB",
         size_classes},
        {31, "blocks are cut from larger ones and tile their segments without gap or overlap",
         [] { return on_each_device(tiling); }},
        {32,
         "best fit stays logarithmic: 100,000 cached blocks cost less than 20 times what 100 do (linear: 1,000 times)",
         [] {
           const double few = best_fit_ns(100), some = best_fit_ns(10'000), many = best_fit_ns(100'000);
           return judge(many < 20 * few, number(few) + ", " + number(some) + ", " + number(many) +
                                             " ns with 10², 10⁴, 10⁵ cached blocks of different sizes");
         }},
        {33, "freed neighbours merge: frees in any order leave one block per segment", merging},
        {34, "the border between small and large blocks is a setting, by default 1 MiB", small_pool_limit},
        {35, "garbage_collection_threshold acts before the device is asked, without any second condition",
         garbage_collection},
        {36, "an idle program's cache shrinks by itself when background_trim_ms is set", background_trim},
        {37, "before it fails, an allocation gets everything that is cached", ladder},
        {39, "an unknown allocator setting is an error that lists the valid ones", unknown_keys},
        {40, "expandable segments keep reserved within 5 % of allocated while batches grow", expandable},
        {41, "max_split_size_mb makes 15 % more memory usable on varying lengths", max_split_size},
        {341, "the tuner finds settings that reserve 15 % less on the same history", tuned},
        {42, "empty_cache returns all cached segments", [] { return on_each_device(empty_cache_returns); }},
        {43, "statistics are exact", [] { return on_each_device(exact_statistics); }},
        {44, "the summary fits 80 columns", [] { return on_each_device(summary_width); }},
        {45, "running out of memory is an error of its own, with numbers, and can be survived",
         [] { return on_each_device(out_of_memory); }},
        {46, "the message tells fragmentation from memory that is really full", verdicts},
        {47, "a leaked tensor is listed with the operator and the place that made it", leak},
        {48, "the message says what the tape of backward holds", tape_in_message},
        {57, "an operator that throws frees what it had made", [] { return on_each_device(failing_operators); }},
    });

}  // namespace
}  // namespace tenon::claims
