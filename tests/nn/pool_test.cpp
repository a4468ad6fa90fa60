// SPDX-License-Identifier: Apache-2.0
// Modules of nn/pool.h: what they print (recorded from PyTorch), what they compute, and that they train.
#include <tenon/autograd/autograd.h>
#include <tenon/nn/nn.h>
#include <tenon/ops/binary.h>
#include <tenon/ops/compare.h>
#include <tenon/ops/copy.h>
#include <tenon/ops/factory.h>
#include <tenon/ops/reduce.h>
#include <tenon/ops/view.h>

#include "tests/support/catch.h"

#include <cmath>

using namespace tenon;
using tenon::testing::contains;
using tenon::testing::error_of;

namespace {
using V = std::vector<double>;
using Ids = std::vector<int64_t>;
Tensor ramp(std::vector<int64_t> sizes) {
  int64_t n = 1;
  for (const int64_t s : sizes) n *= s;
  return arange(n, kFloat64).view(sizes);
}
V values(const Tensor& t) { return t.detach().to_vector<double>(); }
}  // namespace

TEST_CASE("pool modules print as PyTorch's") {
  using namespace tenon::nn;
  CHECK(MaxPool1d(3).describe() == "MaxPool1d(kernel_size=3, stride=3, padding=0, dilation=1, ceil_mode=False)");
  CHECK(MaxPool2d({3, 2}, {2, 1}, {1, 0}, 2, true).describe() ==
        "MaxPool2d(kernel_size=(3, 2), stride=(2, 1), padding=(1, 0), dilation=2, ceil_mode=True)");
  CHECK(AvgPool1d(3, 2, 1).describe() == "AvgPool1d(kernel_size=(3,), stride=(2,), padding=(1,))");
  CHECK(AvgPool2d(3).describe() == "AvgPool2d(kernel_size=3, stride=3, padding=0)");
  CHECK(AdaptiveAvgPool2d({kSameSize, 7}).describe() == "AdaptiveAvgPool2d(output_size=(None, 7))");
  CHECK(AdaptiveMaxPool3d(5).describe() == "AdaptiveMaxPool3d(output_size=5)");
  CHECK(MaxUnpool1d(3, 2, 1).describe() == "MaxUnpool1d(kernel_size=(3,), stride=(2,), padding=(1,))");
  CHECK(MaxUnpool3d({2, 3, 1}, 2).describe() ==
        "MaxUnpool3d(kernel_size=(2, 3, 1), stride=(2, 2, 2), padding=(0, 0, 0))");
  CHECK(FractionalMaxPool2d(3, 2).describe() == "FractionalMaxPool2d()");
  CHECK(LPPool1d(2, 3).describe() == "LPPool1d(norm_type=2, kernel_size=3, stride=None, ceil_mode=False)");
  CHECK(LPPool2d(1.5, {3, 2}, 2, true).describe() ==
        "LPPool2d(norm_type=1.5, kernel_size=(3, 2), stride=2, ceil_mode=True)");
  CHECK(LocalResponseNorm(2).describe() == "LocalResponseNorm(2, alpha=0.0001, beta=0.75, k=1.0)");
  CHECK(Unfold({2, 3}).describe() == "Unfold(kernel_size=(2, 3), dilation=1, padding=0, stride=1)");
  CHECK(Fold({4, 5}, {2, 2}).describe() ==
        "Fold(output_size=(4, 5), kernel_size=(2, 2), dilation=1, padding=0, stride=1)");
  CHECK(PixelShuffle(3).describe() == "PixelShuffle(upscale_factor=3)");
  CHECK(PixelUnshuffle(2).describe() == "PixelUnshuffle(downscale_factor=2)");
  CHECK(ChannelShuffle(2).describe() == "ChannelShuffle(groups=2)");
  EmbeddingBagOptions bag;
  bag.mode = "sum";
  CHECK(EmbeddingBag(10, 3, bag).describe() == "EmbeddingBag(10, 3, mode='sum')");
  bag = {1.0, 1.5, true, "mean", false, -1};
  CHECK(EmbeddingBag(10, 3, bag).describe() ==
        "EmbeddingBag(10, 3, max_norm=1.0, norm_type=1.5, scale_grad_by_freq=True, mode='mean', padding_idx=9)");
}

TEST_CASE("pool modules compute what their operators do, and unpooling undoes pooling") {
  const Tensor x = ramp({1, 1, 4, 4});
  CHECK(values(nn::MaxPool2d(2)(x)) == V{5, 7, 13, 15});
  CHECK(values(nn::AvgPool2d(2)(x)) == V{2.5, 4.5, 10.5, 12.5});
  CHECK(values(nn::AdaptiveAvgPool2d(1)(x)) == V{7.5});
  CHECK(values(nn::AdaptiveMaxPool1d(2)(ramp({1, 1, 5}))) == V{2, 4});
  CHECK(values(nn::LPPool1d(2, 2)(ramp({1, 1, 4}))) == V{1, std::sqrt(13.0)});
  CHECK(nn::FractionalMaxPool2d(2, {}, {0.5, 0.5})(ramp({1, 2, 6, 8})).sizes() == IntArrayRef{1, 2, 3, 4});
  auto [top, at] = nn::MaxPool2d(2).with_indices(x);
  CHECK(at.to_vector<int64_t>() == Ids{5, 7, 13, 15});
  CHECK(values(nn::MaxUnpool2d(2)(top, at)) == V{0, 0, 0, 0, 0, 5, 0, 7, 0, 0, 0, 0, 0, 13, 0, 15});
  const std::vector<int64_t> wider = {4, 5};
  CHECK(nn::MaxUnpool2d(2)(top, at, wider).sizes() == IntArrayRef{1, 1, 4, 5});
  // Blocks that do not overlap are put back as they were.
  CHECK(values(nn::Fold(4, 2, 1, 0, 2)(nn::Unfold(2, 1, 0, 2)(x))) == values(x));
  CHECK(values(nn::PixelUnshuffle(2)(nn::PixelShuffle(2)(ramp({1, 4, 2, 3})))) == values(ramp({1, 4, 2, 3})));
  CHECK(values(nn::ChannelShuffle(2)(ramp({1, 4, 1}))) == V{0, 2, 1, 3});
  CHECK(contains(error_of<ValueError>([] { nn::FractionalMaxPool2d(2, {}); }), "output_ratio"));
}

TEST_CASE("pool modules stand in a Sequential and pass gradients") {
  nn::Sequential net(nn::MaxPool2d(2), nn::AvgPool2d(2));
  Tensor x = ramp({1, 1, 4, 4});
  x.requires_grad_();
  const Tensor y = net(x);
  CHECK(values(y) == V{10});
  y.sum().backward();
  CHECK(values(x.grad()) == V{0, 0, 0, 0, 0, .25, 0, .25, 0, 0, 0, 0, 0, .25, 0, .25});
  CHECK(contains(net.str(), "(0): MaxPool2d(kernel_size=2"));
}

TEST_CASE("EmbeddingBag: bags, the padding row, max_norm and gradients") {
  EmbeddingBagOptions options;
  options.mode = "sum";
  options.padding_idx = 0;
  nn::EmbeddingBag bag(4, 2, options, kFloat64);
  CHECK(values(bag.weight[0]) == V{0, 0});
  {
    const NoGradGuard no_grad;
    bag.weight.copy_(ramp({4, 2}));
  }
  const Tensor ids = from_vector(Ids{1, 0, 3, 3}), starts = from_vector(Ids{0, 3});
  const Tensor y = bag(ids, starts);
  CHECK(values(y) == V{8, 10, 6, 7});
  y.sum().backward();
  CHECK(values(bag.weight.grad()) == V{0, 0, 1, 1, 0, 0, 2, 2});
  CHECK(values(bag(ids, starts, from_vector(V{2, 5, 1, -1}))) == V{10, 13, -6, -7});
  CHECK(bag.parameters().size() == 1);
  bag.options.max_norm = 1;
  (void)bag(ids, starts);
  const V scaled = values(bag.weight);
  CHECK(std::abs(scaled[2] * scaled[2] + scaled[3] * scaled[3] - 1) < 1e-6);
  CHECK(scaled[4] == 4);  // row 2 was not looked up
}
