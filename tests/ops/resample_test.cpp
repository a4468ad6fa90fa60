// SPDX-License-Identifier: Apache-2.0
// Interpolation of bytes against numbers recorded from PyTorch, and what cannot be said in rows.
#include "tests/support/catch.h"

#include <tenon/tenon.h>

using namespace tenon;

namespace {

struct Recorded {
  InterpolateOptions options;
  std::vector<int64_t> expected;
};
// Of [1, 2, 4, 5] bytes, number i being 37 i modulo 256.
const std::vector<Recorded> kBytes = {
    {{.size = {3, 7}, .mode = "bilinear"},
     {31,  52,  66, 62, 88, 115, 136, 150, 171, 161, 96,  122, 94,  42,  55, 76, 103, 129, 155, 164, 160,
      216, 115, 51, 77, 72, 87,  108, 122, 143, 170, 196, 131, 121, 142, 27, 48, 75,  101, 127, 154, 175}},
    {{.size = {6, 2}, .mode = "bilinear", .antialias = true},
     {37, 111, 95, 82, 152, 67, 151, 129, 116, 149, 80, 154, 90, 83, 136, 83, 172, 101, 133, 178, 88, 162, 52, 126}},
    {{.size = {2, 9}, .mode = "bilinear", .align_corners = true},
     {0,   19,  37, 56, 74, 93, 111, 130, 148, 43, 62, 80, 99, 117, 136, 154, 173, 191,
      228, 119, 9,  28, 46, 65, 83,  102, 120, 15, 34, 52, 71, 89,  108, 126, 145, 163}},
    {{.size = {3, 7}, .mode = "bicubic"},
     {27,  50,  66, 61, 83, 118, 142, 170, 207, 183, 96,  131, 88,  15,  49, 70, 102, 130, 160, 169, 165,
      233, 109, 33, 74, 68, 84,  110, 117, 153, 203, 220, 132, 108, 145, 21, 42, 73,  98,  126, 159, 179}},
    {{.size = {6, 2}, .mode = "bicubic", .antialias = true},
     {24, 121, 90, 77, 164, 52, 160, 128, 112, 156, 70, 160, 87, 80, 142, 72, 187, 94, 132, 191, 76, 172, 42, 126}},
    {{.size = {2, 9}, .mode = "bicubic", .align_corners = true},
     {0,   15,  37, 56, 74, 93, 111, 133, 148, 43, 58, 80, 99, 117, 136, 154, 176, 191,
      228, 115, 9,  4,  46, 65, 83,  105, 120, 15, 30, 52, 71, 89,  108, 126, 148, 163}}};

void check_bytes(Device device) {
  const Tensor x =
      op::remainder(arange(40, TensorOptions(kInt64)).mul(37), 256).to(kUInt8).view({1, 2, 4, 5}).to(device);
  for (const Recorded& r : kBytes) {
    INFO(std::string(r.options.mode) << " to " << r.options.size[0]);
    const Tensor y = interpolate(x, r.options);
    CHECK(y.dtype() == kUInt8);
    CHECK(y.to(kCPU, kInt64).to_vector<int64_t>() == r.expected);
    const Tensor z = interpolate(x.contiguous(MemoryFormat::channels_last), r.options);
    CHECK(z.is_contiguous(MemoryFormat::channels_last));
    CHECK(z.to(kCPU, kInt64).contiguous().to_vector<int64_t>() == r.expected);
  }
}

}  // namespace

TEST_CASE("interpolated bytes are PyTorch's", "[ops]") { check_bytes(kCPU); }
TEST_CASE("interpolated bytes are PyTorch's on a GPU", "[ops][cuda]") {
  TENON_REQUIRE_CUDA();
  check_bytes(kCUDA);
}

TEST_CASE("channels-last stays so through padding and interpolation", "[ops]") {
  const Tensor x = randn({2, 5, 6, 7}).contiguous(MemoryFormat::channels_last);
  for (const char* mode : {"constant", "reflect", "replicate", "circular"}) {
    const Tensor y = pad(x, {1, 2, 3, 1}, mode);
    CHECK(y.is_contiguous(MemoryFormat::channels_last));
    CHECK(equal(y, pad(x.contiguous(), {1, 2, 3, 1}, mode)));
  }
  for (const char* mode : {"nearest", "bilinear", "bicubic", "area"})
    CHECK(interpolate(x, {.size = {9, 4}, .mode = mode}).is_contiguous(MemoryFormat::channels_last));
}

TEST_CASE("an entry of weight 0 does not pass its infinity on", "[ops]") {
  const float inf = std::numeric_limits<float>::infinity();
  const Tensor x = from_vector(std::vector<float>{1, inf, 2, 3}, {1, 1, 1, 4});
  const Tensor same = interpolate(x, {.size = {1, 4}, .mode = "bilinear"});
  CHECK(same.to_vector<float>() == x.to_vector<float>());
  const Tensor grid = from_vector(std::vector<float>{-1, 0, 1, 0}, {1, 1, 2, 2});
  CHECK(grid_sample(x, grid, "bilinear", "border", true).to_vector<float>() == std::vector<float>{1, 3});
}

TEST_CASE("the identity's grid samples the image itself", "[ops]") {
  const Tensor x = randn({2, 3, 5, 7});
  const Tensor theta = from_vector(std::vector<float>{1, 0, 0, 0, 1, 0}, {1, 2, 3}).expand({2, 2, 3});
  for (const bool align : {false, true}) {
    const Tensor y = grid_sample(x, affine_grid(theta, x.sizes(), align), "bilinear", "border", align);
    CHECK(y.sub(x).abs().max().item<float>() < 1e-5f);
  }
}

TEST_CASE("samples are differentiated once, and say so", "[ops]") {
  Tensor x = randn({1, 1, 3, 3}).requires_grad_(), grid = rand({1, 2, 2, 2}).requires_grad_();
  const Tensor y = grid_sample(x, grid);
  const Tensor first = autograd::grad(y.sum(), x, {}, true, true)[0];
  std::string said;
  try {
    autograd::grad(first.sum(), grid);
  } catch (const Error& e) {
    said = e.what();
  }
  INFO(said);
  CHECK(said.find("grid_sampler_2d_backward") != std::string::npos);
}

TEST_CASE("the gradient of samples is the same every time when the order is fixed", "[ops][cuda]") {
  TENON_REQUIRE_CUDA();
  const TensorOptions on{Device(kCUDA)};
  const Tensor grad = randn({2, 4, 64, 64}, on), x = randn({2, 4, 5, 5}, on),
               grid = rand({2, 64, 64, 2}, on).mul(2).sub(1);
  const auto gradient = [&] { return std::get<0>(op::grid_sampler_2d_backward(grad, x, grid, 0, 0, false, {1, 0})); };
  const Tensor free = gradient();
  set_deterministic(true);
  const Tensor once = gradient(), again = gradient();
  set_deterministic(false);
  CHECK(equal(once, again));
  CHECK(once.sub(free).abs().max().item<float>() < 1e-2f);
}
