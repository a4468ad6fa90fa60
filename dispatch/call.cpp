// SPDX-License-Identifier: Apache-2.0
// Outputs of a call: where the kernel writes, and how results reach the destinations of out= and in-place forms.
#include <tenon/dispatch/make_tensor.h>
#include <tenon/dispatch/op.h>

#include <optional>

namespace tenon::dispatch {

void Call::change_device(Device device) {
  const Device now(device.type(), current_device(device.type()));
  set_current_device(device);
  if (previous_device_.is_cpu()) previous_device_ = now;
}
void Call::leave() noexcept {
  try {
    set_current_device(previous_device_);
  } catch (...) {  // the device was current before; a failure here will be met again by whoever uses it
  }
}

Tensor Call::output(int i, IntArrayRef sizes, DType dtype, Device device, std::initializer_list<const Tensor*> inputs,
                    IntArrayRef strides) {
  enter(device);
  if (form == Form::functional || static_cast<std::size_t>(i) >= destinations.size())
    return make_tensor(sizes, dtype, device, strides);
  const Tensor& target = destinations[i];
  TENON_CHECK(target.defined(), ValueError, name(), ": out: expected a tensor, got an undefined one");
  TENON_CHECK(form != Form::inplace || target.sizes() == sizes, ShapeError, name(), "_: the result has sizes ", sizes,
              ", which do not fit self with sizes ", target.sizes());
  if (form == Form::out && !(target.sizes() == sizes)) {
    TENON_CHECK(target.numel() == 0, ShapeError, name(), ": out: expected sizes ", sizes, " or no elements, got ",
                target.sizes());
    resize(target, sizes);
  }
  TENON_CHECK(target.device() == device, DeviceError, name(), ": out: expected a tensor on ", device, ", got one on ",
              target.device());
  TENON_CHECK(!overlaps_itself(target), AliasError, name(), form == Form::inplace ? "_" : "",
              ": the output has several elements at one address (an expanded tensor); write to a clone() instead");
  for (int j = 0; j < i; ++j)
    TENON_CHECK(overlap(target, destinations[static_cast<std::size_t>(j)]) == Overlap::none, AliasError, name(),
                ": out: tensors ", j, " and ", i, " share memory");
  bool direct = target.dtype() == dtype;
  for (const Tensor* input : inputs)
    direct = direct && (!input || !input->defined() || overlap(target, *input) == Overlap::none);
  return direct ? target : make_tensor(sizes, dtype, device, strides);
}

Device Call::device_of(std::initializer_list<const Tensor*> tensors) const {
  const Tensor* first = nullptr;
  for (const Tensor* t : tensors) {
    if (!t || !t->defined()) continue;
    if (!first) {
      first = t;
      continue;
    }
    if (t->device() == first->device()) continue;
    // Names come from the schema: the k-th tensor given is its k-th tensor argument.
    Message m;
    m << name() << ": expected all tensors on one device, got";
    const Argument* arg = op.schema().arguments;
    bool comma = false;
    for (const Tensor* each : tensors) {
      while (arg < op.schema().arguments + op.schema().count && arg->type != ArgType::tensor &&
             arg->type != ArgType::optional_tensor && arg->type != ArgType::operand)
        ++arg;
      if (each && each->defined()) {
        m << (comma ? ", " : " ") << arg->name << " on " << each->device();
        comma = true;
      }
      ++arg;
    }
    throw DeviceError(m.take());
  }
  TENON_CHECK(first, ValueError, name(), ": no tensor among the arguments");
  return first->device();
}

Tensor finish_destination(const OpBase& op, Form form, const Tensor& destination, Tensor&& result) {
  TENON_CHECK(destination.defined(), ValueError, op.name(), ": out: expected a tensor, got an undefined one");
  if (!destination.is_same(result)) {
    TENON_CHECK(can_cast(result.dtype(), destination.dtype()), DtypeError, op.name(), form == Form::inplace ? "_" : "",
                ": the result has dtype ", result.dtype(), ", which cannot be written to a tensor of ",
                destination.dtype());
    TENON_CHECK(form != Form::inplace || destination.sizes() == result.sizes(), ShapeError, op.name(),
                "_: the result has sizes ", result.sizes(), ", which do not fit self with sizes ", destination.sizes());
    if (!(destination.sizes() == result.sizes())) {
      TENON_CHECK(destination.numel() == 0, ShapeError, op.name(), ": out: expected sizes ", result.sizes(),
                  " or no elements, got ", destination.sizes());
      resize(destination, result.sizes());
    }
    // A composite's parts were recorded, so the write is too; other operators are recorded as a whole.
    std::optional<BelowLayersGuard> below;
    if (op.kind() != Kind::composite)
      below.emplace();
    else
      TENON_CHECK(
          form != Form::out || !grad_enabled() || !(result.requires_grad() || destination.requires_grad()),
          AutogradError, op.name(),
          ": out= is not differentiable, and an argument requires grad; use the functional form or a NoGradGuard");
    Tensor target = destination;
    try {
      target.copy_(result);  // counts as the write
    } catch (const AutogradError& e) {
      const std::string_view text = e.what();
      if (!text.starts_with("copy_: ")) throw;
      throw AutogradError(tenon::detail::concat(op.name(), text.substr(4)));  // people called `op`
    }
    return destination;
  }
  if (destination.storage()) destination.storage()->bump_version();
  return static_cast<Tensor&&>(result);
}

}  // namespace tenon::dispatch
