// SPDX-License-Identifier: Apache-2.0
// nn::Conv*: text and sizes as PyTorch prints and makes them, padding modes against padding by hand, initial values.
#include <tenon/autograd/autograd.h>
#include <tenon/nn/nn.h>
#include <tenon/ops/binary.h>
#include <tenon/ops/compare.h>
#include <tenon/ops/convolution.h>
#include <tenon/ops/factory.h>
#include <tenon/ops/generator.h>
#include <tenon/ops/pad.h>
#include <tenon/ops/random.h>
#include <tenon/ops/reduce.h>

#include "tests/support/catch.h"

#include <cmath>

using namespace tenon;
using tenon::testing::contains;
using tenon::testing::error_of;

namespace {
double furthest(const Tensor& a, const Tensor& b) { return a.sub(b).abs().max().item<double>(); }
}  // namespace

TEST_CASE("conv layers print as PyTorch's") {
  CHECK(nn::Conv2d(3, 16, 3).describe() == "Conv2d(3, 16, kernel_size=(3, 3), stride=(1, 1))");
  CHECK(nn::Conv1d(4, 8, 5, {.stride = {2}, .padding = 2, .groups = 4, .bias = false}).describe() ==
        "Conv1d(4, 8, kernel_size=(5,), stride=(2,), padding=(2,), groups=4, bias=False)");
  CHECK(nn::Conv2d(3, 6, {3, 5}, {.padding = "same", .dilation = {2, 1}, .padding_mode = "circular"}).describe() ==
        "Conv2d(3, 6, kernel_size=(3, 5), stride=(1, 1), padding=same, dilation=(2, 1), padding_mode=circular)");
  CHECK(nn::Conv3d(2, 2, {1, 2, 3}, {.padding = {0, 1, 1}}).describe() ==
        "Conv3d(2, 2, kernel_size=(1, 2, 3), stride=(1, 1, 1), padding=(0, 1, 1))");
  CHECK(nn::ConvTranspose2d(6, 3, 4, {.stride = {2}, .padding = {1}, .output_padding = {1}}).describe() ==
        "ConvTranspose2d(6, 3, kernel_size=(4, 4), stride=(2, 2), padding=(1, 1), output_padding=(1, 1))");
}

TEST_CASE("conv layers: sizes of weights and results, without a batch too") {
  nn::Conv2d conv(4, 6, {3, 2}, {.stride = {2, 1}, .padding = {1, 0}, .groups = 2});
  CHECK(conv.weight.sizes() == IntArrayRef({6, 2, 3, 2}));
  CHECK(conv(zeros({5, 4, 8, 9})).sizes() == IntArrayRef({5, 6, 4, 8}));
  CHECK(conv(zeros({4, 8, 9})).sizes() == IntArrayRef({6, 4, 8}));
  nn::ConvTranspose1d up(4, 6, 3, {.stride = {2}, .groups = 2});
  CHECK(up.weight.sizes() == IntArrayRef({4, 3, 3}));
  CHECK(up(zeros({2, 4, 5})).sizes() == IntArrayRef({2, 6, 11}));
  CHECK(up.forward(zeros({2, 4, 5}), {12}).sizes() == IntArrayRef({2, 6, 12}));
  CHECK_THROWS_AS(up.forward(zeros({2, 4, 5}), {13}), ValueError);
  CHECK_THROWS_AS(up.forward(zeros({2, 4, 5}), {10}), ValueError);
  nn::Conv3d valid(1, 2, 2, {.padding = "valid"});
  CHECK(valid(zeros({1, 1, 3, 4, 5})).sizes() == IntArrayRef({1, 2, 2, 3, 4}));
}

TEST_CASE("conv layers: padding modes equal padding by hand, with gradients") {
  manual_seed(tenon::testing::seed());
  for (const char* mode : {"reflect", "replicate", "circular"}) {
    CAPTURE(mode);
    nn::Conv2d conv(2, 3, {3, 4}, {.padding = {1, 2}, .padding_mode = mode}, kFloat64);
    const Tensor x = randn({2, 2, 5, 6}, TensorOptions(kFloat64).requires_grad(true)), y = conv(x);
    const Tensor by_hand = conv2d(pad(x, {2, 2, 1, 1}, mode), conv.weight, conv.bias);
    CHECK(furthest(y, by_hand) < 1e-12);
    const Tensor v = randn_like(y.detach());
    const auto got = autograd::grad({mul(y, v).sum()}, {x, conv.weight}),
               expected = autograd::grad({mul(by_hand, v).sum()}, {x, conv.weight});
    for (std::size_t i = 0; i < 2; ++i) CHECK(furthest(got[i], expected[i]) < 1e-12);
  }
  // An even kernel's odd zero comes last.
  nn::Conv1d same(1, 1, 4, {.padding = "same"}, kFloat64),
      circular(1, 1, 4, {.padding = "same", .padding_mode = "circular"}, kFloat64);
  const Tensor x = randn({1, 1, 7}, kFloat64);
  CHECK(furthest(same(x), conv1d(pad(x, {1, 2}), same.weight, same.bias)) < 1e-12);
  CHECK(furthest(circular(x), conv1d(pad(x, {1, 2}, "circular"), circular.weight, circular.bias)) < 1e-12);
}

TEST_CASE("conv layers: initial values lie within 1 / sqrt(fan in) and reach it") {
  manual_seed(tenon::testing::seed());
  const auto check = [](const Tensor& t, double bound) {
    const double most = t.detach().abs().max().item<double>();
    CHECK(most <= bound * (1 + 1e-6));
    CHECK(most > 0.95 * bound);  // 500 values or more stay below with probability 0.95^500
  };
  nn::Conv2d conv(8, 600, 3, {.groups = 2});
  check(conv.weight, 1 / std::sqrt(4.0 * 9));
  check(conv.bias, 1 / std::sqrt(4.0 * 9));
  nn::ConvTranspose2d up(8, 600, 2);
  check(up.weight, 1 / std::sqrt(600.0 * 4));
  check(up.bias, 1 / std::sqrt(600.0 * 4));
}

TEST_CASE("conv layers refuse what does not fit, naming it") {
  CHECK(contains(error_of<ValueError>([] { nn::Conv2d(3, 4, 3, {.groups = 2}); }), "Conv2d: in_channels"));
  CHECK(contains(error_of<ValueError>([] { nn::Conv2d(4, 5, 3, {.groups = 2}); }), "out_channels"));
  CHECK(contains(error_of<ValueError>([] { nn::Conv2d(4, 4, 3, {.groups = 0}); }), "groups"));
  CHECK(contains(error_of<ValueError>([] { nn::Conv2d(4, 4, {3, 3, 3}); }), "kernel_size"));
  CHECK(contains(error_of<ValueError>([] { nn::Conv2d(4, 4, 3, {.stride = {2}, .padding = "same"}); }), "'same'"));
  CHECK(contains(error_of<ValueError>([] { nn::Conv2d(4, 4, 3, {.padding = "full"}); }), "padding"));
  CHECK(contains(error_of<ValueError>([] { nn::Conv1d(4, 4, 3, {.padding_mode = "mirror"}); }), "padding_mode"));
  nn::Conv1d conv(4, 4, 3);
  CHECK(contains(error_of<ShapeError>([&] { conv(zeros({4})); }), "Conv1d: input"));
}
