// SPDX-License-Identifier: Apache-2.0
// Interpolation to another size as a module (ops/resample.h).
#pragma once

#include <tenon/nn/module.h>
#include <tenon/ops/resample.h>

namespace tenon::nn {

/// Upsample({.scale_factor = {2}, .mode = "bilinear"})
struct TENON_API Upsample : Module {
  explicit Upsample(InterpolateOptions o, const char* type = "Upsample");
  Tensor forward(const Tensor& input) override;
  std::string describe() const override;

  InterpolateOptions options;

 private:
  std::string mode_;  // what options.mode points to
  const char* type_;
};
struct UpsamplingNearest2d : Upsample {
  /// A size, or factors.
  explicit UpsamplingNearest2d(std::vector<int64_t> size, std::vector<double> scale_factor = {})
      : Upsample({.size = static_cast<std::vector<int64_t>&&>(size),
                  .scale_factor = static_cast<std::vector<double>&&>(scale_factor)},
                 "UpsamplingNearest2d") {}
};
/// Bilinear, with the outermost entries over each other.
struct UpsamplingBilinear2d : Upsample {
  explicit UpsamplingBilinear2d(std::vector<int64_t> size, std::vector<double> scale_factor = {})
      : Upsample({.size = static_cast<std::vector<int64_t>&&>(size),
                  .scale_factor = static_cast<std::vector<double>&&>(scale_factor),
                  .mode = "bilinear",
                  .align_corners = true},
                 "UpsamplingBilinear2d") {}
};

}  // namespace tenon::nn
