// SPDX-License-Identifier: Apache-2.0
// Made-up memory histories for claims about policy, and a device of addresses without memory.
#pragma once

#include <tenon/memory/raw_memory.h>
#include <tenon/memory/replay.h>
#include <tenon/memory/settings.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

namespace tenon::claims {

class Addresses final : public memory::RawMemory {
 public:
  explicit Addresses(int64_t capacity = INT64_MAX) : capacity_(capacity) {}
  void* allocate(int64_t bytes) override {
    if (bytes > capacity_ - used_) return nullptr;
    used_ += bytes;
    void* p = reinterpret_cast<void*>(next_);
    next_ += static_cast<uint64_t>(bytes + 511) / 512 * 512;
    return p;
  }
  void release(void*, int64_t bytes) noexcept override { used_ -= bytes; }
  void info(int64_t& free, int64_t& total) override {
    free = capacity_ - used_;
    total = capacity_;
  }
  const char* name() const override { return "addresses"; }

 private:
  int64_t capacity_, used_ = 0;
  uint64_t next_ = uint64_t{1} << 40;
};

/// Builds a snapshot's history. Addresses are numbers here, from 1.
class Trace {
 public:
  Trace() {
    memory::SnapshotAllocator a;
    a.name = "cuda:0";
    a.settings = memory::AllocatorSettings().str();
    a.total = int64_t{80} << 30;
    a.virtual_memory = true;  // as a GPU has it: without it expandable segments have no effect
    snapshot_.allocators.push_back(a);
  }
  uint64_t allocate(int64_t bytes) {
    sizes_.push_back(bytes);
    add(memory::AllocatorEventKind::alloc, sizes_.size());
    return sizes_.size();
  }
  void free(uint64_t address) {
    add(memory::AllocatorEventKind::free_requested, address);
    add(memory::AllocatorEventKind::free_completed, address);
  }
  const memory::MemorySnapshot& snapshot() const { return snapshot_; }

 private:
  void add(memory::AllocatorEventKind kind, uint64_t address) {
    memory::SnapshotEvent e;
    e.kind = kind;
    e.address = address;
    e.size = e.requested = sizes_[address - 1];
    snapshot_.events.push_back(e);
  }
  memory::MemorySnapshot snapshot_;
  std::vector<int64_t> sizes_;
};

/// Sentences of any length: large activations of every size, medium-sized blocks that stay.
inline Trace varying_lengths() {
  Trace trace;
  std::mt19937 random(7);
  std::vector<uint64_t> kept;
  for (int step = 0; step < 150; ++step) {
    const int64_t length = 100 + static_cast<int64_t>(random() % 1949);
    std::vector<uint64_t> activations;
    for (int layer = 0; layer < 8; ++layer) {
      activations.push_back(trace.allocate(length * 48 * 1024));
      activations.push_back(trace.allocate(length * 4 * 1024));
    }
    std::reverse(activations.begin(), activations.end());
    for (size_t i = 0; i < activations.size(); ++i) {
      trace.free(activations[i]);
      if (i == 4 || i == 9) kept.push_back(trace.allocate((3 << 20) + 4096 * (step % 13)));
    }
    if (step % 3 == 2) {
      const size_t victim = random() % kept.size();
      trace.free(kept[victim]);
      kept.erase(kept.begin() + static_cast<std::ptrdiff_t>(victim));
    }
  }
  return trace;
}

/// Batches that grow by a fifth: what was reserved for the last one never fits the next.
inline Trace growing_batches() {
  Trace trace;
  for (int64_t batch = 16; batch < 1024; batch = batch * 6 / 5) {
    for (int repeat = 0; repeat < 3; ++repeat) {
      std::vector<uint64_t> layers;
      for (int layer = 1; layer <= 12; ++layer) layers.push_back(trace.allocate(batch * 160 * 1024 * (1 + layer % 3)));
      for (auto l = layers.rbegin(); l != layers.rend(); ++l) trace.free(*l);
    }
  }
  return trace;
}

}  // namespace tenon::claims
