// SPDX-License-Identifier: Apache-2.0
// What a call costs on the host with one element, where the work itself is nothing. The bars come from what the common
// C++ peer takes for the same call.
#include "claims.h"

#include <tenon/tenon.h>

namespace tenon::claims {
namespace {

Tensor one(Device device = kCPU) { return ones({1}, TensorOptions(device)); }

double add_ns() {
  static const double ns = [a = one(), b = one()] { return nanoseconds([&] { const Tensor c = a + b; }); }();
  return ns;
}

Outcome at_most(double bar, double ns) { return judge(ns <= bar, number(ns) + " ns"); }

Outcome queued(const char* what, double ns, double bar) {
  return judge(ns <= bar, std::string(what) + " " + number(ns) + " ns");
}

const Area area(
    "host cost",
    {
        {201, "empty({1}) on the CPU takes at most 60 ns",
         [] { return at_most(60, nanoseconds([] { const Tensor t = empty({1}); })); }},
        {202, "a + b of one element on the CPU takes at most 200 ns", [] { return at_most(200, add_ns()); }},
        {203, "a + 2.0 costs no more than a + b (within 5 %)",
         [] {
           const Tensor a = one();
           const double ns = nanoseconds([&] { const Tensor c = a + 2.0; });
           return judge(ns <= 1.05 * add_ns(), number(ns) + " ns against " + number(add_ns()) + " ns");
         }},
        {204, "a.add_(b) of one element takes at most 120 ns",
         [] {
           Tensor a = one();
           const Tensor b = one();
           return at_most(120, nanoseconds([&] { a.add_(b); }));
         }},
        {205, "a view takes at most 60 ns",
         [] {
           const Tensor a = ones({2, 2});
           return at_most(60, nanoseconds([&] { const Tensor v = a.view({4}); }));
         }},
        {206, "a + b with a gradient to record takes at most 350 ns",
         [] {
           const Tensor a = ones({1}, TensorOptions().requires_grad(true)), b = one();
           return at_most(350, nanoseconds([&] { const Tensor c = a + b; }));
         }},
        {207, "item() of a CPU tensor takes at most 60 ns",
         [] {
           const Tensor a = one();
           return at_most(60, nanoseconds([&] { (void)a.item<float>(); }));
         }},
        {208, "allocating and freeing 4 KiB from the cache takes at most 100 ns on every device",
         [] {
           std::string text;
           bool holds = true;
           for (const Device device : devices()) {
             const double ns = nanoseconds([&] {
               const DataPtr p = memory::allocate(device, 4096);
               p.deleter(p.context);
             });
             holds = holds && ns <= 100;
             text += (text.empty() ? "" : ", ") + device.str() + " " + number(ns) + " ns";
           }
           return judge(holds, text);
         }},
        {209, "looking up the current stream takes at most 10 ns",
         [] {
           const Device device = gpu() ? *gpu() : Device(kCPU);
           return at_most(10, nanoseconds([&] {
                            const Stream s = current_stream(device);
                            asm volatile("" : : "r"(s.handle()) : "memory");
                          }));
         }},
        {210, "numel() takes at most 1 ns",
         [] {
           const Tensor a = one();
           return at_most(1, nanoseconds([&] {
                            const int64_t n = a.numel();
                            asm volatile("" : : "r"(n) : "memory");
                          }));
         }},
        {211, "empty({1}) on the GPU takes at most 250 ns",
         [] {
           if (!gpu()) return cannot_run("no GPU");
           return queued("empty", nanoseconds([] { const Tensor t = empty({1}, TensorOptions(*gpu())); }), 250);
         }},
        {212, "queueing a + b on the GPU takes at most 6 µs on the host, the driver's launch included",
         [] {
           if (!gpu()) return cannot_run("no GPU");
           const Tensor a = one(*gpu()), b = one(*gpu());
           const double ns = nanoseconds([&] { const Tensor c = a + b; });
           synchronize(*gpu());
           return queued("add", ns, 6000);
         }},
        {70, "operators return before the GPU is done: a 4,096³ product keeps the host less than 20 µs",
         [] {
           if (!gpu()) return cannot_run("no GPU");
           const Tensor a = ones({4096, 4096}, TensorOptions(*gpu()));
           double best = 1e30;
           for (int i = 0; i < 10; ++i) {
             synchronize(*gpu());
             const auto start = std::chrono::steady_clock::now();
             const Tensor c = a.matmul(a);
             best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
           }
           synchronize(*gpu());
           return judge(best < 20e-6, number(best * 1e6) + " µs");
         }},
        {77, "a device guard restores the device, also when an exception passes",
         [] {
           const Device device = gpu() ? *gpu() : Device(kCPU);
           const Stream before = current_stream(device);
           try {
             StreamGuard guard(Stream::from_pool(0, device));
             throw ValueError("passing through");
           } catch (const ValueError&) {
           }
           return judge(current_stream(device) == before, "stream " + std::to_string(current_stream(device).id()));
         }},
        {59, "streams of the pool are handed out round robin: the 33rd is the first again, exclusive ones never",
         [] {
           if (!gpu()) return cannot_run("no GPU; streams of the CPU run inline");
           const Stream first = Stream::from_pool(0, *gpu());
           for (int i = 1; i < 32; ++i) {
             if (Stream::from_pool(0, *gpu()) == first) return judge(false, "request " + std::to_string(i + 1));
           }
           const bool again = Stream::from_pool(0, *gpu()) == first;
           const Stream own = Stream::create_exclusive(0, *gpu());
           const bool distinct = !(own == first);
           Stream::destroy_exclusive(own);
           return judge(again && distinct, again ? "the 33rd request is the first stream" : "another stream");
         }},
        {56, "copies to the GPU from pinned memory are at least 1.3 times as fast as from pageable memory (64 MiB)",
         [] {
           if (!gpu()) return cannot_run("no GPU");
           const Tensor pageable = ones({16 << 20}), pinned = pageable.pin_memory();
           Tensor target = empty({16 << 20}, TensorOptions(*gpu()));
           const auto rate = [&](const Tensor& source) {
             return 64.0 / 1024 / nanoseconds([&] {
                      target.copy_(source);
                      synchronize(*gpu());
                    }) *
                    1e9;
           };
           const double slow = rate(pageable), fast = rate(pinned);
           return judge(fast >= 1.3 * slow, number(fast) + " against " + number(slow) + " GiB/s");
         }},
    });

}  // namespace
}  // namespace tenon::claims
