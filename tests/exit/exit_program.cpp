// SPDX-License-Identifier: Apache-2.0
// Ways for a process to end, one each run: exit_program WAY [DEVICE]. exit_test.cpp knows what each must end with. A way
// that goes on where it must not returns kWrong.
#include <tenon/streams/raw_streams.h>
#include <tenon/streams/sim.h>
#include <tenon/streams/watchdog.h>
#include <tenon/tenon.h>

#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

using namespace tenon;

namespace {

constexpr int kWrong = 9;

Device target{kCPU};
Tensor in_static;
thread_local Tensor in_thread;
std::vector<Tensor>& in_function() {
  static std::vector<Tensor> tensors;
  return tensors;
}
// Destroyed after what main's functions made static.
struct UsesAtEnd {
  bool armed = false;
  ~UsesAtEnd() {
    if (!armed) return;
    try {
      const Tensor x = ones({16}, TensorOptions(target)) + 1;
      if (x.sum().item<float>() != 32) std::_Exit(kWrong);
    } catch (const Error&) {  // a driver that is gone says so
    }
  }
} uses_at_end;

Tensor work() {
  const Tensor x = full({64, 64}, 0.5, TensorOptions(target));
  return x.matmul(x).relu();
}

int statics() {
  in_static = work();
  in_function().push_back(in_static.add(1));
  Tensor w = work();
  w.requires_grad_();
  in_function().push_back((w * w).sum());  // with a graph
  return 0;
}

int use_in_destructor() {
  (void)work();
  uses_at_end.armed = true;
  return 0;
}

int thread_locals() {
  in_thread = work();
  std::thread([] { in_thread = work(); }).join();
  return 0;
}

int running_threads() {
  static std::atomic<int> rounds{0};
  for (int i = 0; i < 3; ++i) {
    std::thread([] {
      for (;;) {
        try {
          (void)work().sum();
        } catch (const Error&) {  // the process is on its way out
        }
        ++rounds;
      }
    }).detach();
  }
  while (rounds < 10) std::this_thread::yield();
  return 0;
}

std::string beside(const char* file) {
  char self[4096];
  const ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
  const std::string folder = std::string(self, n > 0 ? static_cast<std::size_t>(n) : 0);
  for (const char* lib : {"/../lib/", "/lib/"}) {
    const std::string path = folder.substr(0, folder.rfind('/')) + lib + file;
    if (access(path.c_str(), F_OK) == 0) return path;
  }
  return file;
}

double call_plugin() {
  const Tensor x = full({4}, 3.0, TensorOptions(kFloat32));
  return dispatch::call("exit_plugin_triple", {dispatch::Value(x)})[0].tensor().sum().item<float>();
}

int plugin() {
  const std::string path = beside("libtenon_exit_plugin.so");
  for (int round = 0; round < 3; ++round) {
    void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library) {
      std::fprintf(stderr, "%s\n", dlerror());
      return kWrong;
    }
    if (call_plugin() != 36) return kWrong;
    dlclose(library);
    try {
      call_plugin();
      return kWrong;
    } catch (const SchemaError&) {  // the operator is gone with its library
    }
  }
  return 0;
}

int plugin_left_open() {
  if (!dlopen(beside("libtenon_exit_plugin.so").c_str(), RTLD_NOW | RTLD_LOCAL)) return kWrong;
  in_function().push_back(dispatch::call("exit_plugin_triple", {dispatch::Value(work())})[0].tensor());
  return 0;
}

// The same plugin twice, as two files, both of whose symbols are global.
int plugin_twice() {
  void* first = dlopen(beside("libtenon_exit_plugin.so").c_str(), RTLD_NOW | RTLD_GLOBAL);
  void* second = dlopen(beside("libtenon_exit_plugin_copy.so").c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (!first || !second || call_plugin() != 36) return kWrong;
  dlclose(second);
  if (call_plugin() != 36) return kWrong;
  dlclose(first);
  return 0;
}

int exit_in_callback() {
  const Stream s = target.is_cpu() ? Stream::default_stream(target) : Stream::from_pool(0, target);
  (void)work();
  s.add_callback([] { std::exit(3); });
  s.synchronize();
  std::this_thread::sleep_for(std::chrono::seconds(5));
  return kWrong;
}

int exit_with_work_queued() {
  for (int i = 0; i < 20; ++i) in_function().push_back(work());
  std::exit(0);
}

int exit_in_thread() {
  in_static = work();
  std::thread([] {
    in_thread = work();
    std::exit(4);
  }).join();
  return kWrong;
}

int with_watchdog() {
  start_watchdog({.period_ms = 1});
  in_static = work();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  return 0;
}

int underscore_exit() {
  in_static = work();
  _exit(5);
}
int quick() {
  in_static = work();
  std::at_quick_exit([] { (void)ones({4}).sum().item<float>(); });
  std::quick_exit(6);
}

int throws() {
  in_static = work();
  throw DeviceError("uncaught on purpose");
}

// The child computes on the CPU. Of the device it is told what to do, unless that is simulated and works.
int fork_after_use() {
  in_static = work();
  (void)in_static.sum().item<float>();
  const pid_t child = fork();
  if (child == 0) {
    const Tensor x = full({64, 64}, 0.5);
    if (x.matmul(x).sum().item<float>() != 64.0f * 64 * 16) _exit(kWrong);
    bool works = false, told = false;
    try {
      works = work().sum().item<float>() == 64.0f * 64 * 16;
    } catch (const DeviceError& e) {
      told = std::strstr(e.what(), "forked") && std::strstr(e.what(), "after the fork");
    }
    if (target.is_cuda() ? !told : !works) _exit(kWrong);
    in_static = Tensor();
    std::exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  if (!WIFEXITED(status)) return kWrong;
  const bool here = work().sum().item<float>() == 64.0f * 64 * 16;  // the parent goes on
  return here ? WEXITSTATUS(status) : kWrong;
}

// CUDA_VISIBLE_DEVICES is empty or nonsense: no device, and a reason.
int no_device() {
  if (cuda::is_available() || cuda::device_count() != 0) return kWrong;
  const cuda::CudaAvailability a = cuda::availability();
  if (a.reason.empty() || a.remedy.empty()) return kWrong;
  try {
    (void)ones({2}, TensorOptions(kCUDA));
    return kWrong;
  } catch (const DeviceError& e) {
    std::printf("%s\n", e.what());
  }
  return ones({2}).sum().item<float>() == 2 ? 0 : kWrong;
}

struct Way {
  const char* name;
  int (*run)();
};
constexpr Way kWays[] = {{"statics", statics},
                         {"use_in_destructor", use_in_destructor},
                         {"thread_locals", thread_locals},
                         {"running_threads", running_threads},
                         {"plugin", plugin},
                         {"plugin_left_open", plugin_left_open},
                         {"plugin_twice", plugin_twice},
                         {"exit_in_callback", exit_in_callback},
                         {"exit_with_work_queued", exit_with_work_queued},
                         {"exit_in_thread", exit_in_thread},
                         {"with_watchdog", with_watchdog},
                         {"_exit", underscore_exit},
                         {"quick_exit", quick},
                         {"throws", throws},
                         {"fork", fork_after_use},
                         {"no_device", no_device}};

}  // namespace

int main(int argc, char** argv) {
  if (argc > 2) target = resolve(Device(std::string_view(argv[2])));
  for (const Way& way : kWays) {
    if (argc > 1 && std::strcmp(argv[1], way.name) == 0) {
      if (std::strcmp(way.name, "throws") == 0) {  // terminate() must not leave a core
        std::set_terminate([] { std::_Exit(7); });
      }
      return way.run();
    }
  }
  std::fprintf(stderr, "usage: exit_program WAY [DEVICE]\n");
  return 2;
}
