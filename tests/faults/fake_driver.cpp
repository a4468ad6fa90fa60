// SPDX-License-Identifier: Apache-2.0
// A libcuda.so.1 with two functions, to try cuda_shim.cpp on where there is no driver. It also gives the shim its
// dependency on the real one, whose name it bears.
#include <cstdint>
#include <cstring>

#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT int cuMemAlloc_v2(unsigned long long* address, unsigned long bytes) {
  *address = bytes * 2;
  return 0;
}
// As many arguments as a launch has, some of which travel on the stack.
EXPORT int cuLaunchKernel(void* f, unsigned a, unsigned b, unsigned c, unsigned d, unsigned e, unsigned g, unsigned h,
                          void* s, void** p, void** x) {
  *static_cast<std::uint64_t*>(f) = a + 10ull * b + 100ull * c + 1000ull * d + 10000ull * e + 100000ull * g + h +
                                    reinterpret_cast<std::uintptr_t>(s) + reinterpret_cast<std::uintptr_t>(p) +
                                    reinterpret_cast<std::uintptr_t>(x);
  return 0;
}
EXPORT int cuDriverGetVersion(int* version) {
  *version = 13000;
  return 0;
}
EXPORT int cuGetProcAddress_v2(const char* name, void** function, int, std::uint64_t, int*) {
  *function = nullptr;
  if (std::strcmp(name, "cuMemAlloc") == 0) *function = reinterpret_cast<void*>(&cuMemAlloc_v2);
  if (std::strcmp(name, "cuLaunchKernel") == 0) *function = reinterpret_cast<void*>(&cuLaunchKernel);
  if (std::strcmp(name, "cuGetProcAddress") == 0) *function = reinterpret_cast<void*>(&cuGetProcAddress_v2);
  return *function ? 0 : 500;
}
