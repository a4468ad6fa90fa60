// SPDX-License-Identifier: Apache-2.0
// Streams, events, callbacks, errors and device questions on a real GPU.
#include "tests/support/catch.h"

#ifdef TENON_TEST_CUDA

#include <tenon/streams/availability.h>
#include <tenon/streams/cuda_check.h>
#include <tenon/streams/event.h>
#include <tenon/streams/guard.h>
#include <tenon/streams/op_context.h>
#include <tenon/streams/raw_streams.h>

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <set>
#include <string>
#include <thread>
#include <vector>

using namespace tenon;
using tenon::testing::contains;
using tenon::testing::error_of;

namespace {

cudaStream_t raw(const Stream& s) { return static_cast<cudaStream_t>(s.handle()); }

struct Buffer {
  void* p = nullptr;
  explicit Buffer(size_t bytes) { TENON_CUDA(cudaMalloc(&p, bytes)); }
  ~Buffer() { (void)cudaFree(p); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
};

}  // namespace

TEST_CASE("the 33rd pooled CUDA stream aliases the first", "[cuda][stream]") {
  TENON_REQUIRE_CUDA();
  for (const int priority : {0, -1}) {
    std::vector<Stream> streams;
    for (int i = 0; i < 33; ++i) streams.push_back(Stream::from_pool(priority));
    CHECK(streams[32] == streams[0]);
    std::set<void*> handles;
    for (const Stream& s : streams) {
      handles.insert(s.handle());
      int reported = 7;
      TENON_CUDA(cudaStreamGetPriority(raw(s), &reported));
      CHECK(reported == priority);
      CHECK(s.priority() == priority);
    }
    CHECK(handles.size() == 32);
  }
  const Stream exclusive = Stream::create_exclusive();
  for (int i = 0; i < 40; ++i) CHECK(Stream::from_pool().handle() != exclusive.handle());
  Stream::destroy_exclusive(exclusive);
}

TEST_CASE("CUDA events measure work on a stream", "[cuda][event]") {
  TENON_REQUIRE_CUDA();
  constexpr size_t kBytes = size_t(256) << 20;
  Buffer buffer(kBytes);
  const Stream s = Stream::from_pool();
  Event start(true), middle(true), end(true);
  TENON_CUDA(cudaMemsetAsync(buffer.p, 0, kBytes, raw(s)));
  start.record(s);
  TENON_CUDA(cudaMemsetAsync(buffer.p, 1, kBytes, raw(s)));
  middle.record(s);
  for (int i = 0; i < 8; ++i) TENON_CUDA(cudaMemsetAsync(buffer.p, 2, kBytes, raw(s)));
  end.record(s);
  end.synchronize();
  CHECK(start.query());
  const double one = start.elapsed_time(middle), eight = middle.elapsed_time(end);
  INFO(one << " ms, " << eight << " ms");
  CHECK(one > 0.01);  // 256 MiB at 25 TB/s
  CHECK(one < 100);
  CHECK(eight > 2 * one);
  CHECK(start.elapsed_time(end) >= eight);
  CHECK_THROWS_AS(start.elapsed_time(s.record_event()), ValueError);
}

TEST_CASE("CUDA streams wait for each other over 10000 rounds", "[cuda][stream]") {
  TENON_REQUIRE_CUDA();
  constexpr int kRounds = 10000;
  constexpr size_t kBytes = 1 << 20;
  Buffer buffer(kBytes), out(4 * kRounds);
  const Stream producer = Stream::from_pool(), consumer = Stream::from_pool(-1);
  for (int i = 0; i < kRounds; ++i) {
    TENON_CUDA(cudaMemsetAsync(buffer.p, i % 251, kBytes, raw(producer)));
    consumer.wait_stream(producer);
    TENON_CUDA(cudaMemcpyAsync(static_cast<char*>(out.p) + 4 * i, static_cast<char*>(buffer.p) + kBytes - 4, 4,
                               cudaMemcpyDeviceToDevice, raw(consumer)));
    producer.wait_stream(consumer);
  }
  consumer.synchronize();
  std::vector<unsigned char> host(4 * kRounds);
  TENON_CUDA(cudaMemcpy(host.data(), out.p, host.size(), cudaMemcpyDeviceToHost));
  int wrong = 0;
  for (int i = 0; i < 4 * kRounds; ++i) wrong += host[i] != (i / 4) % 251;
  CHECK(wrong == 0);
}

TEST_CASE("the default stream is waited for as well", "[cuda][stream]") {
  TENON_REQUIRE_CUDA();
  const Stream s = Stream::from_pool();
  const Stream main = Stream::default_stream(kCUDA);
  CHECK(main.handle() == nullptr);
  Buffer buffer(64 << 20);
  TENON_CUDA(cudaMemsetAsync(buffer.p, 1, 64 << 20, raw(main)));
  s.wait_stream(main);
  s.synchronize();
  CHECK(main.query());
  main.synchronize();
  synchronize();
}

TEST_CASE("another thread keeps its own current CUDA stream", "[cuda][stream]") {
  TENON_REQUIRE_CUDA();
  const Stream s = Stream::from_pool();
  StreamGuard guard(s);
  int32_t other = -1;
  std::thread([&] { other = current_stream(kCUDA).id(); }).join();
  CHECK(other == 0);
  CHECK(current_stream(kCUDA) == s);
}

TEST_CASE("guards make no redundant cudaSetDevice", "[cuda][guard]") {
  TENON_REQUIRE_CUDA();
  const Device current(kCUDA, current_device(kCUDA));
  const int64_t before = detail::set_device_calls();
  for (int i = 0; i < 100; ++i) {
    DeviceGuard device(current);
    StreamGuard stream(Stream::from_pool(0, current));
    Event event;
    event.record(current_stream(current));
    event.wait(Stream::default_stream(current));
  }
  CHECK(detail::set_device_calls() == before);
  if (device_count(kCUDA) > 1) {
    const Device second(kCUDA, current.index() == 0 ? 1 : 0);
    {
      DeviceGuard device(second);
      int index = -1;
      TENON_CUDA(cudaGetDevice(&index));
      CHECK(index == second.index());
      const Stream far = Stream::from_pool(), near = Stream::from_pool(0, current);
      far.wait_stream(near);
      near.wait_stream(far);
      near.wait_stream(Stream::default_stream(second));
    }
    CHECK(current_device(kCUDA) == current.index());
  }
}

TEST_CASE("CUDA callbacks run in order and report to the next synchronize", "[cuda][stream]") {
  TENON_REQUIRE_CUDA();
  const Stream s = Stream::from_pool();
  std::string order;
  for (const char c : std::string("abc")) s.add_callback([&order, c] { order += c; });
  s.add_callback([] { throw IndexError("from the callback"); });
  CHECK(contains(error_of<IndexError>([&] { s.synchronize(); }), "from the callback"));
  CHECK(order == "abc");
  s.synchronize();

  s.add_callback([&] { s.synchronize(); });
  CHECK(contains(error_of<DeviceError>([&] { s.synchronize(); }), "host callback"));
  s.add_callback([] {
    void* p = nullptr;
    TENON_CUDA(cudaMalloc(&p, 4));
  });
  CHECK(contains(error_of<DeviceError>([&] { s.synchronize(); }), "host callback"));
}

TEST_CASE("captures are seen, and what they forbid is a CaptureError", "[cuda][stream]") {
  TENON_REQUIRE_CUDA();
  const Stream s = Stream::create_exclusive();
  CHECK_FALSE(s.is_capturing());
  TENON_CUDA(cudaStreamBeginCapture(raw(s), cudaStreamCaptureModeThreadLocal));
  CHECK(s.is_capturing());
  CHECK_FALSE(Stream::default_stream(kCUDA).is_capturing());
  CHECK_THROWS_AS(s.add_callback([] {}), CaptureError);
  CHECK_THROWS_AS(s.synchronize(), CaptureError);
  cudaGraph_t graph = nullptr;
  (void)cudaStreamEndCapture(raw(s), &graph);  // the synchronize has broken it
  if (graph) (void)cudaGraphDestroy(graph);
  (void)cudaGetLastError();
  Stream::destroy_exclusive(s);
}

TEST_CASE("a failing CUDA call throws a text of three lines", "[cuda][failure]") {
  TENON_REQUIRE_CUDA();
  OpContext context("add");
  const auto text = error_of<CudaError>([] { TENON_CUDA(cudaSetDevice(99)); });
  INFO(text);
  CHECK(contains(text, "add: cudaSetDevice(99): cudaErrorInvalidDevice 101 (invalid device ordinal)\n"));
  CHECK(contains(text, "cuda_test.cpp:"));
  CHECK(contains(text, "Devices visible: "));
  CHECK(std::count(text.begin(), text.end(), '\n') == 2);
  CHECK(cudaGetLastError() == cudaSuccess);  // and nobody finds the error again
  CHECK_THROWS_AS(detail::fail_cuda(cudaErrorNoKernelImageForDevice, "k<<<>>>", __FILE__, __LINE__), ArchError);
  CHECK_THROWS_AS(resolve(Device(kCUDA, kMaxDevices - 1)), DeviceError);
}

TEST_CASE("device questions agree with the runtime", "[cuda][devices]") {
  TENON_REQUIRE_CUDA();
  CHECK(cuda::is_available());
  CHECK(cuda::availability().reason == "");
  int count = 0;
  TENON_CUDA(cudaGetDeviceCount(&count));
  CHECK(cuda::device_count() == std::min(count, kMaxDevices));
  for (int i = 0; i < cuda::device_count(); ++i) {
    cudaDeviceProp expected;
    TENON_CUDA(cudaGetDeviceProperties(&expected, i));
    const cuda::DeviceProperties p = cuda::device_properties(i);
    CHECK(p.name == expected.name);
    CHECK(cuda::device_name(i) == expected.name);
    CHECK(cuda::compute_capability(i) == std::pair(expected.major, expected.minor));
    CHECK(p.multiprocessors == expected.multiProcessorCount);
    CHECK(p.memory == static_cast<int64_t>(expected.totalGlobalMem));
    CHECK(p.l2_cache == expected.l2CacheSize);
    CHECK(p.shared_memory_per_block == static_cast<int64_t>(expected.sharedMemPerBlockOptin));
    CHECK(p.warp_size == 32);
    int same = -1;
    TENON_CUDA(cudaDeviceGetByPCIBusId(&same, p.pci_bus_id.c_str()));
    CHECK(same == i);
    const auto [free, total] = cuda::mem_get_info(i);
    CHECK(free > 0);
    CHECK(free <= total);
    CHECK(total <= p.memory);
  }
  CHECK(cuda::runtime_version() >= 13000);
  CHECK(cuda::driver_version() >= cuda::runtime_version() / 1000 * 1000);
  CHECK(cuda::arch_list() != "");
}

TEST_CASE("a child forked after CUDA was used is told what to do", "[cuda][fork]") {
  TENON_REQUIRE_CUDA();
  Stream::from_pool().synchronize();
  const pid_t child = fork();
  if (child == 0) {
    int failed = 0;
    for (const auto& use : {+[] { Stream::from_pool().synchronize(); }, +[] { current_stream(kCUDA); },
                            +[] { TENON_CUDA(cudaFree(nullptr)); }}) {
      try {
        use();
        failed |= 1;
      } catch (const DeviceError& e) {
        if (!contains(e.what(), "forked")) failed |= 2;
      }
    }
    _exit(failed);
  }
  REQUIRE(child > 0);
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  Stream::from_pool().synchronize();  // the parent goes on
}

#endif  // TENON_TEST_CUDA
