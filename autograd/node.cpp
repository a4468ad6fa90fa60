// SPDX-License-Identifier: Apache-2.0
#include <tenon/autograd/engine.h>
#include <tenon/autograd/hooks.h>

namespace tenon::autograd {
namespace {
// Numbers are taken from the one counter in blocks, so that recording threads do not fight for its cache line.
constexpr uint64_t kBlock = 4096;
struct Numbers {
  uint64_t last, end;
};
constinit thread_local Numbers numbers TENON_INITIAL_EXEC{0, 0};
// Numbers larger than all that any thread has taken.
[[gnu::noinline]] void take_numbers() {
  static uint64_t counter = 0;
  numbers.last = __atomic_fetch_add(&counter, kBlock, __ATOMIC_RELAXED);
  numbers.end = numbers.last + kBlock;
}
uint64_t next_sequence() {
  if (numbers.last == numbers.end) [[unlikely]]
    take_numbers();
  return ++numbers.last;
}
// Nodes waiting to be destroyed by this thread; the flag is set while somebody further up the stack works on them.
constinit thread_local Node* doomed TENON_INITIAL_EXEC = nullptr;
constinit thread_local bool destroying TENON_INITIAL_EXEC = false;
}  // namespace

Node::Node(uint32_t outputs) : outputs_(outputs), sequence_(next_sequence()) {}

Node::~Node() {
  if (owns_edges_) delete[] edges_;
  delete hooks_;
}

void Node::destroy(Node* node) noexcept {
  if (destroying) {
    node->next_ = doomed;
    doomed = node;
    return;
  }
  destroying = true;
  node->dispose();
  while (Node* next = doomed) {
    doomed = next->next_;
    next->dispose();
  }
  destroying = false;
}

void Node::set_edges(std::span<Edge> edges) {
  if (owns_edges_) delete[] edges_;
  edge_count_ = static_cast<uint32_t>(edges.size());
  edges_ = new Edge[edges.size()];
  owns_edges_ = true;
  for (std::size_t i = 0; i < edges.size(); ++i) edges_[i] = static_cast<Edge&&>(edges[i]);
  settle_order();
}

void Node::settle_order() {
  for (const Edge& e : edges()) {
    if (!e || e.node->sequence_ < sequence_ || e.node->sequence_ == UINT64_MAX) continue;  // leaves come first of all
    sequence_ = next_sequence();
    if (e.node->sequence_ < sequence_) continue;
    take_numbers();  // the edge's node is another thread's
    sequence_ = next_sequence();
    return;
  }
}

bool Node::should_compute(std::size_t i) const { return edges_[i] && wanted(*edges_[i].node); }

NodeHooks& Node::make_hooks() {
  if (!hooks_) hooks_ = new NodeHooks;
  hooks_->purge();
  return *hooks_;
}

HookHandle Node::add_pre_hook(PreHook hook) {
  TENON_CHECK(hook, ValueError, "add_pre_hook: hook: expected a function, got none");
  NodeHooks& h = make_hooks();
  h.pre.push_back({h.next_id, static_cast<PreHook&&>(hook)});
  return {Ref<Node>::share(this), h.next_id++};
}
HookHandle Node::add_post_hook(PostHook hook) {
  TENON_CHECK(hook, ValueError, "add_post_hook: hook: expected a function, got none");
  NodeHooks& h = make_hooks();
  h.post.push_back({h.next_id, static_cast<PostHook&&>(hook)});
  return {Ref<Node>::share(this), h.next_id++};
}
HookHandle Node::add_tensor_hook(uint32_t output, TensorHook hook) {
  TENON_CHECK(hook, ValueError, "add_tensor_hook: hook: expected a function, got none");
  TENON_CHECK(output < outputs_, IndexError, "add_tensor_hook: output: ", name(), " has ", outputs_, ", got ", output);
  NodeHooks& h = make_hooks();
  h.tensor.push_back({h.next_id, output, static_cast<TensorHook&&>(hook)});
  return {Ref<Node>::share(this), h.next_id++};
}
void Node::retain_gradient(uint32_t output, Ref<GradHolder> holder) {
  NodeHooks& h = make_hooks();
  h.retained.push_back({output, static_cast<Ref<GradHolder>&&>(holder)});
}

void Node::forget_gradient(const GradHolder* holder) {
  if (hooks_) std::erase_if(hooks_->retained, [&](const auto& e) { return e.holder.get() == holder; });
}
void Node::set_site(std::vector<void*> frames) { make_hooks().site = static_cast<std::vector<void*>&&>(frames); }

HookHandle::HookHandle(Ref<Node> node, uint64_t id) : node_(static_cast<Ref<Node>&&>(node)), id_(id) {}
HookHandle::HookHandle(const HookHandle&) = default;
HookHandle::HookHandle(HookHandle&&) noexcept = default;
HookHandle::~HookHandle() = default;
HookHandle& HookHandle::operator=(HookHandle o) noexcept {
  std::swap(node_, o.node_);
  std::swap(id_, o.id_);
  return *this;
}
void HookHandle::remove() {
  if (!node_) return;
  node_->hooks_->remove(id_);
  node_ = nullptr;
}

}  // namespace tenon::autograd
