// SPDX-License-Identifier: Apache-2.0
// Padding and upsampling modules: the operators they stand for, and PyTorch's spelling of them.
#include <tenon/nn/padding.h>
#include <tenon/nn/upsample.h>
#include <tenon/ops/compare.h>
#include <tenon/ops/factory.h>
#include <tenon/ops/pad.h>
#include <tenon/ops/random.h>
#include <tenon/ops/reduce.h>

#include "tests/support/catch.h"

using namespace tenon;

TEST_CASE("padding modules pad") {
  const Tensor x = randn({2, 3, 4, 5});
  CHECK(equal(nn::ZeroPad2d({1, 2, 3, 4})(x), pad(x, {1, 2, 3, 4})));
  CHECK(equal(nn::ConstantPad2d(2, 3.5)(x), pad(x, {2, 2, 2, 2}, "constant", 3.5)));
  CHECK(equal(nn::ReflectionPad2d(1)(x), pad(x, {1, 1, 1, 1}, "reflect")));
  CHECK(equal(nn::ReplicationPad2d({0, 1, 2, 0})(x), pad(x, {0, 1, 2, 0}, "replicate")));
  CHECK(equal(nn::CircularPad1d(1)(x.select(0, 0)), pad(x.select(0, 0), {1, 1}, "circular")));
  CHECK(nn::ZeroPad2d(1).str() == "ZeroPad2d((1, 1, 1, 1))");
  CHECK(nn::ReflectionPad1d({1, 2}).str() == "ReflectionPad1d((1, 2))");
  CHECK(nn::ConstantPad2d(2, 3.5).str() == "ConstantPad2d(padding=(2, 2, 2, 2), value=3.5)");
  CHECK_THROWS_AS(nn::ReflectionPad3d({1, 2}), ValueError);
}

TEST_CASE("upsampling modules interpolate") {
  const Tensor x = randn({2, 3, 4, 5});
  CHECK(equal(nn::Upsample({.scale_factor = {2}, .mode = "bilinear"})(x),
              interpolate(x, {.scale_factor = {2}, .mode = "bilinear"})));
  CHECK(equal(nn::UpsamplingNearest2d({7, 3})(x), upsample_nearest(x, IntArrayRef({7, 3}))));
  CHECK(equal(nn::UpsamplingBilinear2d({}, {2, 3})(x),
              interpolate(x, {.size = {8, 15}, .mode = "bilinear", .align_corners = true})));
  CHECK(nn::Upsample({.scale_factor = {2}, .mode = "bilinear"}).str() == "Upsample(scale_factor=2.0, mode='bilinear')");
  CHECK(nn::Upsample({.size = {3}}).str() == "Upsample(size=3, mode='nearest')");
  CHECK(nn::UpsamplingBilinear2d({3, 4}).str() == "UpsamplingBilinear2d(size=(3, 4), mode='bilinear')");
  CHECK(nn::Upsample({.scale_factor = {2, 3}, .mode = "bicubic", .align_corners = true}).str() ==
        "Upsample(scale_factor=(2.0, 3.0), mode='bicubic')");
  CHECK_THROWS_AS(nn::Upsample({}), ValueError);
}
