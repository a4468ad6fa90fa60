// SPDX-License-Identifier: Apache-2.0
// Host memory. Segments are mapped 2 MiB aligned with huge pages: fresh memory costs one fault per 2 MiB, not
// per 4 KiB. The exact form serves `backend:direct`: plain heap blocks of the asked size, whose overruns a
// sanitizer sees.
// Internal: not for users' files.
#pragma once

#include <tenon/memory/raw_memory.h>

namespace tenon::memory {

TENON_API RawMemory* host_memory();
TENON_API RawMemory* exact_host_memory();

}  // namespace tenon::memory
