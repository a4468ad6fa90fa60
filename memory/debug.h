// SPDX-License-Identifier: Apache-2.0
// For the hour in which something breaks: checkpoints that narrow a fault down to a part of a program, and a report of all
// that is known. docs/errors.md shows them at work.
// Thread safety: everything, from any thread.
#pragma once

#include <tenon/core/api.h>
#include <tenon/core/function.h>

#include <string>

namespace tenon::debug {

/// Waits for every device on which something was launched, and writes a line for each: tag, launches, memory. A fault since
/// the last checkpoint is thrown here, its text beginning with "checkpoint <tag>". Without a device: one line of the CPU's
/// memory. Does nothing (a load and a branch) unless enabled.
TENON_API void checkpoint(const char* tag);
/// At first what TENON_CHECKPOINTS=1 says.
TENON_API void enable_checkpoints(bool on) noexcept;
TENON_API bool checkpoints_enabled() noexcept;
/// Where checkpoints write: a function of a line without its end; empty: stderr, as at first.
TENON_API void set_checkpoint_output(Function<void(const std::string& line)> output);

/// Environment, cards, devices with what broke them, streams, the last launches and memory, as text. Never throws: what
/// cannot be asked, of a broken device say, is left out with the reason.
TENON_API std::string report();

}  // namespace tenon::debug
