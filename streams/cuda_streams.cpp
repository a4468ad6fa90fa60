// SPDX-License-Identifier: Apache-2.0
// RawStreams over the CUDA runtime, and its registration. Part of libtenon_cuda.
#include <tenon/streams/cuda_check.h>
#include <tenon/streams/devices.h>
#include <tenon/streams/raw_streams.h>

#include <memory>
#include <mutex>
#include <utility>

#if CUDART_VERSION < 13000
#error "tenon needs CUDA Toolkit 13 or newer"
#endif

// Defined by the build: the architectures in this library, as in "75-real;90".
#ifndef TENON_CUDA_ARCH_LIST
#define TENON_CUDA_ARCH_LIST ""
#endif

namespace tenon {
namespace {

cudaStream_t raw(void* stream) { return static_cast<cudaStream_t>(stream); }
cudaEvent_t raw_event(void* event) { return static_cast<cudaEvent_t>(event); }

// True when done, false when not ready, which is an answer and no error.
bool answer(cudaError_t error, const char* call, int line) {
  if (error == cudaSuccess) return true;
  (void)cudaGetLastError();
  if (error == cudaErrorNotReady) return false;
  detail::fail_cuda(error, call, __FILE__, line);
}

int attribute(cudaDeviceAttr which, int device) {
  int value = 0;
  TENON_CUDA(cudaDeviceGetAttribute(&value, which, device));
  return value;
}

class CudaStreams final : public RawStreams {
 public:
  int device_count() override {
    int count = 0;
    TENON_CUDA(cudaGetDeviceCount(&count));
    return count;
  }
  int current_device() override {
    int index = 0;
    TENON_CUDA(cudaGetDevice(&index));
    return index;
  }
  void set_device(int index) override { TENON_CUDA(cudaSetDevice(index)); }

  // Non-blocking: pooled streams must not wait for the default stream behind their users' backs.
  void* create_stream(int, int priority) override {
    cudaStream_t stream = nullptr;
    TENON_CUDA(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, priority));
    return stream;
  }
  void destroy_stream(int, void* stream) noexcept override { (void)cudaStreamDestroy(raw(stream)); }
  void synchronize_stream(int, void* stream) override { TENON_CUDA(cudaStreamSynchronize(raw(stream))); }
  bool query_stream(int, void* stream) override {
    return answer(cudaStreamQuery(raw(stream)), "cudaStreamQuery(stream)", __LINE__);
  }
  void synchronize_device(int) override { TENON_CUDA(cudaDeviceSynchronize()); }

  void* create_event(int, bool timing) override {
    cudaEvent_t event = nullptr;
    TENON_CUDA(cudaEventCreateWithFlags(&event, timing ? cudaEventDefault : cudaEventDisableTiming));
    return event;
  }
  void destroy_event(int, void* event) noexcept override { (void)cudaEventDestroy(raw_event(event)); }
  void record_event(int, void* event, void* stream) override {
    TENON_CUDA(cudaEventRecord(raw_event(event), raw(stream)));
  }
  void wait_event(int, void* stream, void* event) override {
    TENON_CUDA(cudaStreamWaitEvent(raw(stream), raw_event(event), cudaEventWaitDefault));
  }
  bool query_event(int, void* event) override {
    return answer(cudaEventQuery(raw_event(event)), "cudaEventQuery(event)", __LINE__);
  }
  void synchronize_event(int, void* event) override { TENON_CUDA(cudaEventSynchronize(raw_event(event))); }
  double elapsed_ms(int, void* start, void* end) override {
    float ms = 0;
    TENON_CUDA(cudaEventElapsedTime(&ms, raw_event(start), raw_event(end)));
    return ms;
  }

  void host_callback(int device, void* stream, Function<void()> f) override {
    // A graph would run the function once per replay, after its owner has let go of it.
    TENON_CHECK(!is_capturing(device, stream), CaptureError,
                "Stream::add_callback: a callback cannot be captured\n  Add it before or after the capture.");
    auto owned = std::make_unique<Function<void()>>(std::move(f));
    TENON_CUDA(cudaLaunchHostFunc(raw(stream), run_callback, owned.get()));
    owned.release();  // NOLINT(bugprone-unused-return-value): run_callback deletes it
  }
  void copy(int, void* stream, void* to, const void* from, int64_t bytes) override {
    TENON_CUDA(cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), cudaMemcpyDefault, raw(stream)));
  }
  bool is_capturing(int, void* stream) override {
    if (!stream) return false;  // the default stream cannot be captured, and asking would break another's capture
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    TENON_CUDA(cudaStreamIsCapturing(raw(stream), &status));
    return status != cudaStreamCaptureStatusNone;
  }

  bool device_properties(int device, cuda::DeviceProperties& out) override {
    TENON_CHECK(device >= 0 && device < kMaxDevices, DeviceError, "device_properties: device: got ordinal ", device);
    std::lock_guard lock(mutex_);
    cuda::DeviceProperties& known = properties_[device];
    if (known.major == 0) known = read_properties(device);
    out = known;
    return true;
  }
  void memory_info(int, int64_t& free, int64_t& total) override {
    size_t free_bytes = 0, total_bytes = 0;
    TENON_CUDA(cudaMemGetInfo(&free_bytes, &total_bytes));
    free = static_cast<int64_t>(free_bytes);
    total = static_cast<int64_t>(total_bytes);
  }
  int runtime_version() override { return CUDART_VERSION; }
  int driver_version() override {
    int version = 0;
    TENON_CUDA(cudaDriverGetVersion(&version));
    return version;
  }
  const char* arch_list() override { return TENON_CUDA_ARCH_LIST; }
  void describe_error(int code, const char*& name, const char*& text) override {
    name = cudaGetErrorName(static_cast<cudaError_t>(code));
    text = cudaGetErrorString(static_cast<cudaError_t>(code));
  }
  void check_device(int device) override {
    cuda::DeviceProperties p;
    device_properties(device, p);
    TENON_CHECK(arch_list()[0] == '\0' || cuda::arch_list_covers(arch_list(), p.major, p.minor), ArchError,
                cuda::arch_message(arch_list(), device, p.name, p.major, p.minor));
  }

 private:
  static void run_callback(void* data) {
    const std::unique_ptr<Function<void()>> f(static_cast<Function<void()>*>(data));
    (*f)();  // does not throw: streams/stream.cpp catches
  }

  static cuda::DeviceProperties read_properties(int device) {
    cudaDeviceProp all;
    TENON_CUDA(cudaGetDeviceProperties(&all, device));
    cuda::DeviceProperties p;
    p.name = all.name;
    char bus[32] = "";
    TENON_CUDA(cudaDeviceGetPCIBusId(bus, sizeof bus, device));
    p.pci_bus_id = bus;
    p.major = all.major;
    p.minor = all.minor;
    p.multiprocessors = all.multiProcessorCount;
    p.warp_size = all.warpSize;
    p.max_threads_per_multiprocessor = all.maxThreadsPerMultiProcessor;
    p.memory = static_cast<int64_t>(all.totalGlobalMem);
    p.l2_cache = all.l2CacheSize;
    p.shared_memory_per_block = attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
    return p;
  }

  std::mutex mutex_;
  cuda::DeviceProperties properties_[kMaxDevices];
};

// Never destroyed: it must outlast every static object that still holds a stream or an event.
const bool registered = [] {
  try {
    register_raw_streams(kCUDA, new CudaStreams);
    return true;
  } catch (const std::exception&) {  // a second copy of this library: the first one serves
    return false;
  }
}();

}  // namespace
}  // namespace tenon
