// SPDX-License-Identifier: Apache-2.0
// How processes end: each way of exit_program.cpp on each device ends with its status, and nothing crashes.
#include "tests/support/catch.h"

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <string>

namespace {

struct Way {
  const char* name;
  int status;
};
constexpr Way kWays[] = {{"statics", 0},
                         {"use_in_destructor", 0},
                         {"thread_locals", 0},
                         {"running_threads", 0},
                         {"exit_in_callback", 3},
                         {"exit_with_work_queued", 0},
                         {"exit_in_thread", 4},
                         {"with_watchdog", 0},
                         {"_exit", 5},
                         {"quick_exit", 6},
                         {"throws", 7},
                         {"fork", 0},
                         {"plugin_left_open", 0}};

std::string program() {
  return (std::filesystem::read_symlink("/proc/self/exe").parent_path() / "exit_program").string();
}

// "exit 3", "signal 11", "no end within 60 s".
std::string end_of(const std::string& environment, const std::string& arguments) {
  const std::string command =
      "exec timeout -s KILL 60 env " + environment + " '" + program() + "' " + arguments + " >/dev/null 2>&1";
  const int status = std::system(command.c_str());
  if (WIFSIGNALED(status)) return "signal " + std::to_string(WTERMSIG(status));
  const int code = WEXITSTATUS(status);
  if (code == 137) return "no end within 60 s";
  return code > 128 ? "signal " + std::to_string(code - 128) : "exit " + std::to_string(code);
}

bool skips(const Way& way) {
#if defined(__SANITIZE_THREAD__)
  // It follows no fork of a threaded process, and calls threads that never end leaks of theirs.
  return std::string(way.name) == "fork" || std::string(way.name) == "running_threads";
#elif defined(__SANITIZE_ADDRESS__)
  return std::string(way.name) == "running_threads";  // what they hold at the end is no leak
#else
  return (void)way, false;
#endif
}

void all_ways(const std::string& device) {
  for (const Way& way : kWays) {
    if (skips(way)) continue;
    CAPTURE(way.name, device);
    CHECK(end_of("TENON_EXIT=1", std::string(way.name) + " " + device) == "exit " + std::to_string(way.status));
  }
}

}  // namespace

TEST_CASE("exit: every way out on the CPU", "[exit]") { all_ways("cpu"); }
TEST_CASE("exit: every way out on the simulated device", "[exit]") { all_ways("sim"); }
TEST_CASE("exit: every way out on the GPU", "[cuda][fork]") {
  TENON_REQUIRE_CUDA();
  all_ways("cuda");
}
TEST_CASE("exit: a plugin is loaded and unloaded again and again, and loaded twice", "[exit]") {
  CHECK(end_of("TENON_EXIT=1", "plugin") == "exit 0");
  CHECK(end_of("TENON_EXIT=1", "plugin_twice") == "exit 0");
}
TEST_CASE("exit: CUDA_VISIBLE_DEVICES that names no device", "[exit]") {
  for (const char* value : {"", "-1", "nonsense", "99", "GPU-00000000-0000-0000-0000-000000000000", ",,"}) {
    CAPTURE(value);
    CHECK(end_of(std::string("CUDA_VISIBLE_DEVICES='") + value + "'", "no_device") == "exit 0");
  }
}
