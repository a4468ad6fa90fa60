// SPDX-License-Identifier: Apache-2.0
// One random program over streams, events and an allocator of the simulated device, checked by the oracle at every
// step. The seed makes the program and the schedule; the same seed does all of it again.
#pragma once

#include <tenon/memory/allocator.h>
#include <tenon/streams/guard.h>
#include <tenon/streams/sim.h>

#include <random>
#include <thread>

#include "tests/sim/oracle.h"

namespace tenon::testing {

template <class Settings>
inline constexpr bool kCanExpand = requires(Settings s) {
  s.expandable_segments;
};

class AllocatorProgram {
 public:
  explicit AllocatorProgram(uint64_t seed)
      : random_(seed * 2654435761u + 17),
        memory_(kDevice, int64_t{2 << 20} * pick(10, 40)),
        allocator_(kDevice, &memory_),
        oracle_(memory_) {
    sim::reset(seed);
    streams_.push_back(Stream::default_stream(kDevice));
    for (int64_t n = pick(1, 3); n > 0; --n) streams_.push_back(Stream::from_pool(0, kDevice));
    faults_ = pick(0, 3) == 0;
    std::string settings = "backend:native";
    if (pick(0, 4) == 0) settings += pick(0, 1) ? ",max_split_size_mb:21" : ",max_split_size_mb:30";
    if (pick(0, 6) == 0) settings += ",roundup_power2_divisions:4";
    if (kCanExpand<memory::AllocatorSettings> && pick(0, 3) == 0) settings += ",expandable_segments:True";
    allocator_.configure(memory::AllocatorSettings::parse(settings));
  }
  ~AllocatorProgram() {
    memory_.check_release = nullptr;
    sim::clear_faults();
    for (const Stream& s : exclusive_) Stream::destroy_exclusive(s);
  }

  /// Throws Violation.
  void run() {
    const int64_t callback = memory::add_out_of_memory_callback([this](Device, int64_t) { drop_some(); });
    struct Remove {
      int64_t id;
      ~Remove() { memory::remove_out_of_memory_callback(id); }
    } remove{callback};
    for (int64_t n = pick(10, 60); n > 0; --n) step();
    finish();
  }

 private:
  static inline const Device kDevice{kSim, 0};

  int64_t pick(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(random_() % static_cast<uint64_t>(high - low + 1));
  }
  const Stream& any_stream() { return streams_[static_cast<std::size_t>(pick(0, std::ssize(streams_) - 1))]; }
  Held* any_held() {
    if (oracle_.live.empty()) return nullptr;
    auto at = oracle_.live.begin();
    std::advance(at, pick(0, std::ssize(oracle_.live) - 1));
    return &at->second;
  }
  int64_t any_size() {
    const int64_t kind = pick(0, 9);
    if (kind == 0) return pick(1, 1 << 20);
    if (kind == 1) return pick(1 << 20, 12 << 20);
    return kind == 2 ? pick(10 << 20, 34 << 20) : pick(1, 6) * pick(1, 700);
  }

  void step() {
    if (faults_ && pick(0, 9) == 0) arm();
    switch (pick(0, 15)) {
      case 0:
      case 1:
      case 2:
      case 3:
        return allocate(any_size(), any_stream());
      case 4:
      case 5:
      case 6:
        if (Held* h = any_held()) release(h->ptr);
        return;
      case 7:
      case 8:
      case 9:
        if (Held* h = any_held()) use(*h, any_stream());
        return;
      case 10:
        return wait();
      case 11:
        attempt([&] { pick(0, 2) == 0 ? any_stream().synchronize() : (void)any_stream().query(); });
        return;
      case 12:
        return renew_stream();
      case 13:
        if (pick(0, 3) == 0) attempt([&] { allocator_.empty_cache(); });
        return;
      case 14:
        if (pick(0, 3) == 0) allocate(pick(30 << 20, 90 << 20), any_stream());  // more than there may be
        return;
      default:
        if (pick(0, 2) == 0) oracle_.check(allocator_);
    }
  }

  void arm() {
    constexpr sim::CallKind kKinds[] = {sim::CallKind::create_event, sim::CallKind::record_event,
                                        sim::CallKind::query,        sim::CallKind::synchronize,
                                        sim::CallKind::wait_event,   sim::CallKind::launch};
    sim::clear_faults();
    const int64_t which = pick(0, 6);
    if (which == 6)
      memory_.fail_in = pick(1, 3);
    else
      sim::fail(kKinds[which], pick(1, 3));
  }
  /// Errors of calls that were made to fail are part of the program.
  template <class F>
  bool attempt(F&& f) {
    const int64_t before = sim::counters().faults;
    try {
      f();
      return true;
    } catch (const CudaError&) {
      require(sim::counters().faults > before, "an error without a fault");
      return false;
    }
  }

  void allocate(int64_t bytes, Stream stream) {
    memory_.log.clear();
    drops_ = 0;
    memory::Block* block = nullptr;
    const int64_t idle = bytes > (10 << 20) ? Oracle::largest_idle(allocator_) : 0;
    attempt([&] {
      try {
        block = allocator_.allocate(bytes, stream);
      } catch (const OutOfMemoryError& e) {
        const bool possible = std::string(e.what()).find("the request is larger than") == std::string::npos;
        if (possible) oracle_.check_exhausted(allocator_);
      }
    });
    require(memory_.wrong.empty(), memory_.wrong);
    oracle_.check_order(bytes, idle);
    if (!block) return;
    Held& h = oracle_.add(block, bytes, stream);
    h.droppable = pick(0, 3) == 0;
    if (pick(0, 1) == 0) use(h, stream);
  }
  void drop_some() {
    memory_.log += 'c';
    std::vector<char*> drop;
    for (const auto& [ptr, held] : oracle_.live)
      if (held.droppable && ++drops_ <= 2) drop.push_back(ptr);
    for (char* ptr : drop) release(ptr);
  }

  void release(char* ptr) {
    memory::Block* const block = oracle_.live.at(ptr).block;
    oracle_.remove(ptr);
    if (pick(0, 39) == 0) {
      std::thread([this, block] { allocator_.free(block); }).join();
    } else {
      allocator_.free(block);
    }
  }

  // A kernel on `stream` that reads the block; other streams than its own are recorded, before or after.
  void use(Held& h, const Stream& stream) {
    const bool foreign = stream != h.owner, early = pick(0, 1) == 0;
    const auto record = [&] {
      h.recorded.push_back(stream);
      allocator_.record_stream(h.block, stream);
    };
    if (foreign && early) record();
    const auto queued = h.queued;
    const int32_t id = stream.id();
    const bool launched = attempt([&] {
      const DeviceGuard guard(kDevice);
      raw_streams(kSim).launch(0, stream.handle(), "use", [queued, id] { --(*queued)[id]; });
    });
    if (launched) ++(*queued)[id];
    if (foreign && !early) record();
  }

  void wait() {
    const Stream a = any_stream(), b = any_stream();
    attempt([&] {
      if (pick(0, 1) == 0) return a.wait_stream(b);
      Event e(false, kDevice);
      e.record(b);
      if (pick(0, 1) == 0) e.record(a);
      (void)e.query();
      e.wait(b);
    });
  }
  // An exclusive stream goes and another one comes, with the same handle.
  void renew_stream() {
    if (exclusive_.size() < 2 && pick(0, 1) == 0) {
      attempt([&] {
        exclusive_.push_back(Stream::create_exclusive(0, kDevice));
        streams_.push_back(exclusive_.back());
      });
      return;
    }
    if (exclusive_.empty()) return;
    const Stream gone = exclusive_.back();
    for (const auto& [ptr, held] : oracle_.live) {  // whose streams must live on
      if (held.owner == gone) return;
      for (const Stream& r : held.recorded)
        if (r == gone) return;
    }
    exclusive_.pop_back();
    std::erase(streams_, gone);
    attempt([&] { Stream::destroy_exclusive(gone); });
  }

  void finish() {
    sim::clear_faults();
    memory_.fail_in = 0;
    oracle_.check(allocator_);
    while (!oracle_.live.empty()) release(oracle_.live.begin()->first);
    if (pick(0, 1) == 0) synchronize(kDevice);
    oracle_.check(allocator_);
    allocator_.empty_cache();
    oracle_.check(allocator_);
    synchronize(kDevice);
    require(memory_.used == 0 && memory_.segments.empty(), "a leak: ", memory_.used, " bytes were not given back");
  }

  std::mt19937_64 random_;
  OracleMemory memory_;
  memory::CachingAllocator allocator_;
  Oracle oracle_;
  std::vector<Stream> streams_, exclusive_;
  bool faults_ = false;
  int drops_ = 0;
};

}  // namespace tenon::testing
