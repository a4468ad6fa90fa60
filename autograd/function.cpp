// SPDX-License-Identifier: Apache-2.0
#include <tenon/autograd/autograd_meta.h>
#include <tenon/autograd/function.h>
#include <tenon/autograd/op_node.h>
#include <tenon/dispatch/make_tensor.h>

#include <deque>

namespace tenon::autograd {
namespace {

// Stands behind an intermediate that a function saved: its dependence on the inputs was not recorded, and a gradient
// that ignored it would be silently wrong.
class IntermediateNode final : public Node {
 public:
  // With the function's edges, so that it lies on the way to its inputs.
  IntermediateNode(std::string function, std::span<const Edge> inputs)
      : function_(static_cast<std::string&&>(function)) {
    std::vector<Edge> edges(inputs.begin(), inputs.end());
    set_edges(edges);
  }
  std::string name() const override { return function_ + " (intermediate)"; }
  void apply(std::span<Tensor>, std::span<Tensor>) override {
    TENON_CHECK(false, AutogradError, function_,
                ": backward reads a saved intermediate, whose own gradient is unknown; ",
                "save inputs or outputs, or make it an output, to differentiate twice");
  }

 private:
  std::string function_;
};

}  // namespace

struct FunctionNode::State {
  struct Saved {
    Tensor tensor;
    uint32_t version = 0;
    int output = -1;
    bool input = false;
  };
  std::vector<Tensor> inputs;  // during forward
  std::vector<Tensor> dirty, constant;
  std::vector<Saved> saved;
  std::deque<CompactMeta> input_metas, output_metas;
  bool recorded = false;
  bool released = false;
};

FunctionNode::FunctionNode() : state_(new State) {}
FunctionNode::~FunctionNode() { delete state_; }

void FunctionNode::keep(const Tensor& t) { state_->saved.push_back({t, t.defined() ? t.version() : 0, -1, false}); }
void FunctionNode::mark_dirty(const Tensor& input) { state_->dirty.push_back(input); }
void FunctionNode::mark_non_differentiable(const Tensor& output) { state_->constant.push_back(output); }

namespace {
bool among(const std::vector<Tensor>& list, const Tensor& t) {
  for (const Tensor& each : list)
    if (each.is_same(t)) return true;
  return false;
}
// "… Function<Derived>::apply(...) [with … Derived = ns::Cube; …]" gives Cube.
std::string type_from(std::string_view pretty) {
  const std::string_view key = "Derived = ";
  const std::size_t at = pretty.rfind(key);
  if (at == std::string_view::npos) return "function";
  std::string_view name = pretty.substr(at + key.size());
  name = name.substr(0, name.find_first_of(";],"));
  const std::size_t scope = name.rfind("::");
  return std::string(scope == std::string_view::npos ? name : name.substr(scope + 2));
}
}  // namespace

bool FunctionNode::begin(const char* type_name, TensorList inputs) {
  bool any = false;
  for (const Tensor& t : inputs) any = any || takes_part(t);
  state_->recorded = any && grad_enabled();
  if (!state_->recorded) return false;
  name_ = type_from(type_name);
  state_->inputs.assign(inputs.begin(), inputs.end());
  std::vector<Edge> edges;
  for (const Tensor& t : inputs) {
    edges.push_back(t.defined() ? edge_of(t) : Edge{});
    CompactMeta& m = state_->input_metas.emplace_back();
    if (t.defined()) m.set(t);
  }
  set_edges(edges);
  settle_order();
  return true;
}

void FunctionNode::finish(std::span<Tensor*> outputs) {
  State& s = *state_;
  set_outputs(static_cast<uint32_t>(outputs.size()));
  const Ref<Node> self = Ref<Node>::share(this);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    Tensor& t = *outputs[i];
    CompactMeta& m = s.output_metas.emplace_back();
    if (!t.defined()) continue;
    m.set(t);
    if (i == 0) set_device(t.device());
    const bool is_input = among(s.inputs, t), written = among(s.dirty, t);
    TENON_CHECK(!written || is_input, AutogradError, name_, ": mark_dirty: the tensor is not an input");
    if (!is_differentiable(t.dtype()) || among(s.constant, t)) continue;
    if (written) {
      TENON_CHECK(!t.is_view(), AutogradError, name_,
                  ": mark_dirty: writing to a view in place is not supported; write to a clone()");
      TENON_CHECK(!takes_part(t) || history_of(t), AutogradError, name_,
                  ": mark_dirty: the input is a leaf that requires grad");
    }
    for (State::Saved& saved : s.saved) {
      if (!saved.tensor.is_same(t) || (is_input && !written)) continue;
      saved.tensor = dispatch::make_alias(t);  // the output itself would be a cycle
      saved.version = t.version();
      saved.output = static_cast<int>(i);
    }
    if (is_input && !written) t = dispatch::make_alias(t);
    set_history(t, self, static_cast<uint32_t>(i));
  }
  for (State::Saved& saved : s.saved) saved.input = among(s.inputs, saved.tensor);
  s.inputs.clear();
  s.dirty.clear();
  s.constant.clear();
}

Tensor FunctionNode::saved(std::size_t i) const {
  const State& s = *state_;
  TENON_CHECK(!s.released, AutogradError, name_,
              ": the graph was freed: backward ran through it before. Pass retain_graph=true the first time");
  TENON_CHECK(i < s.saved.size(), IndexError, name_, ": saved: expected an index below ", s.saved.size(), ", got ", i);
  const State::Saved& saved = s.saved[i];
  if (!saved.tensor.defined()) return {};
  TENON_CHECK(saved.tensor.version() == saved.version, AutogradError, name_, ": saved tensor ", i,
              " has been written in place since: expected version ", saved.version, ", found ", saved.tensor.version());
  if (saved.input || !grad_enabled()) return saved.tensor;
  Tensor t = dispatch::make_alias(saved.tensor);
  if (saved.output >= 0)
    set_history(t, Ref<Node>::share(const_cast<FunctionNode*>(this)), static_cast<uint32_t>(saved.output));
  else if (is_differentiable(t.dtype()))
    set_history(t, Ref<Node>::adopt(new IntermediateNode(name_, edges())), 0);
  return t;
}

void FunctionNode::release_saved() noexcept {
  if (state_->saved.empty()) return;
  state_->saved.clear();
  state_->released = true;
}

void FunctionNode::apply(std::span<Tensor> grads, std::span<Tensor> results) {
  State& s = *state_;
  TENON_CHECK(!s.released, AutogradError, name_,
              ": the graph was freed: backward ran through it before. Pass retain_graph=true the first time");
  if (materialize_) {
    for (std::size_t i = 0; i < grads.size(); ++i) {
      if (grads[i].defined() || s.output_metas[i].dtype() == DType::undefined) continue;
      const CompactMeta& m = s.output_metas[i];
      grads[i] = dispatch::make_tensor(m.sizes(), m.dtype(), m.device());
      grads[i].zero_();
    }
  }
  std::vector<Tensor> given = call_backward(grads);
  TENON_CHECK(given.size() == results.size(), AutogradError, name_, ": backward: expected ", results.size(),
              " gradients, one per tensor among forward's arguments, got ", given.size());
  for (std::size_t i = 0; i < given.size(); ++i)
    if (given[i].defined() && edges()[i])
      results[i] = fit_gradient(static_cast<Tensor&&>(given[i]), s.input_metas[i], name_);
}

}  // namespace tenon::autograd
