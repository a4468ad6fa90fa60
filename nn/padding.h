// SPDX-License-Identifier: Apache-2.0
// Padding of the last dimensions (ops/pad.h): before and after, the last dimension first; one number is for all ends.
#pragma once

#include <tenon/nn/module.h>

namespace tenon::nn {

/// What the modules below have in common: `mode` around `spatial` dimensions.
struct TENON_API Padding : Module {
  Padding(const char* type, const char* mode, int64_t spatial, IntArrayRef padding, double value = 0);
  Tensor forward(const Tensor& input) override;
  std::string describe() const override;

  DimVector padding;
  double value;

 private:
  const char *type_, *mode_;
};

// clang-format off
#define TENON_PADDING(name, mode, spatial) \
  struct name : Padding { explicit name(IntArrayRef numbers) : Padding(#name, mode, spatial, numbers) {} };
#define TENON_PADDINGS(name, mode) TENON_PADDING(name##1d, mode, 1) TENON_PADDING(name##2d, mode, 2) TENON_PADDING(name##3d, mode, 3)
TENON_PADDINGS(ZeroPad, "constant")
TENON_PADDINGS(ReflectionPad, "reflect")
TENON_PADDINGS(ReplicationPad, "replicate")
TENON_PADDINGS(CircularPad, "circular")
#undef TENON_PADDINGS
#undef TENON_PADDING
// clang-format on
struct ConstantPad1d : Padding {
  ConstantPad1d(IntArrayRef numbers, double v) : Padding("ConstantPad1d", "constant", 1, numbers, v) {}
};
struct ConstantPad2d : Padding {
  ConstantPad2d(IntArrayRef numbers, double v) : Padding("ConstantPad2d", "constant", 2, numbers, v) {}
};
struct ConstantPad3d : Padding {
  ConstantPad3d(IntArrayRef numbers, double v) : Padding("ConstantPad3d", "constant", 3, numbers, v) {}
};

}  // namespace tenon::nn
