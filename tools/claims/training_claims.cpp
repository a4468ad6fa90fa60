// SPDX-License-Identifier: Apache-2.0
// What the allocator does for a training step: time and memory against taking every block from the device, and how
// steady steps of changing sizes are.
#include "claims.h"

#include <tenon/tenon.h>

#include <random>

namespace tenon::claims {
namespace {

using Clock = std::chrono::steady_clock;

/// One encoder layer without attention's details: enough operators and sizes to load the allocator as a model would.
class Model {
 public:
  explicit Model(Device device) : device_(device) {
    const TensorOptions options(device);
    for (const auto& [in, out] :
         {std::pair{kWidth, 4 * kWidth}, std::pair{4 * kWidth, kWidth}, std::pair{kWidth, kWidth}}) {
      weights_.push_back((randn({in, out}, options) * 0.02).detach().requires_grad_(true));
    }
  }
  double step(int64_t rows) {
    const Tensor x = randn({rows, kWidth}, TensorOptions(device_));
    synchronize_device();
    const auto start = Clock::now();
    Tensor h = x.matmul(weights_[0]).relu().matmul(weights_[1]) + x;
    h = (h * 0.5 + h.tanh()).matmul(weights_[2]);
    h.softmax(-1).pow(2).mean().backward();
    for (Tensor& w : weights_) w.set_grad({});
    synchronize_device();
    return std::chrono::duration<double>(Clock::now() - start).count();
  }

 private:
  static constexpr int64_t kWidth = 128;
  void synchronize_device() const {
    if (!device_.is_cpu()) synchronize(device_);
  }
  Device device_;
  std::vector<Tensor> weights_;
};

double median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return v[v.size() / 2];
}

struct WithSettings {
  explicit WithSettings(const char* text) : before(memory::allocator_settings()) {
    memory::set_allocator_settings(text);
  }
  ~WithSettings() { memory::set_allocator_settings(before); }
  std::string before;
};

double step_seconds(Device device, const char* settings) {
  const WithSettings scope(settings);
  Model model(device);
  std::vector<double> times;
  for (int i = 0; i < 30; ++i) {
    const double seconds = model.step(256);
    if (i >= 5) times.push_back(seconds);
  }
  return median(times);
}

Outcome throughput() {
  const Device device = devices().back();
  const double cached = step_seconds(device, "backend:caching"), direct = step_seconds(device, "backend:direct");
  const double gain = 100 * (direct / cached - 1);
  return judge(gain >= 23, number(gain) + " % on " + device.str() + " (" + number(cached * 1e3, 2) + " against " +
                               number(direct * 1e3, 2) + " ms a step)");
}

// Times of steps of eight sizes, each relative to the median of its size.
Outcome jitter() {
  const Device device = devices().back();
  const auto spread = [&](const char* settings) {
    const WithSettings scope(settings);
    Model model(device);
    std::mt19937 random(5);
    std::vector<double> by_size[8], relative;
    for (int i = 0; i < 400; ++i) {
      const auto size = random() % 8;
      const double seconds = model.step(64 + 32 * static_cast<int64_t>(size));
      if (i >= 40) by_size[size].push_back(seconds);
    }
    for (const std::vector<double>& times : by_size) {
      for (const double t : times) relative.push_back(t / median(times) - 1);
    }
    std::sort(relative.begin(), relative.end());
    return 100 * relative[relative.size() * 95 / 100];
  };
  const double cached = spread("backend:caching"), direct = spread("backend:direct");
  return judge(cached <= 3, "95th percentile +" + number(cached) + " % with the cache, +" + number(direct) +
                                " % without, on " + device.str());
}

const Area area("training",
                {
                    {51, "caching makes a training step at least 23 % faster than asking the device each time",
                     throughput},
                    {52, "steps of changing sizes take the same time within 3 %", jitter},
                });

}  // namespace
}  // namespace tenon::claims
