// SPDX-License-Identifier: Apache-2.0
// Element types: the enumeration, its relation to C++ types, type lists for registration, promotion.
#pragma once

#include <tenon/core/complex.h>
#include <tenon/core/error.h>
#include <tenon/core/half.h>

#include <cstdint>
#include <type_traits>

namespace tenon {

enum class DType : uint8_t {
  uint8,
  int8,
  int16,
  int32,
  int64,
  float16,
  float32,
  float64,
  complex64,
  complex128,
  bool_,
  bfloat16,
  float8_e4m3fn,
  float8_e5m2,
  undefined
};
inline constexpr int kDTypes = 14;
inline constexpr DType kUInt8 = DType::uint8, kByte = DType::uint8, kInt8 = DType::int8, kChar = DType::int8,
                       kInt16 = DType::int16, kShort = DType::int16, kInt32 = DType::int32, kInt = DType::int32,
                       kInt64 = DType::int64, kLong = DType::int64, kFloat16 = DType::float16, kHalf = DType::float16,
                       kFloat32 = DType::float32, kFloat = DType::float32, kFloat64 = DType::float64,
                       kDouble = DType::float64, kComplex64 = DType::complex64, kComplex128 = DType::complex128,
                       kBool = DType::bool_, kBFloat16 = DType::bfloat16, kFloat8_e4m3fn = DType::float8_e4m3fn,
                       kFloat8_e5m2 = DType::float8_e5m2;

template <class T>
struct TypeTag {
  using type = T;
};

/// A list of element types; registration macros and tests iterate over it with `for_each`.
template <class... Ts>
struct Types {
  static constexpr int size = sizeof...(Ts);
  template <class F>
  static constexpr void for_each(F&& f) {
    (f(TypeTag<Ts>{}), ...);
  }
};
template <class... Lists>
struct JoinTypes;
template <class... As>
struct JoinTypes<Types<As...>> {
  using type = Types<As...>;
};
template <class... As, class... Bs, class... Rest>
struct JoinTypes<Types<As...>, Types<Bs...>, Rest...> {
  using type = typename JoinTypes<Types<As..., Bs...>, Rest...>::type;
};
template <class... Lists>
using Join = typename JoinTypes<Lists...>::type;

using Integers = Types<uint8_t, int8_t, int16_t, int32_t, int64_t>;  ///< without bool
using Floats = Types<float, double>;
using Halves = Types<float16, bfloat16>;
using Float8s = Types<float8_e4m3fn, float8_e5m2>;
using Complexes = Types<complex<float>, complex<double>>;
using Bools = Types<bool>;
using FloatsAndHalves = Join<Floats, Halves>;
using Numbers = Join<Integers, Floats, Halves>;                     ///< real numbers, no bool
using AllTypes = Join<Integers, Floats, Halves, Complexes, Bools>;  ///< everything but float8

namespace detail {
template <class T>
inline constexpr DType dtype_v = DType::undefined;
template <>
inline constexpr DType dtype_v<uint8_t> = kUInt8;
template <>
inline constexpr DType dtype_v<int8_t> = kInt8;
template <>
inline constexpr DType dtype_v<int16_t> = kInt16;
template <>
inline constexpr DType dtype_v<int32_t> = kInt32;
template <>
inline constexpr DType dtype_v<int64_t> = kInt64;
template <>
inline constexpr DType dtype_v<long long> = kInt64;
template <>
inline constexpr DType dtype_v<float16> = kFloat16;
template <>
inline constexpr DType dtype_v<float> = kFloat32;
template <>
inline constexpr DType dtype_v<double> = kFloat64;
template <>
inline constexpr DType dtype_v<complex<float>> = kComplex64;
template <>
inline constexpr DType dtype_v<complex<double>> = kComplex128;
template <>
inline constexpr DType dtype_v<bool> = kBool;
template <>
inline constexpr DType dtype_v<bfloat16> = kBFloat16;
template <>
inline constexpr DType dtype_v<float8_e4m3fn> = kFloat8_e4m3fn;
template <>
inline constexpr DType dtype_v<float8_e5m2> = kFloat8_e5m2;
inline constexpr uint8_t kItemSize[kDTypes + 1] = {1, 1, 2, 4, 8, 2, 4, 8, 8, 16, 1, 2, 1, 1, 0};
}  // namespace detail

/// The DType of a C++ element type; a compile error for any other type.
template <class T>
constexpr DType dtype_of() {
  static_assert(detail::dtype_v<std::remove_cv_t<T>> != DType::undefined, "not an element type of tenon");
  return detail::dtype_v<std::remove_cv_t<T>>;
}

constexpr int64_t item_size(DType t) { return detail::kItemSize[static_cast<int>(t)]; }
constexpr bool is_float8(DType t) { return t == kFloat8_e4m3fn || t == kFloat8_e5m2; }
constexpr bool is_half(DType t) { return t == kFloat16 || t == kBFloat16; }
constexpr bool is_floating_point(DType t) { return t == kFloat32 || t == kFloat64 || is_half(t) || is_float8(t); }
constexpr bool is_complex(DType t) { return t == kComplex64 || t == kComplex128; }
constexpr bool is_integral(DType t, bool include_bool = false) { return t <= kInt64 || (include_bool && t == kBool); }
/// Differentiable types.
constexpr bool is_differentiable(DType t) { return is_floating_point(t) || is_complex(t); }
/// complex64 -> float32, complex128 -> float64, others unchanged.
constexpr DType real_of(DType t) { return t == kComplex64 ? kFloat32 : t == kComplex128 ? kFloat64 : t; }
/// float32 and the 16-bit floats -> complex64, float64 -> complex128.
constexpr DType complex_of(DType t) { return is_complex(t) ? t : t == kFloat64 ? kComplex128 : kComplex64; }

/// The smallest dtype both fit in, by PyTorch's table; float8 promotes only with itself (DtypeError otherwise).
TENON_API DType promote_types(DType a, DType b);
/// Whether a result of type `from` may be written to a tensor of type `to` in place: never complex to real,
/// float to integer, or anything else to bool.
TENON_API bool can_cast(DType from, DType to);
/// "float32", "bool", ...
TENON_API const char* name(DType t);
/// Parses a name as printed by name(); throws DtypeError otherwise.
TENON_API DType parse_dtype(std::string_view text);
/// Result type of integer division and of functions such as exp on integers; float32 unless changed.
TENON_API DType default_dtype();
TENON_API void set_default_dtype(DType t);
TENON_API Message& operator<<(Message& m, DType t);

/// Calls f(TypeTag<T>{}) for the C++ type of `t`; throws DtypeError naming `who` when it is not in List.
template <class List, class F>
void visit_dtype(const char* who, DType t, F&& f) {
  bool found = false;
  List::for_each([&](auto tag) {
    if (!found && dtype_of<typename decltype(tag)::type>() == t) {
      found = true;
      f(tag);
    }
  });
  TENON_CHECK(found, DtypeError, who, ": not implemented for dtype ", t);
}

}  // namespace tenon
