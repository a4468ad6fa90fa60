// SPDX-License-Identifier: Apache-2.0
#include <tenon/nn/describe.h>
#include <tenon/nn/padding.h>
#include <tenon/ops/pad.h>

#include <string_view>

namespace tenon::nn {

Padding::Padding(const char* type, const char* mode, int64_t spatial, IntArrayRef numbers, double v)
    : padding(numbers), value(v), type_(type), mode_(mode) {
  const auto ends = static_cast<std::size_t>(2 * spatial);
  if (numbers.size() == 1) padding.resize(ends, numbers[0]);
  TENON_CHECK(padding.size() == ends, ValueError, type, ": padding: expected 1 or ", ends, " numbers, got ", numbers);
}
Tensor Padding::forward(const Tensor& input) {
  if (std::string_view(mode_) == "constant") return pad(input, padding, mode_, Scalar(value));
  return pad(input, padding, mode_);
}
std::string Padding::describe() const {
  if (!std::string_view(type_).starts_with("Constant")) return std::string(type_) + "(" + tuple_text(padding) + ")";
  return std::string(type_) + "(padding=" + tuple_text(padding) + ", value=" + number_text(value) + ")";
}

}  // namespace tenon::nn
