// SPDX-License-Identifier: Apache-2.0
#include <tenon/autograd/autograd.h>

#include <tenon/autograd/autograd_meta.h>
#include <tenon/autograd/engine.h>
#include <tenon/core/operand.h>
#include <tenon/dispatch/make_tensor.h>

namespace tenon {

using autograd::AutogradMeta;
using autograd::meta_if_any;
using autograd::meta_of;

Tensor& Tensor::requires_grad_(bool on) & {
  TENON_CHECK(defined(), ValueError, "requires_grad_: expected a tensor, got an undefined one");
  TENON_CHECK(!on || is_differentiable(dtype()), AutogradError,
              "requires_grad_: expected a floating-point or complex tensor, got ", dtype());
  TENON_CHECK(!on || !is_float8(dtype()), DtypeError, "requires_grad_: ", dtype(),
              " is for storage and has no gradients; convert to another floating-point dtype");
  if (on == requires_grad()) return *this;
  TENON_CHECK(on || is_leaf(), AutogradError, "requires_grad_(false): expected a leaf, got the result of ",
              grad_fn()->name(), "; use detach()");
  TENON_CHECK(!on || !impl_->inference() || dispatch::thread_state.inference, AutogradError,
              "requires_grad_: the tensor was made in inference mode; clone() it outside");
  impl_->set_requires_grad(on);
  // The slot exists before other threads can use the leaf.
  if (on) autograd::edge_of(*this);
  return *this;
}

bool Tensor::view_requires_grad() const { return autograd::takes_part(*impl_); }
bool Tensor::is_leaf() const { return !requires_grad() || !autograd::history_of(*this); }

Tensor Tensor::grad() const {
  const AutogradMeta* m = defined() ? meta_if_any(*impl_) : nullptr;
  return m && m->holder ? m->holder->get() : Tensor();
}

void Tensor::set_grad(const Tensor& g) const {
  TENON_CHECK(defined(), ValueError, "set_grad: expected a tensor, got an undefined one");
  if (g.defined()) {
    TENON_CHECK(g.sizes() == sizes(), ShapeError, "set_grad: expected sizes ", sizes(), ", got ", g.sizes());
    TENON_CHECK(g.dtype() == dtype(), DtypeError, "set_grad: expected ", dtype(), ", got ", g.dtype());
    TENON_CHECK(g.device() == device(), DeviceError, "set_grad: expected a tensor on ", device(), ", got one on ",
                g.device());
  }
  // A tensor that is its own gradient would never be freed, and a step would change both.
  const auto root = [](const Tensor& t) { return t.is_view() ? t.impl()->base().get() : t.impl(); };
  TENON_CHECK(!g.defined() || (root(g) != root(*this)), ValueError,
              "set_grad: the gradient is the tensor itself, or a view of the same memory; pass a clone()");
  AutogradMeta& m = meta_of(*impl_);
  if (!m.holder) m.holder = Ref<autograd::GradHolder>::adopt(new autograd::GradHolder);
  m.holder->set(g);
}

autograd::Node* Tensor::grad_fn() const {
  if (!defined() || !requires_grad()) return nullptr;
  return autograd::history_of(*this).node.get();  // the tensor's slot keeps it alive
}

void Tensor::retain_grad() const {
  TENON_CHECK(defined() && requires_grad(), AutogradError, "retain_grad: the tensor does not require grad");
  const autograd::Edge e = autograd::history_of(*this);
  if (!e) return;  // leaves keep theirs anyway
  AutogradMeta& m = meta_of(*impl_);
  if (m.retains_grad) return;
  if (!m.holder) m.holder = Ref<autograd::GradHolder>::adopt(new autograd::GradHolder);
  m.retains_grad = true;
  e.node->retain_gradient(e.index, m.holder);
}

std::string Tensor::grad_fn_name() const {
  try {
    const autograd::Node* node = grad_fn();
    return node ? node->name() : std::string();
  } catch (const AutogradError&) {
    return "invalid";  // a view that a Function returned, written since
  }
}

bool Tensor::retains_grad() const {
  const AutogradMeta* m = defined() ? meta_if_any(*impl_) : nullptr;
  return m && m->retains_grad;
}

autograd::HookHandle Tensor::register_hook(Function<Tensor(const Tensor&)> hook) const {
  return autograd::register_hook(*this, static_cast<autograd::TensorHook&&>(hook));
}

autograd::HookHandle Tensor::register_post_accumulate_grad_hook(Function<void(Tensor&)> hook) const {
  return autograd::register_post_accumulate_grad_hook(*this, static_cast<autograd::AccumulatedHook&&>(hook));
}

void Tensor::backward(const Tensor& gradient, std::optional<bool> retain_graph, bool create_graph) const {
  autograd::backward({this, 1}, {&gradient, 1}, retain_graph, create_graph);
}

namespace autograd {
namespace {

std::vector<Root> make_roots(TensorList tensors, TensorList grads, const char* who) {
  TENON_CHECK(grads.empty() || grads.size() == tensors.size(), ValueError, who, ": expected ", tensors.size(),
              " gradients, or none, got ", grads.size());
  std::vector<Root> roots;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const Tensor& t = tensors[i];
    TENON_CHECK(t.defined(), ValueError, who, ": tensor ", i, " is undefined");
    TENON_CHECK(
        takes_part(t), AutogradError, who, ": tensor ", i,
        " does not require grad: nothing it was computed from does, recording was off, or the only way back leads "
        "through detach(), a comparison or an integer result (a gradient can be differentiated again only under "
        "create_graph=true)");
    Tensor g = grads.empty() ? Tensor() : grads[i];
    if (!g.defined()) {
      TENON_CHECK(t.numel() == 1, AutogradError, who, ": tensor ", i, " has sizes ", t.sizes(),
                  "; a gradient can be left out for one element only; call sum(), or pass a gradient of those sizes");
      TENON_CHECK(!t.is_complex(), AutogradError, who, ": tensor ", i, " is complex; pass its gradient");
      const NoGradGuard guard;
      g = dispatch::make_tensor(t.sizes(), t.dtype(), t.device());
      g.fill_(1.0);
    }
    TENON_CHECK(g.sizes() == t.sizes(), ShapeError, who, ": gradient ", i, ": expected sizes ", t.sizes(), ", got ",
                g.sizes());
    TENON_CHECK(is_differentiable(g.dtype()) && g.is_complex() == t.is_complex(), DtypeError, who, ": gradient ", i,
                ": expected ", t.dtype(), ", got ", g.dtype());
    if (g.dtype() != t.dtype()) g = g.to(t.dtype());
    TENON_CHECK(g.device() == t.device(), DeviceError, who, ": gradient ", i, ": expected a tensor on ", t.device(),
                ", got one on ", g.device());
    roots.push_back({edge_of(t), static_cast<Tensor&&>(g)});
  }
  return roots;
}

}  // namespace

namespace {
std::vector<Edge> edges_to(TensorList inputs, const char* who) {
  TENON_CHECK(!inputs.empty(), ValueError, who, ": inputs: expected at least one");
  std::vector<Edge> edges;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    TENON_CHECK(inputs[i].defined() && takes_part(inputs[i]), AutogradError, who, ": input ", i,
                inputs[i].defined() ? " does not require grad" : " is undefined");
    edges.push_back(edge_of(inputs[i]));
  }
  return edges;
}

// Adds `g` to the gradient of a leaf (as backward would) or of a result.
void accumulate(const Tensor& t, Tensor g) {
  AutogradMeta& m = meta_of(*t.impl());
  if (m.accumulator && t.is_leaf()) {
    m.accumulator->apply({&g, 1}, {});
    return;
  }
  if (!m.holder) m.holder = Ref<GradHolder>::adopt(new GradHolder);
  m.holder->add(g);
}
}  // namespace

void backward(const TensorArgs& tensors, const TensorArgs& grads, std::optional<bool> retain_graph, bool create_graph,
              const TensorArgs& inputs) {
  std::vector<Root> roots = make_roots(tensors, grads, "backward");
  const bool retain = retain_graph.value_or(create_graph);
  if (!inputs.given()) {
    if (!roots.empty()) run_backward(static_cast<std::vector<Root>&&>(roots), retain, create_graph);
    return;
  }
  std::vector<Tensor> unique;  // one gradient for each, however often it is named
  for (const Tensor& t : inputs) {
    bool known = false;
    for (const Tensor& u : unique) known = known || u.is_same(t);
    if (!known) unique.push_back(t);
  }
  if (roots.empty()) return;
  const std::vector<Edge> captures = edges_to(unique, "backward");
  std::vector<Tensor> found = run_backward(static_cast<std::vector<Root>&&>(roots), retain, create_graph, captures);
  const GradModeGuard mode(create_graph);
  for (std::size_t i = 0; i < unique.size(); ++i)
    if (found[i].defined() && !unique[i].retains_grad()) accumulate(unique[i], static_cast<Tensor&&>(found[i]));
}

std::vector<Tensor> grad(const TensorArgs& outputs, const TensorArgs& inputs, const TensorArgs& grad_outputs,
                         std::optional<bool> retain_graph, bool create_graph, bool allow_unused,
                         bool materialize_grads) {
  const std::vector<Edge> captures = edges_to(inputs, "grad");
  std::vector<Root> roots = make_roots(outputs, grad_outputs, "grad");
  std::vector<Tensor> result(inputs.size());
  if (!roots.empty())
    result = run_backward(static_cast<std::vector<Root>&&>(roots), retain_graph.value_or(create_graph), create_graph,
                          captures);
  for (std::size_t i = 0; i < result.size(); ++i) {
    if (result[i].defined()) continue;
    TENON_CHECK(allow_unused || materialize_grads, AutogradError, "grad: input ", i,
                " was not used to compute the outputs; allow_unused=true gives an undefined gradient instead");
    if (!materialize_grads) continue;
    result[i] = dispatch::make_tensor(inputs[i].sizes(), inputs[i].dtype(), inputs[i].device());
    result[i].zero_();
  }
  return result;
}

HookHandle register_hook(const Tensor& t, TensorHook hook) {
  TENON_CHECK(t.defined() && takes_part(t), AutogradError, "register_hook: the tensor does not require grad");
  TENON_CHECK(hook, ValueError, "register_hook: hook: expected a function, got none");
  const Edge e = edge_of(t);
  return e.node->add_tensor_hook(e.index, static_cast<TensorHook&&>(hook));
}

HookHandle register_post_accumulate_grad_hook(const Tensor& leaf, tenon::Function<void(Tensor&)> hook) {
  TENON_CHECK(leaf.defined() && takes_part(leaf) && leaf.is_leaf(), AutogradError,
              "register_post_accumulate_grad_hook: expected a leaf that requires grad");
  TENON_CHECK(hook, ValueError, "register_post_accumulate_grad_hook: hook: expected a function, got none");
  edge_of(leaf);
  return meta_of(*leaf.impl())
      .accumulator->add_accumulated_hook(static_cast<AccumulatedHook&&>(hook), dispatch::make_alias(leaf));
}

uint32_t output_number(const Tensor& t) { return t.defined() && takes_part(t) ? history_of(t).index : 0; }
Edge gradient_edge(const Tensor& t) { return t.defined() ? edge_of(t) : Edge{}; }

}  // namespace autograd
}  // namespace tenon
