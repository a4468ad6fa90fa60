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

#include <tenon/dispatch/thread_state.h>
#include <tenon/dispatch/value.h>
#include <tenon/streams/op_context.h>
#include <tenon/streams/stream.h>

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
  kNonDeterministic = 1,   ///< results may differ between runs
  kNotCapturable = 2,      ///< may not run while a graph is captured
  kNoInplace = 4,          ///< has no `_` form
  kNonDifferentiable = 8   ///< outputs never require grad
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
struct alignas(N) Width { unsigned char bytes[N]; };
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
  constexpr OpBase(const Schema& schema, Kind kind, uint32_t flags, Boxed boxed, AnyFunction implementation)
      : schema_(schema), kind_(kind), flags_(flags), boxed_(boxed), implementation_(implementation) {}
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
    if (!entry || !entry->function) [[unlikely]] missing_kernel(backend, key);
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

/// Per-call state an implementation works with (dispatch/call.h).
class TENON_API Call {
 public:
  Call(const OpBase& operation, Form call_form, std::span<const Tensor> outs)
      : op(operation), form(call_form), destinations(outs), context_(operation.schema().text.data()) {}
  ~Call() {
    if (previous_device_ >= 0) [[unlikely]] leave();
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  /// Result `i` to be written by the kernel. In the out= and in-place forms it is the given tensor where that
  /// can be written directly, else a new one that is copied there afterwards. `inputs` lists the tensors the
  /// kernel reads. ShapeError when an in-place result would change shape.
  Tensor output(int i, IntArrayRef sizes, DType dtype, Device device, std::initializer_list<const Tensor*> inputs = {},
                IntArrayRef strides = {});
  /// The one device of `tensors` (undefined ones are skipped); DeviceError naming arguments and devices otherwise.
  Device device_of(std::initializer_list<const Tensor*> tensors) const;
  /// Makes `device` current until the call ends, so that kernels are queued there. output() does it too.
  void enter(Device device) {
    if (device.type() == kCUDA && device.index() != current_device(kCUDA)) [[unlikely]] change_device(device);
  }
  /// For messages: "max.dim".
  std::string_view name() const { return op.name(); }

  const OpBase& op;
  const Form form;
  const std::span<const Tensor> destinations;

 private:
  void change_device(Device device);
  void leave() noexcept;
  OpContext context_;
  int previous_device_ = -1;
};

namespace detail {
inline bool requires_grad(const Tensor& t) { return t.defined() && t.impl()->requires_grad(); }
inline bool requires_grad(const Operand& o) { return o.requires_grad(); }
inline bool requires_grad(TensorList list) {
  for (const Tensor& t : list)
    if (requires_grad(t)) return true;
  return false;
}
template <class T>
constexpr bool requires_grad(const T&) { return false; }

template <class R>
struct ResultOf;  // conversions between an operator's C++ result and Results
template <>
struct ResultOf<Tensor> {
  static Tensor take(Results& r) { return static_cast<Tensor&&>(r.items[0].tensor()); }
  static void put(Results& r, Tensor&& t) { r.items[0] = Value(static_cast<Tensor&&>(t)); r.count = 1; }
  static void finish(const Call& c, Tensor& t) {
    t = finish_destination(c.op, c.form, c.destinations[0], static_cast<Tensor&&>(t));
  }
};
template <class... Ts>
struct ResultOf<std::tuple<Ts...>> {
  using R = std::tuple<Ts...>;
  template <class F, std::size_t... I>
  static void each(std::index_sequence<I...>, F&& f) { (f(std::integral_constant<std::size_t, I>{}), ...); }
  static R take(Results& r) {
    R result;
    each(std::index_sequence_for<Ts...>{}, [&](auto i) { std::get<i>(result) = static_cast<Tensor&&>(r.items[i].tensor()); });
    return result;
  }
  static void put(Results& r, R&& v) {
    each(std::index_sequence_for<Ts...>{}, [&](auto i) { r.items[i] = Value(static_cast<Tensor&&>(std::get<i>(v))); });
    r.count = sizeof...(Ts);
  }
  static void finish(const Call& c, R& v) {
    each(std::index_sequence_for<Ts...>{}, [&](auto i) {
      if (i < c.destinations.size())
        std::get<i>(v) = finish_destination(c.op, c.form, c.destinations[i], static_cast<Tensor&&>(std::get<i>(v)));
    });
  }
};
template <>
struct ResultOf<std::vector<Tensor>> {
  using R = std::vector<Tensor>;
  static R take(Results& r) { return static_cast<R&&>(r.items[0].tensors()); }
  static void put(Results& r, R&& v) { r.items[0] = Value(static_cast<R&&>(v)); r.count = 1; }
  static void finish(const Call& c, R& v) {
    for (std::size_t i = 0; i < v.size() && i < c.destinations.size(); ++i)
      v[i] = finish_destination(c.op, c.form, c.destinations[i], static_cast<Tensor&&>(v[i]));
  }
};
template <>
struct ResultOf<Scalar> {
  static Scalar take(Results& r) { return r.items[0].number(); }
  static void put(Results& r, Scalar s) { r.items[0] = Value(s); r.count = 1; }
  static void finish(const Call&, Scalar&) {}
};
template <>
struct ResultOf<bool> {
  static bool take(Results& r) { return r.items[0].number().to<bool>(); }
  static void put(Results& r, bool b) { r.items[0] = Value(b); r.count = 1; }
  static void finish(const Call&, bool&) {}
};
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

  consteval Op(std::string_view schema, Kind kind, uint32_t flags, Implementation* implementation)
      : OpBase(checked_schema<Args...>(schema), kind, flags, &run, nullptr), call_(implementation) {}

  R operator()(Args... args) const {
    if (layers(args...)) [[unlikely]] return layered(Form::functional, {}, args...);
    Call call(*this, Form::functional, {});
    return call_(call, args...);
  }
  /// Writes the result into `self`, which is also the first argument; its version grows. Returns self.
  R inplace(const Tensor& self, Args... args) const { return into(Form::inplace, {&self, 1}, args...); }
  /// Writes the results into the given tensors; empty ones are resized.
  R out(const Tensor& result, Args... args) const { return into(Form::out, {&result, 1}, args...); }
  R out(std::span<const Tensor> results, Args... args) const { return into(Form::out, results, args...); }

  K* kernel(Backend backend, Key key) const { return reinterpret_cast<K*>(OpBase::kernel(backend, key)); }

 private:
  static uint32_t layers(const Args&... args) {
    return thread_state.always | ((false | ... | detail::requires_grad(args)) ? thread_state.differentiable : 0u);
  }
  R into(Form form, std::span<const Tensor> destinations, Args... args) const {
    uint32_t mask = layers(args...);
    for (const Tensor& t : destinations) mask |= detail::requires_grad(t) ? thread_state.differentiable : 0u;
    if (mask) [[unlikely]] return layered(form, destinations, args...);
    return run_into(form, destinations, args...);
  }
  R run_into(Form form, std::span<const Tensor> destinations, Args... args) const {
    Call call(*this, form, destinations);
    R result = call_(call, args...);
    if (!destinations.empty()) detail::ResultOf<R>::finish(call, result);
    return result;
  }
  [[gnu::noinline]] R layered(Form form, std::span<const Tensor> destinations, Args... args) const {
    Value boxed[sizeof...(Args) + 1] = {Value(args)..., Value()};
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
