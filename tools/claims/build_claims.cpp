// SPDX-License-Identifier: Apache-2.0
// What the library costs before it does anything: its headers, its size, its start.
#include "claims.h"

#include <tenon/tenon.h>

#include <dlfcn.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

extern char** environ;

namespace tenon::claims {

// The first tensor of a fresh process; its parent measures the time. The most memory it had is for itself to say: what
// wait4 tells includes the parent's, from before the program was replaced. 255: unknown, else MB as the exit status.
int start_up_child() {
  if (ones({1}).item<float>() != 1.0f) return 255;
  int kib = 0;
  if (std::FILE* f = std::fopen("/proc/self/status", "r")) {
    char line[256];
    while (std::fgets(line, sizeof line, f) && std::sscanf(line, "VmHWM: %d kB", &kib) != 1) kib = 0;
    std::fclose(f);
  }
  return kib > 0 ? std::min(254, (kib * 1024 + 999'999) / 1'000'000) : 255;
}

namespace {

std::string library_path() {
  Dl_info info{};
  return dladdr(reinterpret_cast<void*>(&memory::memory_allocated), &info) && info.dli_fname ? info.dli_fname : "";
}

int64_t file_size(const std::string& path) {
  struct stat s {};
  return stat(path.c_str(), &s) == 0 ? static_cast<int64_t>(s.st_size) : -1;
}

Outcome library_size(const std::string& path, int64_t limit) {
  const int64_t bytes = file_size(path);
  if (bytes < 0) return cannot_run(path + " not found");
  return judge(bytes <= limit, mib(bytes));
}

// Lines that the compiler sees after the preprocessor.
Outcome header_lines(const char* include, int limit) {
#if defined(TENON_CLAIMS_INCLUDE)
  if (std::system("command -v c++ >/dev/null 2>&1") != 0) return cannot_run("no compiler named c++");
  const std::string command = std::string("echo '#include <") + include +
                              ">' | c++ -std=c++20 -E -x c++ -I'" TENON_CLAIMS_INCLUDE "' - 2>/dev/null | wc -l";
  std::FILE* pipe = popen(command.c_str(), "r");
  int lines = 0;
  if (pipe && std::fscanf(pipe, "%d", &lines) != 1) lines = 0;
  if (pipe) pclose(pipe);
  if (lines < 100) return cannot_run("the headers are not at " TENON_CLAIMS_INCLUDE);
  return judge(lines <= limit, std::to_string(lines) + " lines");
#else
  return cannot_run(std::string("the place of ") + include + " is not known");
#endif
}

struct Start {
  double milliseconds = 1e30;
  int megabytes = 255;
  bool ok = false;
};
const Start& start_up() {
  static const Start measured = [] {
    Start best;
    for (int i = 0; i < 7; ++i) {
      char* const arguments[] = {const_cast<char*>("tenon-claims"), const_cast<char*>("--start-up-child"), nullptr};
      pid_t child = 0;
      const auto begin = std::chrono::steady_clock::now();
      if (posix_spawn(&child, "/proc/self/exe", nullptr, nullptr, arguments, environ) != 0) return best;
      int status = 1;
      waitpid(child, &status, 0);
      const double ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
      best.ok = WIFEXITED(status) && WEXITSTATUS(status) < 255;
      best.milliseconds = std::min(best.milliseconds, ms);
      if (best.ok) best.megabytes = std::min(best.megabytes, WEXITSTATUS(status));
    }
    return best;
  }();
  return measured;
}

const Area area("build",
                {
                    {301, "a user's file that includes everything (<tenon/tenon.h>) has at most 45,000 lines",
                     [] { return header_lines("tenon/tenon.h", 45'000); }},
                    {302, "the header of Tensor alone has at most 45,000 lines",
                     [] { return header_lines("tenon/core/tensor.h", 45'000); }},
                    {303, "the CPU library has at most 15 MiB", [] { return library_size(library_path(), 15 << 20); }},
                    {304, "the CUDA library, one architecture, has at most 40 MiB",
                     [] {
                       std::string path = library_path();
                       const size_t slash = path.rfind('/');
                       path = (slash == std::string::npos ? "" : path.substr(0, slash + 1)) + "libtenon_cuda.so";
                       if (file_size(path) < 0) return cannot_run("not built here");
                       return library_size(path, 40 << 20);
                     }},
                    {305, "a program starts, makes a tensor and ends within 50 ms",
                     [] {
                       const Start& s = start_up();
                       if (!s.ok) return judge(false, "the child failed");
                       return judge(s.milliseconds <= 50, number(s.milliseconds) + " ms");
                     }},
                    {306, "and needs at most 20 MB of memory for that",
                     [] {
                       const Start& s = start_up();
                       if (!s.ok) return judge(false, "the child failed");
                       return judge(s.megabytes <= 20, std::to_string(s.megabytes) + " MB");
                     }},
                });

}  // namespace
}  // namespace tenon::claims
