// SPDX-License-Identifier: Apache-2.0
#include <tenon/autograd/engine.h>

#include <tenon/autograd/accumulate_grad.h>
#include <tenon/autograd/anomaly.h>
#include <tenon/autograd/hooks.h>
#include <tenon/autograd/task.h>
#include <tenon/core/operand.h>
#include <tenon/dispatch/thread_state.h>
#include <tenon/streams/event.h>
#include <tenon/streams/guard.h>

#include <algorithm>
#include <map>
#include <optional>

namespace tenon::autograd {
namespace {

struct Capture {
  uint32_t output;
  std::size_t position;
  int32_t next;
};

// A hook gave something that cannot take the gradient's place.
[[noreturn, gnu::cold]] void refuse_replacement(const Node& node, const Tensor& g, const Tensor& replaced) {
  const bool leaf = dynamic_cast<const AccumulateGrad*>(&node) != nullptr;
  const std::string who =
      leaf ? std::string("register_hook: a hook on a leaf") : "register_hook: a hook on the result of " + node.name();
  TENON_CHECK(replaced.sizes() == g.sizes(), ShapeError, who, " of sizes ", g.sizes(), " returned sizes ",
              replaced.sizes());
  TENON_CHECK(replaced.dtype() == g.dtype(), DtypeError, who, " of dtype ", g.dtype(), " returned ", replaced.dtype());
  throw DeviceError(tenon::detail::concat(who, " on ", g.device(), " returned a tensor on ", replaced.device()));
}

class Run;
constinit thread_local Run* current_run TENON_INITIAL_EXEC = nullptr;

// The run becomes the thread's for as long as it lives, also when its constructor throws.
struct Current {
  explicit Current(Run* run) : previous(current_run) { current_run = run; }
  ~Current() { current_run = previous; }
  Run* const previous;
};

class Run {
 public:
  Run(std::vector<Root> roots, bool retain, bool create, std::span<const Edge> captures)
      : roots_(static_cast<std::vector<Root>&&>(roots)),
        retain_(retain),
        mode_(create),
        current_(this),
        depth_(current_.previous ? current_.previous->depth_ + 1 : 1),
        selective_(!captures.empty()) {
    TENON_CHECK(
        depth_ <= kMaxDepth, AutogradError, "backward: ", kMaxDepth,
        " backward runs inside one another in this thread (a hook or a function's backward that calls backward); ",
        "compute what is needed outside");
    std::vector<Edge> edges;
    edges.reserve(roots_.size());
    for (const Root& r : roots_) edges.push_back(r.edge);
    task_.discover(edges);
    if (selective_) select(captures);
  }

  std::vector<Tensor> go() {
    for (Root& r : roots_) {
      // What the caller queued on its own stream is there before the root's stream reads it.
      add(*task_.find(r.edge.node.get()), r.edge.index, static_cast<Tensor&&>(r.grad), Stream());
    }
    for (const Root& r : roots_) {
      Task::Entry& e = *task_.find(r.edge.node.get());
      if (e.awaited == 0 && (e.wanted || e.capture >= 0) && !queued(e)) task_.push(e);
    }
    try {
      while (Task::Entry* e = task_.pop()) run(*e);
    } catch (...) {
      // What leaves have received so far is as good as ever, also on the caller's streams.
      try {
        join_streams();
      } catch (...) {  // the first error counts
      }
      throw;
    }
    join_streams();
    return static_cast<std::vector<Tensor>&&>(captured_);
  }

  bool wanted(const Node& node) {
    if (!selective_) return true;
    const Task::Entry* e = task_.find(&node);
    return !e || e->wanted || e->capture >= 0;
  }
  std::unique_ptr<RunLocal>& local(uint64_t key) { return locals_[key]; }

 private:
  static constexpr int kMaxDepth = 200;  // each costs the stack about 1 KiB, and what the functions between them take
  // Two roots may lead to one node.
  bool queued(const Task::Entry& e) {
    const std::size_t position = task_.position(e);
    if (started_.empty()) started_.resize(task_.entries().size());
    const bool before = started_[position];
    started_[position] = true;
    return before;
  }

  void select(std::span<const Edge> captures) {
    captured_.resize(captures.size());
    for (Task::Entry& e : task_.entries()) e.wanted = false;
    for (std::size_t k = 0; k < captures.size(); ++k) {
      Task::Entry* e = captures[k] ? task_.find(captures[k].node.get()) : nullptr;
      if (!e) continue;  // not part of the graph
      captures_.push_back({captures[k].index, k, e->capture});
      e->capture = static_cast<int32_t>(captures_.size() - 1);
    }
    // Larger numbers are nearer to the roots: in rising order every node's inputs are settled before it.
    std::vector<Task::Entry*> order;
    for (Task::Entry& e : task_.entries())
      if (!e.node->edges().empty()) order.push_back(&e);
    std::sort(order.begin(), order.end(),
              [](const auto* a, const auto* b) { return a->node->sequence() < b->node->sequence(); });
    for (Task::Entry* e : order) {
      for (const Edge& edge : e->node->edges()) {
        if (!edge) continue;
        const Task::Entry& next = *task_.find(edge.node.get());
        e->wanted = e->wanted || next.wanted || next.capture >= 0;
      }
    }
  }

  void run(Task::Entry& e) {
    Node& node = *e.node;
    std::optional<StreamGuard> stream;
    if (!node.stream().device().is_cpu()) {
      stream.emplace(node.stream());
      note_stream(node.stream());
    }
    const std::span<Tensor> grads = e.grads();
    const bool any = std::any_of(grads.begin(), grads.end(), [](const Tensor& t) { return t.defined(); });
    if (any && node.hooks()) {
      try {
        before(node, grads);
      } catch (...) {
        if (anomaly_enabled()) rethrow_with_place(node);
        throw;
      }
    }
    constexpr std::size_t kFew = 6;
    Tensor few[kFew];
    std::vector<Tensor> more;
    const std::span<const Edge> edges = node.edges();
    if (edges.size() > kFew) more.resize(edges.size());
    const std::span<Tensor> results =
        edges.size() > kFew ? std::span<Tensor>(more) : std::span<Tensor>(few, edges.size());
    const bool runs = any && e.wanted && !(selective_ && edges.empty());
    for (int32_t c = e.capture; c >= 0;) {
      const Capture& capture = captures_[static_cast<std::size_t>(c)];
      c = capture.next;
      Tensor& g = grads[capture.output];
      captured_[capture.position] = runs || c >= 0 ? g : static_cast<Tensor&&>(g);
    }
    if (runs) {
      try {
        apply(node, grads, results);
      } catch (...) {
        if (anomaly_enabled()) rethrow_with_place(node);
        throw;
      }
    }
    for (Tensor& g : grads) g.reset();
    if (!retain_ && e.wanted) node.release_saved();
    for (std::size_t i = 0; i < edges.size(); ++i) {
      if (!edges[i]) continue;
      Task::Entry& next = *task_.find(edges[i].node.get());
      if (results[i].defined()) add(next, edges[i].index, static_cast<Tensor&&>(results[i]), node.stream());
      if (--next.awaited == 0 && (next.wanted || next.capture >= 0)) task_.push(next);
    }
  }

  void apply(Node& node, std::span<Tensor> grads, std::span<Tensor> results) {
    const NodeHooks* hooks = node.hooks();
    std::vector<Tensor> seen;
    if (hooks && !hooks->pre.empty()) {
      seen.assign(grads.begin(), grads.end());
      hooks->each(hooks->pre, [&](const NodeHooks::Before& h) { h.hook(grads); });
      expect_like(node, "add_pre_hook: a hook on ", seen, grads);
      seen.clear();
      if (std::none_of(grads.begin(), grads.end(), [](const Tensor& t) { return t.defined(); })) return;
    }
    if (hooks && !hooks->post.empty()) seen.assign(grads.begin(), grads.end());
    if (anomaly_enabled())
      apply_checked(node, grads, results);
    else
      node.apply(grads, results);
    if (hooks && !hooks->post.empty()) {
      const std::vector<Tensor> given(results.begin(), results.end());
      hooks->each(hooks->post, [&](const NodeHooks::After& h) { h.hook(results, seen); });
      expect_like(node, "add_post_hook: a hook on ", given, results);
    }
  }

  // What a node's hook left in the place of gradients: of the same kind, or nothing.
  static void expect_like(const Node& node, const char* who, std::span<const Tensor> before,
                          std::span<const Tensor> after) {
    for (std::size_t i = 0; i < before.size(); ++i) {
      const Tensor &was = before[i], &is = after[i];
      if (!was.defined() || !is.defined()) continue;
      TENON_CHECK(is.sizes() == was.sizes(), ShapeError, who, node.name(), ": gradient ", i, ": expected sizes ",
                  was.sizes(), ", got ", is.sizes());
      TENON_CHECK(is.dtype() == was.dtype(), DtypeError, who, node.name(), ": gradient ", i, ": expected ", was.dtype(),
                  ", got ", is.dtype());
      TENON_CHECK(is.device() == was.device(), DeviceError, who, node.name(), ": gradient ", i,
                  ": expected a tensor on ", was.device(), ", got one on ", is.device());
    }
  }

  static void before(Node& node, std::span<Tensor> grads) {
    const NodeHooks& hooks = *node.hooks();
    hooks.each(hooks.tensor, [&](const NodeHooks::OnTensor& h) {
      Tensor& g = grads[h.output];
      if (!g.defined()) return;
      Tensor replaced = h.hook(g);
      if (!replaced.defined()) return;
      if (replaced.sizes() != g.sizes() || replaced.dtype() != g.dtype() || replaced.device() != g.device())
        refuse_replacement(node, g, replaced);
      g = static_cast<Tensor&&>(replaced);
    });
    for (const NodeHooks::Retained& r : hooks.retained) {
      if (const Tensor& g = grads[r.output]; g.defined()) r.holder->add(g);
    }
  }

  // A contribution for output `index` of the entry's node, made on stream `from`.
  void add(Task::Entry& e, uint32_t index, Tensor g, const Stream& from) {
    const Stream& to = e.node->stream();
    std::optional<StreamGuard> guard;
    if (!to.device().is_cpu()) {
      const Stream source = from.device().is_cpu() ? current_stream(to.device()) : from;
      if (!(source == to)) {
        to.wait_stream(source);
        if (g.device() == to.device()) g.record_stream(to);
      }
      // A copy from another device may have been queued on either side.
      if (!from.device().is_cpu() && from.device() != to.device()) {
        const Stream here = current_stream(to.device());
        if (!(here == to)) to.wait_stream(here);
      }
      guard.emplace(to);
    }
    Tensor& slot = e.several ? e.many[index] : e.one;
    if (!slot.defined()) {
      slot = static_cast<Tensor&&>(g);
      return;
    }
    // In place when nobody else sees the first contribution.
    if (!mode_on() && slot.use_count() == 1 && slot.storage() && slot.storage()->use_count() == 1 &&
        !slot.impl()->base() && slot.is_contiguous() && slot.sizes() == g.sizes() && slot.dtype() == g.dtype())
      slot.add_(g);
    else
      slot = slot.add(g);
  }
  static bool mode_on() { return grad_enabled(); }

  void note_stream(const Stream& s) {
    if (std::find(used_.begin(), used_.end(), s) == used_.end()) used_.push_back(s);
  }
  void join_streams() {
    for (const Stream& s : used_) {
      const Stream mine = current_stream(s.device());
      if (!(mine == s)) mine.wait_stream(s);
    }
  }

  std::vector<Root> roots_;  // keep the graph alive
  Task task_;
  bool retain_;
  dispatch::GradModeGuard mode_;
  Current current_;
  int depth_;
  bool selective_;
  std::vector<Capture> captures_;
  std::vector<Tensor> captured_;
  std::vector<bool> started_;
  std::vector<Stream> used_;
  std::map<uint64_t, std::unique_ptr<RunLocal>> locals_;
};

}  // namespace

std::vector<Tensor> run_backward(std::vector<Root> roots, bool retain_graph, bool create_graph,
                                 std::span<const Edge> captures) {
  Run run(static_cast<std::vector<Root>&&>(roots), retain_graph, create_graph, captures);
  return run.go();
}

RunLocal::~RunLocal() = default;
std::unique_ptr<RunLocal>* run_local(uint64_t key) { return current_run ? &current_run->local(key) : nullptr; }
bool wanted(const Node& node) { return !current_run || current_run->wanted(node); }

}  // namespace tenon::autograd
