// SPDX-License-Identifier: Apache-2.0
// Benchmark harness: rows of work, measured in one process, tenon and the peer in turns (A B A B ...), medians and the
// median of the ratios. A row may state the bytes or FLOPs that must move; its floor is that over a roof measured in the
// same run. Results come as a Markdown table and as JSON.
#pragma once

#include <tenon/core/device.h>

#include <functional>
#include <string>
#include <vector>

namespace tenon::bench {

/// What bounds a row: nothing measured (host cost), memory traffic, or arithmetic.
enum class Bound { host, memory, compute };

struct Row {
  std::string name;    ///< the peer knows the work by it
  std::string device;  ///< "cpu" or "cuda"
  Bound bound = Bound::host;
  double amount = 0;  ///< bytes that must move, or FLOPs, per iteration
  /// Sets up the work and returns what one iteration does. Tensors live in the closure.
  std::function<std::function<void()>()> prepare;
};

/// Rows are registered by the sources of this folder.
void add_row(Row row);
struct RowRegistrar {
  explicit RowRegistrar(Row row) { add_row(std::move(row)); }
};

/// Runs the rows the command line asks for; returns the exit status.
int run_all(int argc, char** argv);

}  // namespace tenon::bench
