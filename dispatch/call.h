// SPDX-License-Identifier: Apache-2.0
// Call: what one run of an implementation knows (which operator, which form, where results go), and how the C++ result
// of an operator travels boxed.
#pragma once

#include <tenon/dispatch/op_base.h>
#include <tenon/streams/op_context.h>
#include <tenon/streams/stream.h>

namespace tenon::dispatch {

/// Per-call state an implementation works with (dispatch/call.h).
class TENON_API Call {
 public:
  Call(const OpBase& operation, Form call_form, std::span<const Tensor> outs)
      : op(operation), form(call_form), destinations(outs), context_(operation.schema().text.data()) {}
  ~Call() {
    if (!previous_device_.is_cpu()) [[unlikely]]
      leave();
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
    if ((device.is_cuda() || device.is_sim()) && device.index() != current_device(device.type())) [[unlikely]]
      change_device(device);
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
  Device previous_device_;  // the CPU: unchanged
};

namespace detail {
template <class R>
struct ResultOf;  // conversions between an operator's C++ result and Results
template <>
struct ResultOf<Tensor> {
  static Tensor take(Results& r) { return static_cast<Tensor&&>(r.items[0].tensor()); }
  static void put(Results& r, Tensor&& t) {
    r.items[0] = Value(static_cast<Tensor&&>(t));
    r.count = 1;
  }
  static void finish(const Call& c, Tensor& t) {
    t = finish_destination(c.op, c.form, c.destinations[0], static_cast<Tensor&&>(t));
  }
};
template <class... Ts>
struct ResultOf<std::tuple<Ts...>> {
  using R = std::tuple<Ts...>;
  template <class F, std::size_t... I>
  static void each(std::index_sequence<I...>, F&& f) {
    (f(std::integral_constant<std::size_t, I>{}), ...);
  }
  static R take(Results& r) {
    R result;
    each(std::index_sequence_for<Ts...>{},
         [&](auto i) { std::get<i>(result) = static_cast<Tensor&&>(r.items[i].tensor()); });
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
  static void put(Results& r, R&& v) {
    r.items[0] = Value(static_cast<R&&>(v));
    r.count = 1;
  }
  static void finish(const Call& c, R& v) {
    for (std::size_t i = 0; i < v.size() && i < c.destinations.size(); ++i)
      v[i] = finish_destination(c.op, c.form, c.destinations[i], static_cast<Tensor&&>(v[i]));
  }
};
template <>
struct ResultOf<Scalar> {
  static Scalar take(Results& r) { return r.items[0].number(); }
  static void put(Results& r, Scalar s) {
    r.items[0] = Value(s);
    r.count = 1;
  }
  static void finish(const Call&, Scalar&) {}
};
template <>
struct ResultOf<bool> {
  static bool take(Results& r) { return r.items[0].number().to<bool>(); }
  static void put(Results& r, bool b) {
    r.items[0] = Value(b);
    r.count = 1;
  }
  static void finish(const Call&, bool&) {}
};
}  // namespace detail

}  // namespace tenon::dispatch
