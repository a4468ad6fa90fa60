// SPDX-License-Identifier: Apache-2.0
#include <tenon/nn/describe.h>

#include <charconv>
#include <cmath>

namespace tenon::nn {

std::string number_text(double v) {
  if (!std::isfinite(v)) return std::isnan(v) ? "nan" : v > 0 ? "inf" : "-inf";
  char text[40];
  const double size = std::abs(v);
  const bool fixed = v == 0 || (size >= 1e-4 && size < 1e16);
  const auto end =
      std::to_chars(text, text + sizeof text, v, fixed ? std::chars_format::fixed : std::chars_format::scientific);
  std::string out(text, end.ptr);
  return fixed && out.find('.') == std::string::npos ? out + ".0" : out;
}

std::string tuple_text(IntArrayRef values) {
  std::string out = "(";
  for (std::size_t i = 0; i < values.size(); ++i) out += (i ? ", " : "") + std::to_string(values[i]);
  return out + (values.size() == 1 ? ",)" : ")");
}

}  // namespace tenon::nn
