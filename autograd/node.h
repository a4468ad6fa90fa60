// SPDX-License-Identifier: Apache-2.0
// Node: one step of the recorded graph. It receives the gradients of its outputs and gives those of its inputs; edges
// lead to the nodes its inputs came from. Custom functions, operators, leaves and writes through views are all nodes.
//
// Note [Order]. Every node has a larger number than the nodes its edges lead to. Threads take numbers from one counter,
// block by block, and a node that finds larger ones behind it takes a new one. Larger numbers come first in backward, so
// the order of a graph is the same in every run.
// Note [Destruction]. Destroying a node may destroy the nodes behind it. Node::destroy queues them instead of
// recursing, so a chain of a million nodes needs no stack.
// Thread safety: a finished node may be read by any thread. Hooks are added with exclusive access.
#pragma once

#include <tenon/core/tensor.h>
#include <tenon/streams/stream.h>

namespace tenon::autograd {

class Node;
struct NodeHooks;
struct GradHolder;

/// Where a gradient goes: input `index` of `node`, which is output `index` of the forward step.
struct Edge {
  Ref<Node> node;
  uint32_t index = 0;
  explicit operator bool() const { return static_cast<bool>(node); }
};

/// Sees the gradient of a tensor; an undefined result leaves it, another one of the same sizes replaces it.
using TensorHook = tenon::Function<Tensor(const Tensor&)>;
/// Sees, and may change, the gradients a node is about to receive.
using PreHook = tenon::Function<void(std::span<Tensor> grads)>;
/// Sees the gradients a node received, and may change those it gives on.
using PostHook = tenon::Function<void(std::span<Tensor> results, std::span<const Tensor> grads)>;

/// Sees a tensor that a node keeps for backward: what it is ("self", "output"), geometry, bytes.
using SavedVisitor = tenon::Function<void(std::string_view what, IntArrayRef sizes, DType dtype, int64_t bytes)>;

/// Removes a hook when asked; a handle that is dropped leaves the hook where it is. Keeps the node alive meanwhile.
class TENON_API HookHandle {
 public:
  HookHandle() = default;
  HookHandle(Ref<Node> node, uint64_t id);
  HookHandle(const HookHandle&);
  HookHandle(HookHandle&&) noexcept;
  HookHandle& operator=(HookHandle) noexcept;
  ~HookHandle();
  void remove();

 private:
  Ref<Node> node_;
  uint64_t id_ = 0;
};

class TENON_API Node : public Counted {
 public:
  /// `outputs`: how many gradients apply() receives.
  explicit Node(uint32_t outputs = 1);
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;
  static void destroy(Node* node) noexcept;

  /// For messages, graph dumps and printing: "mul", "accumulate_grad".
  virtual std::string name() const = 0;
  /// `grads[i]` is the gradient of output i, undefined for zero (at least one is defined). Fills `results[i]` for edge
  /// i; undefined means zero. Runs in grad mode only under create_graph. May move from `grads`.
  virtual void apply(std::span<Tensor> grads, std::span<Tensor> results) = 0;
  /// Drops what was saved for backward; apply() throws AutogradError afterwards if that was anything.
  virtual void release_saved() noexcept {}
  /// Calls `f` for every tensor kept for backward.
  virtual void visit_saved(const SavedVisitor&) const {}
  /// What is known of the tensor behind edge `i`: its sizes and dtype (undefined: unknown).
  virtual std::pair<IntArrayRef, DType> input_geometry(std::size_t) const { return {{}, DType::undefined}; }

  uint64_t sequence() const { return sequence_; }
  uint32_t outputs() const { return outputs_; }
  std::span<const Edge> edges() const { return {edges_, edge_count_}; }
  /// Moves from `edges`.
  void set_edges(std::span<Edge> edges);
  void replace_edge(std::size_t i, Edge e) { edges_[i] = static_cast<Edge&&>(e); }
  /// For a node that is not linked yet and got edges one by one: a view's node may have been made just then, or in
  /// another thread, and the order wants this one after it. set_edges() does it.
  void settle_order();
  /// Whether somebody wants the gradient of edge `i`: false lets apply() skip the work.
  bool should_compute(std::size_t i) const;
  /// The stream forward ran on, current again in backward. The CPU's default for work on the host.
  const Stream& stream() const { return stream_; }
  /// Remembers the calling thread's current stream of `device`.
  void set_device(Device device) {
    if (!device.is_cpu() && !device.is_meta()) stream_ = current_stream(device);
  }

  HookHandle add_pre_hook(PreHook hook);
  HookHandle add_post_hook(PostHook hook);
  HookHandle add_tensor_hook(uint32_t output, TensorHook hook);
  /// Lets `holder` receive the gradient of `output` (retain_grad).
  void retain_gradient(uint32_t output, Ref<GradHolder> holder);
  void forget_gradient(const GradHolder* holder);
  /// Remembers where the step was recorded (anomaly mode).
  void set_site(std::vector<void*> frames);
  const NodeHooks* hooks() const { return hooks_; }

 protected:
  virtual ~Node();
  /// Frees the object; subclasses with memory of their own replace it.
  virtual void dispose() noexcept { delete this; }
  /// Edges in memory that the subclass owns and destroys.
  void place_edges(Edge* edges, uint32_t count) { edges_ = edges, edge_count_ = count; }
  void set_sequence(uint64_t s) { sequence_ = s; }
  void set_outputs(uint32_t n) { outputs_ = n; }
  NodeHooks& make_hooks();

 private:
  friend class HookHandle;

  uint32_t outputs_;
  uint32_t edge_count_ = 0;
  Edge* edges_ = nullptr;
  bool owns_edges_ = false;
  uint64_t sequence_;
  Stream stream_;
  NodeHooks* hooks_ = nullptr;
  Node* next_ = nullptr;  // in the queue of destruction
};

}  // namespace tenon::autograd

namespace tenon {
template <class F, class>
autograd::HookHandle Tensor::register_hook(F hook) const {
  return register_hook(autograd::TensorHook([hook = static_cast<F&&>(hook)](const Tensor& g) mutable {
    hook(g);
    return Tensor();
  }));
}
}  // namespace tenon
