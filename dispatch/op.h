// SPDX-License-Identifier: Apache-2.0
// Op: one operator, one handle. The handle owns name and schema, the [backend][key] table of kernels and the
// slot of the gradient; there is no list of operators anywhere but the registry the handles link themselves into.
//
// Note [Life of a call]. `op::add(a, b, alpha)` tests one word: the thread's layers, or'ed with autograd when an
// argument requires grad. Zero, the usual case below training code, goes straight to the implementation: shape
// rule, outputs, kernel. Otherwise the arguments are boxed once and pass the layers in order: profiler, tracer,
// autocast, autograd, backend (dispatch/layers.cpp). Kernel, view and dynamic operators run below all layers, so
// what their implementation calls is not recorded again; composites call operators and autograd looks through.
// In-place and out= are forms of the same handle: `op::add.inplace(self, b, alpha)`, `op::add.out(result, ...)`.
//
// Thread safety: calling is safe from any thread; registering is safe against calls (cells are atomic).
#pragma once

#include <tenon/dispatch/call.h>
#include <tenon/dispatch/kernel_call.h>
#include <tenon/dispatch/thread_state.h>

namespace tenon::dispatch {

namespace detail {
inline bool requires_grad(const Tensor& t) { return t.defined() && t.impl()->requires_grad(); }
inline bool requires_grad(const Operand& o) { return o.requires_grad(); }
inline bool requires_grad(TensorList list) {
  for (const Tensor& t : list)
    if (requires_grad(t)) return true;
  return false;
}
template <class T>
constexpr bool requires_grad(const T&) {
  return false;
}
inline bool undefined(const Tensor& t) { return !t.defined(); }
inline bool undefined(const Operand& o) { return o.is_tensor() && !o.tensor().defined(); }
template <class T>
constexpr bool undefined(const T&) {
  return false;
}

}  // namespace detail

/// Signature: what callers see. Kernel: the function type of its cells (`void()` when it has none).
template <class Signature, class Kernel>
class Op;

template <class R, class... Args, class K>
class Op<R(Args...), K> : public OpBase {
 public:
  using Result = R;
  using Kernel = K;
  using Implementation = R(Call&, Args...);

  consteval Op(std::string_view schema, Kind kind, uint32_t flags, Implementation* call)
      : OpBase(checked_schema<Args...>(schema), kind, flags, &run, nullptr), call_(call) {}

  R operator()(Args... args) const {
    if ((false | ... | detail::undefined(args))) [[unlikely]]
      check_defined(args...);
    if (layers(args...)) [[unlikely]]
      return layered(Form::functional, {}, args...);
    Call call(*this, Form::functional, {});
    return call_(call, args...);
  }
  /// Writes the result into `self`, which is also the first argument; its version grows. Returns self.
  R inplace(const Tensor& self, Args... args) const { return into(Form::inplace, {&self, 1}, args...); }
  /// Writes the results into the given tensors; empty ones are resized.
  R out(const Tensor& result, Args... args) const { return into(Form::out, {&result, 1}, args...); }
  R out(std::span<const Tensor> results, Args... args) const { return into(Form::out, results, args...); }

  KernelCall<K> kernel(Backend backend, Key key) const { return {OpBase::kernel(backend, key), backend}; }

 private:
  static uint32_t layers(const Args&... args) {
    return thread_state.always | ((false | ... | detail::requires_grad(args)) ? thread_state.differentiable : 0u);
  }
  [[gnu::noinline]] void check_defined(const Args&... args) const {
    const bool undefined[] = {detail::undefined(args)..., false};
    refuse_undefined({undefined, sizeof...(Args)});
  }
  R into(Form form, std::span<const Tensor> destinations, Args... args) const {
    if (destinations.empty() || (false | ... | detail::undefined(args))) [[unlikely]] {
      if (destinations.empty()) refuse_no_destination();
      check_defined(args...);
    }
    uint32_t mask = layers(args...);
    for (const Tensor& t : destinations) mask |= detail::requires_grad(t) ? thread_state.differentiable : 0u;
    if (mask) [[unlikely]]
      return layered(form, destinations, args...);
    return run_into(form, destinations, args...);
  }
  R run_into(Form form, std::span<const Tensor> destinations, Args... args) const {
    Call call(*this, form, destinations);
    R result = call_(call, args...);
    if (!destinations.empty()) detail::ResultOf<R>::finish(call, result);
    return result;
  }
  [[gnu::noinline]] R layered(Form form, std::span<const Tensor> destinations, Args... args) const {
    Value boxed[sizeof...(Args) + 1] = {Value::borrow(args)..., Value()};
    Results results;
    run_layers(*this, form, {boxed, sizeof...(Args)}, destinations, results);
    return detail::ResultOf<R>::take(results);
  }
  static void run(const OpBase& base, Form form, std::span<const Value> args, std::span<const Tensor> destinations,
                  Results& results) {
    run_unpacked(base, form, args, destinations, results, std::index_sequence_for<Args...>{});
  }
  template <std::size_t... I>
  static void run_unpacked(const OpBase& base, Form form, [[maybe_unused]] std::span<const Value> args,
                           std::span<const Tensor> destinations, Results& results, std::index_sequence<I...>) {
    const auto& self = static_cast<const Op&>(base);
    std::tuple<Unboxed<Args>...> holders(args[I]...);
    detail::ResultOf<R>::put(results, self.run_into(form, destinations, std::get<I>(holders).get()...));
  }

  Implementation* call_;
};

}  // namespace tenon::dispatch
