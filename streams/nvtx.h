// SPDX-License-Identifier: Apache-2.0
// NVTX ranges for nsys and ncu. The functions do nothing until libtenon_cuda is loaded, which brings NVTX.
#pragma once

#include <tenon/core/api.h>

namespace tenon::cuda {

/// Opens a range named `text` (up to `length` characters) on the calling thread; pop closes the innermost one.
TENON_API void nvtx_push(const char* text, unsigned length) noexcept;
TENON_API void nvtx_pop() noexcept;

namespace detail {
struct NvtxFunctions {
  void (*push)(const char* text);
  void (*pop)();
};
/// Called by libtenon_cuda when it is loaded.
TENON_API void set_nvtx(NvtxFunctions functions) noexcept;
}  // namespace detail

}  // namespace tenon::cuda
