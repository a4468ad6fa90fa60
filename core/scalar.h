// SPDX-License-Identifier: Apache-2.0
// Scalar: a number with its kind (bool, integer, floating, complex), as an operator's argument.
#pragma once

#include <tenon/core/dtype.h>

#include <type_traits>

namespace tenon {

class TENON_API Scalar {
 public:
  constexpr Scalar() : i_(0), dtype_(kInt64) {}
  template <class T, class = std::enable_if_t<std::is_arithmetic_v<T>>>
  constexpr Scalar(T v) : i_(0) {  // NOLINT(google-explicit-constructor)
    if constexpr (std::is_same_v<T, bool>) {
      i_ = v, dtype_ = kBool;
    } else if constexpr (std::is_integral_v<T>) {
      i_ = static_cast<int64_t>(v), dtype_ = kInt64;
    } else {
      re_ = static_cast<double>(v), dtype_ = kFloat64;
    }
  }
  Scalar(float16 v) : re_(float(v)), dtype_(kFloat64) {}        // NOLINT
  Scalar(bfloat16 v) : re_(float(v)), dtype_(kFloat64) {}       // NOLINT
  Scalar(float8_e4m3fn v) : re_(float(v)), dtype_(kFloat64) {}  // NOLINT
  Scalar(float8_e5m2 v) : re_(float(v)), dtype_(kFloat64) {}    // NOLINT
  template <class T>
  constexpr Scalar(complex<T> v) : re_(v.re), im_(v.im), dtype_(kComplex128) {}  // NOLINT

  /// kBool, kInt64, kFloat64 or kComplex128.
  constexpr DType dtype() const { return dtype_; }
  constexpr bool is_bool() const { return dtype_ == kBool; }
  constexpr bool is_integral() const { return dtype_ == kInt64; }
  constexpr bool is_floating_point() const { return dtype_ == kFloat64; }
  constexpr bool is_complex() const { return dtype_ == kComplex128; }

  /// Converts as a C++ cast would; the imaginary part is dropped for real T, any nonzero is true.
  /// Values a target type cannot hold follow PyTorch: floats become infinite, integers wrap.
  template <class T>
  constexpr T to() const {
    if constexpr (is_complex_v<T>) {
      using V = typename T::value_type;
      return T(static_cast<V>(real()), static_cast<V>(im_part()));
    } else if constexpr (std::is_same_v<T, bool>) {
      return is_float_like() ? (re_ != 0 || im_part() != 0) : i_ != 0;
    } else if constexpr (std::is_integral_v<T>) {
      return is_float_like() ? static_cast<T>(static_cast<int64_t>(re_)) : static_cast<T>(i_);
    } else if constexpr (std::is_same_v<T, double> || std::is_same_v<T, float>) {
      return is_float_like() ? static_cast<T>(re_) : static_cast<T>(i_);
    } else {
      return T(is_float_like() ? static_cast<float>(re_) : static_cast<float>(i_));
    }
  }
  double real() const { return is_float_like() ? re_ : static_cast<double>(i_); }
  double imag() const { return im_part(); }
  int64_t integer() const { return to<int64_t>(); }
  bool equal(double v) const { return real() == v && im_part() == 0; }
  Scalar operator-() const {
    return is_complex() ? Scalar(complex<double>(-re_, -im_)) : is_float_like() ? Scalar(-re_) : Scalar(-i_);
  }
  /// Writes the value converted to `t` at `destination` (item_size(t) bytes).
  void store(DType t, void* destination) const;

 private:
  constexpr bool is_float_like() const { return dtype_ == kFloat64 || dtype_ == kComplex128; }
  constexpr double im_part() const { return dtype_ == kComplex128 ? im_ : 0.0; }
  union {
    int64_t i_;
    double re_;
  };
  double im_ = 0;
  DType dtype_ = kInt64;
};

TENON_API Message& operator<<(Message& m, const Scalar& s);

}  // namespace tenon
