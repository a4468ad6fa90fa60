// SPDX-License-Identifier: Apache-2.0
// OpNode: the record of one operator call. Arguments, geometry, edges and saved outputs lie behind the object in one
// pooled block. Internal.
#pragma once

#include <tenon/autograd/node.h>
#include <tenon/dispatch/gradient.h>

namespace tenon::autograd {

/// What a node keeps of a tensor argument or result beside (or instead of) the tensor itself.
class CompactMeta {
 public:
  CompactMeta() = default;
  ~CompactMeta() {
    if (dim_ > kInline) delete[] sizes_.heap;
  }
  CompactMeta(const CompactMeta&) = delete;
  CompactMeta& operator=(const CompactMeta&) = delete;
  void set(const Tensor& t);
  IntArrayRef sizes() const { return {dim_ > kInline ? sizes_.heap : sizes_.items, dim_}; }
  DType dtype() const { return dtype_; }
  Device device() const { return device_; }
  dispatch::TensorMeta expanded() const { return {DimVector(sizes()), dtype_, device_}; }
  void save(const Tensor& t) { version_ = t.version(), saved_ = true; }
  void unsave() { saved_ = false; }
  bool saved() const { return saved_; }
  uint32_t version() const { return version_; }

 private:
  static constexpr int kInline = 4;
  union {
    int64_t items[kInline];
    int64_t* heap;
  } sizes_;
  uint32_t version_ = 0;
  DType dtype_ = DType::undefined;
  uint8_t dim_ = 0;
  Device device_;
  bool saved_ = false;
};

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

  std::span<dispatch::Value> args() { return {args_, arguments_}; }
  CompactMeta& input(std::size_t slot) { return inputs_[slot]; }
  CompactMeta& result(std::size_t i) { return results_[i]; }
  void set_edge(std::size_t slot, Edge e) { replace_edge(slot, static_cast<Edge&&>(e)); }
  /// Keeps output `i` for the formula; `t` is an alias of it, without history.
  void save_output(std::size_t i, Tensor t);
  void set_needs_saved() { saves_ = true; }
  /// Puts what was saved through the thread's saved-tensor hooks. Once, when the call has been recorded.
  void pack_saved();
  /// The node that holds this one when it is a write through a view.
  void set_owner(Node* copy_slices, const TensorImpl& base, const TensorImpl& view);

 private:
  friend class OpBackward;
  struct Owner;
  OpNode(const dispatch::OpBase& op, const dispatch::Gradient* gradient, uint32_t outputs)
      : Node(outputs), op_(op), gradient_(gradient) {}
  ~OpNode() override = default;
  void dispose() noexcept override;
  void check_saved();
  Tensor saved_output(std::size_t i);
  Tensor as_output(const Tensor& t, std::size_t i);
  void apply_packed(std::span<Tensor> grads, std::span<Tensor> results);

  const dispatch::OpBase& op_;
  const dispatch::Gradient* gradient_;
  dispatch::Value* args_ = nullptr;
  CompactMeta* inputs_ = nullptr;
  CompactMeta* results_ = nullptr;
  struct Saved {
    Tensor tensor;
    uint32_t version;
  };
  Saved* saved_ = nullptr;  // one per output when some are saved
  Owner* owner_ = nullptr;
  struct Packed;
  Packed* packed_ = nullptr;  // what went through saved-tensor hooks
  uint16_t arguments_ = 0;
  uint16_t block_ = 0;  // size class
  bool saves_ = false;
  bool released_ = false;
};

/// Sums over broadcast dimensions, casts and moves `g` until it fits `meta`; AutogradError naming `who` if it cannot.
Tensor fit_gradient(Tensor g, const CompactMeta& meta, std::string_view who);

}  // namespace tenon::autograd
