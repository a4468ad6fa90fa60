// SPDX-License-Identifier: Apache-2.0
// Pointwise: the call shape of elementwise operators. It gathers operands, finds the common device, promotes and
// broadcasts, makes the output (keeping the memory order of its inputs), casts inputs to the compute dtype, plans
// the loop and calls the kernel.
//
//   Tensor impl::mul(Call& call, const Operand& self, const Operand& other) {
//     Pointwise p(call, self, other);
//     return p.run<void(const LoopPlan&)>(p.promoted());
//   }
#pragma once

#include <tenon/dispatch/loop_plan.h>
#include <tenon/dispatch/op.h>

namespace tenon::dispatch {

/// PyTorch's promotion over mixed operands: dimensioned tensors outrank 0-dim tensors, which outrank numbers,
/// unless the lower rank has a higher kind (bool < integer < floating < complex).
struct PromotionState {
  DType dimensioned = DType::undefined, zero_dim = DType::undefined, number = DType::undefined;
  TENON_API void add(const Tensor& t);
  TENON_API void add(const Scalar& s);
  TENON_API DType result() const;
};
/// The promoted dtype of any operands, as PyTorch's result_type.
template <class... Operands>
DType result_type(const Operands&... operands) {
  PromotionState state;
  const auto add = [&](const Operand& o) { o.is_tensor() ? state.add(o.tensor()) : state.add(o.number()); };
  (add(operands), ...);
  return state.result();
}
/// Integers and bool become the default float: dtype of exp, mean, true division.
inline DType float_of(DType t) { return is_integral(t, true) ? default_dtype() : t; }

class TENON_API Pointwise {
 public:
  static constexpr int kMaxInputs = 4;
  template <class... Operands>
  explicit Pointwise(Call& call, const Operands&... operands) : call_(call) {
    (add(operands), ...);
    gather();
  }

  /// Promoted dtype of all operands.
  DType promoted() const { return promotion_.result(); }
  Device device() const { return device_; }
  IntArrayRef sizes() const { return shape_; }
  /// Leaves input `i` in its own dtype (a condition among values).
  Pointwise& keep(int i) {
    keep_ |= 1u << i;
    return *this;
  }

  /// Computes in `compute`, gives a tensor of dtype `result` (default: the same). The kernel is the cell of the
  /// compute dtype, or of `key` if given; attributes follow the plan.
  template <class K, class... Attributes>
  Tensor run(DType compute, DType result, Key key, const Attributes&... attributes) {
    return run_as<K>(call_.op, compute, result, key, attributes...);
  }
  /// With the kernel of another operator's cell (clamp with one bound is clamp_min).
  template <class K, class... Attributes>
  Tensor run_as(const OpBase& cell, DType compute, DType result, Key key, const Attributes&... attributes) {
    if (compute == kFloat16 && result == compute && key == key_of(compute) && number_beyond_half()) [[unlikely]]
      return to_half(run_as<K>(cell, kFloat32, kFloat32, key_of(kFloat32), attributes...));
    LoopPlan plan;
    prepare(plan, compute, result);
    if (device_.type() != kMeta) {
      const KernelCall<K> kernel(cell.kernel(backend_, key), backend_);
      if (plan.numel != 0) kernel(plan, attributes...);
    }
    return static_cast<Tensor&&>(output_);
  }
  template <class K, class... Attributes>
  Tensor run(DType compute, const Attributes&... attributes) {
    return run<K>(compute, compute, key_of(compute), attributes...);
  }

 private:
  void add(const Tensor& t) {
    inputs_[count_].tensor = &t;
    ++count_;
  }
  void add(const Operand& o) {
    if (o.is_tensor())
      inputs_[count_].tensor = &o.tensor();
    else
      inputs_[count_].number = o.number();
    ++count_;
  }
  void gather();
  // A number that float16 cannot hold (1 / 100000.0, a mean over so many elements): computed in float32, rounded once.
  bool number_beyond_half() const;
  Tensor to_half(Tensor wide) const;
  void prepare(LoopPlan& plan, DType compute, DType result);

  struct Input {
    const Tensor* tensor = nullptr;
    Scalar number;
  };
  Call& call_;
  int count_ = 0;
  uint32_t keep_ = 0;
  Backend backend_ = Backend::cpu;
  Device device_;
  Input inputs_[kMaxInputs];
  PromotionState promotion_;
  DimVector shape_;
  Tensor casted_[kMaxInputs];
  Tensor output_;
};

// --- implementations most unary operators share -------------------------------------------------------------
/// Result in the input's dtype.
TENON_API Tensor unary_same(Call& call, const Tensor& self);
/// Integers compute and give the default float.
TENON_API Tensor unary_float(Call& call, const Tensor& self);
/// Result bool, computed in the input's dtype.
TENON_API Tensor unary_bool(Call& call, const Tensor& self);

}  // namespace tenon::dispatch
