// SPDX-License-Identifier: Apache-2.0
// Fills: one value, arithmetic sequences (ops/factory.h). Sequences are computed from the position, so that they do not
// depend on the number of threads: integers in int64, floats in float64 and rounded once.
#include <tenon/kernels/cpu/convert.h>
#include <tenon/kernels/cpu/loops.h>
#include <tenon/ops/factory.h>

#include <cstring>

namespace tenon::cpu {
namespace {

// --- fill ----------------------------------------------------------------------------------------------------
template <class W>
using OfWidth = std::conditional_t<
    sizeof(W) == 1, uint8_t,
    std::conditional_t<
        sizeof(W) == 2, int16_t,
        std::conditional_t<sizeof(W) == 4, int32_t, std::conditional_t<sizeof(W) == 8, int64_t, complex<double>>>>>;

template <class T>
void fill_dense(T* out, T value, int64_t n) {
  unsigned char bytes[sizeof(T)];
  std::memcpy(bytes, &value, sizeof value);
  bool same = true;
  for (const unsigned char b : bytes) same = same && b == bytes[0];
  if (same && n > 64) {
    std::memset(static_cast<void*>(out), bytes[0], static_cast<std::size_t>(n) * sizeof(T));
    return;
  }
  for (int64_t i = 0; i < n; ++i) out[i] = value;
}

template <class W>
void fill_cpu(const LoopPlan& plan) {
  using T = OfWidth<W>;
  if (plan.contiguous) {
    T value;
    std::memcpy(&value, plan.data[1], sizeof value);
    T* out = reinterpret_cast<T*>(plan.data[0]);
    constexpr int64_t kBlock = 4096 / sizeof(T);
    if (plan.numel * static_cast<int64_t>(sizeof(T)) >= kStreamBytes) {
      alignas(64) T block[kBlock];
      fill_dense(block, value, kBlock);
      const int64_t blocks = (plan.numel + kBlock - 1) / kBlock;
      return parallel_for(0, blocks, kGrain / kBlock, [&](int64_t b, int64_t e) {
        for (int64_t k = b; k < e; ++k) {
          const int64_t n = plan.numel - k * kBlock < kBlock ? plan.numel - k * kBlock : kBlock;
          stream_bytes(reinterpret_cast<char*>(out + k * kBlock), reinterpret_cast<const char*>(block),
                       n * static_cast<int64_t>(sizeof(T)));
        }
        end_stream();
      });
    }
    parallel_for(0, plan.numel, kGrain, [&](int64_t b, int64_t e) { fill_dense(out + b, value, e - b); });
    return;
  }
  const auto same = [](T v) { return v; };
  RunBody body = ScalarLoop<decltype(same), T, T>::body(same, kGrain);
  body.dtype[0] = body.dtype[1] = plan.dtype[0];  // whatever it is, it has this width
  run_body(plan, body, 2);
}
TENON_REGISTER_KERNEL(op::fill, cpu, Widths, fill_cpu);

// --- sequences -----------------------------------------------------------------------------------------------
template <class T, class F>
void generate(const Tensor& out, F&& value) {
  T* p = static_cast<T*>(out.data_ptr());
  parallel_for(0, out.numel(), kGrain, [&](int64_t b, int64_t e) {
    for (int64_t i = b; i < e; ++i) p[i] = value(i);
  });
}
template <class T>
T rounded(double v) {
  if constexpr (std::is_same_v<T, double> || std::is_integral_v<T>)
    return static_cast<T>(v);
  else
    return T(static_cast<float>(v));
}

template <class T>
void arange_cpu(const Tensor& out, const Scalar& start, const Scalar& step) {
  if (std::is_integral_v<T> && !start.is_floating_point() && !step.is_floating_point()) {
    const auto s = static_cast<uint64_t>(start.integer()), d = static_cast<uint64_t>(step.integer());
    generate<T>(out, [=](int64_t i) {
      const auto v = static_cast<int64_t>(s + d * static_cast<uint64_t>(i));
      if constexpr (std::is_integral_v<T>)
        return static_cast<T>(v);
      else
        return rounded<T>(static_cast<double>(v));
    });
  } else {
    const double s = start.real(), d = step.real();
    generate<T>(out, [=](int64_t i) { return rounded<T>(s + d * static_cast<double>(i)); });
  }
}
TENON_REGISTER_KERNEL(op::arange_step, cpu, Numbers, arange_cpu);

template <class T>
void linspace_cpu(const Tensor& out, const Scalar& start, const Scalar& end) {
  const int64_t n = out.numel(), half = n / 2;
  if constexpr (is_complex_v<T>) {
    const auto a = start.to<complex<double>>(), b = end.to<complex<double>>();
    const double last = n > 1 ? static_cast<double>(n - 1) : 1;
    const complex<double> step((b.re - a.re) / last, (b.im - a.im) / last);
    generate<T>(out, [=](int64_t i) {
      const auto k = complex<double>(static_cast<double>(i < half || n == 1 ? i : n - 1 - i));
      return T(i < half || n == 1 ? a + step * k : b - step * k);
    });
  } else {
    const double a = start.real(), b = end.real();
    const double step = n > 1 ? (b - a) / static_cast<double>(n - 1) : 0;
    generate<T>(out, [=](int64_t i) {
      return rounded<T>(i < half || n == 1 ? a + step * static_cast<double>(i)
                                           : b - step * static_cast<double>(n - 1 - i));
    });
  }
}
using LinspaceTypes = Join<Numbers, Complexes>;
TENON_REGISTER_KERNEL(op::linspace, cpu, LinspaceTypes, linspace_cpu);

}  // namespace
}  // namespace tenon::cpu
