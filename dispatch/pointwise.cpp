// SPDX-License-Identifier: Apache-2.0
#include <tenon/dispatch/make_tensor.h>
#include <tenon/dispatch/pointwise.h>

namespace tenon::dispatch {

void PromotionState::add(const Tensor& t) {
  DType& slot = t.dim() == 0 ? zero_dim : dimensioned;
  slot = slot == DType::undefined ? t.dtype() : promote_types(slot, t.dtype());
}

void PromotionState::add(const Scalar& s) {
  const DType t = s.is_floating_point() ? default_dtype() : s.is_complex() ? complex_of(default_dtype()) : s.dtype();
  number = number == DType::undefined ? t : promote_types(number, t);
}

namespace {
DType combine(DType higher, DType lower) {
  if (higher == DType::undefined) return lower;
  if (lower == DType::undefined || is_complex(higher)) return higher;
  if (is_floating_point(higher)) return is_complex(lower) ? complex_of(higher) : higher;
  if (higher == kBool || is_floating_point(lower) || is_complex(lower)) return promote_types(higher, lower);
  return higher;
}
}  // namespace

DType PromotionState::result() const {
  if (zero_dim == DType::undefined && number == DType::undefined) return dimensioned;
  return combine(dimensioned, combine(zero_dim, number));
}

void Pointwise::gather() {
  const Tensor* leader = nullptr;  // decides the device: a 0-dim CPU tensor follows any other tensor
  for (int i = 0; i < count_; ++i) {
    const Tensor* t = inputs_[i].tensor;
    if (!t) continue;
    TENON_CHECK(t->defined(), ValueError, call_.name(), ": argument ", call_.op.schema().arguments[i].name,
                " is an undefined tensor");
    if (!leader || (leader->is_cpu() && leader->dim() == 0 && !t->is_cpu())) leader = t;
  }
  if (!leader) {
    TENON_CHECK(!call_.destinations.empty(), ValueError, call_.name(),
                ": expected at least one tensor among the arguments");
    leader = &call_.destinations[0];
  }
  device_ = leader->device();
  backend_ = leader->backend();
  bool first = true, float8 = false;
  for (int i = 0; i < count_; ++i) float8 = float8 || (inputs_[i].tensor && is_float8(inputs_[i].tensor->dtype()));
  for (int i = 0; i < count_; ++i) {
    Input& input = inputs_[i];
    if (!input.tensor) {
      promotion_.add(input.number);
      continue;
    }
    const Tensor& t = *input.tensor;
    // Float8 promotes with nothing else; a bool beside it is where's condition, which stays what it is.
    if (!float8 || t.dtype() != kBool) promotion_.add(t);
    if (t.device() != device_) {
      TENON_CHECK(t.is_cpu() && t.dim() == 0, DeviceError, call_.name(), ": expected all tensors on one device, got ",
                  call_.op.schema().arguments[i].name, " on ", t.device(), " and another on ", device_);
      const BelowLayersGuard below;
      input.number = t.item();
      input.tensor = nullptr;
      continue;
    }
    if (first) {
      shape_ = DimVector(t.sizes());
      first = false;
    } else if (!(IntArrayRef(shape_) == t.sizes())) {
      shape_ = broadcast_sizes(shape_, t.sizes(), call_.name());
    }
  }
}

bool Pointwise::number_beyond_half() const {
  for (int i = 0; i < count_; ++i) {
    if (inputs_[i].tensor || inputs_[i].number.is_complex()) continue;
    const double v = inputs_[i].number.real(), size = v < 0 ? -v : v;
    if (size > 65504 || (size < 0x1p-14 && size != 0)) return true;
  }
  return false;
}

// In place and with out=, the wide result is copied to its destination afterwards.
Tensor Pointwise::to_half(Tensor wide) const {
  if (call_.form != Form::functional) return wide;
  const BelowLayersGuard below;
  return wide.to(kFloat16);
}

void Pointwise::prepare(LoopPlan& plan, DType compute, DType result) {
  call_.enter(device_);
  // A call on tensors of one dtype casts nothing; the rest goes through temporaries of the compute dtype.
  const Tensor* order = nullptr;
  for (int i = 0; i < count_; ++i) {
    Input& input = inputs_[i];
    if (!input.tensor) continue;
    if (input.tensor->dtype() != compute && !(keep_ >> i & 1u)) {
      const BelowLayersGuard below;
      casted_[i] = input.tensor->to(compute);
      input.tensor = &casted_[i];
    }
    if (!order && input.tensor->sizes() == IntArrayRef(shape_)) order = input.tensor;
  }
  // The output follows the memory order of the first input of full shape, so that transposed or channels-last
  // tensors stay what they are and the loop stays one dimension.
  const bool follow = order && !order->is_contiguous() && is_dense(*order);
  const IntArrayRef strides = follow ? order->strides() : IntArrayRef();
  if (call_.form == Form::functional) {
    output_ = make_tensor(shape_, result, device_, strides);
  } else {
    const Tensor& target = call_.destinations[0];
    TENON_CHECK(target.defined(), ValueError, call_.name(), ": out: expected a tensor, got an undefined one");
    TENON_CHECK(can_cast(result, target.dtype()), DtypeError, call_.name(), call_.form == Form::inplace ? "_" : "",
                ": the result has dtype ", result, ", which cannot be written to a tensor of ", target.dtype());
    const Tensor* read[kMaxInputs];
    for (int i = 0; i < count_; ++i) read[i] = inputs_[i].tensor;
    if (target.sizes() == IntArrayRef(shape_)) {
      const std::span<const Tensor* const> inputs(read, static_cast<std::size_t>(count_));
      try {
        check_writable(call_.name(), target, inputs);
      } catch (const AliasError&) {  // the name that was called
        if (call_.form == Form::inplace) check_writable(tenon::detail::concat(call_.name(), "_"), target, inputs);
        throw;
      }
    }
    output_ = call_.output(0, shape_, result, device_, {}, strides);
  }
  PlanOperand operands[1 + kMaxInputs];
  operands[0] = {&output_, nullptr, result};
  for (int i = 0; i < count_; ++i) {
    const Input& input = inputs_[i];
    operands[1 + i] =
        input.tensor ? PlanOperand{input.tensor, nullptr, compute} : PlanOperand{nullptr, &input.number, compute};
  }
  make_plan(plan, shape_, {operands, static_cast<std::size_t>(1 + count_)}, 1);
}

Tensor unary_same(Call& call, const Tensor& self) {
  return Pointwise(call, self).run<void(const LoopPlan&)>(self.dtype());
}
Tensor unary_float(Call& call, const Tensor& self) {
  return Pointwise(call, self).run<void(const LoopPlan&)>(float_of(self.dtype()));
}
Tensor unary_bool(Call& call, const Tensor& self) {
  return Pointwise(call, self).run<void(const LoopPlan&)>(self.dtype(), kBool, key_of(self.dtype()));
}

}  // namespace tenon::dispatch
