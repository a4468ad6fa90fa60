// SPDX-License-Identifier: Apache-2.0
#include <tenon/core/stack_trace.h>

#include <cxxabi.h>
#include <dlfcn.h>
#include <execinfo.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace tenon {
namespace {

const char* base_name(const char* path) {
  const char* slash = std::strrchr(path, '/');
  return slash ? slash + 1 : path;
}

// libtenon and libtenon_cuda. In a static build the library lies in the program, and nothing can be told apart.
bool is_library(const Dl_info& info) { return std::strncmp(base_name(info.dli_fname), "libtenon", 8) == 0; }

std::string hex(uint64_t n) {
  char buffer[24];
  std::snprintf(buffer, sizeof buffer, "+0x%llx", static_cast<unsigned long long>(n));
  return buffer;
}

}  // namespace

int capture_stack(void** frames, int max_frames) {
  void* raw[kMaxStackFrames + 1];
  const int n = backtrace(raw, std::min(max_frames, kMaxStackFrames) + 1) - 1;
  if (n <= 0) return 0;
  std::copy(raw + 1, raw + 1 + n, frames);
  return n;
}

StackFrame describe_frame(void* address) {
  StackFrame frame;
  Dl_info info{};
  // A return address may lie behind the end of a function that never returns: look at the call.
  char* call = static_cast<char*>(address) - 1;
  if (!dladdr(call, &info) || !info.dli_fname) {
    frame.module = "?";
    frame.module_offset = reinterpret_cast<uint64_t>(call);
    return frame;
  }
  frame.module = info.dli_fname;
  frame.module_offset = static_cast<uint64_t>(call - static_cast<char*>(info.dli_fbase));
  frame.in_library = is_library(info);
  if (info.dli_sname) {
    int status = 0;
    char* plain = abi::__cxa_demangle(info.dli_sname, nullptr, nullptr, &status);
    frame.function = plain ? plain : info.dli_sname;
    frame.function_offset = static_cast<uint64_t>(static_cast<char*>(address) - static_cast<char*>(info.dli_saddr));
    std::free(plain);
  }
  return frame;
}

std::string frame_text(const StackFrame& frame) {
  const std::string place = base_name(frame.module.c_str()) + hex(frame.module_offset);
  return frame.function.empty() ? place : frame.function + hex(frame.function_offset) + " (" + place + ")";
}

std::string site_text(std::span<void* const> frames, int count, const char* separator) {
  std::string own, all;
  int shown_own = 0, shown_all = 0;
  for (void* address : frames) {
    const StackFrame frame = describe_frame(address);
    const auto add = [&](std::string& text, int& shown) {
      if (shown++ >= count) return;
      if (!text.empty()) text += separator;
      text += frame_text(frame);
    };
    if (!frame.in_library) add(own, shown_own);
    if (shown_own == 0) add(all, shown_all);
    if (shown_own >= count) break;
  }
  return shown_own > 0 ? own : all;
}

}  // namespace tenon
