// SPDX-License-Identifier: Apache-2.0
// Workspace: device memory for the length of one operator. It comes from the caching allocator on the current
// stream, so giving it back before the kernels have run is safe: later users of the block come after them.
#pragma once

#include <tenon/memory/allocator.h>

namespace tenon::cuda {

class Workspace {
 public:
  Workspace() = default;
  explicit Workspace(int64_t bytes) { allocate(bytes); }
  ~Workspace() { release(); }
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;

  char* allocate(int64_t bytes) {
    release();
    memory_ = memory::allocate(Device(kCUDA, current_device(kCUDA)), bytes);
    return data();
  }
  char* data() const { return static_cast<char*>(memory_.data); }

 private:
  void release() {
    if (memory_.deleter) memory_.deleter(memory_.context);
    memory_ = {};
  }
  DataPtr memory_;
};

}  // namespace tenon::cuda
