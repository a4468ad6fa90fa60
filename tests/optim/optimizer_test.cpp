// SPDX-License-Identifier: Apache-2.0
// What all optimizers have in common: groups, state, odd parameters, errors; and averages of parameters.
#include <tenon/autograd/autograd.h>
#include <tenon/data/safetensors.h>
#include <tenon/ops/binary.h>
#include <tenon/ops/complex.h>
#include <tenon/ops/copy.h>
#include <tenon/ops/factory.h>
#include <tenon/ops/random.h>
#include <tenon/ops/view.h>
#include <tenon/optim/optim.h>

#include "tests/support/catch.h"

#include <cmath>
#include <cstdio>

using namespace tenon;
using tenon::testing::contains;
using tenon::testing::error_of;

namespace {
using V = std::vector<double>;
Tensor trained(V v) { return from_vector(std::move(v)).requires_grad_(); }
V of(const Tensor& t) { return t.detach().contiguous().to_vector<double>(); }
bool near(const V& got, const V& expected, double tolerance = 1e-12) {
  for (std::size_t i = 0; i < expected.size(); ++i)
    if (!(std::fabs(got[i] - expected[i]) <= tolerance)) return false;
  return got.size() == expected.size();
}
}  // namespace

TEST_CASE("groups have their own options, and a parameter without a gradient its own count of steps") {
  Tensor a = trained({1, 2}), b = trained({3}), c = trained({4});
  optim::Adam optimizer({{{a}, {.lr = 0.1}}, {{b, c}, {.lr = 0.01, .beta1 = 0.5}}});
  CHECK(optimizer.group_count() == 2);
  CHECK(optimizer.parameters().size() == 3);
  CHECK(optimizer.learning_rate(1) == 0.01);
  // The first step of Adam is lr times the sign of the gradient, whenever it comes.
  a.set_grad(from_vector(V{5, -7})), b.set_grad(from_vector(V{2}));
  optimizer.step();
  CHECK(near(of(a), {0.9, 2.1}, 1e-8));
  CHECK(near(of(b), {2.99}, 1e-8));
  CHECK(of(c) == V{4});
  c.set_grad(from_vector(V{-3}));
  optimizer.step();
  CHECK(near(of(c), {4.01}, 1e-8));
  optimizer.zero_grad();
  CHECK(!a.grad().defined());
  optimizer.set_learning_rate(1, 0.5);
  CHECK(optimizer.learning_rate(0) == 0.1);
  optimizer.add_group({{trained({1})}, {.lr = 2}});
  CHECK(optimizer.learning_rate(2) == 2);
}

TEST_CASE("strided, transposed, 0-dim, empty and complex parameters are updated where they lie") {
  Tensor storage = zeros({4, 6}, TensorOptions(kFloat64));
  Tensor strided = storage.slice(1, 0, 6, 2).detach().requires_grad_();
  Tensor transposed = ones({2, 3}, TensorOptions(kFloat64)).t().detach().requires_grad_();
  Tensor scalar = full({}, 2.0, TensorOptions(kFloat64)).requires_grad_();
  Tensor empty = zeros({0, 3}, TensorOptions(kFloat64)).requires_grad_();
  Tensor complex_one = ones({3}, TensorOptions(kComplex128)).requires_grad_();
  optim::SGD optimizer({strided, transposed, scalar, empty, complex_one}, {.lr = 1, .momentum = 0.5});
  for (int i = 0; i < 2; ++i) {
    strided.set_grad(ones({4, 3}, TensorOptions(kFloat64)));
    transposed.set_grad(arange(0, 6, 1, TensorOptions(kFloat64)).view({3, 2}));
    scalar.set_grad(full({}, 0.25, TensorOptions(kFloat64)));
    empty.set_grad(zeros({0, 3}, TensorOptions(kFloat64)));
    complex_one.set_grad(full({3}, Scalar(complex<double>(0, 1)), TensorOptions(kComplex128)));
    optimizer.step();
  }
  // 1 + (0.5 + 1) = 2.5 gradients are gone.
  CHECK(of(strided) == V(12, -2.5));
  CHECK(of(storage.select(1, 1)) == V(4, 0));
  CHECK(of(transposed) == V{1, -1.5, -4, -6.5, -9, -11.5});
  CHECK(of(scalar) == V{2 - 0.625});
  CHECK(of(view_as_real(complex_one.detach()).select(1, 1)) == V(3, -2.5));
}

TEST_CASE("saved state goes on bit for bit, through a file too") {
  const auto run = [](auto make) {
    Tensor p = trained({1, -2, 3}), q = trained({0.5});
    auto first = make(std::vector<Tensor>{p, q});
    const auto step = [](auto& o, const std::vector<Tensor>& list, int i) {
      for (const Tensor& t : list) t.set_grad(t.detach() * (i + 1));
      o.step();
    };
    for (int i = 0; i < 3; ++i) step(first, {p, q}, i);
    Tensor p2 = p.detach().clone().requires_grad_(), q2 = q.detach().clone().requires_grad_();
    auto second = make(std::vector<Tensor>{p2, q2});
    const std::string path = "optimizer_state_test.safetensors";
    data::save_safetensors(path, first.state_dict());
    second.set_learning_rate(7);
    second.load_state_dict(data::load_safetensors(path));
    std::remove(path.c_str());
    CHECK(second.learning_rate() == first.learning_rate());
    for (int i = 3; i < 6; ++i) step(first, {p, q}, i), step(second, {p2, q2}, i);
    CHECK(of(p) == of(p2));
    CHECK(of(q) == of(q2));
  };
  run([](std::vector<Tensor> p) { return optim::SGD(std::move(p), {.lr = 0.1, .momentum = 0.9}); });
  run([](std::vector<Tensor> p) { return optim::Adam(std::move(p), {.lr = 0.1, .amsgrad = true}); });
  run([](std::vector<Tensor> p) { return optim::AdamW(std::move(p), {.lr = 0.1, .capturable = true}); });
  run([](std::vector<Tensor> p) { return optim::NAdam(std::move(p), {.lr = 0.1}); });
  run([](std::vector<Tensor> p) {
    return optim::RMSprop(std::move(p), {.lr = 0.1, .momentum = 0.5, .centered = true});
  });
  run([](std::vector<Tensor> p) { return optim::Adagrad(std::move(p), {.lr = 0.1}); });
  run([](std::vector<Tensor> p) { return optim::Adadelta(std::move(p), {.lr = 0.1}); });
}

TEST_CASE("state that does not fit is refused as a whole") {
  Tensor p = trained({1, 2}), q = trained({1, 2, 3});
  optim::SGD one({p}, {.lr = 0.1, .momentum = 0.9}), other({q}, {.lr = 0.2, .momentum = 0.9});
  p.set_grad(ones_like(p)), one.step();
  CHECK(contains(error_of<ShapeError>([&] { other.load_state_dict(one.state_dict()); }), "state.0.momentum_buffer"));
  CHECK(other.learning_rate() == 0.2);
  auto state = one.state_dict();
  state.emplace_back("state.7.step", ones({}));
  CHECK(contains(error_of<ValueError>([&] { one.load_state_dict(state); }), "state.7.step is unexpected"));
  CHECK(contains(error_of<ValueError>([&] { one.load_state_dict({}); }), "groups.0.lr is missing"));
}

TEST_CASE("a capturable optimizer counts on the device and gives the same steps") {
  Tensor p = trained({1, -2}), q = trained({1, -2});
  optim::AdamW plain({p}, {.lr = 0.1}), capturable({q}, {.lr = 0.1, .capturable = true});
  for (int i = 0; i < 5; ++i) {
    p.set_grad(from_vector(V{1, 2.0 * i})), q.set_grad(from_vector(V{1, 2.0 * i}));
    if (i == 3) plain.set_learning_rate(0.01), capturable.set_learning_rate(0.01);
    plain.step(), capturable.step();
  }
  CHECK(of(p) == of(q));
}

TEST_CASE("a closure is called with gradients recorded and its loss returned") {
  Tensor p = trained({3});
  optim::SGD optimizer({p}, {.lr = 0.5});
  const NoGradGuard no_grad;
  const Tensor loss = optimizer.step([&] {
    p.set_grad({});
    Tensor l = (p * p).sum();
    l.backward();
    return l;
  });
  CHECK(loss.item<double>() == 9);
  CHECK(of(p) == V{0});
}

TEST_CASE("optimizers refuse what cannot be trained") {
  Tensor p = trained({1});
  CHECK(contains(error_of<ValueError>([&] { optim::Adam({p, p}); }), "same tensor"));
  CHECK(contains(error_of<ValueError>([&] { optim::Adam(std::vector<Tensor>{}); }), "at least one"));
  CHECK(contains(error_of<ValueError>([&] { optim::Adam({{{p}, {}}, {{p}, {}}}); }), "another group"));
  CHECK(contains(error_of<AutogradError>([&] { optim::Adam({zeros({1})}); }), "does not require grad"));
  CHECK(contains(error_of<AutogradError>([&] { optim::Adam({p * 2}); }), "computed"));
  CHECK(contains(error_of<ValueError>([&] { optim::Adam({p}, {.beta1 = 1}); }), "beta1"));
  CHECK(contains(error_of<ValueError>([&] { optim::SGD({p}, {.nesterov = true}); }), "nesterov"));
  CHECK(contains(error_of<ValueError>([&] { optim::RMSprop({p}, {.lr = -1}); }), "lr"));
  CHECK(contains(error_of<ValueError>([&] { optim::Adadelta({p}, {.rho = 2}); }), "rho"));
  CHECK(contains(error_of<IndexError>([&] { optim::SGD({p}).learning_rate(1); }), "group"));
}

TEST_CASE("a moving average follows, is exchanged and restored") {
  Tensor p = trained({1, 2});
  optim::ExponentialMovingAverage average({p}, 0.75);
  p.detach().add_(4);
  average.update();
  CHECK(of(average.averages()[0]) == V{2, 3});
  average.swap();
  CHECK(of(p) == V{2, 3});
  CHECK(of(average.averages()[0]) == V{5, 6});
  average.swap();
  CHECK(of(p) == V{5, 6});
  optim::ExponentialMovingAverage other({p}, 0.75);
  other.load_state_dict(average.state_dict());
  CHECK(other.update_count() == 1);
  other.copy_to();
  CHECK(of(p) == V{2, 3});
  // With a warm-up the first update has a decay of 1/10.
  Tensor q = trained({0});
  optim::ExponentialMovingAverage warm({q}, 0.999, true);
  q.detach().fill_(1);
  warm.update();
  CHECK(near(of(warm.averages()[0]), {0.9}));
  Tensor half_one = ones({2}, TensorOptions(kFloat16)).requires_grad_();
  CHECK(optim::ExponentialMovingAverage({half_one}).averages()[0].dtype() == kFloat32);
  CHECK(contains(error_of<ValueError>([&] { optim::ExponentialMovingAverage({p}, 2); }), "decay"));
}
