// SPDX-License-Identifier: Apache-2.0
// CUDA's memory behind RawMemory, compiled into libtenon_cuda: device memory per ordinal, page-locked host memory.
// A segment may be wanted while the calling thread captures a graph: cudaMalloc does not belong to the graph, so
// the thread's capture mode is relaxed around it. cudaFree and cudaFreeHost wait for the device by themselves.
#include <tenon/memory/host_memory.h>
#include <tenon/memory/raw_memory.h>
#include <tenon/streams/cuda_check.h>
#include <tenon/streams/guard.h>

#include <exception>

namespace tenon::memory {
namespace {

class RelaxedCapture {
 public:
  RelaxedCapture() { (void)cudaThreadExchangeStreamCaptureMode(&mode_); }
  ~RelaxedCapture() { (void)cudaThreadExchangeStreamCaptureMode(&mode_); }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

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

 private:
  const Device device_;
};

class PinnedMemory final : public RawMemory {
 public:
  void* allocate(int64_t bytes) override {
    const RelaxedCapture relaxed;
    void* p = nullptr;
    const cudaError_t error = cudaHostAlloc(&p, static_cast<size_t>(bytes), cudaHostAllocPortable);
    return checked(error, p);
  }
  void release(void* p, int64_t) noexcept override {
    const RelaxedCapture relaxed;
    if (cudaFreeHost(p) != cudaSuccess) (void)cudaGetLastError();
  }
  void info(int64_t& free, int64_t& total) override { host_memory()->info(free, total); }
  const char* name() const override { return "pinned"; }
  bool host_accessible() const override { return true; }
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
