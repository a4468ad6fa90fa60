// SPDX-License-Identifier: Apache-2.0
// How a gradient flows, in the order of docs/autograd.md, which quotes the marked parts. With an argument: compares the
// graph with that file (docs/gradient_flow.dot); with --dot: prints it.
#include <tenon/autograd/gradcheck.h>
#include <tenon/tenon.h>

#include <fstream>
#include <iostream>
#include <iterator>

using namespace tenon;

namespace {

void expect(bool held) { TENON_CHECK(held, ValueError, "04_gradient_flow: a comment is wrong"); }
template <class F>
void expect_error(F&& f) {
  try {
    f();
  } catch (const AutogradError&) {
    return;
  }
  expect(false);
}
bool all_equal(const Tensor& t, double value) { return t.eq(value).all().item<bool>(); }

void record() {
  // [record]
  Tensor x = full({3}, 2.0);
  Tensor w = full({3}, 3.0).requires_grad_();  // a leaf: it will receive a gradient
  Tensor y = x * w;                            // runs mul, then records a node that keeps x
  std::cout << y << "\n";                      // tensor([6., 6., 6.], grad_fn=<mul>)
  Tensor loss = (y * y).sum();
  loss.backward();
  std::cout << w.grad() << "\n";  // 2 x y = 24, 24, 24
  // [record]
  expect(y.str() == "tensor([6., 6., 6.], grad_fn=<mul>)");
  expect(all_equal(w.grad(), 24));
}

void ask() {
  // [grad]
  Tensor a = full({}, 2.0).requires_grad_(), b = full({}, 3.0).requires_grad_();
  std::vector<Tensor> g = autograd::grad({a * b + a}, {a, b});  // b + 1 = 4, a = 2; a.grad() stays undefined
  // [grad]
  expect(g[0].item<float>() == 4 && g[1].item<float>() == 2 && !a.grad().defined());
}

void versions() {
  // [version]
  Tensor w = full({2}, 1.0).requires_grad_();
  Tensor h = w * 2;
  Tensor y = h.exp();  // exp keeps its result
  y.mul_(3);           // and this overwrites it
  // y.sum().backward() throws: "exp: output 0, float32 of sizes [2], was saved for backward and has been written ..."
  // [version]
  expect_error([&] { y.sum().backward(); });
}

void views() {
  // [view]
  Tensor w = full({2, 2}, 1.0).requires_grad_();
  Tensor h = w * 1;   // not a leaf, so it may be written
  Tensor row = h[0];  // a view of h
  row.mul_(10);       // h's history is now: row 0 times 10, row 1 as before
  h.sum().backward();
  std::cout << w.grad() << "\n";  // 10, 10 / 1, 1
  // [view]
  expect(all_equal(w.grad()[0], 10) && all_equal(w.grad()[1], 1));
}

void hooks() {
  Tensor w = full({2}, 1.0).requires_grad_();
  // [hook]
  Tensor h = w * 2;
  h.register_hook([](const Tensor& g) { return g * 0.5; });          // what it returns takes the gradient's place
  h.register_hook([](const Tensor& g) { std::cout << g << "\n"; });  // or only look
  h.retain_grad();                                                   // h.grad() after backward
  w.register_post_accumulate_grad_hook(
      [](Tensor& p) { p -= 0.1 * p.grad(); });  // a step as soon as there is a gradient
  h.sum().backward();
  // [hook]
  expect(all_equal(h.grad(), 0.5) && all_equal(w.grad(), 1) && all_equal(w, 0.9));
  // [handle]
  Tensor k = w * 2;
  autograd::HookHandle handle = k.register_hook([](const Tensor& g) { return g * 0; });
  handle.remove();  // a handle that is dropped leaves the hook where it is
  k.grad_fn()->add_pre_hook([](std::span<Tensor> grads) { grads[0] = grads[0] * 3; });
  k.grad_fn()->add_post_hook([](std::span<Tensor> results, std::span<const Tensor> grads) {
    results[0] = results[0] + grads[0];  // mul's gradient for w, and what mul received
  });
  k.sum().backward();
  // [handle]
  expect(all_equal(w.grad(), 10));  // 1 of before, 3 * 2 + 3 of now
}

void twice() {
  // [twice]
  Tensor x = full({3}, 2.0).requires_grad_();
  Tensor y = (x * x * x).sum();
  Tensor g = autograd::grad({y}, {x}, {}, {}, true)[0];  // create_graph: 3 x^2, with a history of its own
  Tensor penalty = (g * g).sum();                        // as for WGAN-GP
  penalty.backward();                                    // 2 * 3 x^2 * 6 x = 36 x^3
  // [twice]
  expect(all_equal(x.grad(), 288));
}

// [function]
struct ScaledTanh : autograd::Function<ScaledTanh> {
  double k = 1;  // members keep what is not a tensor
  Tensor forward(const Tensor& x, double scale) {
    k = scale;
    Tensor y = x.tanh() * k;
    save(y);  // an output: may be differentiated through
    return y;
  }
  Tensor backward(const Tensor& grad) { return grad * (k - saved(0) * saved(0) / k); }
};
// [function]

// [inplace]
struct AddOne : autograd::Function<AddOne> {
  Tensor forward(Tensor x) {
    x.add_(1);
    mark_dirty(x);  // and hand it back
    return x;
  }
  Tensor backward(const Tensor& grad) { return grad; }
};
// [inplace]

void lists() {
  Tensor w = full({2}, 2.0).requires_grad_(), b = full({2}, 1.0).requires_grad_();
  Tensor y = w * w + b, loss = y.sum(), v = full({2}, 10.0);
  // [lists]
  std::vector<Tensor> params{w, b};
  Tensor g = autograd::grad(loss, w, {.retain_graph = true})[0];     // one tensor, switches by name
  auto both = autograd::grad(loss, params, {.create_graph = true});  // any list
  auto along = autograd::grad({y}, {w}, {v}, true)[0];               // braces; the arguments in order
  autograd::backward(loss, {}, {}, false, {b});                      // only b.grad()
  // [lists]
  expect(all_equal(g, 4) && all_equal(both[0], 4) && all_equal(along, 40) && all_equal(b.grad(), 1));
  expect(!w.grad().defined());
}

void care() {
  // [anomaly]
  Tensor x = full({2}, 0.0).requires_grad_();
  std::string text;
  {
    const autograd::AnomalyMode anomaly;  // both forward and backward inside
    Tensor y = (x.sqrt() * x).sum();
    try {
      y.backward();  // the gradient of sqrt at 0 is infinite, times 0
    } catch (const AutogradError& e) {
      text = e.what();  // "backward of sqrt gave NaN from gradients without NaN
    }                   //   recorded at care+0x1f4 (app+0x4a1c) < main+0x5d (app+0x5b22)"
  }
  // [anomaly]
  expect(text.find("sqrt") != std::string::npos && text.find("recorded at") != std::string::npos);

  // [gradcheck]
  Tensor p = tensor({0.5, -1.5}, TensorOptions(kFloat64)).requires_grad_();
  auto f = [](const Tensor& t) { return ScaledTanh::apply(t, 2.0); };
  autograd::gradcheck(f, p);      // throws with both Jacobians where they differ
  autograd::gradgradcheck(f, p);  // and the derivatives of the derivatives
  // [gradcheck]

  // [inference]
  Tensor z;
  {
    const InferenceMode mode;  // nothing is recorded, and z can enter no graph later
    z = p * 2;
  }
  // z * p throws outside: "mul: argument self was made in inference mode and cannot be saved for backward; clone() it"
  Tensor again = z.clone() * p;
  // [inference]
  expect_error([&] { z* p; });
  expect(again.requires_grad());
}

void remedies() {
  manual_seed(1);
  Tensor w = randn({64, 64}).requires_grad_(), x = randn({8, 64});
  const auto block = [&](const Tensor& t) { return t.matmul(w).tanh(); };
  const Tensor direct = autograd::grad({block(block(x)).sum()}, {w})[0];
  // [checkpoint]
  // Nothing of the blocks is kept but their inputs; each runs once more in backward.
  Tensor h = autograd::checkpoint(block, x);
  Tensor y = autograd::checkpoint(block, h);
  y.sum().backward();
  // [checkpoint]
  expect(w.grad().eq(direct).all().item<bool>());
  w.set_grad({});

  // [saved_hooks]
  {
    // What is saved inside is kept in half the memory.
    autograd::SavedTensorHooksGuard guard([](const Tensor& t) { return t.to(kBFloat16); },
                                          [](const Tensor& t) { return t.to(kFloat32); });
    y = block(block(x));
  }
  y.sum().backward();
  w.set_grad({});
  {
    const auto guard = autograd::save_on_cpu(true);  // in pinned host memory, for tensors on the GPU
    y = block(block(x));
  }
  y.sum().backward();
  // [saved_hooks]
  expect(w.grad().eq(direct).all().item<bool>());
}

void accumulate() {
  manual_seed(2);
  const TensorOptions f64 = TensorOptions(kFloat64);
  nn::Sequential model(nn::Linear(8, 16), nn::Tanh(), nn::Linear(16, 1));
  model.to(kFloat64);
  optim::SGD optimizer(model.parameters(), {.lr = 0.1});
  const Tensor x = randn({32, 8}, f64), y = randn({32, 1}, f64);
  mse_loss(model.forward(x), y).backward();
  std::vector<Tensor> whole;
  for (const Tensor& p : model.parameters()) whole.push_back(p.grad());

  // [accumulate]
  constexpr int kParts = 4;  // memory for 8 samples, the gradient of 32
  optimizer.zero_grad();
  for (int i = 0; i < kParts; ++i) {
    Tensor loss = mse_loss(model.forward(x.narrow(0, 8 * i, 8)), y.narrow(0, 8 * i, 8)) / kParts;
    loss.backward();  // adds to what is there, and frees this part's graph
  }
  nn::clip_grad_norm_(model.parameters(), 1.0);
  optimizer.step();
  // [accumulate]
  Tensor total = zeros({}, f64);
  for (const Tensor& g : whole) total = total + (g * g).sum();
  const double scale = std::min(1.0, 1.0 / (total.sqrt().item<double>() + 1e-6));
  const std::vector<Tensor> parameters = model.parameters();
  for (std::size_t i = 0; i < whole.size(); ++i)
    expect((parameters[i].grad() - whole[i] * scale).abs().max().item<double>() < 1e-12);
}

void functions() {
  // [functional]
  Tensor x = full({2}, 3.0), v = full({2}, 1.0);
  auto f = [](const Tensor& t) { return t * t * t; };
  Tensor J = autograd::jacobian(f, x);       // [2, 2]: 27 on the diagonal
  auto [y, along] = autograd::jvp(f, x, v);  // J v = 27, 27
  auto loss = [&](const Tensor& t) { return f(t).sum(); };
  Tensor H = autograd::hessian(loss, x);         // 6 x = 18 on the diagonal
  Tensor Hv = autograd::hvp(loss, x, v).second;  // without H: 18, 18
  // [functional]
  expect(J[0][0].item<float>() == 27 && J[0][1].item<float>() == 0 && all_equal(along, 27));
  expect(H[1][1].item<float>() == 18 && all_equal(Hv, 18) && all_equal(y, 27));
}

std::string graph() {
  // [dot]
  Tensor x = full({4, 3}, 1.0);
  Tensor w = full({3, 2}, 0.5).requires_grad_(), b = full({2}, 0.0).requires_grad_();
  Tensor loss = (x.matmul(w) + b).tanh().mean();
  autograd::GraphDotOptions options;
  options.names = {{"w", w}, {"b", b}};
  options.saved = true;
  std::string text = autograd::graph_dot(loss, options);  // for `dot -Tsvg`
  // [dot]
  return text;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && std::string(argv[1]) == "--dot") {
    std::cout << graph();
    return 0;
  }
  if (argc > 1) {
    std::ifstream file(argv[1]);
    const std::string committed((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    if (committed == graph()) return 0;
    std::cerr << argv[1] << " is not what the program prints; run tools/update_graph\n" << graph();
    return 1;
  }
  record();
  ask();
  versions();
  views();
  hooks();
  twice();
  lists();
  care();
  Tensor t = full({2}, 0.5, TensorOptions(kFloat64)).requires_grad_();
  ScaledTanh::apply(t, 2.0).sum().backward();
  expect(t.grad().defined());
  Tensor u = t * 1;
  AddOne::apply(u);
  expect(all_equal(u, 1.5));
  remedies();
  accumulate();
  functions();
}
