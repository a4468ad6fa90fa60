// SPDX-License-Identifier: Apache-2.0
// std::cout << x.sizes(), x.dtype(), x.device(), x.item(): what error messages can show, streams can too. For programs;
// <ostream> itself is not included here.
#pragma once

#include <tenon/core/device.h>
#include <tenon/core/int_array.h>
#include <tenon/core/scalar.h>

#include <type_traits>
#include <utility>

namespace tenon {
namespace detail {
template <class T>
inline constexpr bool is_printable = std::is_same_v<T, IntArrayRef> || std::is_same_v<T, DimVector> ||
                                     std::is_same_v<T, DType> || std::is_same_v<T, Device> || std::is_same_v<T, Scalar>;
}  // namespace detail

/// The text of a Message: "[2, 3]", "float32", "cuda:0", "1.5". Exactly these types, so that nothing converts to them.
template <class Stream, class T, class = std::enable_if_t<detail::is_printable<T>>,
          class = decltype(std::declval<Stream&>().flush())>
Stream& operator<<(Stream& stream, const T& value) {
  Message text;
  text << value;
  stream << text.take();
  return stream;
}

}  // namespace tenon
