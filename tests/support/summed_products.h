// SPDX-License-Identifier: Apache-2.0
// The reference of everything that multiplies and sums over named dimensions.
#pragma once

#include <tenon/testing/reference.h>

namespace tenon::testing {

/// An einsum by its definition: the sum over all values of all indices of the products, in double or wrapping integers,
/// as an array of dtype `t` with the scale of what was added up.
Array summed_products(std::string equation, const std::vector<Array>& operands, DType t);

}  // namespace tenon::testing
