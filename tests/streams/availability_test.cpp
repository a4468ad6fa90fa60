// SPDX-License-Identifier: Apache-2.0
// Why CUDA is unavailable: every reason with its remedy, the architecture rules, and what a fork does.
#include <sys/wait.h>
#include <tenon/streams/availability.h>
#include <tenon/streams/devices.h>
#include <unistd.h>

#include <algorithm>
#include <string>

#include "tests/streams/fake_streams.h"

using namespace tenon;
using cuda::CudaProbe;
using cuda::CudaStatus;
using tenon::testing::contains;
using tenon::testing::error_of;

namespace {
CudaProbe working() {
  CudaProbe p;
  p.library = p.driver = true;
  p.runtime_version = 13000;
  p.driver_version = 13010;
  p.arch_list = "75-real;90";
  p.device_count = 1;
  p.capabilities = {{9, 0}};
  return p;
}

struct Row {
  const char* name;
  void (*change)(CudaProbe&);
  CudaStatus status;
  const char* reason;
  const char* remedy;
};
const Row kRows[] = {
    {"newer minor driver", [](CudaProbe& p) { p.driver_version = 14020; }, CudaStatus::available, "", ""},
    {"older minor driver", [](CudaProbe& p) { p.runtime_version = 13010, p.driver_version = 13000; },
     CudaStatus::available, "", ""},
    {"one of two cards served",
     [](CudaProbe& p) {
       p.device_count = 2, p.capabilities = {{7, 0}, {9, 0}};
     },
     CudaStatus::available, "", ""},
    {"no library", [](CudaProbe& p) { p.library = false, p.library_error = "libtenon_cuda.so: no such file"; },
     CudaStatus::no_library, "libtenon_cuda.so: no such file", "-DTENON_CUDA=ON"},
    {"no driver", [](CudaProbe& p) { p.driver = false, p.driver_error = "libcuda.so.1: not found"; },
     CudaStatus::no_driver, "libcuda.so.1: not found", "branch 580"},
    {"toolkit stub", [](CudaProbe& p) { p.driver_status = 34, p.device_count = 0; }, CudaStatus::no_driver, "stub",
     "LD_LIBRARY_PATH"},
    {"old driver", [](CudaProbe& p) { p.driver_version = 12080; }, CudaStatus::driver_too_old,
     "supports CUDA 12.8, tenon was built for CUDA 13.0", "branch 580"},
    {"old driver for 12", [](CudaProbe& p) { p.runtime_version = 12040, p.driver_version = 11080; },
     CudaStatus::driver_too_old, "CUDA 12.4", "branch 525"},
    {"compat package", [](CudaProbe& p) { p.driver_status = 804; }, CudaStatus::driver_too_old, "804", "cuda-compat"},
    {"no device", [](CudaProbe& p) { p.driver_status = 100, p.device_count = 0; }, CudaStatus::no_device,
     "finds no CUDA device", "nvidia-smi"},
    {"hidden", [](CudaProbe& p) { p.device_count = 0, p.has_visible_devices = true, p.visible_devices = "-1"; },
     CudaStatus::no_device, "CUDA_VISIBLE_DEVICES=\"-1\" hides", "Unset CUDA_VISIBLE_DEVICES"},
    {"hidden by nothing", [](CudaProbe& p) { p.device_count = 0, p.has_visible_devices = true; }, CudaStatus::no_device,
     "CUDA_VISIBLE_DEVICES=\"\" hides", "CUDA_VISIBLE_DEVICES=0"},
    {"container", [](CudaProbe& p) { p.device_count = 0, p.driver_status = 100, p.physical_devices = 2; },
     CudaStatus::no_device, "has 2 CUDA device(s)", "--gpus all"},
    {"architecture",
     [](CudaProbe& p) {
       p.capabilities = {{7, 0}};
     },
     CudaStatus::arch_mismatch, "compute capability 7.0; tenon was compiled for 75-real;90",
     "-DTENON_CUDA_ARCHITECTURES=70"},
    {"fabric manager", [](CudaProbe& p) { p.driver_status = 802; }, CudaStatus::error, "802", "fabricmanager"},
    {"driver update", [](CudaProbe& p) { p.driver_status = 803; }, CudaStatus::error, "different versions", "Reboot"},
    {"unknown failure", [](CudaProbe& p) { p.driver_status = 999; }, CudaStatus::error, "999", "nvidia-smi"},
    {"forked", [](CudaProbe& p) { p.forked = true; }, CudaStatus::error, "forked", "after the fork"},
};
}  // namespace

TEST_CASE("each reason for missing CUDA has its status and remedy", "[availability]") {
  CHECK(cuda::diagnose(working()).status == CudaStatus::available);
  for (const Row& row : kRows) {
    CudaProbe p = working();
    row.change(p);
    const auto a = cuda::diagnose(p);
    INFO(row.name << ": " << cuda::name(a.status) << ": " << a.reason << " | " << a.remedy);
    CHECK(a.status == row.status);
    CHECK(contains(a.reason, row.reason));
    CHECK(contains(a.remedy, row.remedy));
    CHECK(a.reason.empty() == (row.status == CudaStatus::available));
    CHECK(a.remedy.empty() == (row.status == CudaStatus::available));
  }
}

TEST_CASE("minimum drivers follow the runtime's major version", "[availability]") {
  CHECK(cuda::minimum_driver(13000) == 580);
  CHECK(cuda::minimum_driver(13020) == 580);
  CHECK(cuda::minimum_driver(12080) == 525);
  CHECK(cuda::minimum_driver(11040) == 450);
  CHECK(cuda::minimum_driver(0) == 0);
}

TEST_CASE("architecture lists cover what their code and PTX can run on", "[availability]") {
  struct {
    const char* list;
    int major, minor;
    bool covered;
  } const rows[] = {
      {"90", 9, 0, true},          {"90", 10, 0, true},         {"90-real", 10, 0, false},
      {"80-real", 8, 6, true},     {"86-real", 8, 0, false},    {"80-virtual", 8, 9, true},
      {"80-virtual", 12, 0, true}, {"90a", 9, 0, true},         {"90a", 10, 0, false},
      {"90a-real", 9, 0, true},    {"75-real;90", 8, 0, false}, {"75-real;80;90", 8, 9, true},
      {"75-real;90", 7, 5, true},  {"120", 12, 1, true},        {"100-real,120", 10, 3, true},
      {"", 9, 0, false},           {"75", 7, 0, false},
  };
  for (const auto& row : rows) {
    INFO(row.list << " on " << row.major << "." << row.minor);
    CHECK(cuda::arch_list_covers(row.list, row.major, row.minor) == row.covered);
  }
}

TEST_CASE("the architecture message names card, list and flag in three lines", "[availability]") {
  const std::string text = cuda::arch_message("75-real;90", 1, "NVIDIA Old", 7, 0);
  CHECK(text ==
        "cuda:1 (NVIDIA Old) has compute capability 7.0; tenon was compiled for 75-real;90\n"
        "  Rebuild with -DTENON_CUDA_ARCHITECTURES=70.");
}

TEST_CASE("without CUDA every question is answered and every use says why", "[availability]") {
  if (cuda::is_available()) TENON_SKIP("there is a CUDA device");
  const auto a = cuda::availability();
  CHECK_FALSE(a.reason.empty());
  CHECK_FALSE(a.remedy.empty());
  CHECK(device_count(kCUDA) == 0);
  CHECK(cuda::device_count() == 0);
  const auto text = error_of<DeviceError>([] { raw_streams(kCUDA); });
  CHECK(contains(text, a.reason));
  CHECK(contains(text, a.remedy));
  CHECK(std::count(text.begin(), text.end(), '\n') <= 2);
  CHECK(error_of<DeviceError>([] { Stream::from_pool(); }) == text);
  CHECK(error_of<DeviceError>([] { resolve(Device(kCUDA, 0)); }) == text);
  CHECK(error_of<DeviceError>([] { DeviceGuard guard(Device(kCUDA, 0)); }) == text);
  CHECK(error_of<DeviceError>([] { cuda::device_name(0); }) == text);
  CHECK_THROWS_AS(synchronize(), DeviceError);
}

TEST_CASE("after a fork the CPU works and CUDA says what to do", "[availability][fork]") {
  detail::note_cuda_used();
  CHECK_FALSE(detail::forked_after_cuda());
  const pid_t child = fork();
  if (child == 0) {
    int failed = 0;
    if (!detail::forked_after_cuda()) failed |= 1;
    if (cuda::is_available() || find_raw_streams(kCUDA)) failed |= 2;
    try {
      Stream::from_pool(0, Device(kCUDA, 0));
      failed |= 4;
    } catch (const DeviceError& e) {
      if (!contains(e.what(), "forked") || !contains(e.what(), "after the fork")) failed |= 8;
    }
    int ran = 0;
    Stream::from_pool(0, kCPU).add_callback([&] { ++ran; });
    if (ran != 1 || resolve(kCPU) != Device()) failed |= 16;
    _exit(failed);
  }
  REQUIRE(child > 0);
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  CHECK_FALSE(detail::forked_after_cuda());
}

TEST_CASE("launch blocking can be switched", "[availability]") {
  const bool before = cuda::launch_blocking();
  cuda::set_launch_blocking(!before);
  CHECK(cuda::launch_blocking() == !before);
  cuda::set_launch_blocking(before);
  CHECK(cuda::launch_blocking() == before);
}
