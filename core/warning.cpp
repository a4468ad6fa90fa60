// SPDX-License-Identifier: Apache-2.0
#include <tenon/core/stack_trace.h>
#include <tenon/core/warning.h>

#include <cstdint>
#include <cstdio>
#include <mutex>
#include <unordered_set>

namespace tenon {
namespace {
constinit WarningHandler handler_ = nullptr;
}

WarningHandler set_warning_handler(WarningHandler handler) noexcept {
  return __atomic_exchange_n(&handler_, handler, __ATOMIC_ACQ_REL);
}

void warn(std::string_view text) noexcept {
  if (const WarningHandler handler = __atomic_load_n(&handler_, __ATOMIC_ACQUIRE)) return handler(text);
  std::fprintf(stderr, "tenon: %.*s\n", static_cast<int>(text.size()), text.data());
}

bool detail::first_from_here(const char* what, std::string* site) {
  static auto* const mutex = new std::mutex;
  static auto* const stacks = new std::unordered_set<uint64_t>;
  static auto* const places = new std::unordered_set<std::string>;
  void* frames[kMaxStackFrames];
  const int depth = capture_stack(frames, kMaxStackFrames);
  uint64_t key = reinterpret_cast<uintptr_t>(what);
  for (int i = 0; i < depth; ++i) key = (key ^ reinterpret_cast<uintptr_t>(frames[i])) * 0x9E3779B97F4A7C15u;
  std::lock_guard lock(*mutex);
  if (!stacks->insert(key).second) return false;
  *site = site_text({frames, static_cast<std::size_t>(depth)}, 1);
  return places->insert(what + (" " + *site)).second;  // several ways may lead to one place
}

}  // namespace tenon
