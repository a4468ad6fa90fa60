// SPDX-License-Identifier: Apache-2.0
// KernelCall: what Op::kernel() gives, a cell ready to be called. For every device but one it is the function itself and
// one test. The simulated device runs CPU cells, but later: there the call keeps copies of its arguments and queues them
// on the current stream. Tensors are kept as addresses and geometry only, as CPU tensors that do not own their memory:
// a real device does not keep memory alive either, and reusing it too early is what the simulated one is there to show.
#pragma once

#include <tenon/core/intrusive.h>
#include <tenon/dispatch/op_base.h>

#include <exception>
#include <tuple>
#include <utility>

namespace tenon::dispatch {

/// The memory of `t` as a CPU tensor that does not own it; undefined stays undefined.
TENON_API Tensor host_alias(const Tensor& t);
/// Hands `kernel` to the current stream of the current simulated device; `wait` until it has run.
TENON_API void queue_kernel(Function<void()> kernel, bool wait);

/// An argument as it is kept until the kernel runs.
template <class T>
struct Kept {
  T value;
  explicit Kept(const T& v) : value(v) {}
  T& get() { return value; }
};
template <>
struct Kept<Tensor> {
  Tensor alias;
  explicit Kept(const Tensor& t) : alias(host_alias(t)) {}
  const Tensor& get() { return alias; }
};
template <class T>
struct Kept<std::span<T>> {
  std::vector<Kept<std::remove_const_t<T>>> kept;
  std::vector<std::remove_const_t<T>> items;
  explicit Kept(std::span<T> list) : kept(list.begin(), list.end()) {}
  std::span<T> get() {
    items.clear();
    for (auto& k : kept) items.push_back(k.get());
    return items;
  }
};
template <>
struct Kept<IntArrayRef> {
  std::vector<int64_t> items;
  explicit Kept(IntArrayRef list) : items(list.vec()) {}
  IntArrayRef get() { return items; }
};
template <>
struct Kept<std::string_view> {
  std::string text;
  explicit Kept(std::string_view t) : text(t) {}
  std::string_view get() { return text; }
};
template <class T>
struct Kept<std::optional<T>> {
  std::optional<Kept<T>> kept;
  std::optional<T> item;
  explicit Kept(const std::optional<T>& o) {
    if (o) kept.emplace(*o);
  }
  std::optional<T>& get() {
    if (kept) item.emplace(kept->get());
    return item;
  }
};

/// Where a queued kernel leaves what it returns. Both the caller and the kernel own it: a caller whose wait fails is
/// gone when the kernel runs.
template <class R>
struct Returned : Counted {
  std::optional<R> value;
  std::exception_ptr error;
  static void destroy(Returned* r) noexcept { delete r; }

  template <class F>
  void fill(F&& f) {
    try {
      value.emplace(f());
    } catch (...) {
      if (use_count() == 1) throw;  // nobody waits: an error of the device
      error = std::current_exception();
    }
  }
  R take() {
    if (error) std::rethrow_exception(error);
    TENON_CHECK(value, CudaError, "sim: the kernel did not run");
    return std::move(*value);
  }
};

template <class K>
class KernelCall;
template <class R, class... Args>
class KernelCall<R(Args...)> {
 public:
  KernelCall(AnyFunction cell, Backend backend)
      : function_(reinterpret_cast<R (*)(Args...)>(cell)), queued_(backend == Backend::sim) {}

  R operator()(Args... args) const {
    if (queued_) [[unlikely]]
      return queue(args...);
    return function_(static_cast<Args>(args)...);
  }
  /// The cell itself, for code that runs inside a kernel.
  R (*function() const)(Args...) { return function_; }

 private:
  [[gnu::noinline, gnu::cold]] R queue(const std::remove_reference_t<Args>&... args) const {
    std::tuple<Kept<std::remove_cvref_t<Args>>...> kept{Kept<std::remove_cvref_t<Args>>(args)...};
    if constexpr (std::is_void_v<R>) {
      queue_kernel([function = function_,
                    kept = std::move(kept)]() mutable { std::apply([&](auto&... k) { function(k.get()...); }, kept); },
                   false);
    } else {  // the caller needs what it returns
      const auto returned = Ref<Returned<R>>::adopt(new Returned<R>);
      queue_kernel(
          [function = function_, kept = std::move(kept), returned]() mutable {
            returned->fill([&] { return std::apply([&](auto&... k) { return function(k.get()...); }, kept); });
          },
          true);
      return returned->take();
    }
  }

  R (*function_)(Args...);
  bool queued_;
};

}  // namespace tenon::dispatch
