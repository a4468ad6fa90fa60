// SPDX-License-Identifier: Apache-2.0
// What the example shows: a progress bar on the terminal and a loss curve as SVG.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace example {

inline constexpr int64_t kReadEvery = 50;  ///< steps between two readings of the loss

/// One line per epoch; redrawn in place on a terminal, printed once otherwise.
class ProgressBar {
 public:
  ProgressBar(int64_t epoch, int64_t epochs, int64_t steps);
  void update(int64_t step, double loss, int64_t batch, int64_t memory_bytes);
  void finish(double accuracy);

 private:
  std::string line(int64_t step) const;
  int64_t epoch_, epochs_, steps_;
  double loss_ = 0, images_per_second_ = 0, memory_mib_ = 0;
  bool terminal_;
  std::chrono::steady_clock::time_point begin_;
};

/// Writes `losses`, equally spaced over the epochs, as a line chart. IoError when the file cannot be written.
void write_loss_curve(const std::string& path, const std::vector<double>& losses, int64_t epochs);

}  // namespace example
