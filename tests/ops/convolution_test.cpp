// SPDX-License-Identifier: Apache-2.0
// Convolutions in more than one way: memory formats, threads, cuDNN and the library's own kernels must agree with a float64
// computation of contiguous tensors by one thread (which the rows check against the definition).
#include "tests/support/catch.h"

#include <tenon/kernels/cpu/parallel.h>
#include <tenon/tenon.h>

#include <cmath>
#include <limits>

using namespace tenon;
namespace cudnn = backends::cudnn;

namespace {

struct Threads {
  int before = num_threads();
  explicit Threads(int n) { set_num_threads(n); }
  ~Threads() { set_num_threads(before); }
};
struct Switches {
  bool enabled = cudnn::enabled(), benchmark = cudnn::benchmark(), deterministic = cudnn::deterministic();
  ~Switches() {
    cudnn::set_enabled(enabled);
    cudnn::set_benchmark(benchmark);
    cudnn::set_deterministic(deterministic);
    set_deterministic(false);
  }
};

struct Layer {
  std::vector<int64_t> input, weight;
  int64_t stride, padding, dilation, groups;
  bool transposed;
  int64_t products;  // most that are added up for one element of a gradient or result
};
// 3 x 3, strided, depthwise, grouped, 1 x 1, few channels, transposed, 3-D.
const Layer kLayers[] = {
    {{3, 20, 15, 17}, {33, 20, 3, 3}, 1, 1, 1, 1, false, 800},
    {{2, 16, 14, 19}, {24, 16, 5, 3}, 2, 2, 1, 1, false, 800},
    {{2, 37, 11, 40}, {37, 1, 3, 3}, 1, 1, 1, 37, false, 1000},
    {{2, 70, 12, 9}, {70, 1, 3, 5}, 2, 2, 1, 70, false, 300},
    {{2, 12, 9, 8}, {24, 1, 3, 3}, 1, 2, 2, 12, false, 300},
    {{2, 16, 10, 13}, {32, 4, 3, 3}, 1, 1, 1, 4, false, 400},
    {{2, 40, 12, 13}, {30, 40, 1, 1}, 1, 0, 1, 1, false, 400},
    {{5, 40, 3, 5}, {30, 40, 1, 1}, 1, 0, 1, 1, false, 100},
    {{2, 3, 21, 22}, {16, 3, 7, 7}, 2, 3, 1, 1, false, 300},
    {{2, 18, 7, 6}, {18, 9, 4, 4}, 2, 1, 1, 1, true, 400},
    {{2, 8, 7, 70}, {8, 1, 3, 3}, 2, 1, 1, 8, true, 1200},
    {{2, 9, 4, 5, 6}, {17, 9, 3, 2, 3}, 1, 1, 1, 1, false, 400},
};

using Results = std::vector<Tensor>;  // result, then the gradients of input, weight and bias
struct Inputs {
  Tensor x, w, b, grad;
  explicit Inputs(const Layer& l) {
    const TensorOptions t(kFloat64);
    x = randn(l.input, t), w = randn(l.weight, t);
    b = randn({l.transposed ? l.weight[1] * l.groups : l.weight[0]}, t);
    grad = randn_like(forward(l));
  }
  Tensor forward(const Layer& l) const {
    return op::convolution(x, w, b, l.stride, l.padding, l.dilation, l.transposed, int64_t{0}, l.groups);
  }
  Results run(const Layer& l) const {
    auto [dx, dw, db] =
        op::convolution_backward(grad, x, w, l.stride, l.padding, l.dilation, l.transposed, int64_t{0}, l.groups, 7);
    return {forward(l), dx, dw, db};
  }
  Inputs as(DType t, Device device, bool channels_last) const {
    Inputs o(*this);
    const MemoryFormat format = !channels_last ? MemoryFormat::contiguous
                                : x.dim() == 5 ? MemoryFormat::channels_last_3d
                                               : MemoryFormat::channels_last;
    for (Tensor* p : {&o.x, &o.w, &o.grad}) *p = p->to(t).to(device).contiguous(format);
    o.b = b.to(t).to(device);
    return o;
  }
};

// Largest error in units of the rounding error of a sum of `products` numbers of about 1.
double error_in_sums(const Results& got, const Results& expected, double unit, int64_t products) {
  double worst = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const Tensor difference = got[i].to(Device(kCPU)).to(kFloat64).sub(expected[i]).abs();
    worst = std::max(worst, difference.max().item<double>() / (unit * std::sqrt(static_cast<double>(products))));
  }
  return worst;
}
constexpr double kMostUnits =
    60;  // values are up to about 5 standard deviations; a result is rounded at about 8 of them
double unit_of(DType t) { return t == kFloat64 ? 0x1p-52 : t == kFloat32 ? 0x1p-23 : t == kFloat16 ? 0x1p-10 : 0x1p-7; }

}  // namespace

TEST_CASE("convolution: memory formats, threads and dtypes agree", "[convolution]") {
  manual_seed(tenon::testing::seed());
  for (const Layer& l : kLayers) {
    const Threads one(1);
    const Inputs in(l);
    const Results expected = in.run(l);
    CAPTURE(l.input, l.weight, l.stride, l.groups, l.transposed);
    for (const bool channels_last : {false, true})
      for (const int threads : {1, 3}) {
        const Threads several(threads);
        CAPTURE(channels_last, threads);
        const Results same = in.as(kFloat64, kCPU, channels_last).run(l);
        CHECK(error_in_sums(same, expected, unit_of(kFloat64), l.products) < kMostUnits);
        const MemoryFormat format = l.input.size() == 5 ? MemoryFormat::channels_last_3d : MemoryFormat::channels_last;
        for (int i = 0; i < 2; ++i)
          CHECK(same[static_cast<std::size_t>(i)].is_contiguous(channels_last ? format : MemoryFormat::contiguous));
        CHECK(error_in_sums(in.as(kFloat32, kCPU, channels_last).run(l), expected, unit_of(kFloat32), l.products) <
              kMostUnits);
        CHECK(error_in_sums(in.as(kBFloat16, kCPU, channels_last).run(l), expected, unit_of(kBFloat16), l.products) <
              kMostUnits);
      }
  }
}

TEST_CASE("convolution: a weight that is channels-last makes the result so", "[convolution]") {
  const Tensor x = randn({2, 3, 5, 6}), w = randn({4, 3, 3, 3});
  CHECK(conv2d(x, w).is_contiguous());
  CHECK(conv2d(x, w.contiguous(MemoryFormat::channels_last)).is_contiguous(MemoryFormat::channels_last));
  // [2, 1, 5, 6] is both formats: the result is contiguous.
  CHECK(conv2d(randn({2, 1, 5, 6}), randn({4, 1, 3, 3})).is_contiguous());
}

TEST_CASE("convolution: padding wider than the kernel, large strides, one pixel", "[convolution]") {
  const Tensor x = tensor({1.0, 2.0}).view({1, 1, 2}), w = tensor({1.0, -1.0}).view({1, 1, 2});
  CHECK(conv1d(x, w, {}, 1, 3).to_vector<double>() == std::vector<double>{0, 0, -1, -1, 2, 0, 0});
  CHECK(conv1d(x, w, {}, 5, 3).to_vector<double>() == std::vector<double>{0, 0});
  CHECK(conv1d(x, w, {}, 1, 4, 7).to_vector<double>() == std::vector<double>{0, 0, 0});
  CHECK(conv1d(x, w, {}, 1, "same").to_vector<double>() == std::vector<double>{-1, 2});
  CHECK(conv_transpose1d(x, w, {}, 3, 0, 1).to_vector<double>() == std::vector<double>{1, -1, 0, 2, -2, 0});
  // An infinite weight stays out of results that no product with it belongs to.
  const double inf = std::numeric_limits<double>::infinity();
  CHECK(conv_transpose1d(x, tensor({inf, 1.0}).view({1, 1, 2}), {}, 2).to_vector<double>() ==
        std::vector<double>{inf, 1, inf, 2});
}

TEST_CASE("convolution: arguments no size can follow from are refused", "[convolution]") {
  const Tensor x = randn({1, 1, 4}), w = randn({1, 1, 3});
  const int64_t most = std::numeric_limits<int64_t>::max();
  CHECK_THROWS_AS(conv1d(x, w, {}, 1, 0, most), ValueError);
  CHECK_THROWS_AS(conv1d(x, w, {}, most, 0), ValueError);
  CHECK_THROWS_AS(conv1d(x, w, {}, 1, most), ValueError);
  CHECK_THROWS_AS(conv1d(x, w, {}, 1, 0, 1, std::numeric_limits<int64_t>::min()), ValueError);
  CHECK_THROWS_AS(conv1d(x, w, {}, 1, "same", most), ValueError);
  CHECK_THROWS_AS(conv_transpose1d(x, w, {}, (int64_t{1} << 40) - 1, 0, 0, 1, (int64_t{1} << 40) - 1), Error);
  CHECK_THROWS_AS(conv1d(x.to(kBool), w.to(kBool)), DtypeError);
}

TEST_CASE("convolution on a GPU: cuDNN, own kernels and the CPU agree", "[convolution][cuda]") {
  TENON_REQUIRE_CUDA();
  manual_seed(tenon::testing::seed());
  const Switches restore;
  const Device gpu(kCUDA, 0);
  for (const Layer& l : kLayers) {
    const Inputs in(l);
    const Results expected = in.run(l);
    CAPTURE(l.input, l.weight, l.stride, l.groups, l.transposed);
    for (const bool enabled : {true, false})
      for (const bool channels_last : {false, true}) {
        cudnn::set_enabled(enabled);
        CAPTURE(enabled, channels_last);
        for (const DType t : {kFloat64, kFloat32, kFloat16, kBFloat16}) {
          CAPTURE(name(t));
          const Results got = in.as(t, gpu, channels_last).run(l);
          CHECK(error_in_sums(got, expected, unit_of(t), l.products) < kMostUnits);
        }
      }
    cudnn::set_enabled(true);
    cudnn::set_benchmark(true);
    CHECK(error_in_sums(in.as(kFloat32, gpu, true).run(l), expected, unit_of(kFloat32), l.products) < kMostUnits);
    cudnn::set_benchmark(false);
  }
}

TEST_CASE("convolution on a GPU: deterministic mode repeats its bits", "[convolution][cuda]") {
  TENON_REQUIRE_CUDA();
  const Switches restore;
  set_deterministic(true);
  for (const bool enabled : {true, false}) {
    cudnn::set_enabled(enabled);
    const Layer& l = kLayers[0];
    const Inputs in = Inputs(l).as(kFloat32, Device(kCUDA, 0), false);
    const Results first = in.run(l);
    for (int run = 0; run < 20; ++run) {
      const Results again = in.run(l);
      for (std::size_t i = 0; i < again.size(); ++i) CHECK(equal(first[i], again[i]));
    }
  }
}
