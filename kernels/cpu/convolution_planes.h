// SPDX-License-Identifier: Apache-2.0
// Convolutions with few channels a group (depthwise above all) and those of integers and complex numbers: planes of one
// channel, copied with their padding, split by remainder modulo the stride, so that every tap of a row of results is a
// contiguous row. Both sides are contiguous. Read once per SIMD target, after targets.h.
#include <tenon/kernels/cpu/convolution.h>
#include <tenon/kernels/cpu/scratch.h>

#include <type_traits>
#include <utility>

#if defined(TENON_KERNELS_CPU_CONVOLUTION_PLANES) == defined(HWY_TARGET_TOGGLE)
#ifdef TENON_KERNELS_CPU_CONVOLUTION_PLANES
#undef TENON_KERNELS_CPU_CONVOLUTION_PLANES
#else
#define TENON_KERNELS_CPU_CONVOLUTION_PLANES
#endif

HWY_BEFORE_NAMESPACE();
namespace tenon::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// What products are made and added up in: integers wrap as unsigned numbers.
template <class T, bool kInteger = std::is_integral_v<T>>
struct PlaneNumber {
  using type = T;
};
template <class T>
struct PlaneNumber<T, true> {
  using type = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;
};

/// Results computed at once. Of floats whole vectors are: what they read beyond a row is not used.
inline constexpr int64_t kPlaneChunk = 64;

/// Where the padded plane of a phase lies and how taps are found in it.
struct PlaneLayout {
  int64_t low[3], extent[3], step, row, size;  // row: elements of one remainder of a row
  int64_t spread;                              // places of a row that lie between two elements, with 0 in the others
  std::vector<int64_t> taps;                   // offset of a tap at result place 0
  explicit PlaneLayout(const Gather& g, int64_t places = 1) : step(g.dim[2].in_step), spread(places) {
    for (int d = 0; d < 3; ++d) {
      const GatherDim& x = g.dim[d];
      const auto [least, most] = std::minmax_element(x.taps.begin(), x.taps.end(),
                                                     [](const auto& a, const auto& b) { return a.offset < b.offset; });
      low[d] = least->offset;
      extent[d] = (x.count - 1) * x.in_step + most->offset - low[d] + 1;
    }
    row = (extent[2] + step - 1) / step;
    size = extent[0] * extent[1] * step * row;
    g.each_tap([&](int64_t, const auto& a, const auto& b, const auto& c) {
      const int64_t at = c.offset - low[2];
      taps.push_back(((a.offset - low[0]) * extent[1] + b.offset - low[1]) * step * row + at % step * row + at / step);
    });
  }
  int64_t place(const Gather& g, int64_t o0, int64_t o1) const {
    return (o0 * g.dim[0].in_step * extent[1] + o1 * g.dim[1].in_step) * step * row;
  }
  template <class T>
  void fill(const Gather& g, T* to, const T* plane) const {
    const GatherDim &b = g.dim[1], &c = g.dim[2];
    for (int64_t i0 = low[0]; i0 < low[0] + extent[0]; ++i0)
      for (int64_t i1 = low[1]; i1 < low[1] + extent[1]; ++i1, to += step * row) {
        const bool inside = i0 >= 0 && i0 < g.dim[0].in_size && i1 >= 0 && i1 < b.in_size;
        const T* const line = inside ? plane + (i0 * b.in_size + i1) * ((c.in_size - 1) / spread + 1) : nullptr;
        const int64_t begin = std::clamp<int64_t>(-low[2], 0, extent[2]),
                      end = inside ? std::clamp(c.in_size - low[2], begin, extent[2]) : begin;
        if (spread > 1) {
          std::fill(to, to + row, T(0));
          const int64_t first = (begin + low[2] + spread - 1) / spread;
          for (int64_t i = first; i * spread < end + low[2]; ++i) to[i * spread - low[2]] = line[i];
          continue;
        }
        if (step == 1) {
          std::fill(to, to + begin, T(0));
          if (inside) std::copy(line + (low[2] + begin), line + (low[2] + end), to + begin);
          std::fill(to + end, to + row, T(0));
          continue;
        }
        std::fill(to, to + step * row, T(0));
        for (int64_t phase = 0; phase < step; ++phase) {
          int64_t at = begin + ((phase - begin) % step + step) % step;
          for (T* out = to + phase * row + at / step; at < end; at += step) *out++ = line[low[2] + at];
        }
      }
  }
};

/// Channels of the result made at once from the same loads.
inline constexpr int kPlaneChannels = 4;

/// For M channels of the result: sums[m][0, n) = start[m] + sum over channels and taps of weight * plane, n <= kPlaneChunk.
/// Weights of one channel of the result are `weight_step` apart from the next one's.
template <class T, class W, int M>
void plane_sums(W (*sums)[2 * kPlaneChunk], const W* start, const T* from, int64_t channels, int64_t plane,
                std::span<const int64_t> taps, const W* weight, int64_t weight_step, int64_t n) {
  if constexpr (std::is_floating_point_v<T>) {
    const hn::ScalableTag<T> d;
    using V = hn::Vec<decltype(d)>;
    constexpr int64_t kL = static_cast<int64_t>(hn::MaxLanes(hn::ScalableTag<T>()));
    const auto run = [&](int64_t at, auto vectors) HWY_ATTR {
      constexpr std::size_t kVectors = decltype(vectors)::value;
      const auto body = [&]<std::size_t... I>(std::index_sequence<I...>) HWY_ATTR {
        V s[] = {((void)I, hn::Set(d, start[I / kVectors]))...};
        const W* w = weight;
        for (int64_t c = 0; c < channels; ++c)
          for (const int64_t tap : taps) {
            const T* const x = from + c * plane + tap + at;
            ((s[I] = hn::MulAdd(hn::Set(d, w[static_cast<int64_t>(I / kVectors) * weight_step]),
                                hn::LoadU(d, x + static_cast<int64_t>(I % kVectors) * kL), s[I])),
             ...);
            ++w;
          }
        (hn::StoreU(s[I], d, sums[I / kVectors] + at + static_cast<int64_t>(I % kVectors) * kL), ...);
      };
      body(std::make_index_sequence<kVectors * M>());
    };
    int64_t at = 0;
    for (; n - at > 3 * kL; at += 4 * kL) run(at, std::integral_constant<std::size_t, 4>());
    for (; n - at > kL; at += 2 * kL) run(at, std::integral_constant<std::size_t, 2>());
    for (; n - at > 0; at += kL) run(at, std::integral_constant<std::size_t, 1>());
  } else {
    for (int m = 0; m < M; ++m) {
      std::fill(sums[m], sums[m] + n, start[m]);
      const W* w = weight + m * weight_step;
      for (int64_t c = 0; c < channels; ++c)
        for (const int64_t tap : taps) {
          const T* HWY_RESTRICT x = from + c * plane + tap;
          W* HWY_RESTRICT s = sums[m];
          const W factor = *w++;
          for (int64_t i = 0; i < n; ++i) s[i] += factor * static_cast<W>(x[i]);
        }
    }
  }
}

/// Of a dense tensor.
template <class T>
bool all_finite(const Tensor& t) {
  if constexpr (std::is_integral_v<T>) return true;
  if constexpr (!std::is_floating_point_v<T>)
    return false;
  else {
    const T* const v = static_cast<const T*>(t.data_ptr());
    T sum = 0;  // of zeros and NaN
    for (int64_t i = 0; i < t.numel(); ++i) sum += v[i] * 0;
    return sum == 0;
  }
}

template <class T>
void gather_planes(const Tensor& out, const Tensor& in, const Tensor& weight, const Tensor& bias,
                   const ConvolutionGeometry& geometry) {
  using W = typename PlaneNumber<T>::type;
  const Side<T> to(out), from(in);
  const int64_t depth = from.channels / geometry.groups, width = to.channels / geometry.groups;
  const IntArrayRef s = weight.strides();
  const bool small = geometry.part == ConvolutionPart::small;
  const int64_t out_step = s[small ? 0 : 1], in_step = s[small ? 1 : 0],
                group_step = weight.sizes()[0] / geometry.groups * s[0];
  const T* const b = bias.defined() ? static_cast<const T*>(bias.data_ptr()) : nullptr;
  // Few phases along rows become one, over rows with zeros between elements: whole vectors for a few products more. Not if
  // a product with zero could be no zero.
  ConvolutionGeometry plan = geometry;
  DimVector in_sizes(in.sizes());
  int64_t spread = 1;
  if (!small && depth <= 2 && geometry.stride[2] > 1 && geometry.stride[2] <= 3 && all_finite<T>(weight)) {
    spread = geometry.stride[2], plan.stride[2] = 1;
    in_sizes[4] = (in_sizes[4] - 1) * spread + 1;
  }
  for (const Gather& g : phases_of(plan, out.sizes(), in_sizes, weight.sizes())) {
    const int64_t count = g.taps(), rows = g.dim[0].count * g.dim[1].count, length = g.dim[2].count;
    const std::optional<PlaneLayout> layout =
        count == 0 ? std::nullopt : std::optional<PlaneLayout>(std::in_place, g, spread);
    std::vector<W> factors(static_cast<std::size_t>(geometry.groups * width * depth * count));
    g.each_tap([&](int64_t t, const auto& k0, const auto& k1, const auto& k2) {
      const T* const tap =
          static_cast<const T*>(weight.data_ptr()) + k0.index * s[2] + k1.index * s[3] + k2.index * s[4];
      for (int64_t o = 0; o < geometry.groups * width; ++o)
        for (int64_t c = 0; c < depth; ++c)
          factors[static_cast<std::size_t>((o * depth + c) * count + t)] =
              static_cast<W>(tap[o / width * group_step + o % width * out_step + c * in_step]);
    });
    const auto one = [&](int64_t item) {  // an image and a group
      const int64_t n = item / geometry.groups, group = item % geometry.groups;
      Scratch<T> planes(layout ? depth * layout->size + 4 * kPlaneChunk : 1, 0);
      if (layout)
        parallel_for(0, depth, std::max<int64_t>(1, 16384 / layout->size), [&](int64_t begin, int64_t end) {
          for (int64_t c = begin; c < end; ++c)
            layout->fill(g, planes.data() + c * layout->size,
                         from.data + (n * from.channels + group * depth + c) * from.pixels);
        });
      const int64_t work = std::max<int64_t>(1, length * depth * count * std::min<int64_t>(width, kPlaneChannels));
      const int64_t blocks = (width + kPlaneChannels - 1) / kPlaneChannels;
      parallel_for(0, blocks * rows, std::max<int64_t>(1, 32768 / work), [&](int64_t begin, int64_t end) {
        W sums[kPlaneChannels][2 * kPlaneChunk], start[kPlaneChannels];
        for (int64_t i = begin; i < end; ++i) {
          const int64_t o0 = i % rows / g.dim[1].count, o1 = i % g.dim[1].count;
          const int64_t m0 = i / rows * kPlaneChannels, count_m = std::min<int64_t>(kPlaneChannels, width - m0);
          const int64_t o = group * width + m0;
          T* const line = to.data + (n * to.channels + o) * to.pixels +
                          ((g.dim[0].out_first + o0 * g.dim[0].out_step) * to.size[1] + g.dim[1].out_first +
                           o1 * g.dim[1].out_step) *
                              to.size[2] +
                          g.dim[2].out_first;
          for (int64_t m = 0; m < count_m; ++m) start[m] = b ? static_cast<W>(b[o + m]) : W(0);
          for (int64_t at = 0; at < length; at += kPlaneChunk) {
            const int64_t part = std::min(kPlaneChunk, length - at), step = depth * count;
            const auto fill = [&](auto channels, int64_t m) {
              plane_sums<T, W, decltype(channels)::value>(
                  sums + m, start + m, planes.data() + layout->place(g, o0, o1) + at, depth, layout->size, layout->taps,
                  factors.data() + (o + m) * step, step, part);
            };
            if (!layout)
              for (int64_t m = 0; m < count_m; ++m) std::fill(sums[m], sums[m] + part, start[m]);
            else if (count_m == kPlaneChannels)
              fill(std::integral_constant<int, kPlaneChannels>(), 0);
            else
              for (int64_t m = 0; m < count_m; ++m) fill(std::integral_constant<int, 1>(), m);
            for (int64_t m = 0; m < count_m; ++m) {
              T* const target = line + m * to.pixels + at * g.dim[2].out_step;
              if (g.dim[2].out_step == 1)
                for (int64_t q = 0; q < part; ++q) target[q] = static_cast<T>(sums[m][q]);
              else
                for (int64_t q = 0; q < part; ++q) target[q * g.dim[2].out_step] = static_cast<T>(sums[m][q]);
            }
          }
        }
      });
    };
    const int64_t items = to.batch * geometry.groups;
    const auto several = [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) one(i);
    };
    items >= 2 * num_threads() ? parallel_for(0, items, 1, several) : several(0, items);
  }
}

}  // namespace tenon::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
