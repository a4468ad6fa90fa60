// SPDX-License-Identifier: Apache-2.0
// What a call costs on the host: one-element tensors, where the work itself is nothing.
#include "bench.h"

#include <tenon/tenon.h>

namespace tenon::bench {
namespace {

TensorOptions on(const char* device) { return TensorOptions(Device(device)); }

// The result is kept until the next iteration, as a program would.
template <class F>
std::function<void()> keep(F f) {
  return [f, kept = Tensor()]() mutable { kept = f(); };
}

void host_rows(const char* device) {
  const auto row = [&](const char* name, std::function<std::function<void()>()> prepare) {
    add_row({name, device, Bound::host, 0, std::move(prepare)});
  };
  row("host empty", [=] { return keep([=] { return empty({1}, on(device)); }); });
  row("host add", [=] { return keep([a = ones({1}, on(device)), b = ones({1}, on(device))] { return a + b; }); });
  row("host add number", [=] { return keep([a = ones({1}, on(device))] { return a + 2.0; }); });
  row("host add inference", [=] {
    return [a = ones({1}, on(device)), b = ones({1}, on(device)), kept = Tensor()]() mutable {
      const InferenceMode guard;
      kept = a + b;
    };
  });
  row("host add in place",
      [=] { return [a = zeros({1}, on(device)), b = ones({1}, on(device))]() mutable { a.add_(b); }; });
  row("host add with gradient", [=] {
    return keep([a = ones({1}, on(device).requires_grad(true)), b = ones({1}, on(device))] { return a + b; });
  });
  row("host view", [=] { return keep([a = ones({2, 2}, on(device))] { return a.view({4}); }); });
  row("host select", [=] { return keep([a = ones({2, 2}, on(device))] { return a.select(0, 1); }); });
  row("host sum", [=] { return keep([a = ones({8}, on(device))] { return a.sum(); }); });
  row("host matmul 8x8", [=] {
    return keep([a = ones({8, 8}, on(device)), b = ones({8, 8}, on(device))] { return a.matmul(b); });
  });
  row("host mm sum backward", [=] {
    return [w = ones({8, 8}, on(device).requires_grad(true)), x = ones({8, 8}, on(device))] {
      x.mm(w).sum().backward();
      w.set_grad({});
    };
  });
  row("host allocate and free", [=] {
    return [d = resolve(Device(device))] {
      const DataPtr p = memory::allocate(d, 1 << 20);
      p.deleter(p.context);
    };
  });
}

const bool registered = [] {
  host_rows("cpu");
  host_rows("cuda");
  add_row({"host current stream", "cuda", Bound::host, 0, [] {
             return [] {
               const Stream s = current_stream(Device(kCUDA, 0));
               asm volatile("" : : "r"(s.handle()) : "memory");
             };
           }});
  add_row({"host stream from pool", "cuda", Bound::host, 0, [] {
             return [] {
               const Stream s = Stream::from_pool();
               asm volatile("" : : "r"(s.handle()) : "memory");
             };
           }});
  return true;
}();

}  // namespace
}  // namespace tenon::bench
