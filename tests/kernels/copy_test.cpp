// SPDX-License-Identifier: Apache-2.0
// copy: every pair of dtypes against C++'s conversions, 16-bit floats over all their codes, layouts of all kinds.
#include "tests/support/catch.h"

#include <tenon/dispatch/make_tensor.h>
#include <tenon/ops/copy.h>
#include <tenon/ops/factory.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

using namespace tenon;

namespace {

template <class T>
complex<double> widen(T v) {
  if constexpr (is_complex_v<T>)
    return {static_cast<double>(v.re), static_cast<double>(v.im)};
  else
    return {static_cast<double>(v), 0};
}

// What a copy to D has to give.
template <class D, class S>
D expected(S v) {
  if constexpr (std::is_same_v<D, bool>) {
    const complex<double> w = widen(v);
    return w.re != 0 || w.im != 0;
  } else if constexpr (is_complex_v<D>) {
    const complex<double> w = widen(v);
    return D(static_cast<typename D::value_type>(w.re), static_cast<typename D::value_type>(w.im));
  } else if constexpr (is_complex_v<S>) {
    return expected<D>(v.re);
  } else if constexpr (std::is_integral_v<D>) {
    if constexpr (std::is_integral_v<S>)
      return static_cast<D>(v);
    else
      return static_cast<D>(static_cast<int64_t>(static_cast<double>(v)));
  } else if constexpr (std::is_same_v<D, double> || std::is_same_v<D, float>) {
    return static_cast<D>(v);
  } else {
    return D(static_cast<float>(v));
  }
}

using Everything = Join<AllTypes, Float8s>;

}  // namespace

TEST_CASE("copy converts every dtype to every other") {
  std::mt19937 rng(tenon::testing::seed());
  Everything::for_each([&](auto from_tag) {
    using S = typename decltype(from_tag)::type;
    const Tensor source = dispatch::make_tensor({3, 50}, dtype_of<S>(), Device(kCPU));
    S* in = static_cast<S*>(source.data_ptr());
    for (int i = 0; i < 150; ++i) {
      const double v = i < 8 ? i - 3 : std::uniform_real_distribution<double>(-100, 100)(rng);
      if constexpr (std::is_same_v<S, bool>)
        in[i] = i % 3 == 0;
      else if constexpr (is_complex_v<S>)
        in[i] = S(static_cast<typename S::value_type>(v), static_cast<typename S::value_type>(i % 2));
      else if constexpr (std::is_arithmetic_v<S>)
        in[i] = static_cast<S>(static_cast<int64_t>(v * (std::is_integral_v<S> ? 1 : 64)) /
                               (std::is_integral_v<S> ? 1 : 64));
      else
        in[i] = S(static_cast<float>(v));
    }
    Everything::for_each([&](auto to_tag) {
      using D = typename decltype(to_tag)::type;
      for (const bool transposed : {false, true}) {
        const Tensor view = transposed ? source.t() : source;
        const Tensor result = op::to_copy(view, dtype_of<D>(), {}, false, MemoryFormat::contiguous);
        const D* out = static_cast<const D*>(result.data_ptr());
        int wrong = 0;
        for (int i = 0; i < 150; ++i) {
          const D want = expected<D>(in[transposed ? i % 3 * 50 + i / 3 : i]);
          wrong += std::memcmp(&want, &out[i], sizeof want) != 0;
        }
        INFO(name(dtype_of<S>()) << " to " << name(dtype_of<D>()) << (transposed ? ", transposed" : ""));
        CHECK(wrong == 0);
      }
    });
  });
}

TEST_CASE("16-bit floats convert bit for bit as the scalar code does") {
  for (const DType t : {kFloat16, kBFloat16}) {
    const Tensor codes = dispatch::make_tensor(IntArrayRef(65536), t, Device(kCPU));
    auto* bits = static_cast<uint16_t*>(codes.data_ptr());
    for (int i = 0; i < 65536; ++i) bits[i] = static_cast<uint16_t>(i);
    const Tensor wide = codes.to(kFloat32);
    const float* w = wide.data_ptr<float>();
    int wrong = 0;
    for (int i = 0; i < 65536; ++i) {
      const float want = t == kFloat16 ? detail::float16_to_float(bits[i]) : detail::bfloat16_to_float(bits[i]);
      wrong += std::isnan(want) ? !std::isnan(w[i]) : std::memcmp(&want, &w[i], 4) != 0;
    }
    CHECK(wrong == 0);
    // And back: all exponents, halfway cases and their neighbours, NaN payloads.
    std::mt19937 rng(tenon::testing::seed());
    std::vector<float> values;
    for (uint32_t high = 0; high < 65536; ++high)
      for (const uint32_t low :
           {0u, 1u, 0x0fffu, 0x1000u, 0x1001u, 0x7fffu, 0x8000u, 0x8001u, static_cast<uint32_t>(rng() & 0xffff)})
        values.push_back(detail::bits_float(high << 16 | low));
    const Tensor narrow = from_blob(values.data(), IntArrayRef(static_cast<int64_t>(values.size())), kFloat32).to(t);
    const auto* got = static_cast<const uint16_t*>(narrow.data_ptr());
    for (std::size_t i = 0; i < values.size(); ++i)
      wrong += got[i] != (t == kFloat16 ? detail::float_to_float16(values[i]) : detail::float_to_bfloat16(values[i]));
    CHECK(wrong == 0);
  }
}

TEST_CASE("copies between layouts keep every element in its place") {
  std::mt19937 rng(tenon::testing::seed());
  for (const DType t : {kUInt8, kInt16, kFloat32, kFloat64, kComplex128})
    for (const std::vector<int64_t>& sizes : std::vector<std::vector<int64_t>>{
             {70, 130}, {64, 64}, {3, 200, 33}, {2, 3, 65, 17}, {5, 1, 9}, {1000, 3}, {4, 16, 40, 8}, {2101, 2111}}) {
      if (sizes[0] == 2101 && t != kFloat32) continue;  // beyond the caches
      const Tensor x = dispatch::make_tensor(sizes, t, Device(kCPU));
      auto* bytes = static_cast<unsigned char*>(x.data_ptr());
      for (int64_t i = 0; i < x.nbytes(); ++i) bytes[i] = static_cast<unsigned char>(rng());
      std::vector<int64_t> order(sizes.size());
      for (std::size_t d = 0; d < order.size(); ++d) order[d] = static_cast<int64_t>(d);
      std::shuffle(order.begin(), order.end(), rng);
      const Tensor view = x.permute(order), copied = view.contiguous();
      const int64_t size = x.itemsize();
      int64_t wrong = 0;
      for (int64_t i = 0; i < x.numel(); ++i) {
        int64_t rest = i, offset = 0;
        for (std::size_t d = sizes.size(); d-- > 0; rest /= view.sizes()[d])
          offset += rest % view.sizes()[d] * view.strides()[d];
        wrong +=
            std::memcmp(static_cast<const char*>(copied.data_ptr()) + i * size,
                        static_cast<const char*>(x.data_ptr()) + offset * size, static_cast<std::size_t>(size)) != 0;
      }
      CAPTURE(name(t), sizes, order);
      CHECK(wrong == 0);
      // And into a strided destination.
      const Tensor target = op::zeros(sizes, t, {}).permute(order);
      op::copy.inplace(target, target, copied, false);
      CHECK(std::memcmp(target.contiguous().data_ptr(), copied.data_ptr(), static_cast<std::size_t>(x.nbytes())) == 0);
    }
}

TEST_CASE("fills and sequences") {
  const Tensor grid = zeros({40, 50}, kInt16);
  grid.slice(1, 3, 40, 5).fill_(7);
  int64_t sevens = 0;
  for (int i = 0; i < 2000; ++i)
    sevens += grid.data_ptr<int16_t>()[i] == 7 ? (i % 50 >= 3 && i % 50 < 40 && (i % 50 - 3) % 5 == 0 ? 1 : 10000) : 0;
  CHECK(sevens == 40 * 8);
  const Tensor large = full({5000001}, 2.5);
  CHECK(large.data_ptr<float>()[0] == 2.5f);
  int64_t wrong = 0;
  for (int64_t i = 0; i < large.numel(); ++i) wrong += large.data_ptr<float>()[i] != 2.5f;
  CHECK(wrong == 0);
  const Tensor steps = arange(10, -5, -3);
  REQUIRE(steps.numel() == 5);
  for (int i = 0; i < 5; ++i) CHECK(steps.data_ptr<int64_t>()[i] == 10 - 3 * i);
  const Tensor line = linspace(0, 1, 11, kFloat64);
  for (int i = 0; i < 11; ++i) CHECK(std::fabs(line.data_ptr<double>()[i] - i / 10.0) < 1e-15);
  CHECK(line.data_ptr<double>()[10] == 1.0);
  const Tensor identity = eye(3, 5, kFloat32);
  for (int i = 0; i < 15; ++i) CHECK(identity.data_ptr<float>()[i] == (i / 5 == i % 5 ? 1.f : 0.f));
}
