// SPDX-License-Identifier: Apache-2.0
// Streams and events: work on two queues, one waiting for the other, and its time. On the GPU if there is one; the CPU's
// streams run inline and the program is the same. docs/index.md quotes the marked part.
#include <tenon/tenon.h>

#include <iostream>

using namespace tenon;

int main() {
  const cuda::CudaAvailability found = cuda::availability();
  const Device device = cuda::is_available() ? Device(kCUDA, 0) : Device(kCPU);
  std::cout << "on " << device.str() << (found.reason.empty() ? "" : ": ") << found.reason << "\n";

  const Tensor x = rand({512, 512}, TensorOptions(device));
  Tensor product;
  // [streams]
  Stream side = Stream::from_pool(0, device);
  Event begin(true, device), end(true, device);
  side.wait_stream(current_stream(device));  // x was made on the current stream
  {
    StreamGuard guard(side);  // operators queue on `side`, in this thread
    begin.record(side);
    product = x.matmul(x);
    end.record(side);
  }
  Tensor sum = x.sum();  // meanwhile, on the current stream
  current_stream(device).wait_event(end);
  product.record_stream(current_stream(device));  // keeps its memory until this stream is done with it
  Tensor total = product.sum() + sum;
  // [streams]
  std::cout << "total " << total.item<float>() << ", product in " << begin.elapsed_time(end) << " ms\n";

  const memory::MemoryStats stats = memory::memory_stats(device);
  std::cout << "memory: " << stats.allocated << " bytes in use, " << stats.reserved << " reserved\n";
  const double expected = x.matmul(x).sum().item<double>() + x.sum().item<double>();
  const double difference = total.item<double>() / expected - 1;
  return difference < 1e-4 && difference > -1e-4 ? 0 : 1;
}
