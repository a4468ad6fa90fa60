// SPDX-License-Identifier: Apache-2.0
#include <tenon/autograd/autograd_meta.h>
#include <tenon/autograd/op_node.h>
#include <tenon/autograd/packed_save.h>
#include <tenon/autograd/view_node.h>
#include <tenon/core/operand.h>
#include <tenon/core/pool.h>
#include <tenon/dispatch/make_tensor.h>

#include <memory>
#include <optional>

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

struct OpNode::Owner {
  Node* node;  // owns this node, so it lives as long
  Geometry base, view;
};

struct OpNode::Packed : Counted {
  static void destroy(Packed* p) noexcept { delete p; }
  struct Item {
    std::size_t position;  // slot of an input, number of an output
    PackedSave save;
  };
  std::vector<Item> inputs, outputs;
};

OpNode::OpNode(const dispatch::OpBase& op, const dispatch::Gradient* gradient, uint32_t outputs)
    : Node(outputs), op_(op), gradient_(gradient) {}
OpNode::~OpNode() = default;

Ref<OpNode> OpNode::create(const dispatch::OpBase& op, const dispatch::Gradient* gradient, uint32_t arguments,
                           uint32_t inputs, uint32_t results) {
  // A single output's geometry is that of its gradient.
  const uint32_t kept_results = results > 1 || (gradient && gradient->saved_outputs != 0) ? results : 0;
  const std::size_t bytes = sizeof(OpNode) + arguments * sizeof(dispatch::Value) +
                            inputs * (sizeof(Edge) + sizeof(SavedTensor)) + kept_results * sizeof(SavedTensor);
  uint16_t size_class = 0;
  void* memory = take_block(bytes, size_class);
  auto* node = ::new (memory) OpNode(op, gradient, results);
  unsigned char* at = static_cast<unsigned char*>(memory) + sizeof(OpNode);
  const auto place = [&]<class T>(T*& member, std::size_t count) {
    member = reinterpret_cast<T*>(at);
    std::uninitialized_default_construct_n(member, count);
    at += count * sizeof(T);
  };
  static_assert(sizeof(OpNode) % 8 == 0 && alignof(dispatch::Value) <= 8 && alignof(SavedTensor) <= 8);
  node->block_ = size_class;
  node->arguments_ = static_cast<uint16_t>(arguments);
  place(node->args_, arguments);
  Edge* edges = nullptr;
  place(edges, inputs);
  node->place_edges(edges, inputs);
  place(node->inputs_, inputs);
  if (kept_results) place(node->results_, kept_results);
  return Ref<OpNode>::adopt(node);
}

void OpNode::dispose() noexcept {
  const uint16_t size_class = block_;
  const std::span<const Edge> all = edges();
  std::destroy_n(args_, arguments_);
  std::destroy_n(const_cast<Edge*>(all.data()), all.size());
  std::destroy_n(inputs_, all.size());
  if (results_) std::destroy_n(results_, outputs());
  delete owner_;
  this->~OpNode();
  give_block(this, size_class);
}

void OpNode::set_owner(Node* copy_slices, const TensorImpl& base, const TensorImpl& view) {
  owner_ = new Owner{copy_slices, Geometry(base), Geometry(view)};
}

void OpNode::release_saved() noexcept {
  if (!saves_ || released_) return;
  released_ = true;
  packed_ = nullptr;
  for (std::size_t i = 0, n = edges().size(); i < n; ++i) inputs_[i].drop();
  if (results_)
    for (uint32_t i = 0; i < outputs(); ++i) results_[i].drop();
}

namespace {
void check_version(const SavedTensor& saved, std::string_view op, const char* what, std::string_view which) {
  const uint32_t found = saved.present_version();
  TENON_CHECK(found == saved.version(), AutogradError, op, ": ", what, " ", which, ", ", saved.dtype(), " of sizes ",
              saved.sizes(), ", was saved for backward and has been written in place since: it is at version ", found,
              "; expected version ", saved.version(), kWriteElsewhere);
}
}  // namespace

Tensor OpNode::saved_input(std::size_t argument, std::size_t slot) {
  const SavedTensor& saved = inputs_[slot];
  check_version(saved, op_.name(), "argument", op_.schema().arguments[argument].name);
  return as_input(saved.unpack(), slot);
}

// Under create_graph with the history that the input had when the call was recorded.
Tensor OpNode::as_input(Tensor t, std::size_t slot) {
  const Edge& edge = edges()[slot];
  if (!edge || !grad_enabled()) return t;
  if (owner_ && slot == 0)  // edge 0 is then the base's
    return with_history(t, {make_view_node(owner_->base, owner_->view, t.device(), edge), 0});
  return with_history(t, edge);
}

Tensor OpNode::saved_output(std::size_t i) {
  TENON_ASSERT(results_ && results_[i].saved(), op_.name(), ": the formula reads output ", static_cast<int>(i),
               ", which its registration does not save");
  check_version(results_[i], op_.name(), "output", std::to_string(i));
  return as_output(results_[i].unpack(), i);
}

Tensor OpNode::as_output(Tensor t, std::size_t i) {
  if (!grad_enabled()) return t;
  if (!owner_) return with_history(t, {Ref<Node>::share(this), static_cast<uint32_t>(i)});
  // Written through a view: the result is that part of what the owner made of the base.
  const Edge base{Ref<Node>::share(owner_->node), 0};
  return with_history(t, {make_view_node(owner_->base, owner_->view, t.device(), base), 0});
}

void OpNode::pack_saved() {
  if (!saves_) return;
  packed_ = Ref<Packed>::adopt(new Packed);
  const auto pack = [&](SavedTensor& saved, std::size_t position, std::vector<Packed::Item>& list) {
    // One that the call itself has overwritten stays, for the usual error.
    if (!saved.saved() || saved.present_version() != saved.version()) return;
    list.push_back({position, PackedSave(saved.unpack(), op_.name())});
    saved.forget();
  };
  for (std::size_t s = 0, n = edges().size(); s < n; ++s) pack(inputs_[s], s, packed_->inputs);
  for (std::size_t i = 0; results_ && i < outputs(); ++i) pack(results_[i], i, packed_->outputs);
}

const PackedSave* OpNode::packed_input(std::size_t slot) const {
  if (packed_)
    for (const Packed::Item& item : packed_->inputs)
      if (item.position == slot) return &item.save;
  return nullptr;
}

void OpNode::visit_saved(const SavedVisitor& f) const {
  const auto see = [&](std::string_view what, const SavedTensor& t) {
    if (!t.holds()) return;
    int64_t bytes = static_cast<int64_t>(item_size(t.dtype()));
    for (const int64_t size : t.sizes()) bytes *= size;
    f(what, t.sizes(), t.dtype(), bytes);
  };
  std::size_t slot = 0;
  for (std::size_t i = 0; i < arguments_; ++i) {
    const std::string_view name = op_.schema().arguments[i].name;
    const dispatch::Value& v = args_[i];
    const std::size_t n = v.is_tensor() ? 1 : v.kind() == dispatch::Value::Kind::tensor_list ? v.tensors().size() : 0;
    for (const std::size_t end = slot + n; slot < end; ++slot) {
      see(name, inputs_[slot]);
      if (const PackedSave* save = packed_input(slot)) f(name, save->sizes(), save->dtype(), save->bytes());
    }
  }
  for (std::size_t i = 0; results_ && i < outputs(); ++i)
    see(outputs() > 1 ? "output " + std::to_string(i) : "output", results_[i]);
  if (packed_)
    for (const Packed::Item& out : packed_->outputs) f("output", out.save.sizes(), out.save.dtype(), out.save.bytes());
}

dispatch::Value OpNode::unpack_argument(std::size_t i, std::size_t& slot) {
  const dispatch::Value& v = args_[i];
  const auto find = [&](std::size_t s) -> Tensor {
    if (inputs_[s].saved()) return saved_input(i, s);
    const PackedSave* packed = packed_input(s);
    return packed ? as_input(packed->unpack(op_.name()), s) : Tensor();
  };
  if (v.is_tensor()) {
    Tensor t = find(slot++);
    if (t.defined()) return t;
  } else if (v.kind() == dispatch::Value::Kind::tensor_list) {
    const std::size_t first = slot, n = v.tensors().size();
    slot += n;
    std::vector<Tensor> list(v.tensors());
    for (std::size_t k = 0; k < n; ++k)
      if (Tensor t = find(first + k); t.defined()) list[k] = static_cast<Tensor&&>(t);
    return list;
  }
  return dispatch::Value::borrow(v);
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
    if (!first_) {  // most formulas ask for one
      first_slot_ = s;
      first_.emplace(node_.inputs_[s].expanded());
    }
    if (first_slot_ == s) return *first_;
    if (!metas_) metas_ = std::make_unique<std::unique_ptr<dispatch::TensorMeta>[]>(node_.edges().size());
    if (!metas_[s]) metas_[s] = std::make_unique<dispatch::TensorMeta>(node_.inputs_[s].expanded());
    return *metas_[s];
  }
  dispatch::TensorMeta result_meta(int i) const override {
    const auto k = static_cast<std::size_t>(i);
    if (node_.results_ && node_.outputs() > 1) return node_.results_[k].expanded();
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
  mutable std::optional<dispatch::TensorMeta> first_;
  mutable std::size_t first_slot_ = 0;
  mutable std::unique_ptr<std::unique_ptr<dispatch::TensorMeta>[]> metas_;
};

namespace {
// Room for values, of which so many are there as were put.
struct Arguments {
  static constexpr std::size_t kFew = 8;
  alignas(dispatch::Value) unsigned char few[kFew * sizeof(dispatch::Value)];
  dispatch::Value* first;
  std::size_t count = 0;
  explicit Arguments(std::size_t n)
      : first(static_cast<dispatch::Value*>(n <= kFew ? few : ::operator new(n * sizeof(dispatch::Value)))) {}
  ~Arguments() {
    std::destroy_n(first, count);
    if (static_cast<void*>(first) != few) ::operator delete(first);
  }
  Arguments(const Arguments&) = delete;
  Arguments& operator=(const Arguments&) = delete;
};
}  // namespace

void OpNode::apply(std::span<Tensor> grads, std::span<Tensor> results) {
  TENON_CHECK(gradient_, AutogradError, op_.name(), ": no gradient is registered for this operator");
  TENON_CHECK(gradient_->formula || gradient_->non_differentiable, RegistrationError, op_.name(),
              ": two different gradients are registered for this operator");
  if (gradient_->non_differentiable) return;  // written in place by something without a gradient: nothing flows on
  TENON_CHECK(!released_, AutogradError, op_.name(), kFreed);
  // Kept in this call: a hook that unpacks may run backward through this node, which frees what it saved.
  const Ref<Packed> packed = packed_;
  // The formula's arguments are made for this run: others may run the same node.
  Arguments args(arguments_);
  std::size_t slot = 0;
  for (; args.count < arguments_; ++args.count)  // counted when made: a stale tensor throws
    ::new (&args.first[args.count]) dispatch::Value(unpack_argument(args.count, slot));
  OpBackward backward(*this, grads, results);
  if (packed && !packed->outputs.empty()) {
    backward.unpacked.resize(outputs());
    for (const Packed::Item& out : packed->outputs) backward.unpacked[out.position] = out.save.unpack(op_.name());
  }
  TENON_CHECK(!released_, AutogradError, op_.name(), kFreed);
  gradient_->formula(op_, backward, {args.first, args.count});
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
