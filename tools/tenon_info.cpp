// SPDX-License-Identifier: Apache-2.0
// tenon-info: prints the environment, and why CUDA is unavailable when it is. Exit status 0; with --require-cuda
// 1 unless CUDA is available, for scripts; 2 when TENON_ALLOC_CONF is wrong.
#include <tenon/memory/allocator.h>
#include <tenon/memory/env_report.h>
#include <tenon/streams/availability.h>
#include <tenon/version.h>

#include <cstdio>
#include <exception>
#include <string_view>

int main(int argc, char** argv) try {
  bool require_cuda = false;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument == "--version") return std::puts(TENON_VERSION) < 0;
    if (argument == "--require-cuda") {
      require_cuda = true;
    } else {
      const bool help = argument == "--help" || argument == "-h";
      std::fprintf(help ? stdout : stderr, "usage: tenon-info [--require-cuda] [--version]\n");
      return help ? 0 : 2;
    }
  }
  std::fputs(tenon::env_report().c_str(), stdout);
  std::fflush(stdout);
  tenon::memory::allocator_settings();  // throws when TENON_ALLOC_CONF is wrong
  return require_cuda && !tenon::cuda::is_available() ? 1 : 0;
} catch (const std::exception& e) {
  std::fprintf(stderr, "tenon-info: %s\n", e.what());
  return 2;
}
