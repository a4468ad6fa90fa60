// SPDX-License-Identifier: Apache-2.0
// What may hang on a node, and the place where a tensor's gradient is kept. Internal.
#pragma once

#include <tenon/autograd/node.h>
#include <tenon/memory/spin_lock.h>

#include <deque>

namespace tenon::autograd {

/// A gradient that outlives neither the tensor it belongs to nor the graph that fills it: both refer to it, so a leaf
/// needs no weak pointer from the graph. The lock makes concurrent backward over shared leaves right.
struct GradHolder : Counted {
  static void destroy(GradHolder* h) noexcept { delete h; }
  Tensor get() {
    const memory::SpinGuard guard(lock);
    return grad;
  }
  void set(Tensor g) {
    {
      const memory::SpinGuard guard(lock);
      std::swap(grad, g);
    }  // the old one is freed outside the lock
  }
  /// Adds `g`, of a result: what is kept has memory of its own.
  void add(const Tensor& g);
  memory::SpinLock lock;
  Tensor grad;
};

/// Called after a leaf's gradient was accumulated, with the leaf (a handle of its own to the same data and gradient).
using AccumulatedHook = tenon::Function<void(Tensor&)>;

struct NodeHooks {
  struct OnTensor {
    uint64_t id;
    uint32_t output;
    TensorHook hook;
  };
  struct Before {
    uint64_t id;
    PreHook hook;
  };
  struct After {
    uint64_t id;
    PostHook hook;
  };
  struct Accumulated {
    uint64_t id;
    AccumulatedHook hook;
  };
  struct Retained {
    uint32_t output;
    Ref<GradHolder> holder;
  };
  // Hooks may add and remove hooks while they run: added ones move no others, removed ones are only marked then.
  std::deque<OnTensor> tensor;
  std::deque<Before> pre;
  std::deque<After> post;
  std::deque<Accumulated> accumulated;  // of a leaf's node
  Tensor leaf;                          // an alias of its data, for them
  std::vector<Retained> retained;
  std::vector<void*> site;  // call stack, in anomaly mode
  uint64_t next_id = 1;
  mutable int running = 0;

  /// Calls f(hook) for those of `list` that were there at the start.
  template <class List, class F>
  void each(const List& list, F&& f) const {
    struct Scope {
      int& running;
      explicit Scope(int& r) : running(r) { __atomic_fetch_add(&running, 1, __ATOMIC_RELAXED); }
      ~Scope() { __atomic_fetch_sub(&running, 1, __ATOMIC_RELAXED); }
    } const scope(running);
    for (std::size_t i = 0, n = list.size(); i < n; ++i)
      if (list[i].id != 0) f(list[i]);
  }
  void remove(uint64_t id) {
    const auto from = [&](auto& list) {
      for (auto& e : list)
        if (e.id == id) e.id = 0;
    };
    from(tensor);
    from(pre);
    from(post);
    from(accumulated);
    purge();
  }
  /// Frees removed hooks, unless some run: one that removes itself is freed when the next is added or removed.
  void purge() {
    if (__atomic_load_n(&running, __ATOMIC_RELAXED) != 0) return;
    const auto from = [](auto& list) { std::erase_if(list, [](const auto& e) { return e.id == 0; }); };
    from(tensor);
    from(pre);
    from(post);
    from(accumulated);
  }
};

}  // namespace tenon::autograd
