// SPDX-License-Identifier: Apache-2.0
// CUDA's memory behind RawMemory, compiled into libtenon_cuda: device memory per ordinal, page-locked host memory.
// cudaFree, cudaFreeHost and cudaHostUnregister wait for the device by themselves.
#include <tenon/memory/cuda_virtual_memory.h>
#include <tenon/memory/host_memory.h>
#include <tenon/memory/raw_memory.h>
#include <tenon/memory/settings.h>
#include <tenon/streams/cuda_check.h>
#include <tenon/streams/guard.h>

#include <atomic>
#include <exception>
#include <memory>
#include <mutex>
#include <set>

namespace tenon::memory {
namespace {

// Null for "no memory", which the ladder handles; anything else is an error of the device.
void* checked(cudaError_t error, void* p) {
  if (error == cudaErrorMemoryAllocation) {
    (void)cudaGetLastError();
    return nullptr;
  }
  TENON_CUDA(error);
  return p;
}

class CudaMemory final : public RawMemory {
 public:
  explicit CudaMemory(int index) : device_(kCUDA, index) {}
  void* allocate(int64_t bytes) override {
    const DeviceGuard guard(device_);
    const RelaxedCapture relaxed;
    void* p = nullptr;
    // Whole words: atomics on bytes and halves touch the word around them, also the last one (backend:direct).
    const cudaError_t error = cudaMalloc(&p, (static_cast<size_t>(bytes) + 3) / 4 * 4);
    return checked(error, p);
  }
  void release(void* p, int64_t) noexcept override {
    try {
      const DeviceGuard guard(device_);
      const RelaxedCapture relaxed;
      if (cudaFree(p) != cudaSuccess) (void)cudaGetLastError();
    } catch (const std::exception&) {  // a forked child or a driver on its way out: the memory is not ours to free
    }
  }
  void info(int64_t& free, int64_t& total) override {
    const DeviceGuard guard(device_);
    size_t free_bytes = 0, total_bytes = 0;
    TENON_CUDA(cudaMemGetInfo(&free_bytes, &total_bytes));
    free = static_cast<int64_t>(free_bytes);
    total = static_cast<int64_t>(total_bytes);
  }
  const char* name() const override { return "cudaMalloc"; }
  VirtualMemory* virtual_memory() override {
    std::call_once(asked_, [this] { virtual_ = make_cuda_virtual_memory(device_); });
    return virtual_.get();
  }

 private:
  const Device device_;
  std::once_flag asked_;
  std::unique_ptr<VirtualMemory> virtual_;
};

// From cudaHostAlloc, or (pinned_use_cuda_host_register) huge pages that are then registered.
class PinnedMemory final : public RawMemory {
 public:
  void* allocate(int64_t bytes) override {
    const RelaxedCapture relaxed;
    void* p = nullptr;
    if (!register_) {
      const cudaError_t error = cudaHostAlloc(&p, static_cast<size_t>(bytes), cudaHostAllocPortable);
      return checked(error, p);
    }
    p = host_memory()->allocate(bytes);
    if (!p) return nullptr;
    const cudaError_t error = cudaHostRegister(p, static_cast<size_t>(bytes), cudaHostRegisterPortable);
    if (error != cudaSuccess) {
      host_memory()->release(p, bytes);
      return checked(error, nullptr);
    }
    std::lock_guard lock(mutex_);
    registered_.insert(p);
    return p;
  }
  void release(void* p, int64_t bytes) noexcept override {
    const RelaxedCapture relaxed;
    bool registered;
    {
      std::lock_guard lock(mutex_);
      registered = registered_.erase(p) > 0;
    }
    const cudaError_t error = registered ? cudaHostUnregister(p) : cudaFreeHost(p);
    if (error != cudaSuccess) (void)cudaGetLastError();
    if (registered) host_memory()->release(p, bytes);
  }
  void info(int64_t& free, int64_t& total) override { host_memory()->info(free, total); }
  const char* name() const override { return "pinned"; }
  bool host_accessible() const override { return true; }
  void configure(const AllocatorSettings& settings) override { register_ = settings.pinned_use_cuda_host_register; }

 private:
  std::atomic<bool> register_{false};
  std::mutex mutex_;
  std::set<void*> registered_;
};

[[maybe_unused]] const bool registered = [] {
  try {
    register_raw_memory(kCUDA, [](int index) -> RawMemory* { return new CudaMemory(index); });
    register_pinned_memory([](int) -> RawMemory* { return new PinnedMemory; });
    return true;
  } catch (const std::exception&) {  // a second copy of this library: the first one serves
    return false;
  }
}();

}  // namespace
}  // namespace tenon::memory
