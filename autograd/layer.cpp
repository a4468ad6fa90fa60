// SPDX-License-Identifier: Apache-2.0
// The autograd layer: where a call with differentiable arguments is recorded. The call runs below; what its gradient
// needs is kept in an OpNode, which becomes the history of the results. In-place calls change the history of what they
// write (Notes in autograd_meta.h and view_node.h).
#include <tenon/autograd/anomaly.h>
#include <tenon/autograd/autograd_meta.h>
#include <tenon/autograd/op_node.h>
#include <tenon/autograd/view_node.h>
#include <tenon/core/operand.h>
#include <tenon/dispatch/layers.h>
#include <tenon/dispatch/make_tensor.h>

namespace tenon::autograd {

void check_inplace(std::string_view op, const char* what, const Tensor& self, bool self_takes_part) {
  const TensorImpl& impl = *self.impl();
  TENON_CHECK(!impl.inference(), AutogradError, op, what,
              ": self was made in inference mode and cannot be written under autograd; clone() it");
  if (!impl.base()) {
    TENON_CHECK(!self_takes_part || history_of(self), AutogradError, op, what,
                ": self is a leaf that requires grad and cannot be written in place; use a NoGradGuard, or a clone()");
    return;
  }
  TENON_CHECK(
      impl.view_mode() != ViewMode::multi_output, AutogradError, op, what,
      ": self is one of several views an operator made at once (split, unbind), and cannot be written in place; ",
      "use select or slice, or a clone()");
  const bool inference = impl.view_mode() == ViewMode::inference;
  TENON_CHECK(!inference && impl.view_mode() != ViewMode::no_grad, AutogradError, op, what, ": self is a view made in ",
              inference ? "inference" : "no-grad",
              " mode of a tensor that requires grad, and cannot be written while recording; make the view outside, or "
              "clone() it");
  TENON_CHECK(impl.view_mode() != ViewMode::custom_function, AutogradError, op, what,
              ": self is an input, or a view, that a Function returned, and cannot be written in place; clone() it");
  const TensorImpl& base = *impl.base();
  const bool base_is_leaf = !meta_if_any(base) || !meta_if_any(base)->grad_fn;
  TENON_CHECK(base.requires_grad() || !self_takes_part || history_of(self), AutogradError, op, what,
              ": self is a leaf that requires grad and cannot be written in place; use a NoGradGuard, or a clone()");
  TENON_CHECK(
      !(base.requires_grad() && base_is_leaf), AutogradError, op, what,
      ": self is a view of a leaf that requires grad and cannot be written in place; use a NoGradGuard, or a clone()");
}

namespace {

using dispatch::Form;
using dispatch::LayerCall;
using dispatch::Value;
using List = Value::Kind;

template <class F>
void for_each_tensor(std::span<const Value> args, F&& f) {
  std::size_t slot = 0;
  for (std::size_t i = 0; i < args.size(); ++i) {
    if (args[i].is_tensor())
      f(i, slot++, args[i].tensor());
    else if (args[i].kind() == List::tensor_list)
      for (const Tensor& t : args[i].tensors()) f(i, slot++, t);
  }
}

// make_view cannot know that recording is on: it runs below the layers.
void set_view_modes(const LayerCall& c) {
  const auto fix = [&](const Tensor& t, bool list) {
    TensorImpl& impl = *t.impl();
    if (!impl.base() || impl.view_mode() != ViewMode::no_grad) return;
    ViewMode mode = list ? ViewMode::multi_output : ViewMode::normal;
    for_each_tensor(c.args, [&](std::size_t, std::size_t, const Tensor& from) {
      if (from.defined() && from.impl()->base() && from.storage() == t.storage() &&
          from.impl()->view_mode() != ViewMode::normal)
        mode = from.impl()->view_mode();
    });
    const Ref<TensorImpl> base = impl.base();
    impl.set_base(base, mode);
  };
  for (int i = 0; i < c.results.count; ++i) {
    const Value& r = c.results.items[i];
    if (r.is_tensor() && r.tensor().defined()) fix(r.tensor(), c.results.count > 1);
    if (r.kind() == List::tensor_list)
      for (const Tensor& t : r.tensors()) fix(t, true);
  }
}

void run(const LayerCall& c) {
  dispatch::run_below(c, dispatch::kAutogradLayer);
  if (c.op.kind() == dispatch::Kind::view) set_view_modes(c);
}

bool unrecorded_view(const TensorImpl& t) {
  return t.view_mode() == ViewMode::no_grad || t.view_mode() == ViewMode::inference;
}

// The number of tensors an operator gives; lists are as long as the run made them.
uint32_t count_results(const dispatch::Results& results) {
  std::size_t n = 0;
  for (int i = 0; i < results.count; ++i) {
    const Value& r = results.items[i];
    n += r.is_tensor() ? 1 : r.kind() == List::tensor_list ? r.tensors().size() : 0;
  }
  return static_cast<uint32_t>(n);
}

struct Inputs {
  uint32_t tensors = 0;
  uint32_t needing = 0;  // bit i: argument i, or an element of it, takes part
};
Inputs look_at(std::span<const Value> args) {
  Inputs in;
  for_each_tensor(args, [&](std::size_t i, std::size_t, const Tensor& t) {
    ++in.tensors;
    if (takes_part(t)) in.needing |= 1u << i;
  });
  return in;
}

// A tensor of which only sizes, strides and offset are known.
[[gnu::noinline]] Tensor geometry_of(const Tensor& t) {
  return Tensor(Ref<TensorImpl>::adopt(
      TensorImpl::create({}, t.dtype(), Backend::meta, Device(kMeta), t.sizes(), t.strides(), t.storage_offset())));
}

// What is kept of the arguments. `original` stands for self where an in-place call is about to overwrite it.
void keep_arguments(OpNode& node, const LayerCall& c, uint32_t saved, uint32_t geometry, const Tensor& original) {
  std::size_t slot = 0;
  const auto keep = [&](std::size_t i, const Tensor& given) {
    const std::size_t s = slot++;
    if (!given.defined()) return;
    node.set_input(s, given);
    if (!((saved & ~geometry) >> i & 1u)) return;
    const Tensor& t = original.defined() && given.is_same(c.destinations[0]) ? original : given;
    TENON_CHECK(!t.impl()->inference(), AutogradError, c.op.name(), ": argument ", c.op.schema().arguments[i].name,
                " was made in inference mode and cannot be saved for backward; clone() it outside");
    node.save_input(s, t);
  };
  for (std::size_t i = 0; i < c.args.size(); ++i) {
    const Value& from = c.args[i];
    const bool shape = (geometry >> i & 1u) != 0;
    if (from.is_tensor()) {
      keep(i, from.tensor());
      node.set_argument(i, shape && from.tensor().defined() ? geometry_of(from.tensor()) : Tensor());
    } else if (from.kind() == List::tensor_list) {
      std::vector<Tensor> list(from.tensors().size());
      for (std::size_t k = 0; k < list.size(); ++k) {
        const Tensor& t = from.tensors()[k];
        keep(i, t);
        if (shape && t.defined()) list[k] = geometry_of(t);
      }
      node.set_argument(i, Value(static_cast<std::vector<Tensor>&&>(list)));
    } else {
      node.set_argument(i, from);
    }
  }
  node.settle_order();
}

// A functional call may hand an argument back (nothing to do): its history must not be replaced.
bool is_argument(std::span<const Value> args, const Tensor& t) {
  bool found = false;
  for_each_tensor(args,
                  [&](std::size_t, std::size_t, const Tensor& a) { found = found || (a.defined() && a.is_same(t)); });
  return found;
}

void set_results(const LayerCall& c, Ref<OpNode> recorded, uint32_t saved_outputs) {
  OpNode& node = *recorded;
  Ref<Node> grad_fn = Ref<Node>::adopt(recorded.leak());
  uint32_t k = 0;
  const uint32_t outputs = node.outputs();
  const auto set = [&](Tensor& t, int i) {
    const uint32_t output = k++;
    if (!t.defined()) return;
    if (output == 0) node.set_device(t.device());
    if (saved_outputs >> i & 1u)
      node.save_output(output, t);
    else if (outputs > 1)
      node.set_result(output, t);
    if (!is_differentiable(t.dtype()) || t.impl()->inference()) return;
    if (is_argument(c.args, t)) t = dispatch::make_alias(t);
    set_history(t, outputs == 1 ? static_cast<Ref<Node>&&>(grad_fn) : Ref<Node>(grad_fn), output);
  };
  for (int i = 0; i < c.results.count; ++i) {
    Value& r = c.results.items[i];
    if (r.is_tensor())
      set(r.tensor(), i);
    else if (r.kind() == List::tensor_list)
      for (Tensor& t : r.tensors()) set(t, i);
  }
}

void set_written(const LayerCall& c, const Ref<OpNode>& node, uint32_t saved_outputs) {
  const Tensor& self = c.destinations[0];
  TensorImpl& impl = *self.impl();
  node->set_device(self.device());
  if (saved_outputs & 1u) node->save_output(0, self);
  const Ref<Node> write = Ref<Node>::share(node.get());
  if (!impl.base()) return set_history(self, write, 0);
  const Tensor base(impl.base());
  const Ref<Node> rebased = make_copy_slices(*impl.base(), impl, edge_of(base), write);
  if (anomaly_enabled()) [[unlikely]]
    remember_site(*rebased);
  if ((saved_outputs & 1u) || node->saves_input(0)) node->set_owner(rebased.get(), *impl.base(), impl);
  set_history(base, rebased, 0);
  // The view's own node is made from the base's when it is asked for, which is now if its gradient is retained.
  AutogradMeta& m = meta_of(impl);
  m.version = self.version() - 1;
  if (m.retains_grad) history_of(self);
}

void record(const LayerCall& c) {
  const Inputs in = look_at(c.args);
  const dispatch::Gradient* gradient = c.op.gradient();
  const bool writes = c.form != Form::functional;
  bool destination_takes_part = false;
  for (const Tensor& t : c.destinations) destination_takes_part = destination_takes_part || takes_part(t);
  if (in.needing == 0 && !destination_takes_part) {
    // Nothing to record; but a write the base's history would not know of is refused.
    if (c.form == Form::inplace && unrecorded_view(*c.destinations[0].impl()))
      check_inplace(c.op.name(), "_", c.destinations[0], false);
    return run(c);
  }
  TENON_CHECK(c.form != Form::out, AutogradError, c.op.name(),
              ": out= is not differentiable, and an argument requires grad; use the functional form or a NoGradGuard");
  if (writes && !is_differentiable(c.destinations[0].dtype())) return run(c);
  const bool silent = c.op.has(dispatch::kNonDifferentiable) || (gradient && gradient->non_differentiable);
  if (!writes && silent) return run(c);
  static constexpr dispatch::Gradient kNone{nullptr, 0, 0, 0, 0, true, nullptr, 0};
  if (silent) gradient = &kNone;

  uint32_t saved = 0;
  if (gradient) {
    saved = gradient->saved_inputs;
    const uint32_t cross = gradient->cross_inputs, wanting = in.needing & cross;
    for (std::size_t i = 0; cross && i < c.args.size(); ++i)
      if ((cross >> i & 1u) && (wanting & ~(1u << i))) saved |= 1u << i;
  }
  Tensor original;
  if (writes) {
    check_inplace(c.op.name(), "_", c.destinations[0], destination_takes_part);
    if (saved & 1u) {
      const dispatch::BelowLayersGuard below;  // its history is the node's edge, as of all that is saved
      original = c.destinations[0].clone();
    }
  }

  // A list of results has a length only the run knows; everything else can be recorded before.
  const bool list = c.op.schema().results == 0;
  const uint32_t saved_outputs = gradient ? gradient->saved_outputs : 0;
  if (list) run(c);
  const uint32_t results = list ? count_results(c.results) : static_cast<uint32_t>(c.op.schema().results);
  Ref<OpNode> node = OpNode::create(c.op, gradient, static_cast<uint32_t>(c.args.size()), in.tensors, results);
  if (anomaly_enabled()) [[unlikely]]
    remember_site(*node);
  const Ref<OpNode> packs = dispatch::thread_state.saved_hooks ? node : nullptr;
  keep_arguments(*node, c, saved, gradient ? gradient->geometry_inputs : 0, original);
  if (!list) run(c);
  if (writes)
    set_written(c, node, saved_outputs);
  else
    set_results(c, static_cast<Ref<OpNode>&&>(node), saved_outputs);
  if (packs) packs->pack_saved();
}

const bool installed = (dispatch::set_layer(dispatch::kAutogradLayer, &record), true);

}  // namespace
}  // namespace tenon::autograd
