// SPDX-License-Identifier: Apache-2.0
// What graphs keep for backward: counted, named when memory runs out, and given back.
#include "tests/support/catch.h"

#include <tenon/autograd/tape_bytes.h>
#include <tenon/memory/allocator.h>
#include <tenon/streams/sim.h>
#include <tenon/tenon.h>

#include <string>
#include <thread>

using namespace tenon;

namespace {

struct Cube : autograd::Function<Cube> {
  Tensor forward(const Tensor& x) {
    save(x);
    return x * x * x;
  }
  Tensor backward(const Tensor& grad) { return grad * saved(0) * saved(0) * 3; }
};

}  // namespace

TEST_CASE("saved bytes are counted until backward, destruction or another thread gives them back", "[autograd]") {
  const Device cpu(kCPU);
  const Tensor x = rand({1000}).requires_grad_(true);
  const int64_t before = autograd::tape_bytes(cpu);
  {
    const Tensor y = x * x;  // both arguments
    CHECK(autograd::tape_bytes(cpu) == before + 8000);
    const Tensor z = y.exp().sum();  // its result
    CHECK(autograd::tape_bytes(cpu) == before + 12000);
    z.backward();
    CHECK(autograd::tape_bytes(cpu) == before);
  }
  {
    const Tensor y = Cube::apply(x);
    CHECK(autograd::tape_bytes(cpu) == before + 4000);
  }
  CHECK(autograd::tape_bytes(cpu) == before);
  Tensor made;
  std::thread([&] { made = (x * x).sum(); }).join();
  CHECK(autograd::tape_bytes(cpu) == before + 8000);
  made.reset();
  CHECK(autograd::tape_bytes(cpu) == before);
  {
    const NoGradGuard guard;
    const Tensor y = x * x;
    CHECK(autograd::tape_bytes(cpu) == before);
  }
}

TEST_CASE("an out-of-memory error names what evaluation under grad mode has kept", "[autograd]") {
  sim::configure({.devices = 1, .memory_bytes = 32 << 20, .seed = 1});
  {
    const Device device(kSim, 0);
    const Tensor w = ones({256, 1024}, TensorOptions(kFloat32).device(device)).requires_grad_(true);  // 1 MiB
    const auto evaluate = [&] {  // keeps every result, as a sum of losses does
      Tensor total = zeros({}, w.options());
      for (int i = 0; i < 64; ++i) total = total + (w * 2.0).exp().sum();
      return total;
    };
    std::string text;
    try {
      (void)evaluate();
    } catch (const OutOfMemoryError& e) {
      text = e.what();
    }
    INFO(text);
    CHECK(text.find("kept for backward") != std::string::npos);
    CHECK(text.find("NoGradGuard") != std::string::npos);
    const NoGradGuard guard;
    CHECK_NOTHROW(evaluate());
  }
  sim::configure({});
}

TEST_CASE("a Function that saved what is overwritten with its result is freed", "[autograd]") {
  const Tensor leaf = rand({1000}).requires_grad_(true);
  const int64_t before = memory::memory_allocated(Device(kCPU));
  for (int i = 0; i < 3; ++i) {
    Tensor h = leaf * 1.0;
    h.add_(Cube::apply(h.clone()));
    Tensor g = leaf * 1.0;
    const Tensor y = Cube::apply(g);
    g.add_(y);
  }
  CHECK(memory::memory_allocated(Device(kCPU)) == before);
}

TEST_CASE("a Function's saved input has its history back under create_graph", "[autograd]") {
  const Tensor x = tensor({2.0, -3.0}).requires_grad_(true);
  const Tensor h = x * 1.0;
  for (const Tensor& input : {x, h}) {
    const Tensor first = autograd::grad({Cube::apply(input).sum()}, {input}, {}, {}, true)[0];
    const Tensor second = autograd::grad({first.sum()}, {input})[0];
    CHECK(second.to_vector<double>() == std::vector<double>{12, -18});
  }
}
