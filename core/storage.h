// SPDX-License-Identifier: Apache-2.0
// Storage: a counted block of bytes on one device, shared by every view of it. It knows how to give its
// memory back (a function and a context) but contains no allocator. The version counter lives here, so that
// an in-place write through any view is seen by all of them, detach() included.
#pragma once

#include <tenon/core/device.h>
#include <tenon/core/function.h>
#include <tenon/core/intrusive.h>

#include <cstdint>

namespace tenon {

/// Memory and the way to return it. `deleter` may be null (unowned memory).
struct DataPtr {
  void* data = nullptr;
  void* context = nullptr;
  void (*deleter)(void* context) = nullptr;
};

class TENON_API StorageImpl : public Counted {
 public:
  static StorageImpl* create(DataPtr memory, int64_t bytes, Device device);
  static void destroy(StorageImpl* s) noexcept;

  void* data() const { return memory_.data; }
  int64_t bytes() const { return bytes_; }
  Device device() const { return device_; }
  /// The allocator's block (null for foreign memory): record_stream and the memory tools need it.
  void* context() const { return memory_.context; }
  bool owned_by(void (*deleter)(void*)) const { return memory_.deleter == deleter; }

  uint32_t version() const { return __atomic_load_n(&version_, __ATOMIC_RELAXED); }
  void bump_version() { __atomic_fetch_add(&version_, 1u, __ATOMIC_RELAXED); }
  bool pinned() const { return pinned_; }
  void set_pinned(bool on) { pinned_ = on; }
  /// Replaces the memory (resize_): the old block is returned to its owner.
  void replace(DataPtr memory, int64_t bytes);

 private:
  StorageImpl(DataPtr memory, int64_t bytes, Device device) : memory_(memory), bytes_(bytes), device_(device) {}
  DataPtr memory_;
  int64_t bytes_;
  uint32_t version_ = 0;
  Device device_;
  bool pinned_ = false;
};
using Storage = Ref<StorageImpl>;

}  // namespace tenon
