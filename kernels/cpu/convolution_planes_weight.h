// SPDX-License-Identifier: Apache-2.0
// The weight's gradient of convolutions that go by planes: products of rows of the small side with rows of padded planes of
// the big one. Read once per SIMD target, after convolution_planes.h.
#if defined(TENON_KERNELS_CPU_CONVOLUTION_PLANES_WEIGHT) == defined(HWY_TARGET_TOGGLE)
#ifdef TENON_KERNELS_CPU_CONVOLUTION_PLANES_WEIGHT
#undef TENON_KERNELS_CPU_CONVOLUTION_PLANES_WEIGHT
#else
#define TENON_KERNELS_CPU_CONVOLUTION_PLANES_WEIGHT
#endif

HWY_BEFORE_NAMESPACE();
namespace tenon::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// sums[m * taps + t] += sum over rows of a plane of small[m] * big at tap t, for M channels `small_step` apart.
template <class T, class W, int M>
void plane_products(W* sums, const Gather& g, const PlaneLayout& layout, const T* plane, const T* small,
                    int64_t small_step) {
  const int64_t length = g.dim[2].count, taps = static_cast<int64_t>(layout.taps.size()), columns = g.dim[1].count,
                rows = g.dim[0].count * columns;
  for (int64_t t = 0; t < taps;) {
    if constexpr (std::is_floating_point_v<T>) {
      const hn::ScalableTag<T> d;
      using V = hn::Vec<decltype(d)>;
      constexpr int64_t kL = static_cast<int64_t>(hn::MaxLanes(hn::ScalableTag<T>()));
      const auto some = [&](auto number) HWY_ATTR {
        constexpr std::size_t kTaps = decltype(number)::value;
        const auto body = [&]<std::size_t... I>(std::index_sequence<I...>) HWY_ATTR {
          V s[] = {((void)I, hn::Zero(d))...};
          const int64_t* const at = layout.taps.data() + t;
          const T* y = small;
          int64_t o0 = 0, o1 = 0;
          for (int64_t r = 0; r < rows; ++r, y += length, ++o1) {
            if (o1 == columns) o1 = 0, ++o0;
            const T* const x = plane + layout.place(g, o0, o1);
            int64_t i = 0;
            for (; i + kL <= length; i += kL)
              ((s[I] = hn::MulAdd(hn::LoadU(d, y + static_cast<int64_t>(I / kTaps) * small_step + i),
                                  hn::LoadU(d, x + at[I % kTaps] + i), s[I])),
               ...);
            if (i == length) continue;
            const auto rest = hn::FirstN(d, static_cast<std::size_t>(length - i));
            ((s[I] = hn::MulAdd(hn::MaskedLoad(rest, d, y + static_cast<int64_t>(I / kTaps) * small_step + i),
                                hn::MaskedLoad(rest, d, x + at[I % kTaps] + i), s[I])),
             ...);
          }
          ((sums[static_cast<int64_t>(I / kTaps) * taps + t + static_cast<int64_t>(I % kTaps)] +=
            hn::GetLane(hn::SumOfLanes(d, s[I]))),
           ...);
        };
        body(std::make_index_sequence<kTaps * M>());
        t += static_cast<int64_t>(kTaps);
      };
      constexpr std::size_t kMost =
          HWY_TARGET == HWY_AVX3 || M == 1 ? 9 : 3;  // as many sums as there are registers for
      if (taps - t >= static_cast<int64_t>(kMost))
        some(std::integral_constant<std::size_t, kMost>());
      else if (taps - t >= 3)
        some(std::integral_constant<std::size_t, 3>());
      else
        some(std::integral_constant<std::size_t, 1>());
    } else {
      for (int m = 0; m < M; ++m)
        for (int64_t r = 0; r < rows; ++r) {
          const T* const x =
              plane + layout.place(g, r / columns, r % columns) + layout.taps[static_cast<std::size_t>(t)];
          const T* const y = small + m * small_step + r * length;
          for (int64_t i = 0; i < length; ++i) sums[m * taps + t] += static_cast<W>(y[i]) * static_cast<W>(x[i]);
        }
      ++t;
    }
  }
}

template <class T>
void weight_planes(const Tensor& weight, const Tensor& big, const Tensor& small, const ConvolutionGeometry& geometry) {
  using W = typename PlaneNumber<T>::type;
  const Side<T> x(big), y(small);
  const int64_t depth = x.channels / geometry.groups, width = y.channels / geometry.groups;
  const Gather g = phases_of(geometry, small.sizes(), big.sizes(), weight.sizes())[0];
  const PlaneLayout layout(g);
  const int64_t taps = g.taps();
  parallel_for(0, x.channels, 1, [&](int64_t begin, int64_t end) {
    Scratch<T> plane(layout.size, 0);
    std::vector<W> sums(static_cast<std::size_t>(width * taps));
    for (int64_t c = begin; c < end; ++c) {
      const int64_t group = c / depth;
      std::fill(sums.begin(), sums.end(), W(0));
      for (int64_t n = 0; n < x.batch; ++n) {
        layout.fill(g, plane.data(), x.data + (n * x.channels + c) * x.pixels);
        for (int64_t m = 0, next = 0; m < width; m = next) {
          const bool three = m + 2 < width;
          const auto add = three ? &plane_products<T, W, 3> : &plane_products<T, W, 1>;
          next = m + (three ? 3 : 1);
          add(sums.data() + m * taps, g, layout, plane.data(), y.data + (n * y.channels + group * width + m) * y.pixels,
              y.pixels);
        }
      }
      const IntArrayRef s = weight.strides();
      T* const to = static_cast<T*>(weight.data_ptr()) + group * width * s[0] + c % depth * s[1];
      g.each_tap([&](int64_t t, const auto& k0, const auto& k1, const auto& k2) {
        for (int64_t m = 0; m < width; ++m)
          to[m * s[0] + k0.index * s[2] + k1.index * s[3] + k2.index * s[4]] =
              static_cast<T>(sums[static_cast<std::size_t>(m * taps + t)]);
      });
    }
  });
}

}  // namespace tenon::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
