// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>
#include <sched.h>
#include <tenon/core/error.h>
#include <tenon/memory/allocator.h>
#include <tenon/memory/env_report.h>
#include <tenon/streams/availability.h>
#include <tenon/streams/devices.h>
#include <tenon/version.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <string_view>
#include <utility>

namespace tenon {

namespace {

class Report {
 public:
  void section(std::string_view name) { text_.append(text_.empty() ? "" : "\n").append(name) += '\n'; }
  void line(std::string_view name, std::string_view value) {
    text_.append("  ").append(name).append(": ");
    for (const char c : value) text_.append(c == '\n' ? "\n    " : std::string_view(&c, 1));
    text_ += '\n';
  }
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

// "key ... : value" of a /proc or /sys file, or its first line for an empty key.
std::string from_file(const char* path, std::string_view key = {}) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (key.empty()) return line;
    if (line.compare(0, key.size(), key) != 0) continue;
    const auto value = line.find_first_not_of(" \t", line.find(':') + 1);
    return value == std::string::npos ? std::string() : line.substr(value);
  }
  return "unknown";
}

std::string mib(int64_t bytes) { return std::to_string(bytes >> 20) + " MiB"; }

// 13000 -> "13.0"
std::string cuda_version(int version) {
  return version == 0 ? "none" : std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

const char* simd() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512cd")) {
    return "AVX-512";
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2")) return "AVX2";
#endif
  return "baseline";
}

void report_build(Report& r) {
  r.section("tenon " TENON_VERSION);
#if defined(__clang__)
  r.line("compiler", "clang " __clang_version__);
#else
  r.line("compiler", "g++ " __VERSION__);
#endif
  std::string build;
#ifdef NDEBUG
  build = "release";
#else
  build = "debug";
#endif
#ifdef TENON_STATIC
  build += ", static";
#else
  build += ", shared";
#endif
#if defined(__SANITIZE_ADDRESS__)
  build += ", AddressSanitizer";
#elif defined(__SANITIZE_THREAD__)
  build += ", ThreadSanitizer";
#endif
  r.line("build", build);
}

void report_cpu(Report& r) {
  r.section("CPU");
  r.line("model", from_file("/proc/cpuinfo", "model name"));
  r.line("SIMD", simd());
  cpu_set_t set;
  const int usable = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 0;
  r.line("threads", std::to_string(usable) + " usable of " + std::to_string(sysconf(_SC_NPROCESSORS_ONLN)));
  r.line("memory", mib(static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE)));
  r.line("huge pages", from_file("/sys/kernel/mm/transparent_hugepage/enabled"));
}

void report_cuda(Report& r) {
  r.section("CUDA");
  const cuda::CudaProbe probe = cuda::probe();
  const cuda::CudaAvailability a = cuda::availability();
  r.line("status", cuda::name(a.status));
  if (!a.reason.empty()) r.line("reason", a.reason);
  if (!a.remedy.empty()) r.line("remedy", a.remedy);
  r.line("driver", cuda_version(probe.driver_version));
  if (probe.driver) r.line("kernel module", from_file("/sys/module/nvidia/version"));
  r.line("runtime", cuda_version(probe.runtime_version));
  r.line("architectures", probe.arch_list.empty() ? "none" : probe.arch_list);
  if (probe.runtime_version > 0) {
    r.line("needs driver", std::to_string(cuda::minimum_driver(probe.runtime_version)) + " or newer");
  }
  // Without the library's own view of them there is nothing more to say about devices.
  const int count = cuda::device_count();
  r.line("devices", std::to_string(count));
  for (int i = 0; i < count; ++i) {
    const cuda::DeviceProperties p = cuda::device_properties(i);
    r.line("cuda:" + std::to_string(i),
           detail::concat(p.name, " at ", p.pci_bus_id, ", compute capability ", p.major, ".", p.minor, ", ",
                          p.multiprocessors, " multiprocessors, ", mib(p.memory), ", L2 ", mib(p.l2_cache),
                          ", shared memory ", p.shared_memory_per_block >> 10, " KiB a block",
                          cuda::arch_list_covers(probe.arch_list, p.major, p.minor) ? "" : " (no code for it)"));
  }
}

// How a library tells its version: a function without arguments returning a number, or one filling an int.
struct VendorLibrary {
  const char* name;
  const char* file;
  const char* version;
  bool by_argument;
};
constexpr VendorLibrary kLibraries[] = {
    {"cuBLASLt", "libcublasLt.so.13", "cublasLtGetVersion", false},
    {"cuDNN", "libcudnn.so.9", "cudnnGetVersion", false},
    {"NCCL", "libnccl.so.2", "ncclGetVersion", true},
    {"NVRTC", "libnvrtc.so.13", nullptr, false},
    {"CUPTI", "libcupti.so.13", nullptr, false},
    {"oneDNN", "libdnnl.so.2", nullptr, false},
    {"OpenBLAS", "libopenblas.so.0", nullptr, false},
};

void report_libraries(Report& r) {
  r.section("Libraries");
  for (const VendorLibrary& library : kLibraries) {
    // Kept loaded: what a vendor library allocates when it starts would be lost with it, and be reported as a leak.
    void* handle = dlopen(library.file, RTLD_LAZY | RTLD_LOCAL | RTLD_NODELETE);
    if (!handle) {
      const char* why = dlerror();
      r.line(library.name, std::string("not found (") + (why ? why : library.file) + ")");
      continue;
    }
    std::string found = std::string("found (") + library.file;
    if (void* symbol = library.version ? dlsym(handle, library.version) : nullptr) {
      int filled = 0;
      const auto number = library.by_argument ? (reinterpret_cast<int (*)(int*)>(symbol)(&filled), size_t(filled))
                                              : reinterpret_cast<size_t (*)()>(symbol)();
      found += ", version " + std::to_string(number);
    }
    r.line(library.name, found + ")");
    dlclose(handle);
  }
}

void report_environment(Report& r) {
  r.section("Allocator");
  try {
    r.line("settings", memory::allocator_settings());
  } catch (const Error& e) {  // TENON_ALLOC_CONF is wrong: that is worth reading here
    r.line("settings", std::string("invalid: ") + e.what());
  }
  r.section("Environment");
  for (const char* name :
       {"CUDA_VISIBLE_DEVICES", "CUDA_LAUNCH_BLOCKING", "CUDA_MODULE_LOADING", "TENON_ALLOC_CONF", "TENON_NUM_THREADS",
        "OMP_NUM_THREADS", "OPENBLAS_CORETYPE", "OPENBLAS_NUM_THREADS", "LD_LIBRARY_PATH", "NCCL_DEBUG"}) {
    const char* value = std::getenv(name);
    r.line(name, !value ? "not set" : *value ? value : "empty");
  }
}

}  // namespace

std::string env_report() {
  Report report;
  report_build(report);
  report_cpu(report);
  report_cuda(report);
  report_libraries(report);
  report_environment(report);
  return report.take();
}

}  // namespace tenon
