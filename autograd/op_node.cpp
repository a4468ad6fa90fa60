// SPDX-License-Identifier: Apache-2.0
#include <tenon/autograd/autograd_meta.h>
#include <tenon/autograd/op_node.h>
#include <tenon/autograd/packed_save.h>
#include <tenon/autograd/view_node.h>
#include <tenon/core/operand.h>
#include <tenon/core/pool.h>
#include <tenon/dispatch/make_tensor.h>

#include <memory>

namespace tenon::autograd {
namespace {

// Blocks of a few sizes, so that nodes of different operators share the pools.
template <std::size_t N>
struct alignas(16) Block {
  unsigned char bytes[N];
};
constexpr std::size_t kBlockSizes[] = {320, 448, 640, 1024};

void* take_block(std::size_t bytes, uint16_t& size_class) {
  if (bytes <= kBlockSizes[0]) return size_class = 0, detail::Pool<Block<kBlockSizes[0]>>::take();
  if (bytes <= kBlockSizes[1]) return size_class = 1, detail::Pool<Block<kBlockSizes[1]>>::take();
  if (bytes <= kBlockSizes[2]) return size_class = 2, detail::Pool<Block<kBlockSizes[2]>>::take();
  if (bytes <= kBlockSizes[3]) return size_class = 3, detail::Pool<Block<kBlockSizes[3]>>::take();
  return size_class = 4, ::operator new(bytes);
}
void give_block(void* p, uint16_t size_class) noexcept {
  switch (size_class) {
    case 0:
      return detail::Pool<Block<kBlockSizes[0]>>::give(p);
    case 1:
      return detail::Pool<Block<kBlockSizes[1]>>::give(p);
    case 2:
      return detail::Pool<Block<kBlockSizes[2]>>::give(p);
    case 3:
      return detail::Pool<Block<kBlockSizes[3]>>::give(p);
    default:
      return ::operator delete(p);
  }
}

Tensor zeros(const dispatch::TensorMeta& m) {
  Tensor t = dispatch::make_tensor(m.sizes, m.dtype, m.device);
  t.zero_();
  return t;
}

}  // namespace

void CompactMeta::set(const Tensor& t) {
  const IntArrayRef s = t.sizes();
  dtype_ = t.dtype();
  device_ = t.device();
  dim_ = static_cast<uint8_t>(s.size());
  if (s.size() > kInline) sizes_.heap = new int64_t[s.size()];
  int64_t* to = s.size() > kInline ? sizes_.heap : sizes_.items;
  for (std::size_t i = 0; i < s.size(); ++i) to[i] = s[i];
}

struct OpNode::Owner {
  Node* node;  // owns this node, so it lives as long
  Geometry base, view;
};

struct OpNode::Packed {
  struct Input {
    std::size_t argument;
    int element;  // of a list, else -1
    PackedSave save;
    Edge history;
    void put(dispatch::Value& v, Tensor t) const {
      (element < 0 ? v.tensor() : v.tensors()[static_cast<std::size_t>(element)]) = static_cast<Tensor&&>(t);
    }
  };
  struct Output {
    std::size_t index;
    PackedSave save;
  };
  std::vector<Input> inputs;
  std::vector<Output> outputs;
};

Ref<OpNode> OpNode::create(const dispatch::OpBase& op, const dispatch::Gradient* gradient, uint32_t arguments,
                           uint32_t inputs, uint32_t results) {
  const bool saves_outputs = gradient && gradient->saved_outputs != 0;
  const bool result_metas = results > 1;  // a single output's geometry is that of its gradient
  const std::size_t bytes =
      sizeof(OpNode) + arguments * sizeof(dispatch::Value) + inputs * (sizeof(Edge) + sizeof(CompactMeta)) +
      (result_metas ? results * sizeof(CompactMeta) : 0) + (saves_outputs ? results * sizeof(Saved) : 0);
  uint16_t size_class = 0;
  void* memory = take_block(bytes, size_class);
  auto* node = ::new (memory) OpNode(op, gradient, results);
  unsigned char* at = static_cast<unsigned char*>(memory) + sizeof(OpNode);
  const auto place = [&]<class T>(T*& member, std::size_t count) {
    member = reinterpret_cast<T*>(at);
    std::uninitialized_default_construct_n(member, count);
    at += count * sizeof(T);
  };
  static_assert(sizeof(OpNode) % 8 == 0 && alignof(dispatch::Value) <= 8 && alignof(CompactMeta) <= 8);
  node->block_ = size_class;
  node->arguments_ = static_cast<uint16_t>(arguments);
  place(node->args_, arguments);
  Edge* edges = nullptr;
  place(edges, inputs);
  node->place_edges(edges, inputs);
  place(node->inputs_, inputs);
  if (result_metas) place(node->results_, results);
  if (saves_outputs) place(node->saved_, results);
  return Ref<OpNode>::adopt(node);
}

void OpNode::dispose() noexcept {
  const uint16_t size_class = block_;
  const std::span<const Edge> all = edges();
  std::destroy_n(args_, arguments_);
  std::destroy_n(const_cast<Edge*>(all.data()), all.size());
  std::destroy_n(inputs_, all.size());
  if (results_) std::destroy_n(results_, outputs());
  if (saved_) std::destroy_n(saved_, outputs());
  delete owner_;
  delete packed_;
  this->~OpNode();
  give_block(this, size_class);
}

void OpNode::save_output(std::size_t i, Tensor t) {
  saved_[i].version = t.version();
  saved_[i].tensor = static_cast<Tensor&&>(t);
  saves_ = true;
}

void OpNode::set_owner(Node* copy_slices, const TensorImpl& base, const TensorImpl& view) {
  owner_ = new Owner{copy_slices, Geometry(base), Geometry(view)};
}

void OpNode::release_saved() noexcept {
  if (!saves_ || released_) return;
  released_ = true;
  delete packed_;
  packed_ = nullptr;
  for (dispatch::Value& v : args()) v = dispatch::Value();
  if (saved_)
    for (uint32_t i = 0; i < outputs(); ++i) saved_[i].tensor.reset();
}

namespace {
void check_version(std::string_view op, const char* what, std::string_view which, const Tensor& t, uint32_t expected) {
  TENON_CHECK(t.version() == expected, AutogradError, op, ": ", what, " ", which, ", ", t.dtype(), " of sizes ",
              t.sizes(), ", was saved for backward and has been written in place since: it is at version ", t.version(),
              "; expected version ", expected, ". Write to a clone(), or use the operator's functional form");
}
}  // namespace

void OpNode::check_saved() {
  TENON_CHECK(!released_, AutogradError, op_.name(),
              ": the graph was freed: backward ran through it before. Pass retain_graph=true the first time");
  std::size_t slot = 0;
  for (std::size_t i = 0; i < arguments_; ++i) {
    const dispatch::Value& v = args_[i];
    const auto check = [&](const Tensor& t) {
      if (inputs_[slot].saved() && t.version() != inputs_[slot].version())
        check_version(op_.name(), "argument", op_.schema().arguments[i].name, t, inputs_[slot].version());
      ++slot;
    };
    if (v.is_tensor()) check(v.tensor());
    if (v.kind() == dispatch::Value::Kind::tensor_list)
      for (const Tensor& t : v.tensors()) check(t);
  }
}

Tensor OpNode::saved_output(std::size_t i) {
  TENON_ASSERT(saved_ && saved_[i].tensor.defined(), op_.name(), ": the formula reads output ", static_cast<int>(i),
               ", which its registration does not save");
  const Tensor& saved = saved_[i].tensor;
  if (saved.version() != saved_[i].version)
    check_version(op_.name(), "output", std::to_string(i), saved, saved_[i].version);
  return as_output(saved, i);
}

Tensor OpNode::as_output(const Tensor& saved, std::size_t i) {
  if (!grad_enabled()) return saved;
  Tensor t = dispatch::make_alias(saved);
  if (owner_) {
    // Written through a view: the result is that part of what the owner made of the base.
    const Edge base{Ref<Node>::share(owner_->node), 0};
    set_history(t, make_view_node(owner_->base, owner_->view, t.device(), base), 0);
  } else {
    set_history(t, Ref<Node>::share(this), static_cast<uint32_t>(i));
  }
  return t;
}

void OpNode::pack_saved() {
  if (!saves_) return;
  packed_ = new Packed;
  std::size_t slot = 0;
  for (std::size_t i = 0; i < arguments_; ++i) {
    dispatch::Value& v = args_[i];
    const auto pack = [&](const Tensor& t, int element) {
      CompactMeta& m = inputs_[slot++];
      // One that the call itself has overwritten stays, for the usual error.
      if (!m.saved() || t.version() != m.version()) return;
      packed_->inputs.push_back({i, element, PackedSave(t, op_.name()), edge_of(t)});
      m.unsave();
      packed_->inputs.back().put(v, Tensor());
    };
    if (v.is_tensor()) pack(v.tensor(), -1);
    if (v.kind() == dispatch::Value::Kind::tensor_list)
      for (std::size_t j = 0; j < v.tensors().size(); ++j) pack(v.tensors()[j], static_cast<int>(j));
  }
  for (std::size_t i = 0; saved_ && i < outputs(); ++i) {
    if (!saved_[i].tensor.defined()) continue;
    packed_->outputs.push_back({i, PackedSave(saved_[i].tensor, op_.name())});
    saved_[i].tensor.reset();
  }
}

void OpNode::visit_saved(const SavedVisitor& f) const {
  std::size_t slot = 0;
  const auto see = [&](std::string_view what, const Tensor& t) {
    f(what, t.sizes(), t.dtype(), t.numel() * static_cast<int64_t>(item_size(t.dtype())));
  };
  for (std::size_t i = 0; i < arguments_; ++i) {
    const std::string_view name = op_.schema().arguments[i].name;
    const dispatch::Value& v = args_[i];
    if (v.is_tensor() && inputs_[slot++].saved()) see(name, v.tensor());
    if (v.kind() == dispatch::Value::Kind::tensor_list)
      for (const Tensor& t : v.tensors())
        if (inputs_[slot++].saved()) see(name, t);
  }
  for (std::size_t i = 0; saved_ && i < outputs(); ++i)
    if (saved_[i].tensor.defined()) see(outputs() > 1 ? "output " + std::to_string(i) : "output", saved_[i].tensor);
  if (!packed_) return;
  for (const auto& in : packed_->inputs)
    f(op_.schema().arguments[in.argument].name, in.save.sizes(), in.save.dtype(), in.save.bytes());
  for (const auto& out : packed_->outputs) f("output", out.save.sizes(), out.save.dtype(), out.save.bytes());
}

// What a formula sees of the engine.
class OpBackward final : public dispatch::Gradients {
 public:
  OpBackward(OpNode& node, std::span<Tensor> grads, std::span<Tensor> results)
      : node_(node), grads_(grads), results_(results) {}
  std::vector<Tensor> unpacked;  // saved outputs that went through hooks

  Tensor grad(int i) override {
    Tensor& g = grads_[static_cast<std::size_t>(i)];
    if (!g.defined()) g = zeros(result_meta(i));
    return g;
  }
  bool has_grad(int i) const override { return grads_[static_cast<std::size_t>(i)].defined(); }
  Tensor result(int i) override {
    const auto k = static_cast<std::size_t>(i);
    return k < unpacked.size() && unpacked[k].defined() ? node_.as_output(unpacked[k], k) : node_.saved_output(k);
  }
  const dispatch::TensorMeta& meta(int i, int j) const override {
    const std::size_t s = slot(i, j);
    if (!metas_) metas_ = std::make_unique<std::unique_ptr<dispatch::TensorMeta>[]>(node_.edges().size());
    if (!metas_[s]) metas_[s] = std::make_unique<dispatch::TensorMeta>(node_.inputs_[s].expanded());
    return *metas_[s];
  }
  dispatch::TensorMeta result_meta(int i) const override {
    const auto k = static_cast<std::size_t>(i);
    if (node_.results_) return node_.results_[k].expanded();
    return {DimVector(grads_[k].sizes()), grads_[k].dtype(), grads_[k].device()};
  }
  bool needs(int i, int j) const override {
    const dispatch::Value& v = node_.args_[i];
    const std::size_t first = slot(i, j);
    if (v.is_tensor()) return node_.should_compute(first);
    if (v.kind() != dispatch::Value::Kind::tensor_list) return false;
    if (j >= 0) return node_.should_compute(first);
    for (std::size_t k = 0; k < v.tensors().size(); ++k)
      if (node_.should_compute(first + k)) return true;
    return false;
  }
  void put(int i, Tensor g, int j) override {
    if (!g.defined()) return;
    const std::size_t s = slot(i, j);
    if (!node_.edges()[s]) return;
    g = fit_gradient(static_cast<Tensor&&>(g), node_.inputs_[s], node_.op_.name());
    Tensor& r = results_[s];
    r = r.defined() ? r.add(g) : static_cast<Tensor&&>(g);
  }

 private:
  std::size_t slot(int i, int j) const {
    std::size_t s = 0;
    for (int k = 0; k < i; ++k) {
      const dispatch::Value& v = node_.args_[k];
      s += v.is_tensor() ? 1 : v.kind() == dispatch::Value::Kind::tensor_list ? v.tensors().size() : 0;
    }
    return s + static_cast<std::size_t>(j < 0 ? 0 : j);
  }
  OpNode& node_;
  std::span<Tensor> grads_, results_;
  mutable std::unique_ptr<std::unique_ptr<dispatch::TensorMeta>[]> metas_;
};

void OpNode::apply(std::span<Tensor> grads, std::span<Tensor> results) {
  TENON_CHECK(gradient_, AutogradError, op_.name(), ": no gradient is registered for this operator");
  TENON_CHECK(gradient_->formula || gradient_->non_differentiable, RegistrationError, op_.name(),
              ": two different gradients are registered for this operator");
  if (gradient_->non_differentiable) return;  // written in place by something without a gradient: nothing flows on
  if (saves_) check_saved();
  if (packed_) return apply_packed(grads, results);
  OpBackward backward(*this, grads, results);
  gradient_->formula(op_, backward, args());
}

void OpNode::apply_packed(std::span<Tensor> grads, std::span<Tensor> results) {
  OpBackward backward(*this, grads, results);
  std::vector<dispatch::Value> values(args_, args_ + arguments_);
  for (const Packed::Input& in : packed_->inputs) {
    const Tensor t = in.save.unpack(op_.name());
    in.put(values[in.argument], grad_enabled() ? with_history(t, in.history) : t);
  }
  if (!packed_->outputs.empty()) backward.unpacked.resize(outputs());
  for (const Packed::Output& out : packed_->outputs) backward.unpacked[out.index] = out.save.unpack(op_.name());
  gradient_->formula(op_, backward, values);
}

Tensor fit_gradient(Tensor g, const CompactMeta& meta, std::string_view who) {
  if (!(g.sizes() == meta.sizes())) {
    const IntArrayRef from = g.sizes(), to = meta.sizes();
    TENON_CHECK(from.size() >= to.size(), AutogradError, who, ": the gradient has sizes ", from,
                ", which do not reduce to the input's ", to);
    const std::size_t lead = from.size() - to.size();
    DimVector dims;
    for (std::size_t d = 0; d < from.size(); ++d) {
      const bool extra = d < lead;
      TENON_CHECK(extra || from[d] == to[d - lead] || to[d - lead] == 1, AutogradError, who,
                  ": the gradient has sizes ", from, ", which do not reduce to the input's ", to);
      if (extra || from[d] != to[d - lead]) dims.push_back(static_cast<int64_t>(d));
    }
    const DimVector sizes(to);
    g = g.sum(dims, true);
    if (lead > 0) g = g.view(sizes);
  }
  // The imaginary part of a real input's gradient is dropped: it has no direction to move in.
  if (g.dtype() != meta.dtype()) g = g.to(meta.dtype());
  if (g.device() != meta.device()) g = g.to(meta.device());
  return g;
}

}  // namespace tenon::autograd
