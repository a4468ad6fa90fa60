// SPDX-License-Identifier: Apache-2.0
// Order keys: unsigned integers in the order elements are sorted in, the same on both devices. -0 and 0 have one key,
// all NaN have the largest. What a key does not tell (the sign of zero, the bits of a NaN) is read from the element
// itself.
#pragma once

#include <tenon/core/dtype.h>

namespace tenon {

template <int Bytes>
struct UnsignedOf;
template <>
struct UnsignedOf<1> {
  using type = uint8_t;
};
template <>
struct UnsignedOf<2> {
  using type = uint16_t;
};
template <>
struct UnsignedOf<4> {
  using type = uint32_t;
};
template <>
struct UnsignedOf<8> {
  using type = uint64_t;
};
template <class T>
using order_key_t = typename UnsignedOf<static_cast<int>(sizeof(T))>::type;

template <class T>
struct OrderKey {
  using Key = order_key_t<T>;
  static constexpr bool kFloating = is_floating_point(dtype_of<T>());
  static constexpr Key kSign = static_cast<Key>(Key(1) << (8 * sizeof(T) - 1));
  /// Exponent bits: a magnitude above them is NaN.
  static constexpr Key kInfinity = std::is_same_v<T, float>      ? static_cast<Key>(0x7f800000u)
                                   : std::is_same_v<T, double>   ? static_cast<Key>(0x7ff0000000000000u)
                                   : std::is_same_v<T, bfloat16> ? static_cast<Key>(0x7f80u)
                                                                 : static_cast<Key>(0x7c00u);
  static constexpr Key kNan = static_cast<Key>(~Key(0));

  TENON_HOST_DEVICE static Key of(const T& value) {
    Key bits;
    __builtin_memcpy(&bits, &value, sizeof bits);
    if constexpr (kFloating) {
      const Key magnitude = static_cast<Key>(bits & static_cast<Key>(~kSign));
      if (magnitude > kInfinity) return kNan;
      if (magnitude == 0) return kSign;
      return static_cast<Key>((bits & kSign) != 0 ? ~bits : bits | kSign);
    } else if constexpr (std::is_signed_v<T>) {
      return static_cast<Key>(bits ^ kSign);
    } else {
      return bits;
    }
  }
  /// Whether the key names one value; otherwise only the element knows.
  TENON_HOST_DEVICE static bool exact(Key key) { return !kFloating || (key != kSign && key != kNan); }
  TENON_HOST_DEVICE static T value(Key key) {
    Key bits = key;
    if constexpr (kFloating)
      bits = static_cast<Key>((key & kSign) != 0 ? key & static_cast<Key>(~kSign) : ~key);
    else if constexpr (std::is_signed_v<T>)
      bits = static_cast<Key>(key ^ kSign);
    T v;
    __builtin_memcpy(&v, &bits, sizeof v);
    return v;
  }
};

}  // namespace tenon
