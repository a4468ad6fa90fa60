// SPDX-License-Identifier: Apache-2.0
// The campaign on the GPU: calls of the CUDA driver fail one after the other, through the preloaded cuda_shim.cpp, in a
// process of its own. Each failure ends in an error of a type, with the memory back, and the program works again.
#include <tenon/tenon.h>

#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "tests/support/catch.h"

using namespace tenon;

namespace {

std::filesystem::path program_path() { return std::filesystem::read_symlink("/proc/self/exe"); }

std::string library(const char* file) {
  for (const char* folder : {"../lib", "lib"}) {
    const auto path = program_path().parent_path() / folder / file;
    if (std::filesystem::exists(path)) return path.string();
  }
  return {};
}

// This program again, with the shim before the driver.
bool passes(const std::string& test, const std::string& more = {}) {
  const std::string shim = library("libtenon_cuda_shim.so");
  const std::string log = "/tmp/tenon_shim." + std::to_string(getpid());
  const std::string command =
      "LD_PRELOAD='" + shim + "' " + more + " '" + program_path().string() + "' '" + test + "' >" + log + " 2>&1";
  const int status = std::system(command.c_str());
  const bool passed = !shim.empty() && WIFEXITED(status) && WEXITSTATUS(status) == 0;
  if (!passed) (void)std::system(("tail -n 40 " + log).c_str());
  std::remove(log.c_str());
  return passed;
}

struct Shim {
  template <class F>
  static F* find(const char* name) {
    return reinterpret_cast<F*>(dlsym(RTLD_DEFAULT, name));
  }
  int (*functions)() = find<int()>("tenon_shim_functions");
  const char* (*name)(int) = find<const char*(int)>("tenon_shim_name");
  long (*calls)(int) = find<long(int)>("tenon_shim_calls");
  void (*fail)(int, long, int) = find<void(int, long, int)>("tenon_shim_fail");
  bool there() const { return functions && name && calls && fail; }
};

double work() {
  const Device gpu(kCUDA, 0);
  const TensorOptions on(gpu);
  Tensor w = full({32, 32}, 0.25, on);
  w.requires_grad_();
  const Tensor x = full({32, 32}, 2.0).to(gpu);
  const Stream side = Stream::from_pool(0, gpu);
  side.wait_stream(current_stream(gpu));
  Tensor y;
  {
    const StreamGuard guard(side);
    y = x.add(1).softmax(1).mul(3);
    x.record_stream(side);
  }
  current_stream(gpu).wait_stream(side);
  y.record_stream(current_stream(gpu));
  bool called = false;
  struct Wait {  // the callback's reference must not outlive it
    const Stream& stream;
    ~Wait() {
      try {
        stream.synchronize();
      } catch (const Error&) {
      }
    }
  };
  double result = 0;
  {
    const Wait wait{side};
    side.add_callback([&called] { called = true; });
    const Tensor loss = (x * w).mul(y).mean();
    loss.backward();
    result = loss.item<float>() + w.grad().sum().item<float>() + y.cpu().max().item<float>();
    side.synchronize();
  }
  synchronize(gpu);
  return result + (called ? 1 : 1000);
}

}  // namespace

TEST_CASE("campaign on the GPU (child)", "[.][cuda_shim]") {
  const Shim shim;
  REQUIRE(shim.there());
  const Device gpu(kCUDA, 0);
  memory::set_allocator_settings("backend:direct");
  const double expected = work();
  CHECK(work() == expected);
  const int64_t before = memory::memory_allocated(gpu);
  int faults = 0, typed = 0;
  for (int f = 0; f < shim.functions(); ++f) {
    const long first = shim.calls(f);
    CHECK(work() == expected);
    const long count = shim.calls(f) - first;
    std::printf("%s: %ld calls\n", shim.name(f), count);
    for (long n = 1; n <= count; ++n) {
      CAPTURE(shim.name(f), n);
      // 2: out of memory, which is what an allocation refuses with; 304: an error of the operating system.
      const bool allocates = std::string(shim.name(f)).find("Alloc") != std::string::npos;
      shim.fail(f, n, allocates ? 2 : 304);
      ++faults;
      std::string problem;
      try {
        if (work() != expected) problem = "a wrong result without an error";
      } catch (const CudaError& e) {
        ++typed;
        if (e.failure().code == 0 || e.failure().name.empty()) problem = std::string("no code: ") + e.what();
      } catch (const OutOfMemoryError&) {
        ++typed;
      } catch (const std::exception& e) {
        problem = std::string("an error without a type of its own: ") + e.what();
      }
      shim.fail(f, 0, 0);
      try {
        synchronize(gpu);
      } catch (const Error& e) {
        problem += std::string("; does not recover: ") + e.what();
      }
      memory::empty_cache(gpu);
      if (memory::memory_allocated(gpu) != before) problem += "; memory is left";
      CHECK(problem == "");
      CHECK(work() == expected);
    }
  }
  std::printf("%d faults, %d ended in an error\n", faults, typed);
  CHECK(faults > 30);
  CHECK(typed > faults / 2);
}
TEST_CASE("campaign on the GPU: driver calls fail one after the other", "[cuda][fork]") {
  TENON_REQUIRE_CUDA();
  CHECK(passes("[cuda_shim]"));
}

TEST_CASE("the shim counts, fails and passes on (child)", "[.][shim_mechanism]") {
  const Shim shim;
  REQUIRE(shim.there());
  void* driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  REQUIRE(driver != nullptr);
  using Ask = int (*)(const char*, void**, int, uint64_t, int*);
  const auto ask = reinterpret_cast<Ask>(dlsym(driver, "cuGetProcAddress_v2"));
  REQUIRE(ask != nullptr);
  void* p = nullptr;
  REQUIRE(ask("cuMemAlloc", &p, 13000, 0, nullptr) == 0);
  const auto allocate = reinterpret_cast<int (*)(unsigned long long*, unsigned long)>(p);
  unsigned long long address = 0;
  CHECK(allocate(&address, 21) == 0);
  CHECK(address == 42);
  shim.fail(0, 2, 2);
  CHECK(std::string(shim.name(0)) == "cuMemAlloc");
  CHECK(allocate(&address, 1) == 0);
  CHECK(allocate(&address, 3) == 2);
  CHECK(address == 2);
  CHECK(allocate(&address, 1) == 0);
  CHECK(shim.calls(0) == 4);
  REQUIRE(ask("cuLaunchKernel", &p, 13000, 0, nullptr) == 0);
  using Launch =
      int (*)(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**, void**);
  uint64_t seen = 0;
  const auto word = [](uintptr_t n) { return reinterpret_cast<void**>(n); };
  CHECK(reinterpret_cast<Launch>(p)(&seen, 1, 2, 3, 4, 5, 6, 7, word(1000000), word(20000000), word(300000000)) == 0);
  CHECK(seen == 321654321u + 7);
  CHECK(ask("cuNothing", &p, 13000, 0, nullptr) == 500);
  // What the shim lacks is the driver's.
  int version = 0;
  const auto get_version = reinterpret_cast<int (*)(int*)>(dlsym(driver, "cuDriverGetVersion"));
  REQUIRE(get_version != nullptr);
  CHECK(get_version(&version) == 0);
  CHECK(version == 13000);
}
TEST_CASE("the shim between a runtime and a driver", "[faults]") {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  TENON_SKIP("the sanitizers want to be loaded first");
#endif
  const auto fake = program_path().parent_path() / "../lib/fake_driver";
  if (!std::filesystem::exists(fake / "libcuda.so.1")) TENON_SKIP("there is no made driver here");
  CHECK(passes("[shim_mechanism]", "LD_LIBRARY_PATH='" + fake.string() + "'"));
}
