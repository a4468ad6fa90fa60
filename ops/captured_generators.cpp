// SPDX-License-Identifier: Apache-2.0
// Random numbers in graphs. A capture draws no numbers of its generators; its kernels read seed and position from two
// words of the graph's own memory. Each replay reserves as many numbers as the capture used and writes the words first.
#include <tenon/dispatch/make_tensor.h>
#include <tenon/dispatch/thread_state.h>
#include <tenon/ops/generator.h>
#include <tenon/streams/graph.h>

#include <mutex>
#include <unordered_map>

namespace tenon {
namespace {

struct Draws {
  Generator generator;
  Tensor seed, position;  // the words, int64
  uint64_t blocks = 0;    // that a replay uses
  bool seeded = false;    // the word holds last_seed
  uint64_t last_seed = 0;
};

class CapturedGenerators final : public detail::CaptureObserver {
 public:
  bool draw(const Generator& generator, uint64_t blocks, PhiloxState& state) {
    const detail::GraphInfo* const graph = detail::thread_capture();
    if (!graph || !detail::captures(*graph, current_stream(generator.device()))) return false;
    Draws& draws = find(*graph, generator);
    state = {0, draws.blocks, static_cast<const uint64_t*>(draws.seed.data_ptr())};
    draws.blocks += blocks;
    return true;
  }
  void before_replay(const detail::GraphInfo& graph, const Stream&) override {
    std::vector<Draws>* const all = find(graph.id);
    if (!all) return;
    const dispatch::BelowLayersGuard below;
    for (Draws& d : *all) {
      const PhiloxState now = d.generator.advance(d.blocks);
      d.position.fill_(static_cast<int64_t>(now.offset));
      if (d.seeded && d.last_seed == now.seed) continue;
      d.seed.fill_(static_cast<int64_t>(now.seed));
      d.seeded = true;
      d.last_seed = now.seed;
    }
  }
  void reset(const detail::GraphInfo& graph) noexcept override {
    decltype(graphs_)::node_type gone;  // freed without the lock
    const std::lock_guard lock(mutex_);
    gone = graphs_.extract(graph.id);
  }

 private:
  // A graph belongs to one thread at a time: the list needs no lock, and does not move.
  std::vector<Draws>* find(uint64_t id) {
    const std::lock_guard lock(mutex_);
    const auto found = graphs_.find(id);
    return found == graphs_.end() ? nullptr : &found->second;
  }
  Draws& find(const detail::GraphInfo& graph, const Generator& generator) {
    std::vector<Draws>* all = find(graph.id);
    if (all) {
      for (Draws& d : *all)
        if (d.generator.is_same(generator)) return d;
    }
    const Tensor words = dispatch::make_tensor(2, kInt64, generator.device());  // from the graph's pool
    const auto word = [&](int64_t i) { return dispatch::make_view(words, {}, {}, i); };
    Draws fresh{generator, word(0), word(1)};
    if (!all) {
      const std::lock_guard lock(mutex_);
      all = &graphs_[graph.id];
    }
    all->push_back(std::move(fresh));
    return all->back();
  }

  std::mutex mutex_;
  std::unordered_map<uint64_t, std::vector<Draws>> graphs_;
};

CapturedGenerators& captured() {
  static auto* const made = new CapturedGenerators;  // never destroyed: graphs may be reset at exit
  return *made;
}
[[maybe_unused]] const bool observed = [] {
  detail::add_capture_observer(&captured());
  return true;
}();

}  // namespace

namespace detail {
bool draw_in_capture(const Generator& generator, uint64_t blocks, PhiloxState& state);
bool draw_in_capture(const Generator& generator, uint64_t blocks, PhiloxState& state) {
  return captured().draw(generator, blocks, state);
}
}  // namespace detail

}  // namespace tenon
