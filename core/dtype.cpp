// SPDX-License-Identifier: Apache-2.0
#include <tenon/core/dtype.h>
#include <tenon/core/int_array.h>
#include <tenon/core/memory_format.h>
#include <tenon/core/scalar.h>

namespace tenon {
namespace {

constexpr const char* kNames[kDTypes + 1] = {"uint8",   "int8",     "int16",         "int32",       "int64",
                                             "float16", "float32",  "float64",       "complex64",   "complex128",
                                             "bool",    "bfloat16", "float8_e4m3fn", "float8_e5m2", "undefined"};
DType default_dtype_ = kFloat32;

}  // namespace

const char* name(DType t) { return kNames[static_cast<int>(t)]; }

DType parse_dtype(std::string_view text) {
  for (int i = 0; i < kDTypes; ++i)
    if (text == kNames[i]) return static_cast<DType>(i);
  TENON_CHECK(false, DtypeError, "dtype: expected a name such as float32, got \"", text, "\"");
}

DType default_dtype() {
  DType t;
  __atomic_load(&default_dtype_, &t, __ATOMIC_RELAXED);
  return t;
}

void set_default_dtype(DType t) {
  TENON_CHECK(is_floating_point(t) && !is_float8(t), DtypeError,
              "set_default_dtype: expected float16, bfloat16, float32 or float64, got ", t);
  __atomic_store(&default_dtype_, &t, __ATOMIC_RELAXED);
}

DType promote_types(DType a, DType b) {
  if (a == b) return a;
  if (a == DType::undefined) return b;
  if (b == DType::undefined) return a;
  TENON_CHECK(!is_float8(a) && !is_float8(b), DtypeError, "promotion of ", a, " with ", b,
              " is not defined; convert explicitly");
  // Category first (bool < integer < floating < complex), then the width within it.
  if (is_complex(a) || is_complex(b)) {
    const bool wide = a == kComplex128 || b == kComplex128 || a == kFloat64 || b == kFloat64;
    return wide ? kComplex128 : kComplex64;
  }
  if (is_floating_point(a) != is_floating_point(b)) return is_floating_point(a) ? a : b;
  if (is_floating_point(a)) {
    if (is_half(a) && is_half(b)) return kFloat32;  // float16 with bfloat16
    if (is_half(a)) return b;
    if (is_half(b)) return a;
    return kFloat64;
  }
  if (a == kBool) return b;
  if (b == kBool) return a;
  // Integers: the wider one; uint8 with int8 needs int16.
  if (item_size(a) == item_size(b)) return kInt16;
  return item_size(a) > item_size(b) ? a : b;
}

bool can_cast(DType from, DType to) {
  if (is_complex(from) && !is_complex(to)) return false;
  if (is_floating_point(from) && is_integral(to, true)) return false;
  if (from != kBool && to == kBool) return false;
  return true;
}

const char* name(MemoryFormat f) {
  static constexpr const char* kFormats[] = {"contiguous", "preserve", "channels_last", "channels_last_3d"};
  return kFormats[static_cast<int>(f)];
}

void Scalar::store(DType t, void* destination) const {
  switch (t) {
#define TENON_STORE(dtype_value, T)              \
  case dtype_value: {                            \
    const T v = to<T>();                         \
    __builtin_memcpy(destination, &v, sizeof v); \
    return;                                      \
  }
    TENON_STORE(kUInt8, uint8_t)
    TENON_STORE(kInt8, int8_t)
    TENON_STORE(kInt16, int16_t)
    TENON_STORE(kInt32, int32_t)
    TENON_STORE(kInt64, int64_t)
    TENON_STORE(kFloat16, float16)
    TENON_STORE(kFloat32, float)
    TENON_STORE(kFloat64, double)
    TENON_STORE(kComplex64, complex<float>)
    TENON_STORE(kComplex128, complex<double>)
    TENON_STORE(kBool, bool)
    TENON_STORE(kBFloat16, bfloat16)
    TENON_STORE(kFloat8_e4m3fn, float8_e4m3fn)
    TENON_STORE(kFloat8_e5m2, float8_e5m2)
#undef TENON_STORE
    case DType::undefined:
      break;
  }
  TENON_ASSERT(false, "scalar stored as undefined");
}

Message& operator<<(Message& m, DType t) { return m << name(t); }

Message& operator<<(Message& m, const Scalar& s) {
  if (s.is_bool()) return m << s.to<bool>();
  if (s.is_integral()) return m << static_cast<long long>(s.integer());
  if (!s.is_complex()) return m << s.real();
  return m << "(" << s.real() << (s.imag() < 0 ? "" : "+") << s.imag() << "j)";
}

Message& operator<<(Message& m, IntArrayRef a) {
  m << "[";
  for (std::size_t i = 0; i < a.size(); ++i) m << (i ? ", " : "") << static_cast<long long>(a[i]);
  return m << "]";
}

}  // namespace tenon
