// SPDX-License-Identifier: Apache-2.0
// Bytes as people read them.
// Internal: not for users' files.
#pragma once

#include <cstdint>
#include <string>

namespace tenon::memory {

/// "0 bytes", "1.50 KiB", "20.00 MiB" ...
std::string size_text(int64_t bytes);

}  // namespace tenon::memory
