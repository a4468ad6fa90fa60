// SPDX-License-Identifier: Apache-2.0
// OpNode: the record of one operator call. Arguments, edges and what is saved lie behind the object in one pooled block.
// Internal.
#pragma once

#include <tenon/autograd/autograd_meta.h>
#include <tenon/autograd/saved_tensor.h>

namespace tenon::autograd {

class PackedSave;

class OpNode final : public Node {
 public:
  /// `inputs` and `results`: counts of tensors, elements of lists each for itself.
  static Ref<OpNode> create(const dispatch::OpBase& op, const dispatch::Gradient* gradient, uint32_t arguments,
                            uint32_t inputs, uint32_t results);
  std::string name() const override { return std::string(op_.name()); }
  void apply(std::span<Tensor> grads, std::span<Tensor> results) override;
  void release_saved() noexcept override;
  void visit_saved(const SavedVisitor& f) const override;
  std::pair<IntArrayRef, DType> input_geometry(std::size_t i) const override {
    return {inputs_[i].sizes(), inputs_[i].dtype()};
  }

  /// Argument `i`; of tensors only that they are tensors (lists: how many). Once each, before the node is linked.
  template <class T>
  void set_argument(std::size_t i, T&& v) {
    ::new (&args_[i]) dispatch::Value(static_cast<T&&>(v));  // there was none, which needs no destructor
  }
  /// Geometry of the tensor of input `slot`, and where its gradient goes.
  void set_input(std::size_t slot, const Tensor& t) {
    inputs_[slot].set(t);
    replace_edge(slot, edge_of(t));
  }
  /// Keeps the data of `t`: the input, or a copy where the input is about to be overwritten.
  void save_input(std::size_t slot, const Tensor& t) {
    inputs_[slot].save(t);
    saves_ = true;
  }
  bool saves_input(std::size_t slot) const { return slot < edges().size() && inputs_[slot].saved(); }
  /// Geometry of output `i`, for operators of several.
  void set_result(std::size_t i, const Tensor& t) { results_[i].set(t); }
  /// Keeps output `i` for the formula.
  void save_output(std::size_t i, const Tensor& t) {
    results_[i].set(t);
    results_[i].save(t);
    saves_ = true;
  }
  /// Puts what was saved through the thread's saved-tensor hooks. Once, when the call has been recorded.
  void pack_saved();
  /// The node that holds this one when it is a write through a view.
  void set_owner(Node* copy_slices, const TensorImpl& base, const TensorImpl& view);

 private:
  friend class OpBackward;
  struct Owner;
  OpNode(const dispatch::OpBase& op, const dispatch::Gradient* gradient, uint32_t outputs);
  ~OpNode() override;
  void dispose() noexcept override;
  Tensor saved_input(std::size_t argument, std::size_t slot);
  Tensor as_input(Tensor t, std::size_t slot);
  Tensor saved_output(std::size_t i);
  Tensor as_output(Tensor t, std::size_t i);
  const PackedSave* packed_input(std::size_t slot) const;
  dispatch::Value unpack_argument(std::size_t i, std::size_t& slot);

  const dispatch::OpBase& op_;
  const dispatch::Gradient* gradient_;
  dispatch::Value* args_ = nullptr;
  SavedTensor* inputs_ = nullptr;
  SavedTensor* results_ = nullptr;  // for several results, or when some are saved
  Owner* owner_ = nullptr;
  struct Packed;
  Ref<Packed> packed_;  // what went through saved-tensor hooks
  uint16_t arguments_ = 0;
  uint16_t block_ = 0;  // size class
  bool saves_ = false;
  bool released_ = false;
};

// Ends of messages that operators and users' functions share.
inline constexpr const char* kFreed =
    ": the graph was freed by a backward that ran through it, perhaps not to its end. Pass retain_graph=true the first "
    "time, or detach() what is carried from one step to the next";
inline constexpr const char* kWriteElsewhere = ". Write to a clone(), or use the operator's functional form";

/// Sums over broadcast dimensions, casts and moves `g` until it fits `meta`; AutogradError naming `who` if it cannot.
Tensor fit_gradient(Tensor g, const CompactMeta& meta, std::string_view who);

}  // namespace tenon::autograd
