// SPDX-License-Identifier: Apache-2.0
// Tensors without operators: memory from outside, accessors, typed access, printing; and the small types beside them.
#include <tenon/core/device.h>
#include <tenon/core/function.h>
#include <tenon/core/tensor.h>
#include <tenon/ops/binary.h>
#include <tenon/ops/factory.h>
#include <tenon/ops/view.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>

#include "tests/support/catch.h"

using namespace tenon;
using tenon::testing::contains;
using tenon::testing::error_of;

TEST_CASE("from_blob borrows, honours strides and runs its deleter once, after the last view") {
  float data[] = {0, 1, 2, 3, 4, 5};
  int freed = 0;
  {
    Tensor view;
    {
      const Tensor t = from_blob(
          data, {3, 2}, {1, 3}, [&](void* p) { freed += p == data; }, kFloat32);
      CHECK(t.data_ptr<float>() == data);
      CHECK(t.to_vector<float>() == std::vector<float>{0, 3, 1, 4, 2, 5});
      view = t.select(1, 1);
    }
    CHECK(freed == 0);
    view.fill_(9);
  }
  CHECK(freed == 1);
  CHECK(data[3] == 9);
  CHECK(data[0] == 0);
  CHECK_THROWS_AS(from_blob(data, {2, -1}, kFloat32), ShapeError);
  CHECK_THROWS_AS(from_blob(data, {2, 3}, {1}, nullptr, kFloat32), ShapeError);
  CHECK_THROWS_AS(from_blob(nullptr, {2}, kFloat32), ValueError);
  CHECK(from_blob(nullptr, {0, 3}, kFloat32).numel() == 0);
}

TEST_CASE("from_vector takes the vector's memory, from_span copies") {
  std::vector<int32_t> v = {1, 2, 3, 4};
  const int32_t* memory = v.data();
  const Tensor t = from_vector(std::move(v), {2, 2});
  CHECK(t.data_ptr<int32_t>() == memory);
  CHECK(t.dtype() == kInt32);
  const double values[] = {1, 2, 3};
  const Tensor copied = from_span(std::span<const double>(values), {3}, kFloat32);
  CHECK(copied.dtype() == kFloat32);
  CHECK(copied.to_vector<double>() == std::vector<double>{1, 2, 3});
  CHECK_THROWS_AS(from_vector(std::vector<float>{1, 2, 3}, {2, 2}), ShapeError);
  CHECK_THROWS_AS(from_span(std::span<const double>(values), {2}), ShapeError);
}

TEST_CASE("accessor, span and data_ptr check dtype, rank and layout") {
  const Tensor t = from_vector(std::vector<float>{0, 1, 2, 3, 4, 5}, {2, 3});
  const Tensor turned = t.transpose(0, 1);
  const auto a = turned.accessor<float, 2>();
  CHECK(a.size(0) == 3);
  CHECK(a.stride(0) == 1);
  CHECK(a[2][1] == 5);
  a[0][1] = 7;
  CHECK(t.select(0, 1).select(0, 0).item<float>() == 7);
  CHECK_THROWS_AS((t.accessor<float, 1>()), ShapeError);
  CHECK_THROWS_AS((t.accessor<double, 2>()), DtypeError);
  CHECK(contains(error_of<DtypeError>([&] { t.data_ptr<int>(); }), "int32"));
  CHECK(t.span<float>().size() == 6);
  CHECK_THROWS_AS(t.transpose(0, 1).span<float>(), ShapeError);
}

TEST_CASE("sizes and strides count from the end, and say so when they cannot") {
  const Tensor t = zeros({2, 3, 4});
  CHECK(t.size(-1) == 4);
  CHECK(t.stride(-3) == 12);
  CHECK_THROWS_AS(t.size(3), IndexError);
  CHECK_THROWS_AS(t.stride(-4), IndexError);
  CHECK(zeros(std::vector<int64_t>(16, 1)).dim() == 16);
  CHECK_THROWS_AS(zeros(std::vector<int64_t>(17, 1)), ShapeError);
}

TEST_CASE("devices parse and print") {
  CHECK(Device("cpu") == Device(kCPU));
  CHECK(Device("cuda:3") == Device(kCUDA, 3));
  CHECK_FALSE(Device("cuda").has_index());
  CHECK(Device("meta").is_meta());
  CHECK(Device("sim:1").str() == "sim:1");
  CHECK(Device("cpu:0").str() == "cpu");
  for (const char* bad : {"", "gpu", "cuda:", "cuda:x", "cuda:-1", "cuda:99", "cpu:1", "cuda:1:2", "CPU", " cpu"}) {
    INFO(bad);
    CHECK_THROWS_AS(Device(std::string_view(bad)), DeviceError);
  }
  CHECK(contains(error_of<DeviceError>([] { Device(kCPU, 3); }), "got 3"));
  CHECK_THROWS_AS(Device(kMeta, 1), DeviceError);
  CHECK_THROWS_AS(Device(kCUDA, 16), DeviceError);
  CHECK_THROWS_AS(Device(kCUDA, 300), DeviceError);
  CHECK_THROWS_AS(Device(kSim, -2), DeviceError);
  CHECK(Device(kCPU, 0) == Device(kCPU, -1));
}

TEST_CASE("an undefined tensor has no metadata, and says so") {
  const Tensor none;
  CHECK_FALSE(none.defined());
  CHECK_FALSE(none.requires_grad());
  CHECK_FALSE(none.is_view());
  CHECK_FALSE(none.grad().defined());
  CHECK(none.use_count() == 0);
  const struct {
    const char* name;
    std::function<void()> ask;
  } questions[] = {
      {"dim", [&] { (void)none.dim(); }},
      {"numel", [&] { (void)none.numel(); }},
      {"sizes", [&] { (void)none.sizes(); }},
      {"sizes", [&] { (void)none.size(0); }},
      {"strides", [&] { (void)none.strides(); }},
      {"strides", [&] { (void)none.stride(-1); }},
      {"storage_offset", [&] { (void)none.storage_offset(); }},
      {"dtype", [&] { (void)none.dtype(); }},
      {"dtype", [&] { (void)none.is_complex(); }},
      {"dtype", [&] { (void)none.options(); }},
      {"device", [&] { (void)none.device(); }},
      {"device", [&] { (void)none.is_cpu(); }},
      {"backend", [&] { (void)none.backend(); }},
      {"is_contiguous", [&] { (void)none.is_contiguous(); }},
      {"storage", [&] { (void)none.storage(); }},
      {"storage", [&] { (void)none.version(); }},
      {"storage", [&] { (void)none.is_pinned(); }},
      {"data_ptr", [&] { (void)none.data_ptr(); }},
      {"dtype", [&] { (void)none.data_ptr<float>(); }},
      {"base", [&] { (void)none.base(); }},
      {"is_inference", [&] { (void)none.is_inference(); }},
  };
  for (const auto& q : questions) {
    INFO(q.name);
    const std::string text = error_of<ValueError>(q.ask);
    CHECK(text.starts_with(q.name));
    CHECK(contains(text, "got an undefined one"));
  }
  CHECK_THROWS_AS(none.item(), ValueError);
  CHECK_THROWS_AS(none.to_vector<float>(), ValueError);
  CHECK_THROWS_AS(none.backward(), ValueError);
}

TEST_CASE("scalars keep their kind and convert as C++ does") {
  CHECK(Scalar(true).is_bool());
  CHECK(Scalar(uint8_t{7}).is_integral());
  CHECK(Scalar(2.5f).is_floating_point());
  CHECK(Scalar(complex<float>(1, 2)).is_complex());
  CHECK(Scalar(std::numeric_limits<int64_t>::min()).integer() == std::numeric_limits<int64_t>::min());
  CHECK(Scalar(300).to<uint8_t>() == 44);
  CHECK(Scalar(-2.9).to<int>() == -2);
  CHECK(Scalar(1e39).to<float>() == HUGE_VALF);
  CHECK(std::isinf(float(Scalar(1e5).to<float16>())));
  CHECK(Scalar(std::nan("")).to<bool>());
  CHECK_FALSE(Scalar(0.0).to<bool>());
  CHECK(Scalar(complex<double>(0, 1)).to<bool>());
  CHECK(Scalar(3).to<complex<double>>() == complex<double>(3, 0));
  CHECK((-Scalar(complex<double>(1, -2))).imag() == 2);
  CHECK(Scalar(2).equal(2.0));
  for (int i = 0; i < kDTypes; ++i) {
    const auto t = static_cast<DType>(i);
    unsigned char bytes[17];
    std::memset(bytes, 0xab, sizeof bytes);
    Scalar(1).store(t, bytes);
    CHECK(bytes[item_size(t)] == 0xab);
    const Tensor one = from_blob(bytes, {}, t);
    CHECK(one.item().to<double>() == 1);
  }
}

TEST_CASE("Function holds anything callable, small or large, moves it and destroys it once") {
  auto counted = std::make_shared<int>(0);
  {
    Function<int(int)> small = [counted](int x) { return x + static_cast<int>(counted.use_count()); };
    CHECK(counted.use_count() == 2);
    Function<int(int)> moved = std::move(small);
    CHECK_FALSE(static_cast<bool>(small));
    CHECK(moved(40) == 42);
    struct Large {
      double pad[16] = {};
      std::shared_ptr<int> p;
      int operator()(int x) const { return x * 2; }
    };
    Function<int(int)> large = Large{{}, counted};
    CHECK(large(21) == 42);
    CHECK(counted.use_count() == 3);
    large = std::move(moved);
    CHECK(counted.use_count() == 2);
    CHECK(large(40) == 42);
    auto owner = std::make_unique<int>(5);
    const Function<int()> only_movable = [p = std::move(owner)] { return *p; };
    CHECK(only_movable() == 5);
  }
  CHECK(counted.use_count() == 1);
  CHECK_FALSE(static_cast<bool>(Function<void()>()));
  CHECK_FALSE(static_cast<bool>(Function<void()>(nullptr)));
}

TEST_CASE("tensors print their values, and what is not the default") {
  CHECK(Tensor().str() == "tensor(undefined)");
  CHECK(from_vector(std::vector<float>{1, 2.5, -3}).str() == "tensor([ 1.0000,  2.5000, -3.0000])");
  CHECK(from_vector(std::vector<float>{1, 2, -3}).str() == "tensor([ 1.,  2., -3.])");
  CHECK(from_vector(std::vector<int64_t>{1, 10, -100}).str() == "tensor([   1,   10, -100])");
  CHECK(from_vector(std::vector<int32_t>{1, 2}).str() == "tensor([1, 2], dtype=int32)");
  CHECK(from_vector(std::vector<double>{0.5}).str() == "tensor([0.5000], dtype=float64)");
  CHECK(full({}, 7).str() == "tensor(7)");
  CHECK(full({2}, true).str() == "tensor([true, true])");
  CHECK(from_vector(std::vector<float>{1, 2, 3, 4}, {2, 2}).str() == "tensor([[1., 2.],\n        [3., 4.]])");
  CHECK(zeros({0, 3}).str() == "tensor([], size=[0, 3])");
  CHECK(zeros({0}).str() == "tensor([])");
  CHECK(empty({2, 3}, TensorOptions(kFloat32).device(Device(kMeta))).str() == "tensor(..., size=[2, 3], device=meta)");
  CHECK(from_vector(std::vector<float>{HUGE_VALF, -HUGE_VALF, NAN, 0.5f}).str() ==
        "tensor([   inf,   -inf,    nan, 0.5000])");
  CHECK(from_vector(std::vector<float>{1e-6f, 1}).str() == "tensor([1.0000e-06, 1.0000e+00])");
  CHECK(from_vector(std::vector<complex<float>>{{1, -2}, {0.5, 0}}).str() ==
        "tensor([1.0000-2.0000j, 0.5000+0.0000j], dtype=complex64)");
  CHECK(ones({2}).requires_grad_().str() == "tensor([1., 1.], requires_grad=true)");
  CHECK((ones({1}).requires_grad_() * 2).str() == "tensor([2.], grad_fn=<mul>)");
  const std::string large = arange(2000).str();
  CHECK(large == "tensor([   0,    1,    2, ..., 1997, 1998, 1999])");
}
