// SPDX-License-Identifier: Apache-2.0
// Saved-tensor hooks: while a guard lives, every tensor that operators and Functions of this thread save for backward,
// parameters too, goes through `pack`; what it returns, of any type, is kept instead, and `unpack` makes the tensor
// again when backward needs it (once per run). Guards nest, the innermost acts.
//
//   autograd::SavedTensorHooksGuard guard([](const Tensor& t) { return t.to(kBFloat16); },
//                                         [](const Tensor& t) { return t.to(kFloat32); });
//
// `pack` gets the data without its history, with recording off, after the operator ran, and must not write to it.
// What `unpack` gives must have the sizes, dtype and device of what was packed; its place in the graph is given back to it.
// An exception from `pack` leaves the call that saved; what was recorded before stays usable.
// Thread safety: guards belong to their thread. A graph may be run by another one, `unpack` is called there.
#pragma once

#include <tenon/core/tensor.h>

#include <string>

namespace tenon::autograd {

/// What stands in a node for a saved tensor.
class TENON_API PackedTensor : public Counted {
 public:
  virtual ~PackedTensor();
  static void destroy(PackedTensor* p) noexcept { delete p; }
  virtual Tensor unpack() = 0;
};

/// A pair of hooks; nodes keep what they need of it, so it may outlive its guard.
class TENON_API SavedTensorHooks : public Counted {
 public:
  virtual ~SavedTensorHooks();
  static void destroy(SavedTensorHooks* h) noexcept { delete h; }
  virtual Ref<PackedTensor> pack(const Tensor& t) = 0;
};

namespace internal {
/// Notices that a packed tensor that shares memory with what was saved was written before it is unpacked.
class TENON_API PackedVersion {
 public:
  PackedVersion(const Tensor& original, const Tensor& packed);
  template <class T>
  PackedVersion(const Tensor&, const T&) {}
  void check(const Tensor& packed) const;
  template <class T>
  void check(const T&) const {}

 private:
  bool shared_ = false;
  uint32_t version_ = 0;
};

template <class Pack, class Unpack>
class HookPair final : public SavedTensorHooks {
  using Packed = std::decay_t<std::invoke_result_t<Pack&, const Tensor&>>;
  class Item final : public PackedTensor {
   public:
    Item(HookPair* hooks, const Tensor& original, Packed packed)
        : hooks_(Ref<SavedTensorHooks>::share(hooks)),
          packed_(static_cast<Packed&&>(packed)),
          version_(original, packed_) {}
    Tensor unpack() override {
      version_.check(packed_);
      return static_cast<HookPair*>(hooks_.get())->unpack_(std::as_const(packed_));
    }

   private:
    Ref<SavedTensorHooks> hooks_;
    Packed packed_;
    PackedVersion version_;
  };

 public:
  HookPair(Pack pack, Unpack unpack) : pack_(static_cast<Pack&&>(pack)), unpack_(static_cast<Unpack&&>(unpack)) {}
  Ref<PackedTensor> pack(const Tensor& t) override { return Ref<PackedTensor>::adopt(new Item(this, t, pack_(t))); }

 private:
  Pack pack_;
  Unpack unpack_;
};
}  // namespace internal

class TENON_API SavedTensorHooksGuard {
 public:
  /// AutogradError with the reason given where hooks are disabled.
  explicit SavedTensorHooksGuard(Ref<SavedTensorHooks> hooks);
  template <class Pack, class Unpack>
  SavedTensorHooksGuard(Pack pack, Unpack unpack)
      : SavedTensorHooksGuard(Ref<SavedTensorHooks>::adopt(
            new internal::HookPair<Pack, Unpack>(static_cast<Pack&&>(pack), static_cast<Unpack&&>(unpack)))) {}
  ~SavedTensorHooksGuard();
  SavedTensorHooksGuard(const SavedTensorHooksGuard&) = delete;
  SavedTensorHooksGuard& operator=(const SavedTensorHooksGuard&) = delete;

 private:
  Ref<SavedTensorHooks> hooks_, previous_;
};

/// Keeps saved tensors in host memory and brings them back for backward: `const auto guard = save_on_cpu(true);`.
/// `pin_memory`: in page-locked memory, copied without waiting, when the tensor is on a CUDA device. Tensors of the CPU
/// are kept as they are.
TENON_API SavedTensorHooksGuard save_on_cpu(bool pin_memory = false);

/// While it lives, SavedTensorHooksGuard (and with it checkpoint and save_on_cpu) throws AutogradError(message) in this
/// thread. Throws so itself when hooks are in force.
class TENON_API DisableSavedTensorHooksGuard {
 public:
  explicit DisableSavedTensorHooksGuard(std::string message);
  ~DisableSavedTensorHooksGuard();
  DisableSavedTensorHooksGuard(const DisableSavedTensorHooksGuard&) = delete;
  DisableSavedTensorHooksGuard& operator=(const DisableSavedTensorHooksGuard&) = delete;

 private:
  std::string message_;
  const std::string* previous_;
};

/// The hooks in force in this thread; null for none.
TENON_API SavedTensorHooks* saved_tensor_hooks();

}  // namespace tenon::autograd
