// SPDX-License-Identifier: Apache-2.0
// The state of everything that decides whether and how fast tenon runs here, as text for people.
#pragma once

#include <tenon/core/api.h>

#include <string>

namespace tenon {

/// Version and build, CPU, CUDA (with the reason and the remedy when it is unavailable), vendor libraries,
/// allocator settings and environment variables: "section" lines and "  name: value" lines. What tenon-info
/// prints. It opens vendor libraries to ask their versions; nothing is computed and no CUDA context is made.
TENON_API std::string env_report();

}  // namespace tenon
