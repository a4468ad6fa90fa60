// SPDX-License-Identifier: Apache-2.0
// What others ask of the private pools that graphs work on.
#pragma once

#include <tenon/core/storage.h>

#include <cstdint>

namespace tenon::memory {

/// Whether the memory lies in the private pool of that number (MemPool::id).
TENON_API bool in_private_pool(const Storage& storage, uint64_t group);

}  // namespace tenon::memory
