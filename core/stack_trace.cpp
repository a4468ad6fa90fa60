// SPDX-License-Identifier: Apache-2.0
#include <tenon/core/stack_trace.h>

#include <cxxabi.h>
#include <dlfcn.h>
#include <execinfo.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

namespace tenon {
namespace {

const char* base_name(const char* path) {
  const char* slash = std::strrchr(path, '/');
  return slash ? slash + 1 : path;
}

bool starts(std::string_view text, std::string_view with) { return text.substr(0, with.size()) == with; }

// "std::vector<A, B> ns::f<C>(D (*)(E))" gives "ns::f<C>": a template's name is written behind its result.
std::string_view qualified_name(std::string_view plain) {
  std::size_t first = 0, depth = 0;
  for (std::size_t i = 0; i < plain.size(); ++i) {
    const char c = plain[i];
    if (starts(plain.substr(i), "(anonymous namespace)")) {
      i += 20;
    } else if (c == '(' && depth == 0 && i > first) {
      return plain.substr(first, i - first);
    } else if (c == '<' || c == '(') {
      ++depth;
    } else if (c == '>' || c == ')') {
      if (depth > 0) --depth;
    } else if (c == ' ' && depth == 0) {
      first = i + 1;
    }
  }
  return plain.substr(first);
}

// libtenon and libtenon_cuda, and what inline functions of their headers (also their calls of std's) and a static build
// leave in the program; the C and C++ libraries, and the code that calls main.
bool is_library(const Dl_info& info, std::string_view function) {
  const std::string_view module = base_name(info.dli_fname);
  for (const char* name : {"libtenon", "libc.so", "libc-2", "libstdc++", "libpthread", "ld-linux"})
    if (starts(module, name)) return true;
  const std::string_view name = qualified_name(function);
  return starts(name, "tenon::") || starts(name, "std::") || name == "_start" || name == "__libc_start_main";
}

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
  if (info.dli_sname) {
    int status = 0;
    char* plain = abi::__cxa_demangle(info.dli_sname, nullptr, nullptr, &status);
    frame.function = plain ? plain : info.dli_sname;
    frame.function_offset = static_cast<uint64_t>(static_cast<char*>(address) - static_cast<char*>(info.dli_saddr));
    std::free(plain);
  }
  frame.in_library = is_library(info, frame.function);
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
