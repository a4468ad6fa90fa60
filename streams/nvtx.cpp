// SPDX-License-Identifier: Apache-2.0
#include <tenon/streams/nvtx.h>

#include <algorithm>
#include <cstring>

namespace tenon::cuda {
namespace {
constinit detail::NvtxFunctions functions_{nullptr, nullptr};
}  // namespace

void detail::set_nvtx(NvtxFunctions functions) noexcept { functions_ = functions; }

void nvtx_push(const char* text, unsigned length) noexcept {
  if (!functions_.push) return;
  char name[128];
  const unsigned n = std::min<unsigned>(length, sizeof name - 1);
  std::memcpy(name, text, n);
  name[n] = 0;
  functions_.push(name);
}

void nvtx_pop() noexcept {
  if (functions_.pop) functions_.pop();
}

}  // namespace tenon::cuda
