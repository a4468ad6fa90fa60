// SPDX-License-Identifier: Apache-2.0
// Expandable segments through the driver's virtual memory calls, whose addresses come from the runtime: nothing links
// against libcuda. Every page has an allocation of its own, so that any page can go back alone; its handle is released
// at once, since a mapping keeps the memory alive.
#include <cuda.h>
#include <tenon/memory/cuda_virtual_memory.h>
#include <tenon/streams/guard.h>

#include <algorithm>
#include <vector>

namespace tenon::memory {
namespace {

struct Driver {
  decltype(&cuDeviceGetAttribute) attribute = nullptr;
  decltype(&cuMemGetAllocationGranularity) granularity = nullptr;
  decltype(&cuMemAddressReserve) reserve = nullptr;
  decltype(&cuMemAddressFree) unreserve = nullptr;
  decltype(&cuMemCreate) create = nullptr;
  decltype(&cuMemRelease) release = nullptr;
  decltype(&cuMemMap) map = nullptr;
  decltype(&cuMemUnmap) unmap = nullptr;
  decltype(&cuMemSetAccess) set_access = nullptr;
  bool complete = false;
};

template <class F>
bool find(const char* name, F& function) {
  void* p = nullptr;
  cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSymbolNotFound;
  const cudaError_t error = cudaGetDriverEntryPointByVersion(name, &p, CUDART_VERSION, cudaEnableDefault, &result);
  if (error != cudaSuccess) (void)cudaGetLastError();
  function = reinterpret_cast<F>(p);
  return error == cudaSuccess && result == cudaDriverEntryPointSuccess && p;
}

const Driver& driver() {
  static const Driver d = [] {
    Driver f;
    f.complete = find("cuDeviceGetAttribute", f.attribute) && find("cuMemGetAllocationGranularity", f.granularity) &&
                 find("cuMemAddressReserve", f.reserve) && find("cuMemAddressFree", f.unreserve) &&
                 find("cuMemCreate", f.create) && find("cuMemRelease", f.release) && find("cuMemMap", f.map) &&
                 find("cuMemUnmap", f.unmap) && find("cuMemSetAccess", f.set_access);
    return f;
  }();
  return d;
}

CUdeviceptr address(const void* p) { return static_cast<CUdeviceptr>(reinterpret_cast<uintptr_t>(p)); }

CUmemAllocationProp properties_of(int index) {
  CUmemAllocationProp p{};
  p.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  p.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  p.location.id = index;
  return p;
}

class CudaVirtualMemory final : public VirtualMemory {
 public:
  CudaVirtualMemory(Device device, int64_t page) : device_(device), page_(page) {
    // This device first; others that can reach it copy from and to it directly.
    access_.push_back(access_by(device.index()));
    int count = 0;
    if (cudaGetDeviceCount(&count) != cudaSuccess) (void)cudaGetLastError();
    for (int other = 0; other < count; ++other) {
      int can = 0;
      if (other != device.index() && cudaDeviceCanAccessPeer(&can, other, device.index()) == cudaSuccess && can != 0) {
        access_.push_back(access_by(other));
      }
    }
  }
  int64_t granularity() const override { return page_; }
  void* reserve(int64_t bytes) override {
    const DeviceGuard guard(device_);
    const RelaxedCapture relaxed;
    CUdeviceptr p = 0;
    if (driver().reserve(&p, static_cast<size_t>(bytes), static_cast<size_t>(page_), 0, 0) != CUDA_SUCCESS) {
      return nullptr;
    }
    return reinterpret_cast<void*>(static_cast<uintptr_t>(p));
  }
  bool map(void* p, int64_t bytes) override {
    const DeviceGuard guard(device_);
    const RelaxedCapture relaxed;
    const CUmemAllocationProp properties = properties_of(device_.index());
    const auto page = static_cast<size_t>(page_);
    int64_t mapped = 0;
    for (; mapped < bytes; mapped += page_) {
      CUmemGenericAllocationHandle handle = 0;
      if (driver().create(&handle, page, &properties, 0) != CUDA_SUCCESS) break;
      const CUresult result = driver().map(address(p) + static_cast<size_t>(mapped), page, 0, handle, 0);
      driver().release(handle);
      if (result != CUDA_SUCCESS) break;
    }
    const bool whole = mapped == bytes && give_access(p, bytes);
    if (!whole) drop(p, mapped);
    return whole;
  }
  void unmap(void* p, int64_t bytes) noexcept override {
    try {
      const DeviceGuard guard(device_);
      const RelaxedCapture relaxed;
      if (cudaDeviceSynchronize() != cudaSuccess) (void)cudaGetLastError();  // as cudaFree does
      drop(p, bytes);
    } catch (const std::exception&) {  // a forked child or a driver on its way out: the memory is not ours to free
    }
  }
  void unreserve(void* p, int64_t bytes) noexcept override {
    driver().unreserve(address(p), static_cast<size_t>(bytes));
  }

 private:
  static CUmemAccessDesc access_by(int index) {
    CUmemAccessDesc a{};
    a.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    a.location.id = index;
    a.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    return a;
  }
  bool give_access(void* p, int64_t bytes) {
    const auto size = static_cast<size_t>(bytes);
    if (driver().set_access(address(p), size, access_.data(), access_.size()) == CUDA_SUCCESS) return true;
    return access_.size() > 1 && driver().set_access(address(p), size, access_.data(), 1) == CUDA_SUCCESS;
  }
  void drop(void* p, int64_t bytes) noexcept {
    for (int64_t at = 0; at < bytes; at += page_) {
      driver().unmap(address(p) + static_cast<size_t>(at), static_cast<size_t>(page_));
    }
  }

  const Device device_;
  const int64_t page_;
  std::vector<CUmemAccessDesc> access_;
};

}  // namespace

std::unique_ptr<VirtualMemory> make_cuda_virtual_memory(Device device) {
  const DeviceGuard guard(device);
  if (!driver().complete) return nullptr;
  int supported = 0;
  if (driver().attribute(&supported, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, device.index()) !=
          CUDA_SUCCESS ||
      supported == 0) {
    return nullptr;
  }
  const CUmemAllocationProp properties = properties_of(device.index());
  size_t page = 0;
  if (driver().granularity(&page, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM) != CUDA_SUCCESS || page == 0) {
    return nullptr;
  }
  // Smaller pages would cost a call each for nothing.
  return std::make_unique<CudaVirtualMemory>(device, std::max<int64_t>(static_cast<int64_t>(page), 2 << 20));
}

}  // namespace tenon::memory
