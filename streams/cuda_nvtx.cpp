// SPDX-License-Identifier: Apache-2.0
// The NVTX side of streams/nvtx.h. NVTX is header-only and costs a few nanoseconds while no tool is attached.
#include <tenon/streams/nvtx.h>

#include <nvtx3/nvToolsExt.h>

namespace tenon::cuda {
namespace {
const bool registered = [] {
  detail::set_nvtx({[](const char* text) { nvtxRangePushA(text); }, [] { nvtxRangePop(); }});
  return true;
}();
}  // namespace
}  // namespace tenon::cuda
