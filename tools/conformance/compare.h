// SPDX-License-Identifier: Apache-2.0
// Comparison of a result with a case's expectation.
#pragma once

#include "case_reader.h"

namespace tenon::conformance {

struct Tolerance {
  double relative = 0, absolute = 0;
};
/// The tolerance of a dtype; `loose` for reductions, products and gradients in float32.
Tolerance tolerance_of(DType t, bool loose);
/// Empty when they agree, else what differs first. Shape and dtype always count; NaN equals NaN, -0 equals 0.
std::string difference(const Tensor& got, const Tensor& want, Tolerance tolerance, bool values = true);

}  // namespace tenon::conformance
