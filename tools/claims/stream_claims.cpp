// SPDX-License-Identifier: Apache-2.0
// Streams, events and transfers: what they cost, and what keeps them from racing.
#include "claims.h"

#include <tenon/tenon.h>

#include <tenon/streams/sim.h>

namespace tenon::claims {
namespace {

using Clock = std::chrono::steady_clock;

double median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return v[v.size() / 2];
}
double seconds_of(const auto& f) {
  const auto start = Clock::now();
  f();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// A short task on a stream of its own, waited for.
double task_us(bool pooled) {
  const Tensor x = ones({1000}, TensorOptions(*gpu()));
  Tensor out = empty({1000}, TensorOptions(*gpu()));
  synchronize(*gpu());
  return nanoseconds([&] {
           const Stream s = pooled ? Stream::from_pool(0, *gpu()) : Stream::create_exclusive(0, *gpu());
           {
             const StreamGuard guard(s);
             op::mul.out(out, x, 2.0);
           }
           s.synchronize();
           if (!pooled) Stream::destroy_exclusive(s);
         }) *
         1e-3;
}

/// A training step of an MLP (784-512-512-10, batch 128), forward, backward and SGD.
class Mlp {
 public:
  explicit Mlp(Device device) : device_(device) {
    const TensorOptions options(device);
    x_ = randn({128, 784}, options);
    target_ = randn({128, 10}, options);
    for (const auto& [in, out] : {std::pair<int64_t, int64_t>{784, 512}, {512, 512}, {512, 10}}) {
      weights_.push_back((randn({in, out}, options) * 0.02).detach().requires_grad_());
      biases_.push_back(zeros({out}, options).requires_grad_());
    }
  }
  double step() {
    return seconds_of([&] {
      Tensor h = x_;
      for (std::size_t i = 0; i < weights_.size(); ++i) {
        h = h.matmul(weights_[i]) + biases_[i];
        if (i + 1 < weights_.size()) h = h.relu();
      }
      (h - target_).pow(2).mean().backward();
      const NoGradGuard no_grad;
      for (auto* list : {&weights_, &biases_}) {
        for (Tensor& p : *list) {
          p.sub_(p.grad() * 0.01);
          p.set_grad({});
        }
      }
      if (!device_.is_cpu()) synchronize(device_);
    });
  }

 private:
  Device device_;
  Tensor x_, target_;
  std::vector<Tensor> weights_, biases_;
};

// Percent that a mode adds to a step; steps without and with it in turns, median of the ratios.
double safety_cost(Device device, StreamSafety mode, int pairs) {
  Mlp model(device);
  std::vector<double> ratios;
  for (int i = 0; i < pairs + 3; ++i) {
    const double plain = model.step();
    set_stream_safety(mode);
    const double watched = model.step();
    set_stream_safety(StreamSafety::off);
    if (i >= 3) ratios.push_back(watched / plain);
  }
  return 100 * (median(ratios) - 1);
}
Outcome safety(StreamSafety mode, double bar) {
  std::string text;
  bool holds = true;
  for (const Device device : devices()) {
    const double percent = safety_cost(device, mode, device.is_cpu() ? 60 : 400);
    holds = holds && percent < bar;
    text += (text.empty() ? "" : ", ") + device.str() + " " + number(percent, 2) + " %";
  }
  return judge(holds, text);
}

double copy_rate(const Tensor& to, const Tensor& from) {
  Tensor target = to;
  return static_cast<double>(to.nbytes()) / nanoseconds([&] {
           target.copy_(from);
           synchronize(*gpu());
         });
}

Outcome pageable(bool to_device) {
  if (!gpu()) return cannot_run("no GPU");
  const Tensor host = ones({64 << 20}), device = empty({64 << 20}, TensorOptions(*gpu()));
  const Tensor strided = ones({8 << 10, 8 << 10}).transpose(0, 1),
               square = empty({8 << 10, 8 << 10}, TensorOptions(*gpu()));
  const double rate = to_device ? copy_rate(device, host) : copy_rate(host, device);
  const double other = to_device ? copy_rate(square, strided) : copy_rate(strided, square);
  return judge(rate >= 14.8, number(rate) + " GB/s, transposed " + number(other) + " GB/s");
}

const Area area(
    "streams",
    {
        {60, "creating and destroying a stream takes about 0.5 ms",
         [] {
           if (!gpu()) return cannot_run("no GPU");
           const double us = nanoseconds([] { Stream::destroy_exclusive(Stream::create_exclusive(0, *gpu())); }) * 1e-3;
           const double pooled = nanoseconds([] { (void)Stream::from_pool(0, *gpu()); });
           return judge(us >= 250, number(us) + " µs; from the pool " + number(pooled) + " ns");
         }},
        {61, "a short task (1,000 elements, waited for) on a pooled stream is 1.8 times as fast as on a fresh one",
         [] {
           if (!gpu()) return cannot_run("no GPU");
           const double pooled = task_us(true), fresh = task_us(false);
           return judge(fresh >= 1.8 * pooled, number(pooled) + " against " + number(fresh) + " µs");
         }},
        {62, "stream safety `check` costs less than 5 % of a training step of an MLP",
         [] { return safety(StreamSafety::check, 5); }},
        {220, "stream safety `automatic` costs less than 2 % of a training step of an MLP",
         [] { return safety(StreamSafety::automatic, 2); }},
        {221,
         "recording and destroying an event takes at most 1 µs on the host, a stream waiting for another at most 2",
         [] {
           if (!gpu()) return cannot_run("no GPU");
           const Stream a = Stream::from_pool(0, *gpu()), b = Stream::from_pool(0, *gpu());
           const double record = nanoseconds([&] { (void)a.record_event(); });
           const double wait = nanoseconds([&] { b.wait_stream(a); });
           synchronize(*gpu());
           return judge(record <= 1000 && wait <= 2000, number(record) + " and " + number(wait) + " ns");
         }},
        {222, "a stream from the pool takes at most 30 ns",
         [] {
           const Device device = devices().back();
           const double ns = nanoseconds([&] {
             const Stream s = Stream::from_pool(0, device);
             asm volatile("" : : "r"(s.handle()) : "memory");
           });
           return judge(ns <= 30, number(ns) + " ns on " + device.str());
         }},
        {67, "10,000 rounds of two streams that wait for each other lose nothing",
         [] {
           if (!gpu()) return cannot_run("no GPU");
           const Stream a = Stream::from_pool(0, *gpu()), b = Stream::from_pool(0, *gpu());
           Tensor x = zeros({1}, TensorOptions(*gpu()).dtype(kFloat64));
           synchronize(*gpu());
           for (int i = 0; i < 10000; ++i) {
             const Stream &s = i % 2 ? a : b, &other = i % 2 ? b : a;
             s.wait_stream(other);
             const StreamGuard guard(s);
             x.mul_(0.5).add_(1);
             if (i % 2 == 0) x.add_(1);
           }
           synchronize(*gpu());
           double expected = 0;
           for (int i = 0; i < 10000; ++i) expected = expected * 0.5 + (i % 2 == 0 ? 2 : 1);
           const double got = x.item<double>();
           return judge(got == expected, number(got, 6) + ", expected " + number(expected, 6));
         }},
        {54, "a pinned non_blocking copy overlaps with compute: both take at most 1.15 times the longer one",
         [] {
           if (!gpu()) return cannot_run("no GPU");
           const Stream side = Stream::from_pool(0, *gpu());
           const Tensor host = ones({64 << 20}).pin_memory(), a = randn({4096, 4096}, TensorOptions(*gpu()));
           Tensor target = empty({64 << 20}, TensorOptions(*gpu()));
           const auto copy = [&] {
             const StreamGuard guard(side);
             target.copy_(host, true);
           };
           const auto compute = [&] {
             for (int i = 0; i < 2; ++i) (void)a.matmul(a);
           };
           const auto timed = [&](bool copies, bool computes) {
             std::vector<double> times;
             for (int i = 0; i < 15; ++i) {
               synchronize(*gpu());
               times.push_back(seconds_of([&] {
                 if (copies) copy();
                 if (computes) compute();
                 synchronize(*gpu());
               }));
             }
             return median(times);
           };
           const double c = timed(true, false), m = timed(false, true), both = timed(true, true);
           return judge(both <= 1.15 * std::max(c, m), "copy " + number(c * 1e3, 2) + ", compute " +
                                                           number(m * 1e3, 2) + ", both " + number(both * 1e3, 2) +
                                                           " ms");
         }},
        {223, "pageable memory is copied to the GPU at 14.8 GB/s and more (256 MiB)", [] { return pageable(true); }},
        {224, "the GPU's memory is copied to pageable memory at 14.8 GB/s and more (256 MiB)",
         [] { return pageable(false); }},
    });

}  // namespace
}  // namespace tenon::claims
