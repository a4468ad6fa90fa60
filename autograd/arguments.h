// SPDX-License-Identifier: Apache-2.0
// What Function and checkpoint do with the arguments and results of functions they know nothing of: find the tensors in
// them, in order, and keep copies that own what they refer to. Tensors are found in optionals, vectors, arrays, spans,
// pairs and tuples, nested in any way. Internal.
#pragma once

#include <tenon/core/tensor.h>

namespace tenon::autograd::internal {

template <class T>
inline constexpr bool kIsTensor = std::is_same_v<Tensor, T>;

// Whether tensors are found in a T (Parts), or T is a template over tensors of another kind (a map, a reference_wrapper).
template <class T>
struct Parts {
  static constexpr bool kTensors = kIsTensor<T>, kOther = false;
};
template <class T>
inline constexpr bool kTensorsIn = Parts<std::remove_cv_t<T>>::kTensors;
template <template <class...> class C, class... A>
struct Parts<C<A...>> {
  static constexpr bool kTensors = false, kOther = (kTensorsIn<A> || ...);
};
template <class... A>
struct PartsOf {
  static constexpr bool kTensors = (kTensorsIn<A> || ...), kOther = (Parts<std::remove_cv_t<A>>::kOther || ...);
};
template <class T>
struct Parts<std::optional<T>> : PartsOf<T> {};
template <class T>
struct Parts<std::vector<T>> : PartsOf<T> {};
template <class T, std::size_t N>
struct Parts<std::array<T, N>> : PartsOf<T> {};
template <class T, std::size_t N>
struct Parts<std::span<T, N>> : PartsOf<T> {};
template <class A, class B>
struct Parts<std::pair<A, B>> : PartsOf<A, B> {};
template <class... A>
struct Parts<std::tuple<A...>> : PartsOf<A...> {};

template <class T>
inline constexpr bool kIsOptional = false;
template <class T>
inline constexpr bool kIsOptional<std::optional<T>> = true;

/// Calls f with a pointer to every tensor in `value`, null for an optional one that is absent.
template <class T, class F>
void each_tensor(T& value, F&& f) {
  using Plain = std::remove_cv_t<T>;
  static_assert(!Parts<Plain>::kOther,
                "tenon: tensors in an argument of this type would be overlooked; pass a Tensor, a "
                "std::optional, or a vector, array, span, pair or tuple of them");
  static_assert(!std::is_same_v<Plain, Operand>,
                "tenon: an Operand only borrows its tensor; pass the Tensor or number");
  if constexpr (std::is_base_of_v<Tensor, Plain>) {
    f(&value);
  } else if constexpr (std::is_same_v<Plain, std::nullopt_t>) {
    f(static_cast<Tensor*>(nullptr));
  } else if constexpr (kTensorsIn<Plain>) {
    if constexpr (kIsOptional<Plain>) {
      if (value)
        each_tensor(*value, f);
      else if constexpr (kIsTensor<typename Plain::value_type>)
        f(static_cast<Tensor*>(nullptr));
    } else if constexpr (requires { value.begin(); }) {
      for (auto& each : value) each_tensor(each, f);
    } else {
      std::apply([&](auto&... each) { (each_tensor(each, f), ...); }, value);
    }
  }
}

/// Appends the tensors in `value`; undefined ones keep their place.
template <class T>
void collect(std::vector<Tensor>& list, const T& value) {
  each_tensor(value, [&](const Tensor* t) { list.push_back(t ? *t : Tensor()); });
}

// Owned<T>: a copy of an argument that owns what the argument only refers to; given() is the argument again.
template <class T>
struct Owned {
  T value;
  explicit Owned(const T& v) : value(v) {}
  const T& given() const { return value; }
};
template <>
struct Owned<IntArrayRef> {
  std::vector<int64_t> value;
  explicit Owned(const IntArrayRef& v) : value(v.begin(), v.end()) {}
  IntArrayRef given() const { return value; }
};
template <>
struct Owned<std::string_view> {
  std::string value;
  explicit Owned(std::string_view v) : value(v) {}
  std::string_view given() const { return value; }
};
template <>
struct Owned<const char*> {
  std::optional<std::string> value;
  explicit Owned(const char* v) {
    if (v) value = v;
  }
  const char* given() const { return value ? value->c_str() : nullptr; }
};
template <>
struct Owned<char*> : Owned<const char*> {
  using Owned<const char*>::Owned;
};
template <class T, std::size_t N>
struct Owned<std::span<T, N>> {
  // Not a vector<T>, which of bool has no elements to point at.
  mutable std::vector<std::array<std::remove_cv_t<T>, 1>> value;
  explicit Owned(std::span<T, N> v) {
    for (const auto& each : v) value.push_back({each});
  }
  std::span<T, N> given() const {
    return std::span<T, N>(value.empty() ? nullptr : value.front().data(), value.size());
  }
};
template <class T>
struct Owned<std::optional<T>> {
  std::optional<Owned<T>> value;
  explicit Owned(const std::optional<T>& v) {
    if (v) value.emplace(*v);
  }
  std::optional<T> given() const { return value ? std::optional<T>(value->given()) : std::nullopt; }
};
template <class T>
struct Parts<Owned<T>> : Parts<std::remove_cv_t<T>> {};
template <class T, class F>
void each_tensor(Owned<T>& owned, F&& f) {
  if constexpr (kIsOptional<T> && kTensorsIn<T>) {
    if (owned.value)
      each_tensor(*owned.value, f);
    else if constexpr (kIsTensor<typename T::value_type>)
      f(static_cast<Tensor*>(nullptr));
  } else if constexpr (kTensorsIn<T>) {
    each_tensor(owned.value, f);
  }
}

}  // namespace tenon::autograd::internal
