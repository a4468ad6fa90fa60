// SPDX-License-Identifier: Apache-2.0
#include "report.h"

#include <tenon/core/error.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>

#include <unistd.h>

namespace example {

ProgressBar::ProgressBar(int64_t epoch, int64_t epochs, int64_t steps)
    : epoch_(epoch),
      epochs_(epochs),
      steps_(steps),
      terminal_(isatty(STDOUT_FILENO) != 0),
      begin_(std::chrono::steady_clock::now()) {}

std::string ProgressBar::line(int64_t step) const {
  constexpr int64_t kWidth = 24;
  const int64_t done = kWidth * step / steps_;
  char text[192];
  std::snprintf(text, sizeof text, "epoch %2ld/%ld [%s%s] %3ld %%  loss %.4f  %8.0f images/s  %6.1f MiB",
                static_cast<long>(epoch_), static_cast<long>(epochs_),
                std::string(static_cast<std::size_t>(done), '=').c_str(),
                std::string(static_cast<std::size_t>(kWidth - done), ' ').c_str(),
                static_cast<long>(100 * step / steps_), loss_, images_per_second_, memory_mib_);
  return text;
}

void ProgressBar::update(int64_t step, double loss, int64_t batch, int64_t memory_bytes) {
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  loss_ = loss;
  images_per_second_ = static_cast<double>(step * batch) / std::max(seconds, 1e-9);
  memory_mib_ = static_cast<double>(memory_bytes) / (1 << 20);
  if (!terminal_) return;
  std::printf("\r%s", line(step).c_str());
  std::fflush(stdout);
}

void ProgressBar::finish(double accuracy) {
  std::printf("%s%s  test accuracy %.2f %%\n", terminal_ ? "\r" : "", line(steps_).c_str(), 100 * accuracy);
  std::fflush(stdout);
}

void write_loss_curve(const std::string& path, const std::vector<double>& losses, int64_t epochs) {
  constexpr double kWidth = 640, kHeight = 360, kLeft = 60, kRight = 20, kTop = 40, kBottom = 50;
  double top = 0;
  for (const double v : losses)
    if (std::isfinite(v)) top = std::max(top, v);
  top = std::max(0.1, std::ceil(top * 5) / 5);
  const auto x = [&](double epoch) { return kLeft + (kWidth - kLeft - kRight) * epoch / static_cast<double>(epochs); };
  const auto y = [&](double loss) {
    return kHeight - kBottom - (kHeight - kTop - kBottom) * std::min(loss, top) / top;
  };
  std::ofstream out(path);
  char text[160];
  const auto put = [&](const char* format, auto... values) {
    std::snprintf(text, sizeof text, format, values...);
    out << text;
  };
  put("<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 %.0f %.0f' font-family='sans-serif' font-size='12'>\n",
      kWidth, kHeight);
  out << "<rect width='100%' height='100%' fill='white'/>\n";
  put("<text x='%.0f' y='24' font-size='15'>Training loss, Fashion-MNIST</text>\n", kLeft);
  for (int i = 0; i <= 4; ++i) {
    const double loss = top * i / 4;
    put("<path d='M%.1f %.1fH%.1f' stroke='#ddd'/>", kLeft, y(loss), kWidth - kRight);
    put("<text x='%.1f' y='%.1f' text-anchor='end'>%.2f</text>\n", kLeft - 8, y(loss) + 4, loss);
  }
  const int64_t every = std::max<int64_t>(1, epochs / 10);
  for (int64_t e = 0; e <= epochs; e += every)
    put("<text x='%.1f' y='%.1f' text-anchor='middle'>%ld</text>\n", x(static_cast<double>(e)), kHeight - kBottom + 18,
        static_cast<long>(e));
  put("<text x='%.1f' y='%.1f' text-anchor='middle'>epoch</text>\n", (kLeft + kWidth - kRight) / 2, kHeight - 12);
  out << "<polyline fill='none' stroke='#1f6feb' stroke-width='2' points='";
  for (std::size_t i = 0; i < losses.size(); ++i)
    if (std::isfinite(losses[i]))
      put("%.1f,%.1f ",
          x(static_cast<double>((i + 1)) * static_cast<double>(epochs) / static_cast<double>(losses.size())),
          y(losses[i]));
  out << "'/>\n</svg>\n";
  out.flush();
  TENON_CHECK(out.good(), IoError, "cannot write ", path);
}

}  // namespace example
