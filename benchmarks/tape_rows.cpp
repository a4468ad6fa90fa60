// SPDX-License-Identifier: Apache-2.0
// What recording and running a graph costs on the host: tiny tensors, forward and backward. A chain's rows state the
// whole chain; its length is in the name.
#include "bench.h"

#include <tenon/tenon.h>

namespace tenon::bench {
namespace {

void tape_rows(const char* device) {
  const auto row = [&](const char* name, std::function<std::function<void()>()> prepare) {
    add_row({name, device, Bound::host, 0, std::move(prepare)});
  };
  const TensorOptions plain = TensorOptions(Device(device));
  const TensorOptions leaf = TensorOptions(Device(device)).requires_grad(true);
  row("tape mul chain 64", [=] {
    return [x = ones({1}, leaf), w = ones({1}, plain)] {
      Tensor y = x;
      for (int i = 0; i < 64; ++i) y = y * w;
      y.backward();
      x.set_grad({});
    };
  });
  row("tape mul chain 64 forward", [=] {
    return [x = ones({1}, leaf), w = ones({1}, plain)] {
      Tensor y = x;
      for (int i = 0; i < 64; ++i) y = y * w;
    };
  });
  row("tape mul both 64", [=] {
    return [x = ones({1}, leaf), w = ones({1}, leaf)] {
      Tensor y = x;
      for (int i = 0; i < 64; ++i) y = y * w;
      y.backward();
      x.set_grad({});
      w.set_grad({});
    };
  });
  row("tape tiny linear", [=] {
    return [x = ones({8, 8}, plain), w = ones({8, 8}, leaf), b = ones({8}, leaf)] {
      linear(x, w, b).sum().backward();
      w.set_grad({});
      b.set_grad({});
    };
  });
  row("tape view", [=] { return [x = ones({2, 2}, leaf), y = Tensor()]() mutable { y = x.view({4}); }; });
  row("tape sum", [=] { return [x = ones({8}, leaf), y = Tensor()]() mutable { y = x.sum(); }; });
  row("tape detach add in place", [=] {
    return [x = ones({1}, leaf), z = zeros({1}, plain)] {
      Tensor h = z.detach();
      h.add_(x);
    };
  });
  row("tape grad of a small graph", [=] {
    return [a = ones({1}, leaf), b = ones({1}, leaf)] {
      const Tensor outputs[] = {(a * b + a).exp()}, inputs[] = {a, b};
      autograd::grad(outputs, inputs);
    };
  });
}

const bool registered = [] {
  tape_rows("cpu");
  tape_rows("cuda");
  return true;
}();

}  // namespace
}  // namespace tenon::bench
