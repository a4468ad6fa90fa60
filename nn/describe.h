// SPDX-License-Identifier: Apache-2.0
// The spelling of arguments in describe(), which is PyTorch's: True, 1e-05, (3, 3).
#pragma once

#include <tenon/core/int_array.h>

#include <string>

namespace tenon::nn {

constexpr const char* yes_no(bool b) { return b ? "True" : "False"; }
/// The shortest decimal that reads back as `v`: "0.1", "1e-05", "2.0".
TENON_API std::string number_text(double v);
/// "(3, 3)", "(4,)"
TENON_API std::string tuple_text(IntArrayRef values);

}  // namespace tenon::nn
