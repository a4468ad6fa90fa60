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
  Value(T v) : Value(Scalar(v)) {}     // NOLINT
  Value(const Operand& o) : Value() {  // NOLINT
    o.is_tensor() ? set(o.tensor()) : set(o.number());
  }
  Value(IntArrayRef list) : kind_(Kind::int_list) { set_ints(list); }    // NOLINT
  Value(const std::vector<int64_t>& list) : Value(IntArrayRef(list)) {}  // NOLINT
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
  /// The same as Value(argument), but what the argument refers to is not kept: for the time of a call. Copies keep it.
  template <class T>
  static Value borrow(const T& argument) {
    return Value(argument);
  }
  static Value borrow(const Tensor& t) { return Value(t.impl()); }
  static Value borrow(const Operand& o) { return o.is_tensor() ? Value(o.tensor().impl()) : Value(o.number()); }
  static Value borrow(const Value& v) {
    Value copy;
    copy.kind_ = v.kind_, copy.borrowed_ = true, copy.count_ = v.count_;
    for (uint32_t i = 0; i < kInlineInts; ++i) copy.ints_[i] = v.ints_[i];
    return copy;
  }
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
  IntArrayRef ints() const { return {count_ > kInlineInts ? heap_ : ints_, count_}; }
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
  static constexpr uint32_t kInlineInts = 3;
  explicit Value(TensorImpl* borrowed) : kind_(Kind::tensor), borrowed_(true) {
    ::new (&tensor_) Tensor(Ref<TensorImpl>::adopt(borrowed));
  }
  void set(const Tensor& t) {
    ::new (&tensor_) Tensor(t);
    kind_ = Kind::tensor;
  }
  void set(const Scalar& s) {
    ::new (&number_) Scalar(s);
    kind_ = Kind::number;
  }
  TENON_API void set_ints(IntArrayRef list);
  // Tensors and numbers are what most arguments are; `this` is none.
  void copy(const Value& o) {
    if (o.kind_ == Kind::tensor)
      set(o.tensor_);
    else if (o.kind_ == Kind::number)
      set(o.number_);
    else if (o.kind_ != Kind::none)
      copy_other(o);
  }
  void take(Value& o) noexcept {
    if (o.borrowed_ || o.kind_ == Kind::number) {
      copy(o);
      o.clear();
    } else if (o.kind_ == Kind::tensor) {
      ::new (&tensor_) Tensor(static_cast<Tensor&&>(o.tensor_));
      kind_ = Kind::tensor;
      o.kind_ = Kind::none;  // an empty handle needs no destructor
    } else if (o.kind_ != Kind::none) {
      take_other(o);
    }
  }
  void clear() noexcept {
    if (!borrowed_) {
      if (kind_ == Kind::tensor)
        tensor_.~Tensor();
      else if (kind_ == Kind::tensor_list || kind_ == Kind::int_list || kind_ == Kind::string)
        clear_other();
    }
    borrowed_ = false;
    kind_ = Kind::none;
  }
  TENON_API void copy_other(const Value& o);
  TENON_API void take_other(Value& o) noexcept;
  TENON_API void clear_other() noexcept;

  Kind kind_;
  bool borrowed_ = false;
  uint32_t count_ = 0;  // of ints
  union {
    char none_;
    Tensor tensor_;
    std::vector<Tensor>* tensors_;
    Scalar number_;
    int64_t ints_[kInlineInts];  // as large as the largest member
    int64_t* heap_;
    std::string* string_;
    DType dtype_;
    Device device_;
    MemoryFormat format_;
  };
};
static_assert(sizeof(Value) == 32);

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
