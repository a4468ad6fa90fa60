// SPDX-License-Identifier: Apache-2.0
// Operators at sizes where the work is all there is: bytes over the memory roof, FLOPs over the matrix units.
#include "bench.h"

#include <tenon/tenon.h>

#include <memory>

namespace tenon::bench {
namespace {

// Elements of a large one-dimensional tensor and side of a large square, by device.
struct Sizes {
  int64_t flat, side, matmul;
};
Sizes sizes(const std::string& device) {
  return device == "cuda" ? Sizes{1 << 28, 16384, 8192} : Sizes{1 << 24, 4096, 1024};
}

Tensor random(IntArrayRef size, const std::string& device, DType t = kFloat32) {
  return randn(size, TensorOptions(Device(device))).to(t);
}

template <class F>
std::function<void()> keep(F f) {
  return [f, kept = Tensor()]() mutable {
    kept.reset();  // the result's memory is reused, as in a loop
    kept = f();
  };
}

void memory_rows(const std::string& device) {
  const Sizes s = sizes(device);
  const int64_t n = s.flat, side = s.side;
  const auto row = [&](const char* name, double bytes, std::function<std::function<void()>()> prepare) {
    add_row({name, device, Bound::memory, bytes, std::move(prepare)});
  };
  const auto flat = static_cast<double>(n), square = static_cast<double>(side) * static_cast<double>(side);
  row("roof add", 12 * flat, [=] {
    return [a = random({n}, device), b = random({n}, device), c = empty({n}, TensorOptions(Device(device)))] {
      op::add.out(c, a, b, 1);
    };
  });
  row("add f32", 12 * flat, [=] { return keep([a = random({n}, device), b = random({n}, device)] { return a + b; }); });
  row("add number f32", 8 * flat, [=] { return keep([a = random({n}, device)] { return a + 2.0; }); });
  row("add bf16", 6 * flat,
      [=] { return keep([a = random({n}, device, kBFloat16), b = random({n}, device, kBFloat16)] { return a + b; }); });
  row("gelu f32", 8 * flat, [=] { return keep([a = random({n}, device)] { return gelu(a); }); });
  row("cast f32 bf16", 6 * flat, [=] { return keep([a = random({n}, device)] { return a.to(kBFloat16); }); });
  row("copy f32", 8 * flat, [=] { return keep([a = random({n}, device)] { return a.clone(); }); });
  row("where f32", 13 * flat, [=] {
    return keep(
        [a = random({n}, device), b = random({n}, device), c = random({n}, device).gt(0)] { return where(c, a, b); });
  });
  row("add row broadcast", 8 * square, [=] {
    return keep([a = random({side, side}, device), b = random({side}, device)] { return a + b; });
  });
  row("add column broadcast", 8 * square, [=] {
    return keep([a = random({side, side}, device), b = random({side, 1}, device)] { return a + b; });
  });
  row("add transposed", 12 * square, [=] {
    return keep([a = random({side, side}, device), b = random({side, side}, device)] { return a + b.t(); });
  });
  row("transpose copy", 8 * square, [=] {
    return keep([a = random({side, side}, device)] { return a.t().contiguous(); });
  });
  row("sum all", 4 * square, [=] { return keep([a = random({side, side}, device)] { return a.sum(); }); });
  row("sum dim 0", 4 * square, [=] {
    return keep([a = random({side, side}, device)] { return a.sum(IntArrayRef(int64_t{0})); });
  });
  row("sum dim 1", 4 * square, [=] {
    return keep([a = random({side, side}, device)] { return a.sum(IntArrayRef(int64_t{1})); });
  });
  row("argmax rows", 4 * square, [=] { return keep([a = random({side, side}, device)] { return a.argmax(1); }); });
  row("var rows", 4 * square, [=] { return keep([a = random({side, side}, device)] { return a.var({1}); }); });
  row("softmax f32 1024", 8 * flat, [=] {
    return keep([a = random({n / 1024, 1024}, device)] { return a.softmax(-1); });
  });
  row("softmax bf16 8192", 4 * flat, [=] {
    return keep([a = random({n / 8192, 8192}, device, kBFloat16)] { return a.softmax(-1); });
  });
  row("layer_norm f32 4096", 8 * flat, [=] {
    return keep([a = random({n / 4096, 4096}, device), w = random({4096}, device), b = random({4096}, device)] {
      return layer_norm(a, {4096}, w, b);
    });
  });
  row("layer_norm bf16 4096", 4 * flat, [=] {
    return keep([a = random({n / 4096, 4096}, device, kBFloat16), w = random({4096}, device, kBFloat16),
                 b = random({4096}, device, kBFloat16)] { return layer_norm(a, {4096}, w, b); });
  });
  row("index_select rows", 8 * flat, [=] {
    return keep([a = random({n / 1024, 1024}, device),
                 i = randint(n / 1024, {n / 1024}, TensorOptions(Device(device)))] { return a.index_select(0, i); });
  });
  row("cat", 8 * flat, [=] {
    return keep([a = random({n / 2}, device), b = random({n / 2}, device)] {
      const Tensor both[] = {a, b};
      return cat(both);
    });
  });
  row("randn", 4 * flat, [=] { return keep([=] { return randn({n}, TensorOptions(Device(device))); }); });
}

void compute_rows(const std::string& device) {
  const int64_t n = sizes(device).matmul;
  const double flops = 2.0 * static_cast<double>(n) * static_cast<double>(n) * static_cast<double>(n);
  const auto row = [&](const char* name, DType t) {
    add_row({name, device, Bound::compute, flops, [=] {
               return keep([a = random({n, n}, device, t), b = random({n, n}, device, t)] { return a.mm(b); });
             }});
  };
  row("matmul f32", kFloat32);
  row("matmul f64", kFloat64);
  row("matmul bf16", kBFloat16);
  if (device == "cuda") row("matmul f16", kFloat16);
}

// 784-512-512-10, batch 128: forward, loss, backward, update.
void step_rows(const std::string& device) {
  const auto row = [&](const char* name, bool adamw) {
    add_row({name, device, Bound::host, 0, [=] {
               struct State {
                 nn::Sequential net{nn::Linear(784, 512), nn::ReLU(), nn::Linear(512, 512), nn::ReLU(),
                                    nn::Linear(512, 10)};
                 Tensor x, y;
                 std::unique_ptr<optim::Optimizer> optimizer;
               };
               auto s = std::make_shared<State>();
               s->net.to(Device(device));
               s->x = random({128, 784}, device);
               s->y = randint(10, {128}, TensorOptions(Device(device)).dtype(kInt64));
               if (adamw)
                 s->optimizer = std::make_unique<optim::AdamW>(s->net.parameters(), optim::AdamWOptions{.lr = 1e-4});
               else
                 s->optimizer = std::make_unique<optim::SGD>(s->net.parameters(), optim::SGDOptions{.lr = 1e-4});
               return [s] {
                 const Tensor loss = cross_entropy(s->net(s->x), s->y);
                 s->optimizer->zero_grad();
                 loss.backward();
                 s->optimizer->step();
               };
             }});
  };
  row("mlp step sgd", false);
  row("mlp step adamw", true);
}

const bool registered = [] {
  for (const char* device : {"cpu", "cuda"}) {
    memory_rows(device);
    compute_rows(device);
    step_rows(device);
  }
  return true;
}();

}  // namespace
}  // namespace tenon::bench
