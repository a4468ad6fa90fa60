// SPDX-License-Identifier: Apache-2.0
// OracleMemory: a bounded device memory of addresses that nobody touches. It writes down who asked for what, and knows
// at any time which addresses have memory.
#pragma once

#include <tenon/core/function.h>
#include <tenon/memory/raw_memory.h>
#include <tenon/streams/raw_streams.h>

#include <map>
#include <set>
#include <string>

namespace tenon::testing {

class OracleMemory final : public memory::RawMemory, public memory::VirtualMemory {
 public:
  OracleMemory(Device device, int64_t capacity) : device_(device), capacity_(capacity) {}

  void* allocate(int64_t bytes) override {
    if (fail_in > 0 && --fail_in == 0) {
      log += 'f';
      return nullptr;
    }
    if (bytes > capacity_ - used) {
      log += 'x';
      return nullptr;
    }
    char* const at = place(bytes);
    segments[at] = bytes;
    used += bytes;
    ++given;
    log += 'a';
    return at;
  }
  void release(void* p, int64_t bytes) noexcept override {
    wait();
    const auto found = segments.find(static_cast<char*>(p));
    if (found == segments.end() || found->second != bytes) {
      wrong = "released what was never given";
      return;
    }
    if (check_release) check_release(static_cast<char*>(p), bytes);
    used -= bytes;
    ++taken;
    log += 'r';
    segments.erase(found);
  }
  void info(int64_t& free, int64_t& total) override {
    free = capacity_ - used;
    total = capacity_;
  }
  const char* name() const override { return "oracle"; }

  memory::VirtualMemory* virtual_memory() override { return this; }
  int64_t granularity() const override { return kPage; }
  void* reserve(int64_t bytes) override {
    char* const at = place(bytes);
    ranges[at] = bytes;
    ++reserved;
    return at;
  }
  bool map(void* p, int64_t bytes) override {
    if (fail_in > 0 && --fail_in == 0) {
      log += 'f';
      return false;
    }
    if (bytes > capacity_ - used) {
      log += 'x';
      return false;
    }
    for (char* page = static_cast<char*>(p); page < static_cast<char*>(p) + bytes; page += kPage) {
      if (!pages.insert(page).second) wrong = "mapped a page twice";
    }
    used += bytes;
    log += 'a';
    return true;
  }
  void unmap(void* p, int64_t bytes) noexcept override {
    wait();
    if (check_release) check_release(static_cast<char*>(p), bytes);
    for (char* page = static_cast<char*>(p); page < static_cast<char*>(p) + bytes; page += kPage) {
      if (pages.erase(page) == 0) wrong = "unmapped a page that was not mapped";
    }
    used -= bytes;
    log += 'u';
  }
  void unreserve(void* p, int64_t bytes) noexcept override {
    const auto found = ranges.find(static_cast<char*>(p));
    if (found == ranges.end() || found->second != bytes || !unmapped(static_cast<char*>(p), bytes)) {
      wrong = "gave back a range that is none, or has memory";
      return;
    }
    ranges.erase(found);
  }

  /// All of it is memory the device has given.
  bool covers(char* p, int64_t bytes) const {
    if (const auto after = segments.upper_bound(p); after != segments.begin()) {
      const auto& [at, size] = *std::prev(after);
      if (p + bytes <= at + size) return true;
    }
    const auto first = reinterpret_cast<uintptr_t>(p) & ~static_cast<uintptr_t>(kPage - 1);
    for (char* page = reinterpret_cast<char*>(first); page < p + bytes; page += kPage)
      if (!pages.contains(page)) return false;
    return true;
  }

  std::map<char*, int64_t> segments, ranges;
  std::set<char*> pages;
  int64_t used = 0, given = 0, taken = 0, reserved = 0;
  int64_t fail_in = 0;  ///< the n-th allocation from now fails
  std::string log;      ///< a: gave, x: refused, f: failed on purpose, r: took back, u: unmapped, c: a callback ran
  std::string wrong;    ///< found where nothing may be thrown
  Function<void(char*, int64_t)> check_release;

 private:
  static constexpr int64_t kPage = 2 << 20;
  // First fit, without gaps: neighbours in memory are often different segments.
  char* place(int64_t bytes) const {
    std::map<char*, int64_t> taken = segments;
    taken.insert(ranges.begin(), ranges.end());
    char* at = reinterpret_cast<char*>(uintptr_t{1} << 40);
    for (const auto& [p, size] : taken) {
      if (p - at >= bytes) break;
      at = p + size;
    }
    return at;
  }
  bool unmapped(char* p, int64_t bytes) const {
    const auto first = pages.lower_bound(p);
    return first == pages.end() || *first >= p + bytes;
  }
  void wait() const noexcept {
    for (bool done = false; !done;) {  // as cudaFree does
      try {
        raw_streams(device_.type()).synchronize_device(device_.index());
        done = true;
      } catch (...) {  // a call that was made to fail: the next one is not
      }
    }
  }

  Device device_;
  int64_t capacity_;
};

}  // namespace tenon::testing
