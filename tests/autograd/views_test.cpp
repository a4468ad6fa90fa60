// SPDX-License-Identifier: Apache-2.0
// Views and in-place writes, program by program: the numbers are PyTorch's, and so are the refusals.
#include <tenon/autograd/autograd.h>
#include <tenon/core/index.h>
#include <tenon/ops/binary.h>
#include <tenon/ops/cat.h>
#include <tenon/ops/compare.h>
#include <tenon/ops/copy.h>
#include <tenon/ops/factory.h>
#include <tenon/ops/index.h>
#include <tenon/ops/reduce.h>
#include <tenon/ops/unary.h>
#include <tenon/ops/view.h>
#include <tenon/ops/where.h>

#include "tests/support/catch.h"

#include <array>
#include <functional>

using namespace tenon;
using tenon::testing::contains;
using tenon::testing::error_of;

namespace {
using V = std::vector<double>;
Tensor constant(V values) { return from_vector(std::move(values)); }
Tensor leaf(V values) { return from_vector(std::move(values)).requires_grad_(); }
Tensor leaf(V values, IntArrayRef sizes) { return from_vector(std::move(values), sizes).requires_grad_(); }
Tensor ints(std::vector<int64_t> v) { return from_vector(std::move(v)); }
V values(const Tensor& t) { return t.detach().to_vector<double>(); }
/// d sum(y) / d x.
V slope(const Tensor& y, const Tensor& x) { return values(autograd::grad({y.sum()}, {x}, {}, true)[0]); }
}  // namespace

TEST_CASE("views made without recording are constants, and may not be written while recording") {
  const Tensor x = leaf({1, 2});
  const Tensor h = x * 1;
  Tensor quiet, still;
  {
    const NoGradGuard guard;
    quiet = h[0];
    h[1].mul_(3);  // the values change, the history does not
  }
  CHECK_FALSE(quiet.requires_grad());
  CHECK(contains(error_of<AutogradError>([&] { quiet.mul_(2); }), "mul_: self is a view made in no-grad mode"));
  CHECK(contains(error_of<AutogradError>([&] { quiet.unsqueeze(0).mul_(2); }), "no-grad"));
  CHECK(values(h) == V{1, 6});
  CHECK(slope(h, x) == V{1, 1});
  {
    const NoGradGuard guard;
    quiet.mul_(5);
    still = h.split(1)[0].select(0, 0);  // of one of several views
  }
  CHECK(values(h) == V{5, 6});
  CHECK_FALSE(still.requires_grad());
  CHECK_THROWS_AS(still.mul_(2), AutogradError);

  // Of a constant they are views as any other.
  Tensor base = constant({1, 2}), view;
  {
    const NoGradGuard guard;
    view = base[0];
  }
  view.mul_(2);
  view.mul_(x[1]);
  CHECK(values(base) == V{4, 2});
  CHECK(slope(base, x) == V{0, 2});
}

TEST_CASE("inference mode: its tensors, and its views of others") {
  const Tensor x = leaf({1, 2}), w = leaf({3, 4});
  Tensor h = x * 1;
  Tensor made, view, of_constant, plain = constant({1, 2});
  {
    const InferenceMode inference;
    CHECK(InferenceMode::is_enabled());
    made = ones({2}, kFloat64);
    made.mul_(2);
    view = h[0];
    of_constant = plain[0];
    const uint32_t before = h.version();
    h.mul_(2);
    CHECK(h.version() == before + 1);
    {
      const EnableGradGuard enabled;
      CHECK(ones({2}).is_inference());
    }
    const InferenceMode off(false);
    CHECK(grad_enabled());
    CHECK_FALSE(InferenceMode::is_enabled());
    CHECK((x * 2).requires_grad());
    CHECK_FALSE((x * 2).is_inference());
  }
  CHECK_FALSE(InferenceMode::is_enabled());
  CHECK(made.is_inference());
  CHECK(made[0].is_inference());
  CHECK_FALSE(view.is_inference());
  CHECK(h.grad_fn_name() == "mul");
  CHECK(values((view * w[0])) == V{6});  // may be saved: its storage counts versions
  CHECK(contains(error_of<AutogradError>([&] { view.mul_(2); }), "inference mode"));
  of_constant.mul_(2);
  CHECK(values(plain) == V{2, 2});
  CHECK(contains(error_of<AutogradError>([&] { (void)(made * x); }), "mul: argument self was made in inference mode"));
  CHECK(contains(error_of<AutogradError>([&] { made.add_(x); }), "add_: self was made in inference mode"));
  CHECK(contains(error_of<AutogradError>([&] { made.requires_grad_(); }), "requires_grad_"));
  CHECK(slope(made.clone() * x, x) == V{2, 2});
  CHECK((made[0] + x).requires_grad());
}

TEST_CASE("requires_grad_ on views") {
  Tensor x = constant({1, 2});
  const Tensor y = leaf({5, 6});
  Tensor v = x[0];
  v.requires_grad_();
  CHECK(v.is_leaf());
  CHECK(contains(error_of<AutogradError>([&] { v.mul_(2); }), "leaf"));
  const Tensor before = v * 2;
  x.mul_(3);
  CHECK(v.is_leaf());
  before.backward();
  CHECK(values(v.grad()) == V{2});
  x.mul_(y);  // now v comes from x's new history
  CHECK_FALSE(v.is_leaf());
  CHECK(values(v) == V{15});
  CHECK(slope(v * 1, y) == V{3, 0});
}

TEST_CASE("detached tensors share memory and versions, each with its own history") {
  const Tensor x = leaf({1, 2}), w = leaf({3, 4});
  Tensor h = x * 1, d = h.detach();
  d.mul_(w);
  CHECK(d.grad_fn_name() == "mul");
  CHECK(values(h) == V{3, 8});
  CHECK(slope(h, x) == V{1, 1});
  CHECK(slope(d, w) == V{1, 2});
  Tensor e = h.detach().requires_grad_();
  CHECK(contains(error_of<AutogradError>([&] { e.mul_(2); }), "leaf"));
  x.detach().mul_(2);  // PyTorch lets this through, too
  CHECK(values(x) == V{2, 4});
  CHECK(x.is_leaf());
}

TEST_CASE("several views made at once") {
  const Tensor x = leaf({1, 2, 3, 4}, {2, 2});
  const Tensor h = x * 1;
  for (const Tensor& part : {h.unbind(0)[0], h.split(1)[0], chunk(h, 1)[0], split_with_sizes(h, {1, 1})[1]})
    CHECK(contains(error_of<AutogradError>([&] { Tensor(part).mul_(2); }), "mul_: self is one of several views"));
  Tensor base = constant({1, 2, 3, 4});
  std::vector<Tensor> parts = base.view({2, 2}).unbind(0);
  parts[0].mul_(2);  // nothing to record
  CHECK(values(base) == V{2, 4, 3, 4});
  CHECK(contains(error_of<AutogradError>([&] { parts[0].mul_(x[0]); }), "unbind"));
  // A narrower view of one of them is refused as well; without the write the gradient is right.
  const Tensor rows = (x * 1).view({2, 2});
  const Tensor row = rows.unbind()[0];
  CHECK_THROWS_AS(row.narrow(0, 0, 2).mul_(2), AutogradError);
  CHECK(slope(row, x) == V{1, 1, 0, 0});
}

TEST_CASE("expanded tensors") {
  const Tensor x = leaf({1, 2});
  const Tensor h = x * 1;
  CHECK(contains(error_of<AliasError>([&] { h.expand({2, 2}).add_(1); }), "add"));
  CHECK_THROWS_AS(x.expand({2, 2}).add_(1), Error);
  h.expand({2, 2})[0].add_(1);  // each element once
  CHECK(values(autograd::grad({(h * h).sum()}, {x}, {}, true)[0]) == V{4, 6});
  Tensor k = x * 1;
  const Tensor wide = k.expand({3, 2});
  k.mul_(2);
  CHECK(slope(wide, x) == V{6, 6});
  CHECK(slope(wide.select(0, 1).unsqueeze(0).expand({4, 2}), x) == V{8, 8});
}

TEST_CASE("chains of views") {
  const Tensor x = leaf({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, {3, 4}), v = leaf({100, 200});
  Tensor h = x * 1;
  Tensor odd = h.t().slice(0, 1, {}, 2);          // columns 1 and 3, transposed: [2, 3]
  Tensor row = odd.transpose(0, 1).select(0, 1);  // x[1][1], x[1][3]
  row += v;
  odd.mul_(2);
  CHECK(slope(h, x) == V{1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2});
  CHECK(slope(h, v) == V{2, 2});
  CHECK(values(row) == V{210, 414});
  CHECK(slope(row, x) == V{0, 0, 0, 0, 0, 2, 0, 2, 0, 0, 0, 0});
  h[2][0] += v[0];
  h[2][0] *= v[1];
  CHECK(values(h)[8] == 108.0 * 200);
  CHECK(slope(h, v) == V{202, 2 + 108});
  CHECK(row.base().is_same(h));
}

TEST_CASE("copy_ takes the gradient to the source and away from what it overwrites") {
  const Tensor x = leaf({1, 2}), weight = constant({1, 10});
  Tensor h = x * 1;
  h.copy_(x[0]);
  CHECK(slope(h * weight, x) == V{11, 0});
  h = x * 1;
  h.slice(0, 0, 1).copy_(h.slice(0, 1, 2));
  CHECK(slope(h * weight, x) == V{0, 11});
  h = x * 1;
  h.copy_(constant({5, 6}));
  CHECK(h.requires_grad());
  CHECK_FALSE(autograd::grad({h.sum()}, {x}, {}, true, false, true)[0].defined());  // nothing of x is left in it
  Tensor single = from_vector(std::vector<float>{0, 0});
  single.copy_(x * 3);
  CHECK(single.requires_grad());
  CHECK(slope(single, x) == V{3, 3});
  single.add_(x);  // a wider operand
  CHECK(single.dtype() == kFloat32);
  CHECK(slope(single, x) == V{4, 4});
}

TEST_CASE("index_put_ and masked_fill_") {
  const Tensor x = leaf({1, 2, 3}), v = leaf({10, 20}), s = leaf({7}, {});
  Tensor h = x * 1;
  h.index_put_({ints({2, 0})}, v);
  CHECK(values(h) == V{20, 2, 10});
  CHECK(slope(h, x) == V{0, 1, 0});
  CHECK(slope(h * constant({1, 2, 3}), v) == V{3, 1});
  h.masked_fill_(from_span<bool>(std::array<bool, 3>{true, false, false}, {3}), s);
  CHECK(slope(h, v) == V{1, 0});
  CHECK(slope(h, s) == V{1});
  Tensor k = leaf({1, 2, 3, 4}, {2, 2}) * 1;
  k.index_put_({Slice(), ints({1})}, v.view({2, 1}));  // through views and index tensors
  CHECK(slope(k * k, v) == V{20, 40});
  Tensor m = x * 1;
  op::index_put.inplace(m, m, std::vector<Tensor>{ints({1, 1})}, v, true);
  CHECK(slope(m, v) == V{1, 1});
  CHECK(slope(m, x) == V{1, 1, 1});
}

TEST_CASE("a write that is refused names its operator and changes nothing") {
  const Tensor x = leaf({1, 2});
  const Tensor mask = from_span<bool>(std::array<bool, 2>{true, false}, {2});
  const struct {
    const char* name;
    std::function<void(Tensor)> write;
  } writes[] = {
      {"add_", [](Tensor t) { t += 1; }},
      {"mul_", [](Tensor t) { t.mul_(2); }},
      {"copy_", [](Tensor t) { t.copy_(ones({}, kFloat64)); }},
      {"fill_", [](Tensor t) { t.fill_(3); }},
      {"fill_", [](Tensor t) { t.zero_(); }},
      {"exp_", [](Tensor t) { t.exp_(); }},
      {"clamp_", [](Tensor t) { t.clamp_(0, 1); }},
      {"masked_fill_", [&](Tensor t) { t.masked_fill_(mask, 1); }},
      {"index_put_", [](Tensor t) { t.index_put_({ints({0})}, 1); }},
  };
  for (const auto& w : writes) {
    INFO(w.name);
    CHECK(error_of<AutogradError>([&] { w.write(x); }).starts_with(w.name));
    CHECK(error_of<AutogradError>([&] { w.write(x.view({2})); }).starts_with(w.name));
    CHECK(values(x) == V{1, 2});
    CHECK(x.version() == 0);
  }
  Tensor whole = from_vector(std::vector<int64_t>{1, 2}), narrow = constant({1, 2});
  CHECK(contains(error_of<DtypeError>([&] { whole.mul_(1.5); }), "mul_"));
  CHECK(contains(error_of<ShapeError>([&] { narrow.add_(ones({2, 2}, kFloat64)); }), "add_"));
  Tensor h = x * 1;
  CHECK_THROWS_AS(h.add_(ones({2, 2}, kFloat64)), ShapeError);
  CHECK(slope(h, x) == V{1, 1});  // still usable
  Tensor zero = x.sum();
  zero.mul_(3).add_(x[0]);
  CHECK(slope(zero, x) == V{4, 3});
}

TEST_CASE("retain_grad before and after writes") {
  const Tensor x = leaf({1, 2});
  Tensor h = x * 1;
  h.retain_grad();
  const Tensor before = h * 5;
  h.mul_(3);
  (h.sum() + before.sum()).backward();
  CHECK(values(h.grad()) == V{1, 1});  // of the present value
  Tensor k = x * 1;
  const Tensor v = k[0], other = k[1];
  v.retain_grad();
  other.retain_grad();
  k.mul_(3);
  (v * v).backward();
  CHECK(values(v.grad()) == V{6});
  CHECK_FALSE(other.grad().defined());
  Tensor m = x * 1, w = m[0];
  w.retain_grad();
  w.mul_(3);
  (w * w).backward();
  CHECK(values(w.grad()) == V{6});
  CHECK(w.retains_grad());
  Tensor again = x * 2;
  again.retain_grad();
  again.sum().backward({}, true);
  again.sum().backward();
  CHECK(values(again.grad()) == V{2, 2});
}

TEST_CASE("a retained graph notices writes between two backward runs") {
  const Tensor x = leaf({1, 2});
  Tensor h = x * 1;
  const Tensor y = (h * h).sum();
  y.backward({}, true);
  h.select(0, 1).mul_(2);
  const std::string text = error_of<AutogradError>([&] { y.backward(); });
  for (const char* part : {"mul: argument self", "float64 of sizes [2]", "is at version 1; expected version 0"})
    CHECK(contains(text, part));
  Tensor e = x.exp();
  e.add_(1);
  CHECK(contains(error_of<AutogradError>([&] { e.sum().backward(); }), "exp: output 0"));
}

TEST_CASE("division in place by a statistic of itself is that of fresh tensors, in every layout") {
  const V data = {1, 2, 4, 8, 3, 9, 27, 5, 6, 1, 0, 2};
  const auto layouts = [&] {
    std::vector<Tensor> all;
    all.push_back(from_vector(V(data), {3, 4}));
    all.push_back(from_vector(V(data), {4, 3}).t());
    Tensor wide = zeros({3, 8}, kFloat64);
    all.push_back(wide.slice(1, 0, 8, 2));
    all.back().copy_(all[0]);
    Tensor rows = zeros({6, 4}, kFloat64);
    all.push_back(rows.slice(0, 1, 6, 2));
    all.back().copy_(all[0]);
    return all;
  }();
  for (const Tensor& x : layouts) {
    Tensor y = x;
    const Tensor expected = x / op::std(x, {{1}}, {}, false).unsqueeze(1);
    y.div_(op::std(y, {{1}}, {}, false).unsqueeze(1));
    CHECK(values(y) == values(expected));
  }
}
