// SPDX-License-Identifier: Apache-2.0
#include <tenon/memory/host_memory.h>

#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace tenon::memory {

RawMemory::~RawMemory() = default;
void RawMemory::configure(const AllocatorSettings&) {}
void RawMemory::fill(void*, int64_t, int, void*) noexcept {}
VirtualMemory::~VirtualMemory() = default;

namespace {

constexpr int64_t kHugePage = 2 << 20;

int64_t round_to_huge(int64_t bytes) { return (bytes + kHugePage - 1) / kHugePage * kHugePage; }

class HostMemory : public RawMemory {
 public:
  void* allocate(int64_t bytes) override {
    // mmap aligns to 4 KiB only: map one huge page more and trim both ends.
    const auto size = static_cast<size_t>(round_to_huge(bytes));
    const size_t mapped = size + kHugePage;
    void* p = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return nullptr;
    char* begin = static_cast<char*>(p);
    const auto address = reinterpret_cast<uintptr_t>(begin);
    const size_t head = (kHugePage - address % kHugePage) % kHugePage;
    const size_t tail = mapped - head - size;
    if (head) munmap(begin, head);
    if (tail) munmap(begin + head + size, tail);
    // Advice only: without transparent huge pages the memory works all the same.
    madvise(begin + head, size, MADV_HUGEPAGE);
    return begin + head;
  }
  void release(void* p, int64_t bytes) noexcept override { munmap(p, static_cast<size_t>(round_to_huge(bytes))); }
  void info(int64_t& free, int64_t& total) override {
    const int64_t page = sysconf(_SC_PAGESIZE);
    total = page * sysconf(_SC_PHYS_PAGES);
    free = page * sysconf(_SC_AVPHYS_PAGES);
    // The kernel's own estimate counts what it can reclaim.
    if (std::FILE* f = std::fopen("/proc/meminfo", "r")) {
      char line[128];
      long long kib = 0;
      while (std::fgets(line, sizeof line, f)) {
        if (std::sscanf(line, "MemAvailable: %lld kB", &kib) == 1) free = int64_t{kib} * 1024;
      }
      std::fclose(f);
    }
  }
  const char* name() const override { return "host"; }
  bool host_accessible() const override { return true; }
};

class ExactHostMemory final : public HostMemory {
 public:
  void* allocate(int64_t bytes) override {
    // Sanitizers end the process over absurd sizes where malloc would return null.
    if (bytes / sysconf(_SC_PAGESIZE) > sysconf(_SC_PHYS_PAGES)) return nullptr;
    void* p = nullptr;
    return posix_memalign(&p, 512, static_cast<size_t>(bytes)) == 0 ? p : nullptr;
  }
  void release(void* p, int64_t) noexcept override { std::free(p); }
};

}  // namespace

RawMemory* host_memory() {
  static auto* memory = new HostMemory;
  return memory;
}

RawMemory* exact_host_memory() {
  static auto* memory = new ExactHostMemory;
  return memory;
}

}  // namespace tenon::memory
