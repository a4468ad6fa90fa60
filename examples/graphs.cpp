// SPDX-License-Identifier: Apache-2.0
// Graphs: a training step recorded once and replayed with one call. Runs on the simulated device where there is no GPU.
// docs/graphs.md quotes this file; it checks what it says.
#include <tenon/tenon.h>

#include <cstdio>

using namespace tenon;

namespace {

int wrong = 0;
void check(bool ok, const char* what) {
  if (ok) return;
  std::printf("wrong: %s\n", what);
  ++wrong;
}

const Device kDevice = cuda::device_count() > 0 ? Device(kCUDA, 0) : Device(kSim, 0);

// ---- a graph by hand ----
void by_hand() {
  const TensorOptions on(kDevice);
  Tensor x = ones({4}, on), y;
  Graph g(kDevice);
  g.capture([&] { y = x.mul(2).add(rand({4}, on)); });  // recorded, nothing runs
  for (int i = 0; i < 3; ++i) {
    x.fill_(i);  // new data in the same memory
    g.replay();
    const float first = y.to_vector<float>()[0];  // other random numbers in every replay
    check(first >= 2 * i && first <= 2 * i + 1, "a replay reads what x holds then");
  }
  g.debug_dump("graph.dot");
  g.reset();  // its memory goes back
  std::remove("graph.dot");
}

// ---- a training step ----
void training_step() {
  nn::Sequential net{nn::Linear(8, 16), nn::ReLU(), nn::Linear(16, 3)};
  net.to(kDevice);
  optim::SGD optimizer(net.parameters(), {.lr = 0.1, .momentum = 0.9});
  GraphFunction step = graph([&](TensorList in) -> std::vector<Tensor> {
    optimizer.zero_grad();
    const Tensor loss = cross_entropy(net(in[0]), in[1]);
    loss.backward();
    optimizer.step();
    return {loss};
  });
  const Tensor images = randn({32, 8}).to(kDevice), labels = randint(0, 3, {32}).to(kDevice);
  float first = 0, last = 0;
  for (int i = 0; i < 30; ++i) {
    const Tensor loss = step({images, labels})[0];
    if (i % 29 == 0) (i == 0 ? first : last) = loss.item<float>();
  }
  check(last < first, "the graph trains");
  check(step.graphs() == 1, "one graph for inputs of one kind");
}

// ---- what cannot be captured ----
void linted() {
  const Tensor x = randn({16});
  const CaptureReport report = lint_capture([&] {
    Tensor y = x.relu();
    if (y.sum().item<float>() > 0) y = y / y.max();
    (void)nonzero(y);
  });
  // item: it waits for the device
  // nonzero: the sizes of its results depend on data
  check(report.str() == "item: it waits for the device\nnonzero: the sizes of its results depend on data",
        "the report");

  Graph g(kDevice);
  const Tensor z = ones({4}, TensorOptions(kDevice));
  try {
    g.capture([&] { (void)z.sum().item<float>(); });
    check(false, "an error");
  } catch (const CaptureError& e) {
    check(std::string(e.what()).starts_with("item: not while a graph is captured"), "the operator is named");
  }
  check(z.sum().item<float>() == 4, "the device is as usable as before");
}

// ---- several graphs, one pool ----
void shared_pool() {
  const Tensor x = ones({1 << 16}, TensorOptions(kDevice));
  const MemPool pool;
  Graph forward(kDevice), evaluation(kDevice);
  Tensor a, b;
  forward.capture([&] { a = x.add(1).mul(2).sum(); }, pool);
  evaluation.capture([&] { b = x.add(3).mul(2).sum(); }, pool);
  forward.replay();
  evaluation.replay();
  check(a.item<float>() == 4 * 65536 && b.item<float>() == 8 * 65536, "results that are alive are never shared");
}

}  // namespace

int main() {
  by_hand();
  training_step();
  linted();
  shared_pool();
  return wrong;
}
