// SPDX-License-Identifier: Apache-2.0
// Random numbers (ops/random.h) after the layout of kernels/philox.h. Philox runs over many counters at once and the
// transforms over plain arrays, so that the compiler vectorises both.
#include <tenon/kernels/cpu/parallel.h>
#include <tenon/kernels/cpu/run_plan.h>
#include <tenon/kernels/philox.h>
#include <tenon/ops/random.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <vector>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tenon/kernels/cpu/random.cpp"
#include <tenon/kernels/cpu/targets.h>
//
#include <tenon/kernels/cpu/simd_double_math.h>

HWY_BEFORE_NAMESPACE();
namespace tenon::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

inline constexpr int64_t kBlocks = 64, kWords = 4 * kBlocks;  ///< blocks made at once

/// Words of blocks [first, first + kBlocks) in order.
void make_words(uint64_t seed, uint64_t first, uint32_t* HWY_RESTRICT words) {
  uint32_t c0[kBlocks], c1[kBlocks], c2[kBlocks] = {}, c3[kBlocks] = {};
  for (int64_t i = 0; i < kBlocks; ++i) {
    const uint64_t counter = first + static_cast<uint64_t>(i);
    c0[i] = static_cast<uint32_t>(counter);
    c1[i] = static_cast<uint32_t>(counter >> 32);
  }
  uint32_t k0 = static_cast<uint32_t>(seed), k1 = static_cast<uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    for (int64_t i = 0; i < kBlocks; ++i) {
      const uint64_t p0 = static_cast<uint64_t>(0xD2511F53u) * c0[i], p1 = static_cast<uint64_t>(0xCD9E8D57u) * c2[i];
      c0[i] = static_cast<uint32_t>(p1 >> 32) ^ c1[i] ^ k0;
      c2[i] = static_cast<uint32_t>(p0 >> 32) ^ c3[i] ^ k1;
      c1[i] = static_cast<uint32_t>(p1);
      c3[i] = static_cast<uint32_t>(p0);
    }
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  for (int64_t i = 0; i < kBlocks; ++i)
    words[4 * i] = c0[i], words[4 * i + 1] = c1[i], words[4 * i + 2] = c2[i], words[4 * i + 3] = c3[i];
}

/// Calls f(words, first element, count) until n elements of `per_block` a block are covered, from several threads.
template <class F>
void each_words(const PhiloxState& state, int64_t n, int64_t per_block, F&& f) {
  const int64_t batch = per_block * kBlocks, batches = (n + batch - 1) / batch;
  const uint64_t first = philox::first_block(state);
  parallel_for(0, batches, 32, [&](int64_t begin, int64_t end) {
    alignas(64) uint32_t words[kWords];
    for (int64_t b = begin; b < end; ++b) {
      make_words(state.seed, first + static_cast<uint64_t>(b * kBlocks), words);
      f(static_cast<const uint32_t*>(words), b * batch, std::min(batch, n - b * batch));
    }
  });
}
inline uint64_t wide_word(const uint32_t* words, int64_t i) {
  return words[2 * i] | (static_cast<uint64_t>(words[2 * i + 1]) << 32);
}

/// The number of 32-bit words w with w / 2^32 < p.
inline uint64_t word_limit(double p) { return static_cast<uint64_t>(std::ceil(p * 4294967296.0)); }

template <class T>
void uniform_cpu(const Tensor& out, double from, double to, const PhiloxState& state) {
  using R = math::real_t<T>;
  R* const x = static_cast<R*>(out.data_ptr());
  const int64_t n = out.numel() * static_cast<int64_t>(sizeof(T) / sizeof(R));
  const double width = to - from;
  const bool unit = from == 0 && to == 1;
  each_words(state, n, std::is_same_v<R, double> ? 2 : 4, [=](const uint32_t* words, int64_t first, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      if constexpr (std::is_same_v<R, double>) {
        const double u = philox::uniform_double(wide_word(words, i));
        x[first + i] = unit ? u : philox::below(philox::affine(u, from, width), from, to);
      } else {
        const R u = philox::uniform<R>(words[i]);
        const R v = static_cast<R>(philox::affine(static_cast<float>(u), from, width));
        x[first + i] = unit ? u : philox::below(v, from, to);
      }
    }
  });
}

/// Standard normal numbers from kWords words.
inline void make_normals(const uint32_t* HWY_RESTRICT words, float* HWY_RESTRICT z) {
  constexpr int64_t kPairs = kWords / 2;
  alignas(64) float radius[kPairs], cosine[kPairs], sine[kPairs];
  for (int64_t i = 0; i < kPairs; ++i) {
    const float u = static_cast<float>(words[2 * i]) * 2.3283064365386963e-10f + 1.1641532182693481e-10f;
    radius[i] = -2.0f * philox::log_unit(u);
    philox::turn(words[2 * i + 1], cosine[i], sine[i]);
  }
  const hn::ScalableTag<float> d;  // by hand: the C library's sqrt may set errno, which keeps the compiler from it
  for (int64_t i = 0; i < kPairs; i += static_cast<int64_t>(hn::Lanes(d)))
    hn::Store(hn::Sqrt(hn::Load(d, radius + i)), d, radius + i);
  for (int64_t i = 0; i < kPairs; ++i) {
    z[2 * i] = radius[i] * cosine[i];
    z[2 * i + 1] = radius[i] * sine[i];
  }
}

template <class T>
void normal_cpu(const Tensor& out, double mean, double std, const PhiloxState& state) {
  using R = math::real_t<T>;
  R* const x = static_cast<R*>(out.data_ptr());
  const bool is_complex = !std::is_same_v<T, R>;
  const int64_t n = out.numel() * (is_complex ? 2 : 1);
  if (is_complex) std *= 0.70710678118654752;  // the variance is shared by the parts; the mean is real
  const bool unit = mean == 0 && std == 1;
  each_words(state, n, std::is_same_v<R, double> ? 2 : 4, [=](const uint32_t* words, int64_t first, int64_t count) {
    if constexpr (std::is_same_v<R, double>) {
      for (int64_t i = 0; i < count; i += 2) {
        double z[2];
        philox::normal_pair(wide_word(words, i), wide_word(words, i + 1), z[0], z[1]);
        for (int64_t j = 0; j < std::min<int64_t>(2, count - i); ++j)
          x[first + i + j] = philox::scaled_normal(z[j], is_complex && j == 1 ? 0 : mean, std);
      }
    } else {
      alignas(64) float z[kWords];
      make_normals(words, z);
      if (unit) {
        for (int64_t i = 0; i < count; ++i) x[first + i] = static_cast<R>(z[i]);
      } else {
        for (int64_t i = 0; i < count; ++i)
          x[first + i] = static_cast<R>(philox::scaled_normal(z[i], is_complex && (i & 1) ? 0 : mean, std));
      }
    }
  });
}

inline void take_logarithms(double* HWY_RESTRICT u) {
  const hn::ScalableTag<double> d;
  for (int64_t i = 0; i < kWords; i += static_cast<int64_t>(hn::Lanes(d)))
    hn::Store(wide::log(d, hn::Load(d, u + i)), d, u + i);
}
// For float and less the logarithm is that of vectors, which is good to 1e-12.
template <class T, class F>
void transform(const Tensor& out, const F& f, const PhiloxState& state) {
  T* const x = static_cast<T*>(out.data_ptr());
  constexpr bool kWide = sizeof(T) == 8;
  each_words(state, out.numel(), kWide ? 2 : 4, [=](const uint32_t* words, int64_t first, int64_t count) {
    alignas(64) double u[kWords];
    for (int64_t i = 0; i < (kWide ? kWords / 2 : kWords); ++i)
      u[i] = kWide ? philox::open_uniform(wide_word(words, i)) : philox::open_uniform(words[i]);
    if constexpr (F::kLogarithm && !kWide)
      take_logarithms(u);
    else
      for (int64_t i = 0; i < count; ++i) u[i] = F::of(u[i]);
    for (int64_t i = 0; i < count; ++i) x[first + i] = philox::rounded<T>(f(u[i]));
  });
}
#define TENON_TRANSFORM(name, Function)                                              \
  template <class T>                                                                 \
  void name##_cpu(const Tensor& out, double a, double b, const PhiloxState& state) { \
    transform<T>(out, philox::Function<T>{a, b}, state);                             \
  }
TENON_TRANSFORM(exponential, Exponential)
TENON_TRANSFORM(cauchy, Cauchy)
TENON_TRANSFORM(geometric, Geometric)
#undef TENON_TRANSFORM

template <class T>
void random_cpu(const Tensor& out, int64_t low, uint64_t range, const PhiloxState& state) {
  T* const x = static_cast<T*>(out.data_ptr());
  const bool wide = range == 0 || range > kNarrowRange;
  each_words(state, out.numel(), wide ? 2 : 4, [=](const uint32_t* words, int64_t first, int64_t count) {
    if (wide)
      for (int64_t i = 0; i < count; ++i)
        x[first + i] = static_cast<T>(philox::integer_wide(wide_word(words, i), low, range));
    else
      for (int64_t i = 0; i < count; ++i) x[first + i] = static_cast<T>(philox::integer(words[i], low, range));
  });
}

template <class T>
void native_dropout_cpu(const Tensor& out, const Tensor& mask, const Tensor& input, double p,
                        const PhiloxState& state) {
  using C = compute_t<T>;
  T* const y = static_cast<T*>(out.data_ptr());
  bool* const kept = static_cast<bool*>(mask.data_ptr());
  const T* const x = static_cast<const T*>(input.data_ptr());
  const double keep = 1 - p;
  const C scale = keep == 0 ? C(0) : static_cast<C>(1 / keep);
  const uint64_t limit = word_limit(keep);
  each_words(state, out.numel(), 4, [=](const uint32_t* words, int64_t first, int64_t count) {
    for (int64_t i = 0; i < count; ++i) kept[first + i] = words[i] < limit;
    for (int64_t i = 0; i < count; ++i) {
      const C v = static_cast<C>(x[first + i]) * scale;
      y[first + i] = static_cast<T>(words[i] < limit ? v : C(0));
    }
  });
}

// Key: out's dtype. 32 bits against the probability, as philox::fraction.
template <class T>
void bernoulli_cpu(const Tensor& out, const Tensor& p, double number, const PhiloxState& state) {
  T* const x = static_cast<T*>(out.data_ptr());
  if (!p.defined()) {
    const uint64_t limit = word_limit(number);
    each_words(state, out.numel(), 4, [=](const uint32_t* words, int64_t first, int64_t count) {
      for (int64_t i = 0; i < count; ++i) x[first + i] = static_cast<T>(static_cast<float>(words[i] < limit));
    });
    return;
  }
  visit_dtype<FloatsAndHalves>("bernoulli", p.dtype(), [&](auto tag) {
    using P = typename decltype(tag)::type;
    const P* const values = static_cast<const P*>(p.data_ptr());
    each_words(state, out.numel(), 4, [=](const uint32_t* words, int64_t first, int64_t count) {
      bool fits = true;
      for (int64_t i = 0; i < count; ++i) {
        const double chance = static_cast<double>(static_cast<compute_t<P>>(values[first + i]));
        fits = fits && chance >= 0 && chance <= 1;
        x[first + i] = static_cast<T>(static_cast<float>(philox::fraction(words[i]) < chance));
      }
      TENON_CHECK(fits, ValueError, "bernoulli: expected probabilities between 0 and 1");
    });
  });
}

using Inexact = Join<FloatsAndHalves, Complexes>;
using Reals = Join<Numbers, Bools>;
TENON_REGISTER_SIMD_KERNEL(op::uniform, Inexact, uniform_cpu);
TENON_REGISTER_SIMD_KERNEL(op::normal, Inexact, normal_cpu);
TENON_REGISTER_SIMD_KERNEL(op::exponential, FloatsAndHalves, exponential_cpu);
TENON_REGISTER_SIMD_KERNEL(op::cauchy, FloatsAndHalves, cauchy_cpu);
TENON_REGISTER_SIMD_KERNEL(op::geometric, Numbers, geometric_cpu);
TENON_REGISTER_SIMD_KERNEL(op::random, Reals, random_cpu);
TENON_REGISTER_SIMD_KERNEL(op::bernoulli, FloatsAndHalves, bernoulli_cpu);
TENON_REGISTER_SIMD_KERNEL(op::bernoulli_p, AllTypes, bernoulli_cpu);
TENON_REGISTER_SIMD_KERNEL(op::native_dropout, FloatsAndHalves, native_dropout_cpu);

}  // namespace tenon::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tenon::cpu {
namespace {

// The order of 64-bit keys, equal ones by position: any device can repeat it. By their upper bits the keys fall into
// buckets of four to eight, which are sorted.
template <class T>
void randperm_cpu(const Tensor& out, const PhiloxState& state) {
  using Place = std::pair<uint64_t, int64_t>;
  T* const x = static_cast<T*>(out.data_ptr());
  const auto n = static_cast<std::size_t>(out.numel());
  const uint64_t first = philox::first_block(state);
  std::vector<uint64_t> keys(n + 1);
  parallel_for(0, static_cast<int64_t>(n + 1) / 2, 1024, [&](int64_t begin, int64_t end) {
    for (auto b = static_cast<std::size_t>(begin); b < static_cast<std::size_t>(end); ++b) {
      const philox::Block block = philox::generate(state.seed, first + b);
      keys[2 * b] = block.wide(0), keys[2 * b + 1] = block.wide(1);
    }
  });
  const int bits = std::max(1, static_cast<int>(std::bit_width(n)) - 3);
  std::vector<std::size_t> ends(std::size_t{1} << bits);  // at first where buckets begin
  for (std::size_t i = 0; i < n; ++i) ++ends[keys[i] >> (64 - bits)];
  std::exclusive_scan(ends.begin(), ends.end(), ends.begin(), std::size_t{0});
  std::vector<Place> places(n);
  for (std::size_t i = 0; i < n; ++i) places[ends[keys[i] >> (64 - bits)]++] = {keys[i], static_cast<int64_t>(i)};
  parallel_for(0, static_cast<int64_t>(ends.size()), 512, [&](int64_t begin, int64_t end) {
    for (auto b = static_cast<std::size_t>(begin); b < static_cast<std::size_t>(end); ++b) {
      const std::size_t from = b ? ends[b - 1] : 0;
      std::sort(places.begin() + static_cast<std::ptrdiff_t>(from),
                places.begin() + static_cast<std::ptrdiff_t>(ends[b]));
      for (std::size_t i = from; i < ends[b]; ++i) x[i] = static_cast<T>(places[i].second);
    }
  });
}

TENON_REGISTER_KERNEL(op::randperm, cpu, Numbers, randperm_cpu);

}  // namespace
}  // namespace tenon::cpu
#endif
