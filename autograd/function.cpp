// SPDX-License-Identifier: Apache-2.0
#include <tenon/autograd/anomaly.h>
#include <tenon/autograd/autograd_meta.h>
#include <tenon/autograd/function.h>
#include <tenon/autograd/op_node.h>
#include <tenon/autograd/packed_save.h>
#include <tenon/autograd/view_node.h>
#include <tenon/dispatch/make_tensor.h>

#include <memory>

namespace tenon::autograd {
namespace {

// Stands behind what depends on the inputs in a way that was not recorded: a gradient that ignored it would be silently
// wrong.
class RefusingNode final : public Node {
 public:
  // With the edges of what it depends on, so that it lies on the way there.
  RefusingNode(std::string name, const char* why, std::vector<Edge> edges)
      : name_(static_cast<std::string&&>(name)), why_(why) {
    set_edges(edges);
  }
  std::string name() const override { return name_ + " (not differentiable again)"; }
  void apply(std::span<Tensor>, std::span<Tensor>) override { TENON_CHECK(false, AutogradError, name_, ": ", why_); }

 private:
  std::string name_;
  const char* why_;
};
constexpr const char* kIntermediate =
    "backward reads a saved intermediate, whose own gradient is unknown; save inputs or outputs, or make it an output, "
    "to differentiate twice";
constexpr const char* kOnce = "its backward is marked once_differentiable, and cannot be differentiated";

int position(const std::vector<Tensor>& list, const Tensor& t) {
  for (std::size_t i = 0; i < list.size(); ++i)
    if (list[i].is_same(t)) return static_cast<int>(i);
  return -1;
}
bool among(const std::vector<Tensor>& list, const Tensor& t) { return position(list, t) >= 0; }

// "… Function<Derived>::apply(...) [with … Derived = ns::Cube; …]" gives Cube.
std::string type_from(std::string_view pretty) {
  const std::string_view key = "Derived = ";
  const std::size_t at = pretty.rfind(key);
  if (at == std::string_view::npos) return "function";
  // The last part of a name that may hold others in brackets: "main(int, char**)::Cube<ns::A>" gives "Cube<ns::A>".
  const std::string_view rest = pretty.substr(at + key.size());
  std::size_t first = 0, end = 0;
  for (int depth = 0; end < rest.size(); ++end) {
    const char c = rest[end];
    if (depth == 0 && (c == ';' || c == ']' || c == ',')) break;
    depth += (c == '<' || c == '(' || c == '{' || c == '[') - (c == '>' || c == ')' || c == '}' || c == ']');
    if (depth == 0 && c == ':') first = end + 1;
  }
  return std::string(rest.substr(first, end - first));
}

}  // namespace

struct FunctionNode::State {
  struct Saved {
    Tensor tensor;
    uint32_t version = 0;
    int output = -1;
    bool input = false;
    PackedSave packed;    // in place of the tensor, if hooks were in force
    Edge history;         // of an input: the tensor itself may come to lead back to this node (h.add_(F(h)))
    int64_t counted = 0;  // bytes
    Saved(const Tensor& t, uint32_t v) : tensor(t), version(v) {}
    Saved(Saved&&) noexcept = default;
    Saved& operator=(Saved&&) noexcept = default;
    ~Saved() {
      if (counted > 0 && tensor.defined()) count_tape(tensor.device(), -counted);
    }
  };
  struct Written {  // the input written to, when it is a view
    Node* node;     // owns this one
    Geometry base, view;
  };
  std::vector<Tensor> inputs;  // during forward, as the next four
  std::vector<uint32_t> versions;
  std::vector<Tensor> dirty, constant;
  std::vector<Saved> saved;
  std::unique_ptr<CompactMeta[]> input_metas, output_metas;
  std::optional<Written> written;
  bool released = false;
};

// What backward unpacked, by position: hooks run once in a call.
struct FunctionNode::Call {
  const FunctionNode* node;
  std::vector<Tensor> unpacked;
  Call* previous;
  static constinit thread_local Call* innermost;
  explicit Call(const FunctionNode* n) : node(n), previous(innermost) { innermost = this; }
  ~Call() { innermost = previous; }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;
};
constinit thread_local FunctionNode::Call* FunctionNode::Call::innermost = nullptr;

FunctionNode::FunctionNode() : state_(new State) {}
FunctionNode::~FunctionNode() { delete state_; }

std::string FunctionNode::name() const { return type_from(type_name_); }
void FunctionNode::keep(const Tensor& t) { state_->saved.emplace_back(t, t.defined() ? t.version() : 0); }
void FunctionNode::mark_dirty(const Tensor& input) { state_->dirty.push_back(input); }
void FunctionNode::mark_non_differentiable(const Tensor& output) { state_->constant.push_back(output); }
std::size_t FunctionNode::saved_count() const { return state_->saved.size(); }

bool FunctionNode::begin(const char* type_name, TensorList inputs) {
  type_name_ = type_name;
  bool any = false;
  for (const Tensor& t : inputs) any = any || takes_part(t);
  if (!any || !grad_enabled()) return false;
  State& s = *state_;
  s.inputs.assign(inputs.begin(), inputs.end());
  s.input_metas.reset(new CompactMeta[inputs.size()]);
  std::vector<Edge> edges;
  edges.reserve(inputs.size());
  for (const Tensor& t : inputs) {
    if (t.defined()) s.input_metas[edges.size()].set(t);
    edges.push_back(t.defined() ? edge_of(t) : Edge{});
    s.versions.push_back(t.defined() ? t.version() : 0);
  }
  set_edges(edges);
  settle_order();
  if (anomaly_enabled()) [[unlikely]]
    remember_site(*this);
  return true;
}

// Every input that forward wrote to is marked and returned.
void FunctionNode::check_writes(std::span<Tensor*> outputs) const {
  const State& s = *state_;
  for (const Tensor& t : s.dirty) {
    TENON_CHECK(among(s.inputs, t), AutogradError, name(), ": mark_dirty: the tensor is not an input");
    bool returned = false;
    for (const Tensor* each : outputs) returned = returned || each->is_same(t);
    TENON_CHECK(returned, AutogradError, name(), ": mark_dirty: an input written in place must be returned by forward");
  }
  for (std::size_t i = 0; i < s.inputs.size(); ++i) {
    const Tensor& t = s.inputs[i];
    if (!t.defined() || !edges()[i] || t.version() == s.versions[i]) continue;
    bool marked = false;
    for (const Tensor& each : s.dirty) marked = marked || each.storage() == t.storage();
    TENON_CHECK(marked, AutogradError, name(), ": forward wrote to input ", i,
                " in place without mark_dirty; mark and return it, or write to a clone()");
  }
}

void FunctionNode::check_dirty(const Tensor& t, std::size_t input) const {
  TENON_CHECK(
      t.impl()->base() || !takes_part(t) || history_of(t), AutogradError, name(), ": mark_dirty: input ", input,
      " is a leaf that requires grad, and cannot be written in place; write to a clone(), or apply the function "
      "under a NoGradGuard");
  check_inplace(name(), ": mark_dirty", t, takes_part(t));
}

// The history of an input that forward wrote to, as an operator's in-place form gives it.
void FunctionNode::set_written(const Tensor& t, std::size_t input, std::size_t output) {
  State& s = *state_;
  if (t.storage() && t.version() == s.versions[input]) t.storage()->bump_version();  // by a kernel of the user's own
  TensorImpl& impl = *t.impl();
  const Ref<Node> self = Ref<Node>::share(this);
  if (!impl.base()) return set_history(t, self, static_cast<uint32_t>(output));
  TENON_CHECK(outputs() == 1, AutogradError, name(),
              ": mark_dirty: a function that writes to a view must have one output, got ", outputs());
  const Tensor base(impl.base());
  const Ref<Node> rebased = make_copy_slices(*impl.base(), impl, edge_of(base), self, input);
  if (anomaly_enabled()) [[unlikely]]
    remember_site(*rebased);
  s.written = State::Written{rebased.get(), Geometry(*impl.base()), Geometry(impl)};
  set_history(base, rebased, 0);
  // The view's node is made from the base's when it is next asked for.
  AutogradMeta& m = meta_of(impl);
  m.version = t.version() - 1;
  if (m.retains_grad) history_of(t);
}

// Without recording, nothing that leads back is handed out: not the leaf that forward returned, say.
void FunctionNode::finish_unrecorded(std::span<Tensor*> outputs) const {
  if (grad_enabled()) return;
  for (Tensor* t : outputs)
    if (t->defined() && takes_part(*t) && !among(state_->dirty, *t)) *t = dispatch::make_alias(*t);
}

void FunctionNode::finish(std::span<Tensor*> outputs, bool one_gradient) {
  State& s = *state_;
  set_outputs(static_cast<uint32_t>(outputs.size()));
  check_writes(outputs);
  s.output_metas.reset(new CompactMeta[outputs.size()]);
  std::vector<Tensor> seen;
  bool device_known = false;
  std::size_t differentiable = 0;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const Tensor& t = *outputs[i];
    if (!t.defined() || !is_differentiable(t.dtype()) || among(s.constant, t)) continue;
    if (differentiable++ == 0) differentiable_output_ = i;
  }
  // Whatever is refused is refused before any history changes.
  for (std::size_t i = 0; i < s.inputs.size(); ++i) {
    const Tensor& t = s.inputs[i];
    if (!t.defined() || !is_differentiable(t.dtype()) || !among(s.dirty, t)) continue;
    if (!among(s.constant, t)) check_dirty(t, i);
    TENON_CHECK(!t.impl()->base() || outputs.size() == 1, AutogradError, name(),
                ": mark_dirty: a function that writes to a view must have one output, got ", outputs.size());
    TENON_CHECK(!takes_part(t) || !among(s.constant, t), AutogradError, name(),
                ": mark_non_differentiable: the tensor is an input that was written in place");
  }
  for (const State::Saved& saved : s.saved)
    TENON_CHECK(!saved.tensor.defined() || !saved.tensor.impl()->inference(), AutogradError, name(),
                ": save: the tensor was made in inference mode and cannot be saved for backward; clone() it outside");
  TENON_CHECK(!one_gradient || differentiable <= 1, AutogradError, name(), ": forward returned ", differentiable,
              " differentiable outputs, and backward(const Tensor&) takes the gradient of one; write "
              "std::vector<Tensor> backward(std::span<const Tensor> grads)");
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    Tensor& t = *outputs[i];
    if (!t.defined()) continue;
    s.output_metas[i].set(t);
    if (!device_known) set_device(t.device());
    device_known = true;
    const int input = position(s.inputs, t);
    const bool written = among(s.dirty, t), again = among(seen, t);
    seen.push_back(t);
    if (!is_differentiable(t.dtype()) || among(s.constant, t)) {
      TENON_CHECK(!written || !takes_part(t), AutogradError, name(),
                  ": mark_non_differentiable: the tensor is an input that was written in place");
      if (!written && takes_part(t)) t = dispatch::make_alias(t);
      continue;
    }
    for (State::Saved& saved : s.saved) {
      if (!saved.tensor.is_same(t) || (input >= 0 && !written) || saved.output >= 0) continue;
      saved.tensor = dispatch::make_alias(t);  // the output itself would be a cycle
      saved.output = static_cast<int>(i);
    }
    if (again) {
      t = dispatch::make_alias(t);
    } else if (written) {
      set_written(t, static_cast<std::size_t>(input), i);
      continue;
    } else if (input >= 0) {
      t = dispatch::make_view(t, t.sizes(), t.strides(), t.storage_offset());
    } else if (!t.impl()->base() && takes_part(t)) {
      t = dispatch::make_alias(t);  // a tensor from elsewhere keeps its own history
    }
    // Writing to a view that the function made would need its gradient taken apart.
    if (const Ref<TensorImpl> base = t.impl()->base()) t.impl()->set_base(base, ViewMode::custom_function);
    set_history(t, Ref<Node>::share(this), static_cast<uint32_t>(i));
  }
  for (State::Saved& saved : s.saved) {
    TENON_CHECK(!saved.tensor.defined() || !saved.tensor.impl()->inference(), AutogradError, name(),
                ": save: the tensor was made in inference mode and cannot be saved for backward; clone() it outside");
    saved.input = saved.output < 0 && among(s.inputs, saved.tensor);
    if (saved.output >= 0) saved.version = saved.tensor.version();
    if (!saved.tensor.defined()) continue;
    if (saved.input) {
      saved.history = edge_of(saved.tensor);
      saved.tensor = dispatch::make_alias(saved.tensor);
    }
    if (!dispatch::thread_state.saved_hooks || saved.tensor.version() != saved.version) {
      saved.counted = saved.tensor.numel() * item_size(saved.tensor.dtype());
      count_tape(saved.tensor.device(), saved.counted);
      continue;
    }
    saved.packed = PackedSave(saved.tensor, name());
    saved.tensor.reset();
  }
  s.inputs.clear();
  s.dirty.clear();
  s.constant.clear();
}

Tensor FunctionNode::saved(std::size_t i) const {
  const State& s = *state_;
  TENON_CHECK(!s.released, AutogradError, name(), kFreed);
  TENON_CHECK(i < s.saved.size(), IndexError, name(), ": saved(", i, "): forward saved ", s.saved.size(),
              s.saved.size() == 1 ? " tensor" : " tensors", "; call save(t...) there");
  const State::Saved& saved = s.saved[i];
  Tensor t = saved.tensor;
  if (saved.packed) {
    const PackedSave packed = saved.packed;  // the hook may run backward through this node, which frees what it saved
    Call* call = Call::innermost;
    if (call && call->node == this) {
      if (call->unpacked.size() <= i) call->unpacked.resize(s.saved.size());
      if (!call->unpacked[i].defined()) call->unpacked[i] = packed.unpack(name());
      t = call->unpacked[i];
    } else {
      t = packed.unpack(name());
    }
    TENON_CHECK(!s.released, AutogradError, name(), kFreed);
  }
  if (!t.defined()) return t;
  TENON_CHECK(saved.packed || t.version() == saved.version, AutogradError, name(), ": saved tensor ", i,
              " has been written in place since: it is at version ", t.version(), "; expected version ", saved.version,
              kWriteElsewhere);
  if (!grad_enabled()) return t;
  if (saved.input) return with_history(t, saved.history);
  t = dispatch::make_alias(t);
  if (saved.output >= 0 && s.written) {
    const Edge base{Ref<Node>::share(s.written->node), 0};
    set_history(t, make_view_node(s.written->base, s.written->view, t.device(), base), 0);
  } else if (saved.output >= 0) {
    set_history(t, Ref<Node>::share(const_cast<FunctionNode*>(this)), static_cast<uint32_t>(saved.output));
  } else if (is_differentiable(t.dtype())) {
    std::vector<Edge> inputs(edges().begin(), edges().end());
    set_history(t, Ref<Node>::adopt(new RefusingNode(name(), kIntermediate, static_cast<std::vector<Edge>&&>(inputs))),
                0);
  }
  return t;
}

void FunctionNode::release_saved() noexcept {
  if (state_->saved.empty()) return;
  state_->saved.clear();
  state_->released = true;
}

void FunctionNode::visit_saved(const SavedVisitor& f) const {
  for (const State::Saved& saved : state_->saved) {
    const char* what = saved.output >= 0 ? "output" : saved.input ? "input" : "intermediate";
    const Tensor& t = saved.tensor;
    if (saved.packed)
      f(what, saved.packed.sizes(), saved.packed.dtype(), saved.packed.bytes());
    else if (t.defined())
      f(what, t.sizes(), t.dtype(), t.numel() * static_cast<int64_t>(item_size(t.dtype())));
  }
}

std::pair<IntArrayRef, DType> FunctionNode::input_geometry(std::size_t i) const {
  return {state_->input_metas[i].sizes(), state_->input_metas[i].dtype()};
}

// Backward without recording; its results lead to a refusal, along with whatever they may depend on.
std::vector<Tensor> FunctionNode::call_once(std::span<const Tensor> grads) {
  std::vector<Edge> inputs(edges().begin(), edges().end());
  for (const Tensor& g : grads)
    if (g.defined()) inputs.push_back(edge_of(g));
  std::vector<Tensor> given;
  {
    const NoGradGuard no_grad;
    given = call_backward(grads);
  }
  const Ref<Node> refusal = Ref<Node>::adopt(new RefusingNode(name(), kOnce, static_cast<std::vector<Edge>&&>(inputs)));
  for (Tensor& g : given) {
    if (!g.defined() || !is_differentiable(g.dtype())) continue;
    g = dispatch::make_alias(g);
    set_history(g, refusal, 0);
  }
  return given;
}

void FunctionNode::apply(std::span<Tensor> grads, std::span<Tensor> results) {
  State& s = *state_;
  TENON_CHECK(!s.released, AutogradError, name(), kFreed);
  for (std::size_t i = 0; materialize_ && i < grads.size(); ++i) {
    if (grads[i].defined() || s.output_metas[i].dtype() == DType::undefined) continue;
    const CompactMeta& m = s.output_metas[i];
    grads[i] = dispatch::make_tensor(m.sizes(), m.dtype(), m.device());
    grads[i].zero_();
  }
  const Call call(this);
  std::vector<Tensor> given = once_ && grad_enabled() ? call_once(grads) : call_backward(grads);
  // As in Python, undefined ones too many at the end do no harm.
  while (given.size() > results.size() && !given.back().defined()) given.pop_back();
  TENON_CHECK(given.size() == results.size(), AutogradError, name(), ": backward: expected ", results.size(),
              " gradients, one per tensor among forward's arguments, got ", given.size());
  for (std::size_t i = 0; i < given.size(); ++i) {
    Tensor& g = given[i];
    const CompactMeta& m = s.input_metas[i];
    if (!g.defined() || !edges()[i]) continue;
    if (!(g.sizes() == m.sizes()) || g.dtype() != m.dtype() || g.device() != m.device()) {
      const std::string who = tenon::detail::concat(name(), ": backward: gradient ", i);
      TENON_CHECK(is_complex(m.dtype()) || !g.is_complex(), AutogradError, who, ": expected ", m.dtype(), ", got ",
                  g.dtype(), "; take its real part");
      TENON_CHECK(g.device() == m.device() || g.dim() == 0, AutogradError, who, ": expected a tensor on ", m.device(),
                  ", got one on ", g.device());
      g = fit_gradient(static_cast<Tensor&&>(g), m, who);
    }
    results[i] = static_cast<Tensor&&>(g);
  }
}

}  // namespace tenon::autograd
