// SPDX-License-Identifier: Apache-2.0
// What may hang on a node, and the place where a tensor's gradient is kept. Internal.
#pragma once

#include <tenon/autograd/node.h>
#include <tenon/memory/spin_lock.h>

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
  memory::SpinLock lock;
  Tensor grad;
};

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
  struct Retained {
    uint32_t output;
    Ref<GradHolder> holder;
  };
  std::vector<OnTensor> tensor;
  std::vector<Before> pre;
  std::vector<After> post;
  std::vector<Retained> retained;
  std::vector<void*> site;  // call stack, in anomaly mode
  uint64_t next_id = 1;
};

}  // namespace tenon::autograd
