// SPDX-License-Identifier: Apache-2.0
#include <tenon/nn/describe.h>
#include <tenon/nn/upsample.h>

namespace tenon::nn {

Upsample::Upsample(InterpolateOptions o, const char* type)
    : options(static_cast<InterpolateOptions&&>(o)), mode_(options.mode), type_(type) {
  TENON_CHECK(options.size.empty() != options.scale_factor.empty(), ValueError, type,
              ": expected one of size and scale_factor, got ", options.size.empty() ? "neither" : "both");
}
Tensor Upsample::forward(const Tensor& input) {
  InterpolateOptions o = options;
  o.mode = mode_;
  return interpolate(input, o);
}
std::string Upsample::describe() const {
  std::string numbers;
  for (const int64_t n : options.size) numbers += (numbers.empty() ? "" : ", ") + std::to_string(n);
  for (const double f : options.scale_factor) numbers += (numbers.empty() ? "" : ", ") + number_text(f);
  if (options.size.size() + options.scale_factor.size() > 1) numbers = "(" + numbers + ")";
  return std::string(type_) + (options.size.empty() ? "(scale_factor=" : "(size=") + numbers + ", mode='" + mode_ +
         "')";
}

}  // namespace tenon::nn
