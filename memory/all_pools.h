// SPDX-License-Identifier: Apache-2.0
// A scope that holds the locks of all pools of an allocator: nothing moves meanwhile.
// Internal: not for users' files.
#pragma once

#include <tenon/memory/caching_allocator.h>

namespace tenon::memory {

class CachingAllocator::AllPools {
 public:
  explicit AllPools(CachingAllocator& a) : allocator_(a) {
    lock(a);
    split_ = a.split_;
  }
  ~AllPools() { unlock(allocator_, split_); }
  AllPools(const AllPools&) = delete;
  AllPools& operator=(const AllPools&) = delete;

  static void lock(CachingAllocator& a) {
    a.lock_.lock();  // new pools and new locks need it
    if (a.split_) {
      for (StreamPool* pool : a.pools_) pool->own.lock();
    }
  }
  static void unlock(CachingAllocator& a, bool split) {
    if (split) {
      for (StreamPool* pool : a.pools_) pool->own.unlock();
    }
    a.lock_.unlock();
  }

 private:
  CachingAllocator& allocator_;
  bool split_;  // when it was locked
};

}  // namespace tenon::memory
