// SPDX-License-Identifier: Apache-2.0
#include <tenon/kernels/cuda/device_error.h>
#include <tenon/kernels/cuda/launch.h>
#include <tenon/memory/allocator.h>
#include <tenon/streams/guard.h>
#include <tenon/streams/raw_streams.h>

#include <cstring>
#include <mutex>

namespace tenon::cuda {
namespace {

__device__ unsigned claim_word;  // zero when the module is loaded

struct Mailbox {
  Fault* note;
  unsigned* claim;
};
Mailbox boxes[kMaxDevices];  // note is set last, and for good
std::mutex boxes_mutex;

// Setting up may happen while a graph is captured; what it does is no work on a stream.
struct RelaxedCapture {
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  RelaxedCapture() { TENON_CUDA(cudaThreadExchangeStreamCaptureMode(&mode)); }
  ~RelaxedCapture() { (void)cudaThreadExchangeStreamCaptureMode(&mode); }
};

void open_mailbox(Mailbox& box) {
  const std::lock_guard lock(boxes_mutex);
  if (__atomic_load_n(&box.note, __ATOMIC_ACQUIRE)) return;
  const RelaxedCapture relaxed;
  void* claim = nullptr;
  TENON_CUDA(cudaGetSymbolAddress(&claim, claim_word));
  box.claim = static_cast<unsigned*>(claim);
  // Never given back: kernels in flight may hold the address.
  void* note = memory::allocate_pinned(sizeof(Fault)).data;
  std::memset(note, 0, sizeof(Fault));
  __atomic_store_n(&box.note, static_cast<Fault*>(note), __ATOMIC_RELEASE);
}

void check_faults(int device) {
  Fault* note = device >= 0 && device < kMaxDevices ? __atomic_load_n(&boxes[device].note, __ATOMIC_ACQUIRE) : nullptr;
  Fault fault;
  if (!note || !take_fault(*note, fault)) return;
  // In stream order: kernels queued from here on can report again.
  {
    const DeviceGuard guard(Device(kCUDA, device));
    const auto stream = static_cast<cudaStream_t>(current_stream(Device(kCUDA, device)).handle());
    TENON_CUDA(cudaMemsetAsync(boxes[device].claim, 0, sizeof(unsigned), stream));
  }
  throw IndexError(fault_text(fault, device));
}

[[maybe_unused]] const bool registered = [] {
  tenon::detail::set_fault_check(&check_faults);
  return true;
}();

}  // namespace

IndexCheck index_check(const char* op, const char* argument, int64_t size, int64_t dim) {
  const int device = current_device(kCUDA);
  TENON_ASSERT(device >= 0 && device < kMaxDevices);
  Mailbox& box = boxes[device];
  if (!__atomic_load_n(&box.note, __ATOMIC_ACQUIRE)) [[unlikely]]
    open_mailbox(box);
  return {box.note, box.claim, op, argument, size, static_cast<int32_t>(dim)};
}

}  // namespace tenon::cuda
