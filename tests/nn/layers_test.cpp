// SPDX-License-Identifier: Apache-2.0
// Normalisation, activation, dropout and loss modules: statistics they keep, what they print, what depends on training.
#include <tenon/autograd/autograd.h>
#include <tenon/nn/activation.h>
#include <tenon/nn/dropout.h>
#include <tenon/nn/loss.h>
#include <tenon/nn/normalization.h>
#include <tenon/ops/compare.h>
#include <tenon/ops/factory.h>
#include <tenon/ops/random.h>
#include <tenon/ops/reduce.h>
#include <tenon/ops/statistics.h>
#include <tenon/ops/unary.h>
#include <tenon/ops/vector_norm.h>
#include <tenon/ops/view.h>
#include <tenon/ops/where.h>

#include "tests/support/catch.h"

using namespace tenon;

namespace {
double apart(const Tensor& a, const Tensor& b) { return a.sub(b).abs().max().item().real(); }
// Mean and unbiased variance of each channel of [n, channels, length], by the definition.
std::pair<Tensor, Tensor> moments(const Tensor& x) {
  const Tensor rows = x.transpose(0, 1).reshape({x.size(1), -1}).to(kFloat64);
  const double n = static_cast<double>(rows.size(1));
  const Tensor mean = rows.sum(IntArrayRef(int64_t{1}), true).div(n);
  const Tensor away = rows.sub(mean);
  return {mean.reshape({-1}), away.mul(away).sum(IntArrayRef(int64_t{1})).div(n - 1)};
}
}  // namespace

TEST_CASE("batch norm moves its running statistics in training and uses them in evaluation", "[nn]") {
  manual_seed(3);
  nn::BatchNorm1d norm(3);
  const Tensor x = randn({8, 3, 5}).mul(2).add(4);
  const auto [mean, variance] = moments(x);
  const Tensor y = norm(x);
  const auto [out_mean, out_variance] = moments(y);
  CHECK(apart(out_mean, zeros({3}, kFloat64)) < 1e-5);
  CHECK(apart(out_variance.mul(39. / 40), ones({3}, kFloat64)) < 1e-3);
  CHECK(apart(norm.running_mean.to(kFloat64), mean.mul(0.1)) < 1e-6);
  CHECK(apart(norm.running_var.to(kFloat64), variance.mul(0.1).add(0.9)) < 1e-5);
  CHECK(norm.num_batches_tracked.item().integer() == 1);

  norm.eval();
  const Tensor before = norm.running_mean.clone();
  const Tensor plain = norm(x);
  const Tensor shape_mean = norm.running_mean.view({1, 3, 1}), shape_var = norm.running_var.view({1, 3, 1});
  CHECK(apart(plain, x.sub(shape_mean).div(shape_var.add(1e-5).sqrt())) < 1e-5);
  CHECK(apart(norm.running_mean, before) == 0);
  CHECK(norm.num_batches_tracked.item().integer() == 1);
}

TEST_CASE("batch norm without momentum keeps the mean over the batches", "[nn]") {
  manual_seed(4);
  nn::NormOptions options;
  options.momentum = std::nullopt;
  nn::BatchNorm1d norm(2, options);
  Tensor sum = zeros({2}, kFloat64);
  for (int i = 0; i < 3; ++i) {
    const Tensor x = randn({6, 2, 4}).add(i);
    norm(x);
    sum = sum.add(moments(x).first);
  }
  CHECK(apart(norm.running_mean.to(kFloat64), sum.div(3)) < 1e-5);
  norm.reset_running_stats();
  CHECK(apart(norm.running_mean, zeros({2})) == 0);
  CHECK(norm.num_batches_tracked.item().integer() == 0);
}

TEST_CASE("batch norm reads channels-last inputs and keeps their layout", "[nn]") {
  manual_seed(5);
  nn::BatchNorm2d first(5), second(5);
  const Tensor x = randn({3, 5, 4, 6});
  const Tensor last = x.contiguous(MemoryFormat::channels_last);
  Tensor a = x.clone(), b = last.clone();
  a.requires_grad_(), b.requires_grad_();
  const Tensor y = first(a), z = second(b);
  CHECK(z.is_contiguous(MemoryFormat::channels_last));
  CHECK(apart(y.detach(), z.detach()) < 1e-5);
  CHECK(apart(first.running_var, second.running_var) < 1e-6);
  const Tensor g = randn({3, 5, 4, 6});
  y.mul(g).sum().backward(), z.mul(g).sum().backward();
  CHECK(apart(a.grad(), b.grad()) < 1e-5);
  CHECK(apart(first.weight.grad(), second.weight.grad()) < 1e-4);
}

TEST_CASE("instance norm averages running statistics over the batch, and takes inputs without one", "[nn]") {
  manual_seed(6);
  nn::NormOptions options;
  nn::InstanceNorm1d norm(2, options);
  const Tensor x = randn({3, 2, 50}).add(1);
  norm(x);
  Tensor mean = zeros({2}, kFloat64);
  for (int64_t i = 0; i < 3; ++i) mean = mean.add(moments(x.narrow(0, i, 1)).first.div(3));
  CHECK(apart(norm.running_mean.to(kFloat64), mean.mul(0.1)) < 1e-6);
  nn::InstanceNorm1d plain(2);
  CHECK(plain.state_dict().empty());
  CHECK(apart(plain(x.select(0, 1)), plain(x).select(0, 1)) < 1e-6);
}

TEST_CASE("states of normalisations have PyTorch's names", "[nn]") {
  nn::BatchNorm2d norm(4);
  std::string names;
  for (const auto& entry : norm.state_dict()) names += entry.name + " ";
  CHECK(names == "weight bias running_mean running_var num_batches_tracked ");
  CHECK(norm.num_batches_tracked.dtype() == kInt64);
  norm.to(kFloat64);
  CHECK(norm.running_mean.dtype() == kFloat64);
  CHECK(norm.num_batches_tracked.dtype() == kInt64);
  CHECK_THROWS_AS(norm(ones({2, 4, 3})), ShapeError);
}

TEST_CASE("modules print as PyTorch's", "[nn]") {
  CHECK(nn::BatchNorm2d(4).describe() ==
        "BatchNorm2d(4, eps=1e-05, momentum=0.1, affine=True, track_running_stats=True)");
  CHECK(nn::InstanceNorm1d(3).describe() ==
        "InstanceNorm1d(3, eps=1e-05, momentum=0.1, affine=False, track_running_stats=False)");
  CHECK(nn::GroupNorm(2, 4).describe() == "GroupNorm(2, 4, eps=1e-05, affine=True)");
  CHECK(nn::RMSNorm(DimVector{3, 4}).describe() == "RMSNorm((3, 4), eps=None, elementwise_affine=True)");
  CHECK(nn::ELU().describe() == "ELU(alpha=1.0)");
  CHECK(nn::Hardtanh().describe() == "Hardtanh(min_val=-1.0, max_val=1.0)");
  CHECK(nn::RReLU().describe() == "RReLU(lower=0.125, upper=0.3333333333333333)");
  CHECK(nn::Softshrink().describe() == "Softshrink(0.5)");
  CHECK(nn::PReLU(3).describe() == "PReLU(num_parameters=3)");
  CHECK(nn::Dropout2d(0.25).describe() == "Dropout2d(p=0.25, inplace=False)");
  CHECK(nn::CrossEntropyLoss().describe() == "CrossEntropyLoss()");
}

TEST_CASE("dropout of channels keeps or zeroes them whole, in training only", "[nn]") {
  manual_seed(7);
  nn::Dropout2d drop(0.5);
  const Tensor x = ones({50, 40, 2, 3});
  const Tensor y = drop(x);
  const Tensor channels = y.reshape({2000, 6}).mean(IntArrayRef(int64_t{1}));  // 0 or 2 each
  CHECK(channels.eq(0).logical_or(channels.eq(2)).all().item().to<bool>());
  const double kept = channels.mean().item().real() / 2;
  CHECK(kept > 0.4);  // nine standard deviations
  CHECK(kept < 0.6);
  drop.eval();
  CHECK(apart(drop(x), x) == 0);
}

TEST_CASE("alpha dropout keeps mean 0 and variance 1", "[nn]") {
  manual_seed(8);
  nn::AlphaDropout drop(0.3);
  const auto [mean, variance] = moments(drop(randn({1, 1, 200000})));
  CHECK(std::abs(mean.item().real()) < 0.02);
  CHECK(std::abs(variance.item().real() - 1) < 0.05);
}

TEST_CASE("rrelu draws slopes in its range while training; gumbel_softmax draws classes", "[nn]") {
  manual_seed(9);
  nn::RReLU module(0.25, 0.5);
  const Tensor x = full({1000}, -1.0);
  const Tensor slopes = module(x).neg();
  CHECK(slopes.min().item().real() >= 0.25);
  CHECK(slopes.max().item().real() <= 0.5);
  CHECK(slopes.max().sub(slopes.min()).item().real() > 0.2);
  module.eval();
  CHECK(apart(module(x), full({1000}, -0.375)) < 1e-6);

  Tensor logits = randn({2000, 3});
  logits.requires_grad_();
  const Tensor picked = gumbel_softmax(logits, 1, true);
  CHECK(apart(picked.detach().sum(IntArrayRef(int64_t{1})), ones({2000})) < 1e-6);
  picked.mul(randn({2000, 3})).sum().backward();
  CHECK(logits.grad().abs().sum().item().real() > 0);
  // The probability of a class is its softmax.
  const Tensor two = zeros({20000, 2}).add(tensor(0.0));
  const double first = gumbel_softmax(two, 1, true).mean(IntArrayRef(int64_t{0})).select(0, 0).item().real();
  CHECK(std::abs(first - 0.5) < 0.03);
}

TEST_CASE("loss modules compute what the functions compute", "[nn]") {
  manual_seed(10);
  const Tensor x = randn({4, 3}), y = randn({4, 3});
  nn::SmoothL1Loss smooth;
  smooth.beta = 0.5, smooth.reduction = "sum";
  CHECK(apart(smooth(x, y), smooth_l1_loss(x, y, "sum", 0.5)) == 0);
  nn::CrossEntropyLoss entropy;
  entropy.label_smoothing = 0.1;
  const Tensor target = randint(3, {4});
  CHECK(apart(entropy(x, target), cross_entropy(x, target, {}, "mean", -100, 0.1)) == 0);
  nn::TripletMarginLoss triplet;
  triplet.swap = true;
  const Tensor z = randn({4, 3});
  const auto euclid = [](const Tensor& a, const Tensor& b) { return pairwise_distance(a, b); };
  CHECK(apart(triplet(x, y, z), triplet_margin_with_distance_loss(x, y, z, euclid, 1, true)) < 1e-6);
}
