// SPDX-License-Identifier: Apache-2.0
// A library to preload: it stands between the CUDA runtime and the driver and lets chosen calls fail. The runtime is
// linked into each library and hidden, so its calls cannot be caught themselves; but it opens libcuda.so.1 and asks it for
// every function by name. It gets this library, which depends on the driver: what is not found here is found there.
//
// A wrapper passes on twelve words whatever the function's own arguments are: the ones it has lie where they should.
#include <dlfcn.h>

#include <atomic>
#include <cstdint>
#include <cstring>

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

using Word = std::uintptr_t;
using Call = int (*)(Word, Word, Word, Word, Word, Word, Word, Word, Word, Word, Word, Word);

constexpr const char* kNames[] = {"cuMemAlloc",
                                  "cuMemHostAlloc",
                                  "cuMemcpyAsync",
                                  "cuMemcpyHtoDAsync",
                                  "cuMemcpyDtoHAsync",
                                  "cuMemcpyDtoDAsync",
                                  "cuMemsetD8Async",
                                  "cuMemsetD32Async",
                                  "cuLaunchKernel",
                                  "cuLaunchKernelEx",
                                  "cuLaunchHostFunc",
                                  "cuEventCreate",
                                  "cuEventRecord",
                                  "cuEventRecordWithFlags",
                                  "cuEventQuery",
                                  "cuEventSynchronize",
                                  "cuStreamCreateWithPriority",
                                  "cuStreamWaitEvent",
                                  "cuStreamQuery",
                                  "cuStreamSynchronize",
                                  "cuCtxSynchronize"};
constexpr int kFunctions = sizeof kNames / sizeof *kNames, kVersions = 4;

std::atomic<Call> real[kFunctions][kVersions];
std::atomic<long> calls[kFunctions], fail_at[kFunctions];
std::atomic<int> fail_with[kFunctions];

template <int I, int V>
int wrapper(Word a, Word b, Word c, Word d, Word e, Word f, Word g, Word h, Word i, Word j, Word k, Word l) {
  ++calls[I];
  if (fail_at[I] > 0 && --fail_at[I] == 0) return fail_with[I];
  return real[I][V].load()(a, b, c, d, e, f, g, h, i, j, k, l);
}
template <int I>
constexpr Call kVersionsOf[kVersions] = {wrapper<I, 0>, wrapper<I, 1>, wrapper<I, 2>, wrapper<I, 3>};

template <int I = 0>
Call wrapper_of(int function, int version) {
  if constexpr (I < kFunctions) {
    return function == I ? kVersionsOf<I>[version] : wrapper_of<I + 1>(function, version);
  } else {
    return nullptr;
  }
}

// "cuMemAlloc_v2" is "cuMemAlloc"; -1: not one of ours.
int index_of(const char* name) {
  for (int i = 0; i < kFunctions; ++i) {
    const std::size_t n = std::strlen(kNames[i]);
    if (std::strncmp(name, kNames[i], n) == 0 && (name[n] == '\0' || name[n] == '_')) return i;
  }
  return -1;
}

void* wrapped(const char* name, void* found) {
  const int i = found ? index_of(name) : -1;
  if (i < 0) return found;
  const auto call = reinterpret_cast<Call>(found);
  for (int v = 0; v < kVersions; ++v) {
    Call expected = nullptr;
    if (real[i][v].compare_exchange_strong(expected, call) || expected == call)
      return reinterpret_cast<void*>(wrapper_of(i, v));
  }
  return found;
}

void* driver() {
  static void* const handle =
      reinterpret_cast<void* (*)(const char*, int)>(dlsym(RTLD_NEXT, "dlopen"))("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  return handle;
}

const char* own_path() {
  static Dl_info info{};
  return dladdr(reinterpret_cast<void*>(&index_of), &info) ? info.dli_fname : nullptr;
}

}  // namespace

EXPORT void* dlopen(const char* file, int mode) {
  const auto next = reinterpret_cast<void* (*)(const char*, int)>(dlsym(RTLD_NEXT, "dlopen"));
  void* const handle = next(file, mode);
  const char* const name = file ? std::strrchr(file, '/') : nullptr;
  if (!handle || !file || std::strncmp(name ? name + 1 : file, "libcuda.so", 10) != 0) return handle;
  return next(own_path(), mode);
}

EXPORT int cuGetProcAddress_v2(const char* name, void** function, int version, std::uint64_t flags, int* status) {
  using Ask = int (*)(const char*, void**, int, std::uint64_t, int*);
  const auto ask = reinterpret_cast<Ask>(dlsym(driver(), "cuGetProcAddress_v2"));
  const int result = ask ? ask(name, function, version, flags, status) : 500;
  // The runtime asks for this function, too.
  if (result == 0 && function && std::strcmp(name, "cuGetProcAddress") == 0) {
    *function = reinterpret_cast<void*>(&cuGetProcAddress_v2);
  } else if (result == 0 && function) {
    *function = wrapped(name, *function);
  }
  return result;
}

// ---- what a test calls, found by dlsym ----

EXPORT int tenon_shim_functions() { return kFunctions; }
EXPORT const char* tenon_shim_name(int function) { return kNames[function]; }
EXPORT long tenon_shim_calls(int function) { return calls[function]; }
/// The `index`-th call from now on returns `code` and does nothing; 0: none does.
EXPORT void tenon_shim_fail(int function, long index, int code) {
  fail_with[function] = code;
  fail_at[function] = index;
}
