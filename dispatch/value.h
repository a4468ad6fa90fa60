// SPDX-License-Identifier: Apache-2.0
// Value: one argument or result of a boxed call, a fixed tagged union. Layers, the tape, the conformance runner,
// tooling and plugins use it; kernels never do.
#pragma once

#include <tenon/dispatch/schema.h>

#include <string>

namespace tenon::dispatch {

class TENON_API Value {
 public:
  enum class Kind : uint8_t { none, tensor, tensor_list, number, int_list, string, dtype, device, memory_format };

  Value() : kind_(Kind::none), none_() {}
  Value(const Tensor& t) : kind_(Kind::tensor), tensor_(t) {}                    // NOLINT
  Value(Tensor&& t) : kind_(Kind::tensor), tensor_(static_cast<Tensor&&>(t)) {}  // NOLINT
  Value(std::vector<Tensor> list)
      : kind_(Kind::tensor_list),
        tensors_(new std::vector<Tensor>(static_cast<std::vector<Tensor>&&>(list))) {}  // NOLINT
  Value(TensorList list) : Value(std::vector<Tensor>(list.begin(), list.end())) {}      // NOLINT
  Value(const Scalar& s) : kind_(Kind::number), number_(s) {}                           // NOLINT
  template <class T, class = std::enable_if_t<std::is_arithmetic_v<T>>>
  Value(T v) : Value(Scalar(v)) {}  // NOLINT
  Value(const Operand& o) : Value() {
    if (o.is_tensor())
      *this = Value(o.tensor());
    else
      *this = Value(o.number());
  }  // NOLINT
  Value(std::vector<int64_t> list)
      : kind_(Kind::int_list), ints_(new std::vector<int64_t>(static_cast<std::vector<int64_t>&&>(list))) {}  // NOLINT
  Value(IntArrayRef list) : Value(list.vec()) {}                                                              // NOLINT
  Value(std::string text)
      : kind_(Kind::string), string_(new std::string(static_cast<std::string&&>(text))) {}  // NOLINT
  Value(std::string_view text) : Value(std::string(text)) {}                                // NOLINT
  Value(const char* text) : Value(std::string(text)) {}                                     // NOLINT
  Value(DType t) : kind_(Kind::dtype), dtype_(t) {}                                         // NOLINT
  Value(Device d) : kind_(Kind::device), device_(d) {}                                      // NOLINT
  Value(MemoryFormat f) : kind_(Kind::memory_format), format_(f) {}                         // NOLINT
  template <class T>
  Value(const std::optional<T>& o) : Value() {
    if (o) *this = Value(*o);
  }  // NOLINT
  Value(const Value& o) : Value() { copy(o); }
  Value(Value&& o) noexcept : Value() { take(o); }
  Value& operator=(const Value& o) {
    if (this != &o) {
      clear();
      copy(o);
    }
    return *this;
  }
  Value& operator=(Value&& o) noexcept {
    if (this != &o) {
      clear();
      take(o);
    }
    return *this;
  }
  ~Value() { clear(); }

  Kind kind() const { return kind_; }
  bool is_none() const { return kind_ == Kind::none; }
  bool is_tensor() const { return kind_ == Kind::tensor; }
  bool is_number() const { return kind_ == Kind::number; }
  // Unchecked: the kind must match (coerce() sees to it).
  const Tensor& tensor() const { return tensor_; }
  Tensor& tensor() { return tensor_; }
  const std::vector<Tensor>& tensors() const { return *tensors_; }
  std::vector<Tensor>& tensors() { return *tensors_; }
  const Scalar& number() const { return number_; }
  const std::vector<int64_t>& ints() const { return *ints_; }
  const std::string& string() const { return *string_; }
  DType dtype() const { return dtype_; }
  Device device() const { return device_; }
  MemoryFormat memory_format() const { return format_; }

  /// Turns the value into exactly what an argument of `type` needs (an integer into a list of one, none into an
  /// undefined tensor, and if `read_tensors` a 0-dim tensor into its number); false when it cannot be that.
  bool coerce(ArgType type, bool read_tensors = true);
  /// "Tensor", "int", "list of int", ... for messages.
  const char* kind_name() const;

 private:
  void copy(const Value& o);
  void take(Value& o) noexcept;
  void clear() noexcept;

  Kind kind_;
  union {
    char none_;
    Tensor tensor_;
    std::vector<Tensor>* tensors_;
    Scalar number_;
    std::vector<int64_t>* ints_;
    std::string* string_;
    DType dtype_;
    Device device_;
    MemoryFormat format_;
  };
};

/// The value as an operator's argument of type T; the kind must already fit.
template <class T>
T unbox(const Value& v);
template <>
inline const Tensor& unbox<const Tensor&>(const Value& v) {
  return v.tensor();
}
template <>
inline TensorList unbox<TensorList>(const Value& v) {
  return v.tensors();
}
template <>
inline const Scalar& unbox<const Scalar&>(const Value& v) {
  return v.number();
}
template <>
inline int64_t unbox<int64_t>(const Value& v) {
  return v.number().integer();
}
template <>
inline double unbox<double>(const Value& v) {
  return v.number().real();
}
template <>
inline bool unbox<bool>(const Value& v) {
  return v.number().to<bool>();
}
template <>
inline IntArrayRef unbox<IntArrayRef>(const Value& v) {
  return v.ints();
}
template <>
inline std::string_view unbox<std::string_view>(const Value& v) {
  return v.string();
}
template <>
inline DType unbox<DType>(const Value& v) {
  return v.dtype();
}
template <>
inline Device unbox<Device>(const Value& v) {
  return v.device();
}
template <>
inline MemoryFormat unbox<MemoryFormat>(const Value& v) {
  return v.memory_format();
}

/// Holds what an argument refers to while the call runs: Operand and optional<Scalar> are passed by reference.
template <class T>
struct Unboxed {
  explicit Unboxed(const Value& v) : value(v) {}
  T get() const { return unbox<T>(value); }
  const Value& value;
};
template <class T>
struct Unboxed<std::optional<T>> {
  explicit Unboxed(const Value& v) : value(v) {}
  std::optional<T> get() const { return value.is_none() ? std::optional<T>() : std::optional<T>(unbox<T>(value)); }
  const Value& value;
};
template <>
struct Unboxed<const std::optional<Scalar>&> {
  explicit Unboxed(const Value& v) {
    if (!v.is_none()) value = v.number();
  }
  const std::optional<Scalar>& get() const { return value; }
  std::optional<Scalar> value;
};
template <>
struct Unboxed<const Operand&> {
  explicit Unboxed(const Value& v) : value(v.is_tensor() ? Operand(v.tensor()) : Operand(v.number())) {}
  const Operand& get() const { return value; }
  Operand value;
};

/// Results of a boxed call.
struct Results {
  static constexpr int kMax = 6;
  Value items[kMax];
  int count = 0;
};

}  // namespace tenon::dispatch
