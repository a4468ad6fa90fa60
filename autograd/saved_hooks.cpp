// SPDX-License-Identifier: Apache-2.0
#include <tenon/autograd/autograd_meta.h>
#include <tenon/autograd/packed_save.h>
#include <tenon/core/operand.h>
#include <tenon/dispatch/make_tensor.h>
#include <tenon/dispatch/thread_state.h>

namespace tenon::autograd {
namespace {
constinit thread_local SavedTensorHooks* innermost = nullptr;
constinit thread_local const std::string* disabled = nullptr;

void use(SavedTensorHooks* hooks) {
  innermost = hooks;
  dispatch::thread_state.saved_hooks = hooks != nullptr;
}
}  // namespace

PackedTensor::~PackedTensor() = default;
SavedTensorHooks::~SavedTensorHooks() = default;
SavedTensorHooks* saved_tensor_hooks() { return innermost; }

SavedTensorHooksGuard::SavedTensorHooksGuard(Ref<SavedTensorHooks> hooks)
    : hooks_(static_cast<Ref<SavedTensorHooks>&&>(hooks)), previous_(Ref<SavedTensorHooks>::share(innermost)) {
  TENON_CHECK(!disabled, AutogradError, *disabled);
  use(hooks_.get());
}
SavedTensorHooksGuard::~SavedTensorHooksGuard() { use(previous_.get()); }

DisableSavedTensorHooksGuard::DisableSavedTensorHooksGuard(std::string message)
    : message_(static_cast<std::string&&>(message)), previous_(disabled) {
  TENON_CHECK(!innermost, AutogradError, message_);
  disabled = &message_;
}
DisableSavedTensorHooksGuard::~DisableSavedTensorHooksGuard() { disabled = previous_; }

namespace internal {
PackedVersion::PackedVersion(const Tensor& original, const Tensor& packed) {
  shared_ = packed.defined() && packed.storage() && packed.storage() == original.storage();
  if (shared_) version_ = packed.version();
}
void PackedVersion::check(const Tensor& packed) const {
  TENON_CHECK(
      !shared_ || packed.version() == version_, AutogradError,
      "saved-tensor hooks: the packed tensor shares memory with the saved one and has been written in place since: "
      "expected version ",
      version_, ", found ", packed.version());
}
}  // namespace internal

PackedSave::PackedSave(const Tensor& t, std::string_view who)
    : sizes_(t.sizes()), dtype_(t.dtype()), device_(t.device()) {
  const NoGradGuard no_grad;
  const Ref<SavedTensorHooks> hooks = Ref<SavedTensorHooks>::share(innermost);
  const Tensor plain = dispatch::make_alias(t);
  const uint32_t version = plain.version();
  packed_ = hooks->pack(plain);
  TENON_CHECK(packed_, AutogradError, who, ": saved-tensor hooks: pack: expected a packed tensor, got none");
  TENON_CHECK(plain.version() == version, AutogradError, who,
              ": saved-tensor hooks: pack wrote in place to the tensor it was given; write to a clone()");
}

Tensor PackedSave::unpack(std::string_view who) const {
  const Tensor t = packed_->unpack();
  TENON_CHECK(t.defined(), AutogradError, who, ": saved-tensor hooks: unpack: expected a tensor, got an undefined one");
  TENON_CHECK(t.sizes() == IntArrayRef(sizes_), AutogradError, who, ": saved-tensor hooks: unpack: expected sizes ",
              sizes_, ", got ", t.sizes());
  TENON_CHECK(t.dtype() == dtype_, AutogradError, who, ": saved-tensor hooks: unpack: expected ", dtype_, ", got ",
              t.dtype());
  TENON_CHECK(t.device() == device_, AutogradError, who, ": saved-tensor hooks: unpack: expected a tensor on ", device_,
              ", got one on ", t.device());
  return takes_part(t) ? dispatch::make_alias(t) : t;
}

int64_t PackedSave::bytes() const {
  int64_t n = static_cast<int64_t>(item_size(dtype_));
  for (const int64_t size : sizes_) n *= size;
  return n;
}

Tensor with_history(const Tensor& t, const Edge& edge) {
  if (!edge) return t;
  Tensor out = dispatch::make_alias(t);
  if (auto* leaf = dynamic_cast<AccumulateGrad*>(edge.node.get())) {
    meta_of(*out.impl()).accumulator = Ref<AccumulateGrad>::share(leaf);
    out.impl()->set_requires_grad(true);
  } else {
    set_history(out, edge.node, edge.index);
  }
  return out;
}

namespace {
// What save_on_cpu keeps of a tensor of another device.
struct OnHost {
  Tensor data;
  Device device;
  bool pinned = false;
  uint32_t version = 0;
};
bool stays(Device device) { return device.is_cpu() || device.is_meta(); }
}  // namespace

SavedTensorHooksGuard save_on_cpu(bool pin_memory) {
  const auto pack = [pin_memory](const Tensor& t) {
    if (stays(t.device())) return OnHost{t, t.device(), false, t.version()};
    const bool pin = pin_memory && t.is_cuda();
    // The same strides where they leave no gaps: kernels take the same paths again.
    const Tensor host =
        dispatch::make_tensor(t.sizes(), t.dtype(), kCPU, dispatch::is_dense(t) ? t.strides() : IntArrayRef(), pin);
    Tensor(host).copy_(t, pin);
    return OnHost{host, t.device(), pin, 0};
  };
  const auto unpack = [](const OnHost& saved) {
    if (stays(saved.device)) {
      TENON_CHECK(saved.data.version() == saved.version, AutogradError,
                  "save_on_cpu: a saved tensor has been written in place since: expected version ", saved.version,
                  ", found ", saved.data.version());
      return saved.data;
    }
    // Pinned: both copies are queued on the stream of the forward call, which is current in backward too.
    Tensor t = dispatch::make_tensor(saved.data.sizes(), saved.data.dtype(), saved.device, saved.data.strides());
    t.copy_(saved.data, saved.pinned);
    return t;
  };
  return SavedTensorHooksGuard(pack, unpack);
}

}  // namespace tenon::autograd
