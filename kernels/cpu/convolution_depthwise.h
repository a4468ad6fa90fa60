// SPDX-License-Identifier: Apache-2.0
// Depthwise convolutions of channels-last float and double: vectors of channels, a pixel at a time. Read once per SIMD
// target, after targets.h.
#include <tenon/kernels/cpu/convolution.h>

#include <utility>

#if defined(TENON_KERNELS_CPU_CONVOLUTION_DEPTHWISE) == defined(HWY_TARGET_TOGGLE)
#ifdef TENON_KERNELS_CPU_CONVOLUTION_DEPTHWISE
#undef TENON_KERNELS_CPU_CONVOLUTION_DEPTHWISE
#else
#define TENON_KERNELS_CPU_CONVOLUTION_DEPTHWISE
#endif

HWY_BEFORE_NAMESPACE();
namespace tenon::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Calls f(first channel, number of vectors as a constant, whether the last one is partial) for blocks of n channels.
template <class T, class F>
HWY_INLINE void each_channel_block(int64_t n, F&& f) {
  constexpr int64_t kL = static_cast<int64_t>(hn::MaxLanes(hn::ScalableTag<T>()));
  int64_t c = 0;
  for (; c + 4 * kL <= n; c += 4 * kL) f(c, std::make_index_sequence<4>(), false);
  for (; c < n; c += kL) f(c, std::make_index_sequence<1>(), c + kL > n);
}

template <class T>
void gather_depthwise(const Tensor& out, const Tensor& in, const Tensor& weight, const Tensor& bias,
                      const ConvolutionGeometry& geometry) {
  const hn::ScalableTag<T> d;
  using V = hn::Vec<decltype(d)>;
  constexpr int64_t kL = static_cast<int64_t>(hn::MaxLanes(hn::ScalableTag<T>()));
  const Side<T> to(out), from(in);
  const int64_t channels = to.channels;
  const IntArrayRef s = weight.strides();
  const T* const b = bias.defined() ? static_cast<const T*>(bias.data_ptr()) : nullptr;
  for (const Gather& g : phases_of(geometry, out.sizes(), in.sizes(), weight.sizes())) {
    const auto &g0 = g.dim[0], &g1 = g.dim[1], &g2 = g.dim[2];
    Buffer<T> factors(g.taps() * channels + 1);
    g.each_tap([&](int64_t t, const auto& k0, const auto& k1, const auto& k2) {
      const T* const tap =
          static_cast<const T*>(weight.data_ptr()) + k0.index * s[2] + k1.index * s[3] + k2.index * s[4];
      for (int64_t c = 0; c < channels; ++c) factors.data()[t * channels + c] = tap[c * s[0]];
    });
    // Places of a row all of whose taps along it are inside.
    int64_t low = 0, high = g2.count;
    for (const auto& k : g2.taps) {
      low = std::max(low, (g2.in_step - 1 - k.offset) / g2.in_step);
      high = std::min(high, g2.in_size - k.offset <= 0 ? 0 : (g2.in_size - k.offset - 1) / g2.in_step + 1);
    }
    const int64_t work = std::max<int64_t>(1, g2.count * channels * (g.taps() + 1));
    parallel_for(
        0, to.batch * g0.count * g1.count, std::max<int64_t>(1, 32768 / work), [&](int64_t begin, int64_t end) {
          struct Tap {
            const T *x, *w;  // input of place 0, weights
            int64_t offset;
          };
          std::vector<Tap> row_taps, pixel_taps;
          for (int64_t row = begin; row < end; ++row) {
            const int64_t o1 = row % g1.count, o0 = row / g1.count % g0.count, n = row / g1.count / g0.count;
            const T* const image = from.data + n * from.pixels * channels;
            row_taps.clear();
            g.each_tap([&](int64_t t, const auto& k0, const auto& k1, const auto& k2) {
              const int64_t i0 = o0 * g0.in_step + k0.offset, i1 = o1 * g1.in_step + k1.offset;
              if (i0 < 0 || i0 >= g0.in_size || i1 < 0 || i1 >= g1.in_size) return;
              row_taps.push_back(
                  {image + (i0 * g1.in_size + i1) * g2.in_size * channels, factors.data() + t * channels, k2.offset});
            });
            T* const line =
                to.data +
                (((n * to.size[0] + g0.out_first + o0 * g0.out_step) * to.size[1] + g1.out_first + o1 * g1.out_step) *
                     to.size[2] +
                 g2.out_first) *
                    channels;
            const int64_t in_step = g2.in_step * channels, out_step = g2.out_step * channels;
            // `two`: this pixel and the next one, with the same taps.
            const auto pixel = [&](int64_t o2, const std::vector<Tap>& taps, bool two) HWY_ATTR {
              T* const y = line + o2 * out_step;
              each_channel_block<T>(
                  channels, [&]<std::size_t... I>(int64_t c, std::index_sequence<I...>, bool partial) HWY_ATTR {
                    if (partial) {
                      for (; c < channels; ++c)
                        for (int64_t p = 0; p < (two ? 2 : 1); ++p) {
                          T sum = b ? b[c] : T(0);
                          for (const Tap& t : taps) sum += t.x[(o2 + p) * in_step + t.offset * channels + c] * t.w[c];
                          y[p * out_step + c] = sum;
                        }
                      return;
                    }
                    V sum[] = {b ? hn::LoadU(d, b + c + static_cast<int64_t>(I) * kL) : hn::Zero(d)...};
                    V next[] = {sum[I]...};
                    for (const Tap& t : taps) {
                      const T *const x = t.x + o2 * in_step + t.offset * channels + c, *const w = t.w + c;
                      const V factor[] = {hn::LoadU(d, w + static_cast<int64_t>(I) * kL)...};
                      ((sum[I] = hn::MulAdd(hn::LoadU(d, x + static_cast<int64_t>(I) * kL), factor[I], sum[I])), ...);
                      if (two)
                        ((next[I] =
                              hn::MulAdd(hn::LoadU(d, x + in_step + static_cast<int64_t>(I) * kL), factor[I], next[I])),
                         ...);
                    }
                    (hn::StoreU(sum[I], d, y + c + static_cast<int64_t>(I) * kL), ...);
                    if (two) (hn::StoreU(next[I], d, y + out_step + c + static_cast<int64_t>(I) * kL), ...);
                  });
            };
            for (int64_t o2 = 0; o2 < g2.count; ++o2) {
              if (o2 >= low && o2 < high) {
                const bool two = o2 + 1 < high;
                pixel(o2, row_taps, two);
                o2 += two ? 1 : 0;
                continue;
              }
              pixel_taps.clear();
              for (const Tap& t : row_taps)
                if (const int64_t i2 = o2 * g2.in_step + t.offset; i2 >= 0 && i2 < g2.in_size) pixel_taps.push_back(t);
              pixel(o2, pixel_taps, false);
            }
          }
        });
  }
}

template <class T>
void weight_depthwise(const Tensor& weight, const Tensor& big, const Tensor& small,
                      const ConvolutionGeometry& geometry) {
  const hn::ScalableTag<T> d;
  using V = hn::Vec<decltype(d)>;
  constexpr int64_t kL = static_cast<int64_t>(hn::MaxLanes(hn::ScalableTag<T>())), kBlock = 4 * kL;
  const Side<T> x(big), y(small);
  const int64_t channels = x.channels, blocks = (channels + kBlock - 1) / kBlock;
  const Gather g = phases_of(geometry, small.sizes(), big.sizes(), weight.sizes())[0];
  const auto &g0 = g.dim[0], &g1 = g.dim[1], &g2 = g.dim[2];
  const int64_t n0 = static_cast<int64_t>(g0.taps.size()), n1 = static_cast<int64_t>(g1.taps.size()),
                n2 = static_cast<int64_t>(g2.taps.size());
  const IntArrayRef s = weight.strides();
  // A task: some channels, all taps along one row of the kernel.
  parallel_for(0, n0 * n1 * blocks, 1, [&](int64_t begin, int64_t end) {
    std::vector<T> sums(static_cast<std::size_t>(n2 * kBlock));
    for (int64_t i = begin; i < end; ++i) {
      const int64_t c0 = i % blocks * kBlock, width = std::min(kBlock, channels - c0);
      const auto &k0 = g0.taps[static_cast<std::size_t>(i / blocks / n1)],
                 &k1 = g1.taps[static_cast<std::size_t>(i / blocks % n1)];
      std::fill(sums.begin(), sums.end(), T(0));
      for (int64_t row = 0; row < x.batch * g0.count * g1.count; ++row) {
        const int64_t o1 = row % g1.count, o0 = row / g1.count % g0.count, n = row / g1.count / g0.count;
        const int64_t i0 = o0 * g0.in_step + k0.offset, i1 = o1 * g1.in_step + k1.offset;
        if (i0 < 0 || i0 >= g0.in_size || i1 < 0 || i1 >= g1.in_size) continue;
        const T* const line = x.data + ((n * g0.in_size + i0) * g1.in_size + i1) * g2.in_size * channels + c0;
        const T* const other = y.data + row * g2.count * channels + c0;
        for (int64_t t = 0; t < n2; ++t) {
          const int64_t offset = g2.taps[static_cast<std::size_t>(t)].offset;
          const int64_t low = std::max<int64_t>(0, (g2.in_step - 1 - offset) / g2.in_step);
          const int64_t high =
              g2.in_size - offset <= 0 ? 0 : std::min(g2.count, (g2.in_size - offset - 1) / g2.in_step + 1);
          if (low >= high) continue;
          const T* const a0 = line + (low * g2.in_step + offset) * channels;
          const T* const b0 = other + low * channels;
          each_channel_block<T>(
              width, [&]<std::size_t... I>(int64_t c, std::index_sequence<I...>, bool partial) HWY_ATTR {
                T* const to = sums.data() + t * kBlock + c;
                const T *a = a0 + c, *b = b0 + c;
                if (partial) {
                  for (int64_t o2 = low; o2 < high; ++o2, a += g2.in_step * channels, b += channels)
                    for (int64_t k = 0; k < width - c; ++k) to[k] += a[k] * b[k];
                  return;
                }
                V sum[] = {hn::LoadU(d, to + static_cast<int64_t>(I) * kL)...};
                for (int64_t o2 = low; o2 < high; ++o2, a += g2.in_step * channels, b += channels)
                  ((sum[I] = hn::MulAdd(hn::LoadU(d, a + static_cast<int64_t>(I) * kL),
                                        hn::LoadU(d, b + static_cast<int64_t>(I) * kL), sum[I])),
                   ...);
                (hn::StoreU(sum[I], d, to + static_cast<int64_t>(I) * kL), ...);
              });
        }
      }
      T* const to = static_cast<T*>(weight.data_ptr()) + c0 * s[0] + k0.index * s[2] + k1.index * s[3];
      for (int64_t t = 0; t < n2; ++t)
        for (int64_t c = 0; c < width; ++c)
          to[c * s[0] + g2.taps[static_cast<std::size_t>(t)].index * s[4]] =
              sums[static_cast<std::size_t>(t * kBlock + c)];
    }
  });
}

}  // namespace tenon::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
