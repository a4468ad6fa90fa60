// SPDX-License-Identifier: Apache-2.0
// Warnings: what the library has to say without failing. They go to one handler, at first to standard error.
// Thread safety: all functions from any thread; the handler is called from whichever thread warns.
#pragma once

#include <tenon/core/api.h>

#include <string>
#include <string_view>

namespace tenon {

/// Gets the text of a warning, without a line end. It must not throw.
using WarningHandler = void (*)(std::string_view text);
/// Null: standard error, one line "tenon: ..." each. Returns the one before.
TENON_API WarningHandler set_warning_handler(WarningHandler handler) noexcept;
TENON_API void warn(std::string_view text) noexcept;

namespace detail {
/// True the first time in this process that the calling place, the innermost outside the library, says `what` (a
/// literal); it is written to `site`.
[[gnu::cold]] TENON_API bool first_from_here(const char* what, std::string* site);
}  // namespace detail

}  // namespace tenon
