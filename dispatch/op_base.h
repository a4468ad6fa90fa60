// SPDX-License-Identifier: Apache-2.0
// OpBase: what every operator handle has whatever its signature: schema, kind, flags, the [backend][key] table of
// kernels and the slot of the gradient. The typed handle is dispatch/op.h.
#pragma once

#include <tenon/dispatch/value.h>

namespace tenon::dispatch {

enum class Kind : uint8_t {
  kernel,     ///< shape rule -> outputs -> destination-passing kernel
  view,       ///< metadata only; no cell
  composite,  ///< calls operators; no cell and no gradient of its own
  dynamic     ///< makes outputs of data-dependent shape, may wait for the device; no meta form, not capturable
};
enum class Form : uint8_t { functional, inplace, out };

/// Properties an operator's declaration states.
enum OpFlags : uint32_t {
  kPlain = 0,
  kNonDeterministic = 1,  ///< results may differ between runs
  kNotCapturable = 2,     ///< may not run while a graph is captured
  kNoInplace = 4,         ///< has no `_` form
  kNonDifferentiable = 8  ///< outputs never require grad
};

/// Column of the kernel table: a dtype, or an element width for operators that only move data.
using Key = uint8_t;
inline constexpr int kKeys = kDTypes + 5;
constexpr Key key_of(DType t) { return static_cast<Key>(t); }
constexpr Key width_key(int64_t bytes) {
  return static_cast<Key>(kDTypes + (bytes == 1 ? 0 : bytes == 2 ? 1 : bytes == 4 ? 2 : bytes == 8 ? 3 : 4));
}
/// An element of N bytes, whatever it means. Kernels registered for it serve every dtype of that width.
template <int N>
struct alignas(N) Width {
  unsigned char bytes[N];
};
using Widths = Types<Width<1>, Width<2>, Width<4>, Width<8>, Width<16>>;
template <class T>
inline constexpr Key kKeyOf = key_of(dtype_of<T>());
template <int N>
inline constexpr Key kKeyOf<Width<N>> = width_key(N);
TENON_API const char* key_name(Key key);

using AnyFunction = void (*)();
/// One registration; static, never freed while a cell points at it.
struct KernelEntry {
  AnyFunction function;
  const char* file;
  int line;
  int rank;  ///< a better SIMD target of the same kernel wins
};

class Call;
struct Gradient;

class TENON_API OpBase {
 public:
  using Boxed = void (*)(const OpBase& op, Form form, std::span<const Value> args, std::span<const Tensor> destinations,
                         Results& results);
  constexpr OpBase(const Schema& schema, Kind kind, uint32_t flags, Boxed boxed, AnyFunction function)
      : schema_(schema), kind_(kind), flags_(flags), boxed_(boxed), implementation_(function) {}
  OpBase(const OpBase&) = delete;

  const Schema& schema() const { return schema_; }
  std::string_view name() const { return schema_.full_name(); }
  Kind kind() const { return kind_; }
  bool has(OpFlags flag) const { return (flags_ & flag) != 0; }
  uint32_t flags() const { return flags_; }

  /// The kernel of a cell; DeviceError naming operator, backend, dtype and the cells that exist when it is empty.
  AnyFunction kernel(Backend backend, Key key) const {
    // The simulated device runs CPU kernels, queued by its own scheduler.
    const auto row = static_cast<int>(backend == Backend::sim ? Backend::cpu : backend);
    const KernelEntry* entry = __atomic_load_n(&cells_[row][key], __ATOMIC_ACQUIRE);
    if (!entry || !entry->function) [[unlikely]]
      missing_kernel(backend, key);
    return entry->function;
  }
  const KernelEntry* cell(Backend backend, Key key) const {
    return __atomic_load_n(&cells_[static_cast<int>(backend)][key], __ATOMIC_ACQUIRE);
  }
  /// The gradient registered for this operator, or null.
  const Gradient* gradient() const { return __atomic_load_n(&gradient_, __ATOMIC_ACQUIRE); }

  /// Calls the implementation with boxed arguments, below the layers.
  void run_boxed(Form form, std::span<const Value> args, std::span<const Tensor> destinations, Results& results) const {
    boxed_(*this, form, args, destinations, results);
  }

 protected:
  AnyFunction implementation() const { return implementation_; }
  /// ValueError when an argument that must be a tensor is among the undefined ones.
  void refuse_undefined(std::span<const bool> undefined) const;
  [[noreturn]] void refuse_no_destination() const;

 private:
  friend class Registry;
  [[noreturn]] void missing_kernel(Backend backend, Key key) const;

  Schema schema_;
  Kind kind_;
  uint32_t flags_;
  Boxed boxed_;
  AnyFunction implementation_;
  mutable const KernelEntry* cells_[kBackends][kKeys] = {};
  mutable const Gradient* gradient_ = nullptr;
  mutable const OpBase* next_ = nullptr;
};

/// Passes the layers that apply; the last one runs the operator (dispatch/layers.cpp).
TENON_API void run_layers(const OpBase& op, Form form, std::span<Value> args, std::span<const Tensor> destinations,
                          Results& results);
/// Checks and prepares destinations, and writes results that were computed elsewhere into them.
TENON_API Tensor finish_destination(const OpBase& op, Form form, const Tensor& destination, Tensor&& result);

}  // namespace tenon::dispatch
