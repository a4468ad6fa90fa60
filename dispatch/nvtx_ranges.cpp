// SPDX-License-Identifier: Apache-2.0
#include <tenon/dispatch/nvtx_ranges.h>
#include <tenon/streams/nvtx.h>

namespace tenon {
namespace {

void* open_range(void*, const dispatch::OpBase& op, std::span<const dispatch::Value>) {
  cuda::nvtx_push(op.name().data(), static_cast<unsigned>(op.name().size()));
  return nullptr;
}
void close_range(void*, void*, const dispatch::OpBase&) { cuda::nvtx_pop(); }

}  // namespace

NvtxRanges::NvtxRanges() : guard_({&open_range, &close_range, nullptr}) {}

}  // namespace tenon
