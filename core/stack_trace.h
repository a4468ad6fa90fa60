// SPDX-License-Identifier: Apache-2.0
// Call stacks as bare addresses, and their names later: taking a stack costs about a microsecond, naming one a few
// per frame, so names are made only for stacks that somebody reads. A frame reads "function+0x1c (program+0x4a1c)":
// the name where the module exports it (link programs with -rdynamic), and always the offset in the module, from
// which `addr2line -e program 0x4a1c` gives file and line when the program has debug information.
// Thread safety: all functions from any thread.
#pragma once

#include <tenon/core/api.h>

#include <cstdint>
#include <span>
#include <string>

namespace tenon {

inline constexpr int kMaxStackFrames = 48;

/// Return addresses of the calling thread, innermost first, without this function's own; returns how many.
TENON_API int capture_stack(void** frames, int max_frames);

/// One frame's parts; `function` is empty where the module does not export it.
struct StackFrame {
  std::string function;  ///< demangled
  std::string module;    ///< path of the program or library
  uint64_t function_offset = 0;
  uint64_t module_offset = 0;  ///< what addr2line takes: the call itself, not the return address
  bool in_library = false;     ///< tenon, also inlined; the C and C++ libraries; _start
};
TENON_API StackFrame describe_frame(void* address);
/// "function+0x1c (program+0x4a1c)", or "program+0x4a1c".
TENON_API std::string frame_text(const StackFrame& frame);
/// The innermost `count` frames outside the library, each as frame_text(); all frames when there are no others.
TENON_API std::string site_text(std::span<void* const> frames, int count = 4, const char* separator = " < ");

}  // namespace tenon
