// SPDX-License-Identifier: Apache-2.0
// Graphs of recorded work. Without a GPU the simulated device shows what is no figure.
#include "claims.h"

#include <tenon/tenon.h>

namespace tenon::claims {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int kOperators = 100;

Device graph_device() { return gpu() ? *gpu() : Device(kSim, 0); }

// One element, so that the host's part is all there is.
Tensor chain(const Tensor& x) {
  Tensor y = x;
  for (int i = 0; i < kOperators; ++i) y = y + 1.0;
  return y;
}

// Host microseconds for queueing it while the device has nothing else to do: the lowest of several.
template <class F>
double queueing_us(Device device, F f) {
  double best = 1e30;
  for (int i = 0; i < 200; ++i) {
    synchronize(device);
    const auto start = Clock::now();
    f();
    best = std::min(best, std::chrono::duration<double>(Clock::now() - start).count());
  }
  synchronize(device);
  return best * 1e6;
}

const Area area(
    "graphs", {
                  {105, "replays of a graph equal the calls it was captured from bit for bit, random numbers included",
                   [] {
                     const Device device = graph_device();
                     const auto work = [device] { return rand({1000}, TensorOptions(device)).mul(3).exp().softmax(0); };
                     manual_seed(1);
                     std::vector<std::vector<float>> eager;
                     for (int i = 0; i < 5; ++i) eager.push_back(work().to_vector<float>());
                     manual_seed(1);
                     Graph g(device);
                     Tensor y;
                     g.capture([&] { y = work(); });
                     int equal = 0;
                     for (int i = 0; i < 5; ++i) {
                       g.replay();
                       equal += y.to_vector<float>() == eager[static_cast<std::size_t>(i)] ? 1 : 0;
                     }
                     return judge(equal == 5, std::to_string(equal) + " of 5 replays on " + device.str());
                   }},
                  {106, "a replay costs the host at most 5 % of queueing the same 100 tiny operators",
                   [] {
                     if (!gpu()) return cannot_run("no GPU");
                     const Device device = *gpu();
                     const Tensor x = ones({1}, TensorOptions(device));
                     Graph g(device);
                     Tensor y = chain(x);
                     const double eager = queueing_us(device, [&] { y = chain(x); });
                     g.capture([&] { y = chain(x); });
                     g.replay();
                     const double replay = queueing_us(device, [&] { g.replay(); });
                     return judge(replay <= 0.05 * eager, number(replay / kOperators, 3) + " µs an operator against " +
                                                              number(eager / kOperators, 3) + " µs");
                   }},
                  {107, "a graph's memory comes from a private pool: 1,000 captures leave nothing behind",
                   [] {
                     const Device device = graph_device();
                     const Tensor x = ones({1 << 20}, TensorOptions(device));
                     memory::empty_cache(device);
                     const int64_t before = memory::memory_reserved(device);
                     int64_t during = 0;
                     for (int i = 0; i < 1000; ++i) {
                       Graph g(device);
                       Tensor y;
                       g.capture([&] { y = x.add(1).mul(2); });
                       if (i == 0) {
                         g.replay();
                         during = memory::memory_reserved(device) - before;
                       }
                     }
                     memory::empty_cache(device);
                     const int64_t left = memory::memory_reserved(device) - before;
                     return judge(left == 0 && during > 0,
                                  mib(during) + " while it lives, " + mib(left) + " after, on " + device.str());
                   }},
              });

}  // namespace
}  // namespace tenon::claims
