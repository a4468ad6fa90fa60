// SPDX-License-Identifier: Apache-2.0
// A double for the allocator's tests. FakeMemory hands out real memory from a bounded amount, refuses on command,
// logs its calls and notes misuse: unaligned or unknown releases, wrong sizes, what is never given back. It has virtual
// memory when asked for, whose unmapped pages cannot be touched.
#pragma once

#include <tenon/core/function.h>
#include <tenon/memory/raw_memory.h>

#include <sys/mman.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include <tenon/testing/fake_streams.h>

namespace tenon::testing {

class FakeMemory final : public memory::RawMemory, public memory::VirtualMemory {
 public:
  static constexpr int64_t kPage = 2 << 20;
  explicit FakeMemory(int64_t capacity, bool with_virtual = false) : capacity_(capacity), virtual_(with_virtual) {}
  ~FakeMemory() override {
    for (auto& [p, bytes] : live_) std::free(p);
    for (auto& [p, bytes] : ranges_) munmap(p, static_cast<size_t>(bytes));
  }
  memory::VirtualMemory* virtual_memory() override { return virtual_ ? this : nullptr; }
  int64_t granularity() const override { return kPage; }
  void* reserve(int64_t bytes) override {
    std::lock_guard lock(mutex_);
    if (bytes <= 0 || bytes % kPage != 0) ++errors_;
    const auto size = static_cast<size_t>(bytes + kPage);
    void* p = mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) return nullptr;
    auto* begin = static_cast<char*>(p);
    const auto head =
        static_cast<size_t>((kPage - static_cast<int64_t>(reinterpret_cast<uintptr_t>(p) % kPage)) % kPage);
    if (head) munmap(begin, head);
    munmap(begin + head + bytes, size - head - static_cast<size_t>(bytes));
    ranges_[begin + head] = bytes;
    return begin + head;
  }
  bool map(void* p, int64_t bytes) override {
    std::lock_guard lock(mutex_);
    ++calls_;
    if (bytes <= 0 || bytes % kPage != 0 || reinterpret_cast<uintptr_t>(p) % kPage != 0) ++errors_;
    if ((fail_at_ != 0 && calls_ == fail_at_) || bytes > capacity_ - used_) {
      log_ += 'x';
      return false;
    }
    log_ += 'm';
    for (char* page = static_cast<char*>(p); page < static_cast<char*>(p) + bytes; page += kPage) {
      errors_ += !pages_.emplace(page, kPage).second;
    }
    if (mprotect(p, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE) != 0) ++errors_;
    used_ += bytes;
    return true;
  }
  void unmap(void* p, int64_t bytes) noexcept override {
    std::lock_guard lock(mutex_);
    log_ += 'u';
    for (char* page = static_cast<char*>(p); page < static_cast<char*>(p) + bytes; page += kPage) {
      errors_ += pages_.erase(page) != 1;
    }
    madvise(p, static_cast<size_t>(bytes), MADV_DONTNEED);
    if (mprotect(p, static_cast<size_t>(bytes), PROT_NONE) != 0) ++errors_;
    used_ -= bytes;
  }
  void unreserve(void* p, int64_t bytes) noexcept override {
    std::lock_guard lock(mutex_);
    const auto found = ranges_.find(p);
    const auto page = pages_.lower_bound(static_cast<char*>(p));
    if (found == ranges_.end() || found->second != bytes ||
        (page != pages_.end() && page->first < static_cast<char*>(p) + bytes)) {
      ++errors_;
      return;
    }
    munmap(p, static_cast<size_t>(bytes));
    ranges_.erase(found);
  }
  int64_t ranges() {
    std::lock_guard lock(mutex_);
    return static_cast<int64_t>(ranges_.size());
  }
  void* allocate(int64_t bytes) override {
    if (Function<void()> hook = std::exchange(hook_, nullptr)) hook();
    std::lock_guard lock(mutex_);
    ++calls_;
    if (bytes <= 0) ++errors_;
    if ((fail_at_ != 0 && calls_ == fail_at_) || bytes > capacity_ - used_) {
      log_ += 'x';
      return nullptr;
    }
    void* p = nullptr;
    if (posix_memalign(&p, 512, static_cast<size_t>(bytes)) != 0) return nullptr;
    log_ += 'a';
    live_[p] = bytes;
    used_ += bytes;
    return p;
  }
  void release(void* p, int64_t bytes) noexcept override {
    std::lock_guard lock(mutex_);
    log_ += 'r';
    const auto found = live_.find(p);
    if (found == live_.end() || found->second != bytes) {
      ++errors_;
      return;
    }
    used_ -= bytes;
    live_.erase(found);
    std::free(p);
  }
  void info(int64_t& free, int64_t& total) override {
    std::lock_guard lock(mutex_);
    free = capacity_ - used_;
    total = capacity_;
  }
  const char* name() const override { return "fake"; }
  bool host_accessible() const override { return true; }

  /// The n-th call from now fails; 0: none.
  void fail_at(int64_t n) {
    std::lock_guard lock(mutex_);
    calls_ = 0;
    fail_at_ = n;
  }
  /// `f` runs once, inside the next allocate, before memory is given.
  void during_next(Function<void()> f) { hook_ = std::move(f); }
  void note(char c) {
    std::lock_guard lock(mutex_);
    log_ += c;
  }
  /// a: gave memory, x: refused, r: took back, m: mapped, u: unmapped; other letters from note(). Reading clears it.
  std::string take_log() {
    std::lock_guard lock(mutex_);
    return std::exchange(log_, {});
  }
  /// [p, p + bytes) lies inside one live piece.
  bool contains(const void* p, int64_t bytes) {
    std::lock_guard lock(mutex_);
    const char* q = static_cast<const char*>(p);
    auto after = live_.upper_bound(const_cast<void*>(p));
    if (after != live_.begin()) {
      --after;
      const char* begin = static_cast<const char*>(after->first);
      if (q >= begin && q + bytes <= begin + after->second) return true;
    }
    for (const char* at = q; at < q + bytes;) {
      const auto page = pages_.find(const_cast<char*>(at) - reinterpret_cast<uintptr_t>(at) % kPage);
      if (page == pages_.end()) return false;
      at = page->first + kPage;
    }
    return true;
  }
  int64_t used() {
    std::lock_guard lock(mutex_);
    return used_;
  }
  int64_t errors() {
    std::lock_guard lock(mutex_);
    return errors_;
  }

 private:
  std::mutex mutex_;
  std::map<void*, int64_t> live_;
  std::map<void*, int64_t> ranges_;
  std::map<char*, int64_t> pages_;
  std::string log_;
  Function<void()> hook_;
  int64_t capacity_, used_ = 0, calls_ = 0, fail_at_ = 0, errors_ = 0;
  bool virtual_;
};

}  // namespace tenon::testing
