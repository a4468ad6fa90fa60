// SPDX-License-Identifier: Apache-2.0
// Gradients are formulas in operators, registered beside no kernel and included by nobody:
//
//   TENON_REGISTER_GRADIENT(op::mul, saves(inputs(0, 1)),
//       [](Gradients& g, const Operand& self, const Operand& other) {
//         g.set(0, [&] { return g.grad() * conj(other); });
//         g.set(1, [&] { return g.grad() * conj(self); });
//       });
//
// The formula gets the operator's own arguments; tensors that were not saved are undefined, their geometry is
// g.meta(i). The engine reduces what it returns to the input's shape and casts to its dtype, so formulas need not
// undo broadcasting or promotion. They run recorded under create_graph, which makes double backward free.
#pragma once

#include <tenon/dispatch/op.h>

namespace tenon::dispatch {

/// What is known of an input without saving it.
struct TensorMeta {
  DimVector sizes;
  DType dtype = DType::undefined;
  Device device;
  TensorOptions options() const { return TensorOptions(dtype).device(device); }
  int64_t dim() const { return static_cast<int64_t>(sizes.size()); }
};

/// What a formula reads and fills. Implemented by the autograd engine.
class TENON_API Gradients {
 public:
  virtual ~Gradients();
  /// Gradient with respect to output `i`; zeros when nothing flowed there.
  virtual Tensor grad(int i = 0) = 0;
  virtual bool has_grad(int i) const = 0;
  /// Saved output `i` (only if the registration says so).
  virtual Tensor result(int i = 0) = 0;
  /// Geometry of tensor argument `i` (element `j` of a list argument).
  virtual const TensorMeta& meta(int i, int j = -1) const = 0;
  virtual TensorMeta result_meta(int i = 0) const = 0;
  /// Whether argument `i` (element `j` of a list argument) wants a gradient.
  virtual bool needs(int i, int j = -1) const = 0;
  /// The gradient of argument `i`; undefined means zero.
  virtual void put(int i, Tensor g, int j = -1) = 0;

  /// Computes and stores the gradient of argument `i` if it is needed.
  template <class F>
  void set(int i, F&& formula) {
    if (needs(i)) put(i, formula());
  }
};

struct Gradient {
  void (*formula)(const OpBase& op, Gradients& g, std::span<const Value> args);
  uint32_t saved_inputs;     ///< bit i: argument i is kept for backward
  uint32_t cross_inputs;     ///< bit i: argument i is kept if another one of these needs a gradient
  uint32_t geometry_inputs;  ///< bit i: argument i is kept as a meta tensor
  uint32_t saved_outputs;
  bool non_differentiable;
  const char* file;
  int line;
};

struct SaveMask {
  uint64_t bits;
};
template <class... I>
constexpr SaveMask inputs(I... i) {
  return {(uint64_t{0} | ... | (uint64_t{1} << i))};
}
/// Inputs that only the gradients of one another read, as the factors of a product: kept only if another of them needs
/// a gradient.
template <class... I>
constexpr SaveMask crosswise(I... i) {
  return {(uint64_t{0} | ... | (uint64_t{1} << (32 + i)))};
}
/// Inputs of which the formula reads sizes, strides and offset only: kept as meta tensors, without their data.
template <class... I>
constexpr SaveMask geometry(I... i) {
  return {(uint64_t{0} | ... | (uint64_t{1} << (48 + i)))};
}
template <class... I>
constexpr SaveMask outputs(I... i) {
  return {(uint64_t{0} | ... | (uint64_t{1} << (16 + i)))};
}
constexpr SaveMask result() { return outputs(0); }
constexpr SaveMask nothing() { return {0}; }
constexpr SaveMask operator|(SaveMask a, SaveMask b) { return {a.bits | b.bits}; }

/// Installs a gradient for the life of its library. A second, different one makes backward throw
/// RegistrationError.
class TENON_API GradientRegistrar {
 public:
  GradientRegistrar(const OpBase& op, const Gradient& gradient);
  ~GradientRegistrar();
  GradientRegistrar(const GradientRegistrar&) = delete;

 private:
  const OpBase& op_;
  const Gradient& gradient_;
};

namespace detail {
template <class Op>
struct FormulaCaller;
template <class R, class... Args, class K>
struct FormulaCaller<Op<R(Args...), K>> {
  template <class F, std::size_t... I>
  static void unpack(F& f, Gradients& g, [[maybe_unused]] std::span<const Value> args, std::index_sequence<I...>) {
    std::tuple<Unboxed<Args>...> holders(args[I]...);
    f(g, std::get<I>(holders).get()...);
  }
  /// F is a captureless lambda.
  template <class F>
  static void call(const OpBase&, Gradients& g, std::span<const Value> args) {
    F f{};
    unpack(f, g, args, std::index_sequence_for<Args...>{});
  }
};
}  // namespace detail

template <class Op, class F>
constexpr Gradient make_gradient(const Op&, SaveMask saved, F, const char* file, int line) {
  const auto part = [&](int shift) { return static_cast<uint32_t>(saved.bits >> shift & 0xffffu); };
  return {&detail::FormulaCaller<Op>::template call<F>, part(0), part(32), part(48), part(16), false, file, line};
}

}  // namespace tenon::dispatch

/// saved: inputs(0, 1) | crosswise(0, 1) | result() | outputs(1) | nothing(), names found in tenon::dispatch.
#define TENON_REGISTER_GRADIENT(handle, saved, ...) TENON_REGISTER_GRADIENT_(handle, saved, __COUNTER__, __VA_ARGS__)
#define TENON_REGISTER_GRADIENT_(handle, saved, id, ...) TENON_REGISTER_GRADIENT_NAMED_(handle, saved, id, __VA_ARGS__)
#define TENON_REGISTER_GRADIENT_NAMED_(handle, saved, id, ...)                               \
  static const ::tenon::dispatch::Gradient tenon_gradient_##id = [] {                        \
    using namespace ::tenon::dispatch; /* NOLINT */                                          \
    return ::tenon::dispatch::make_gradient(handle, saved, __VA_ARGS__, __FILE__, __LINE__); \
  }();                                                                                       \
  static const ::tenon::dispatch::GradientRegistrar tenon_gradient_registrar_##id(handle, tenon_gradient_##id)
#define TENON_NON_DIFFERENTIABLE(handle) TENON_NON_DIFFERENTIABLE_(handle, __COUNTER__)
#define TENON_NON_DIFFERENTIABLE_(handle, id) TENON_NON_DIFFERENTIABLE_NAMED_(handle, id)
#define TENON_NON_DIFFERENTIABLE_NAMED_(handle, id)                                                            \
  static const ::tenon::dispatch::Gradient tenon_gradient_##id{nullptr, 0, 0, 0, 0, true, __FILE__, __LINE__}; \
  static const ::tenon::dispatch::GradientRegistrar tenon_gradient_registrar_##id(handle, tenon_gradient_##id)
