// SPDX-License-Identifier: Apache-2.0
// What expandable segments need of CUDA, compiled into libtenon_cuda.
// Internal: not for users' files.
#pragma once

#include <tenon/memory/raw_memory.h>
#include <tenon/streams/cuda_check.h>

#include <memory>

namespace tenon::memory {

/// A segment may be wanted while the calling thread captures a graph; getting it does not belong to the graph, so the
/// thread's capture mode is relaxed meanwhile.
class RelaxedCapture {
 public:
  RelaxedCapture() { (void)cudaThreadExchangeStreamCaptureMode(&mode_); }
  ~RelaxedCapture() { (void)cudaThreadExchangeStreamCaptureMode(&mode_); }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

/// Null when the driver or the card has none.
std::unique_ptr<VirtualMemory> make_cuda_virtual_memory(Device device);

}  // namespace tenon::memory
