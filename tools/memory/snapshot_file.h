// SPDX-License-Identifier: Apache-2.0
// Snapshots in files: the reader of what memory/snapshot_json.cpp writes.
#pragma once

#include <tenon/memory/snapshot.h>

#include <string>

namespace tenon::tools {

/// The file's bytes; Error when it cannot be read.
std::string read_file(const std::string& path);
/// ValueError naming `path` and what is wrong. Statistics other than those of the allocators' peaks are not needed by
/// any reader and are left at 0.
memory::MemorySnapshot parse_snapshot(const std::string& text, const std::string& path);
/// Adds "file:line" to the frames of `text`, a snapshot, by running addr2line on the modules that still exist; the rest
/// of the text stays as it is.
std::string with_lines(const std::string& text, const std::string& path);

}  // namespace tenon::tools
