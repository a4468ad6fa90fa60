// SPDX-License-Identifier: Apache-2.0
// Scratch: working memory of a kernel, kept by the thread between calls so that small calls allocate nothing. Each
// thread has a few numbered slots; a kernel that uses one must not call another that uses the same.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <new>

namespace tenon::cpu {

namespace detail {
struct ScratchSlot {
  void* data = nullptr;
  std::size_t bytes = 0;
  ~ScratchSlot() { std::free(data); }
};
inline constexpr int kScratchSlots = 4;
inline constexpr std::size_t kScratchKept = std::size_t(4) << 20;  ///< larger blocks are given back after the call
inline ScratchSlot& scratch_slot(int slot) {
  static thread_local ScratchSlot slots[kScratchSlots];
  return slots[slot];
}
}  // namespace detail

/// `count` uninitialised elements, aligned for vectors, for as long as the object lives.
template <class T>
class Scratch {
 public:
  Scratch(int64_t count, int slot) : slot_(detail::scratch_slot(slot)) {
    const std::size_t bytes = (static_cast<std::size_t>(count) * sizeof(T) + 4095) / 4096 * 4096;
    if (bytes <= slot_.bytes) return;
    std::free(slot_.data);
    slot_.bytes = 0;
    slot_.data = std::aligned_alloc(4096, bytes);
    if (!slot_.data) throw std::bad_alloc();
    slot_.bytes = bytes;
  }
  ~Scratch() {
    if (slot_.bytes <= detail::kScratchKept) return;
    std::free(slot_.data);
    slot_.data = nullptr;
    slot_.bytes = 0;
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  T* data() const { return static_cast<T*>(slot_.data); }

 private:
  detail::ScratchSlot& slot_;
};

}  // namespace tenon::cpu
