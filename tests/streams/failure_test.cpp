// SPDX-License-Identifier: Apache-2.0
// What failing CUDA calls throw, on a fake card: types, texts, remedies.
#include "tests/streams/fake_streams.h"

#include <tenon/streams/devices.h>
#include <tenon/streams/failure.h>
#include <tenon/streams/op_context.h>

#include <algorithm>
#include <string>
#include <thread>

using namespace tenon;
using tenon::testing::contains;
using tenon::testing::error_of;

namespace {

struct FakeCuda : tenon::testing::FakeStreams {
  const char* archs = "75-real,90";
  int major = 7, minor = 0;
  bool device_properties(int device, cuda::DeviceProperties& out) override {
    out.name = "Card " + std::to_string(device);
    out.major = major;
    out.minor = minor;
    out.multiprocessors = 4;
    return true;
  }
  void memory_info(int device, int64_t& free, int64_t& total) override {
    free = 100 + device, total = current_device() == device ? 1000 : -1;
  }
  int runtime_version() override { return 13000; }
  int driver_version() override { return 13010; }
  const char* arch_list() override { return archs; }
  void describe_error(int code, const char*& name, const char*& text) override {
    if (code == 700) name = "cudaErrorIllegalAddress", text = "an illegal memory access was encountered";
    if (code == 1) name = "cudaErrorInvalidValue", text = "invalid argument";
  }
  void check_device(int device) override {
    cuda::DeviceProperties p;
    device_properties(device, p);
    TENON_CHECK(cuda::arch_list_covers(archs, p.major, p.minor), ArchError,
                cuda::arch_message(archs, device, p.name, p.major, p.minor));
  }
};
using FakeCard = tenon::testing::FakeDeviceOf<FakeCuda, kCUDA>;

template <class E>
std::string failure(int code) {
  const std::string text =
      error_of<E>([&] { detail::fail_cuda(code, "cudaThing(x)", "/a/b/kernels/cuda/add.cu", 42); });
  CHECK(std::count(text.begin(), text.end(), '\n') <= 2);
  return text;
}

}  // namespace

TEST_CASE("a CUDA error names operator, call, error, place and device", "[failure]") {
  FakeCard card;
  card->major = 9;
  DeviceGuard guard(Device(kCUDA, 1));
  CHECK(failure<CudaError>(1) ==
        "cudaThing(x): cudaErrorInvalidValue 1 (invalid argument)\n  at kernels/cuda/add.cu:42 on cuda:1");
  OpContext outer("matmul");
  {
    OpContext inner("add");
    CHECK(contains(failure<CudaError>(1), "add: cudaThing(x): "));
    std::thread([] { CHECK(current_operator == nullptr); }).join();
  }
  CHECK(contains(failure<CudaError>(1), "matmul: cudaThing(x): "));
  CHECK(contains(failure<CudaError>(101), "Devices visible: 3"));
  CHECK(contains(failure<CudaError>(701), "more registers or shared memory"));
  CHECK(contains(failure<CudaError>(9999), "cudaError 9999"));
  CHECK(failure<CaptureError>(900) != "");
  CHECK(failure<CaptureError>(908) != "");
}

TEST_CASE("a kernel fault tells how to find the kernel", "[failure]") {
  FakeCard card;
  const bool before = cuda::launch_blocking();
  for (const int code : {700, 702, 710, 714, 715, 716, 717, 718, 719}) {
    cuda::set_launch_blocking(false);
    CHECK(contains(failure<CudaError>(code), "CUDA_LAUNCH_BLOCKING=1"));
    cuda::set_launch_blocking(true);
    CHECK(contains(failure<CudaError>(code), "must be restarted"));
  }
  cuda::set_launch_blocking(before);
  CHECK(contains(failure<CudaError>(700), "cudaErrorIllegalAddress 700 (an illegal memory access was encountered)"));
}

TEST_CASE("missing machine code names the card and the flag", "[failure]") {
  FakeCard card;
  OpContext context("add");
  for (const int code : {98, 209, 218, 222}) {
    CHECK(failure<ArchError>(code) ==
          "add: cuda:0 (Card 0) has compute capability 7.0; tenon was compiled for 75-real,90\n"
          "  Rebuild with -DTENON_CUDA_ARCHITECTURES=70.");
  }
  card->major = 9;  // then tenon's own code is there
  const std::string text = failure<ArchError>(209);
  CHECK(contains(text, "no code for compute capability 9.0"));
  CHECK(contains(text, "-DCMAKE_CUDA_ARCHITECTURES=90"));
}

TEST_CASE("the first use of a device checks its architecture", "[failure]") {
  FakeCard card;
  CHECK(contains(error_of<ArchError>([] { resolve(Device(kCUDA, 1)); }), "-DTENON_CUDA_ARCHITECTURES=70"));
  CHECK_THROWS_AS(Stream::from_pool(), ArchError);
  CHECK(cuda::device_name(1) == "Card 1");  // questions are still answered
  card->major = 9;
  CHECK(resolve(kCUDA) == Device(kCUDA, 0));
}

TEST_CASE("a CUDA call refused in a host callback says so", "[failure]") {
  FakeCard card;
  card->major = 9;
  const Stream s = Stream::from_pool();
  s.add_callback([] { detail::fail_cuda(800, "cudaMalloc(&p, 4)", "x.cu", 1); });
  CHECK(contains(error_of<DeviceError>([&] { s.synchronize(); }), "host callback"));
  CHECK(contains(failure<CudaError>(800), "cudaThing"));  // elsewhere it is an ordinary error
}

TEST_CASE("device questions go to the loaded library", "[failure]") {
  FakeCard card;
  card->major = 9;
  CHECK(cuda::device_count() == 3);
  CHECK(cuda::compute_capability(2) == std::pair(9, 0));
  CHECK(cuda::device_properties(0).multiprocessors == 4);
  CHECK(cuda::mem_get_info(2) == std::pair<int64_t, int64_t>(102, 1000));
  CHECK(current_device(kCUDA) == 0);
  CHECK(cuda::arch_list() == "75-real,90");
  CHECK(cuda::runtime_version() == 13000);
  CHECK(cuda::driver_version() == 13010);
  CHECK_THROWS_AS(cuda::device_name(3), DeviceError);
  CHECK_THROWS_AS(cuda::device_name(-2), DeviceError);
}
