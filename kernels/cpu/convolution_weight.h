// SPDX-License-Identifier: Apache-2.0
// The weight's gradient of convolutions of float and double with many channels: for one tap, the big side's channels times
// the small side's, summed over the pixels whose tap is inside. Both are channels-last, the small side in packed panels.
// Read once per SIMD target, after convolution_dense.h.
#if defined(TENON_KERNELS_CPU_CONVOLUTION_WEIGHT) == defined(HWY_TARGET_TOGGLE)
#ifdef TENON_KERNELS_CPU_CONVOLUTION_WEIGHT
#undef TENON_KERNELS_CPU_CONVOLUTION_WEIGHT
#else
#define TENON_KERNELS_CPU_CONVOLUTION_WEIGHT
#endif

HWY_BEFORE_NAMESPACE();
namespace tenon::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Pixels of the big side, `along` elements apart, that meet pixels first, first + 1, ... of the small side.
template <class T>
struct PixelRun {
  const T* x;
  int64_t first, count;
};

/// to[r][...] += sum over pixels of x[r] * b[...]: R channels of the big side, one panel of the small side's.
template <class T, int kVectors, std::size_t... R>
HWY_INLINE void weight_tile(std::span<const PixelRun<T>> runs, int64_t channel, int64_t along, const T* panel, T* to,
                            int64_t to_row, std::index_sequence<R...>) {
  const hn::ScalableTag<T> d;
  using V = hn::Vec<decltype(d)>;
  V sum0[] = {((void)R, hn::Zero(d))...};
  [[maybe_unused]] V sum1[] = {((void)R, hn::Zero(d))...};
  for (const PixelRun<T>& run : runs) {
    const T* HWY_RESTRICT x = run.x + channel;
    const T* HWY_RESTRICT b = panel + run.first * kVectors * kLanes<T>;
    for (int64_t i = 0; i < run.count; ++i, x += along, b += kVectors * kLanes<T>) {
      const V b0 = hn::LoadU(d, b);
      if constexpr (kVectors == 2) {
        const V b1 = hn::LoadU(d, b + kLanes<T>);
        ((sum0[R] = hn::MulAdd(hn::Set(d, x[R]), b0, sum0[R]), sum1[R] = hn::MulAdd(hn::Set(d, x[R]), b1, sum1[R])),
         ...);
      } else {
        ((sum0[R] = hn::MulAdd(hn::Set(d, x[R]), b0, sum0[R])), ...);
      }
    }
  }
  const auto add = [&](T* at, V sum) HWY_ATTR { hn::StoreU(hn::Add(hn::LoadU(d, at), sum), d, at); };
  (add(to + R * to_row, sum0[R]), ...);
  if constexpr (kVectors == 2) (add(to + R * to_row + kLanes<T>, sum1[R]), ...);
}
template <class T, int kVectors, int kRows>
HWY_NOINLINE void weight_rows(std::span<const PixelRun<T>> runs, int64_t channel, int64_t along, const T* panel, T* to,
                              int64_t to_row) {
  weight_tile<T, kVectors>(runs, channel, along, panel, to, to_row,
                           std::make_index_sequence<static_cast<std::size_t>(kRows)>());
}

template <class T>
class DenseWeight {
 public:
  DenseWeight(const Tensor& weight, const Tensor& big, const Tensor& small, const ConvolutionGeometry& g)
      : geometry_(g),
        weight_(weight),
        big_(big),
        small_(small),
        gather_(phases_of(g, small.sizes(), big.sizes(), weight.sizes())[0]),
        depth_(big_.channels / g.groups),
        width_(small_.channels / g.groups),
        wide_(padded<T>(width_)),
        sums_(gather_.taps() * g.groups * depth_ * wide_) {}

  void run() {
    std::fill_n(sums_.data(), gather_.taps() * geometry_.groups * depth_ * wide_, T(0));
    const int64_t images = std::clamp<int64_t>(512 / small_.pixels, 1, big_.batch);
    Buffer<T> panels(images * small_.pixels * wide_ * geometry_.groups);
    std::optional<Buffer<T>> copy;
    const bool copied = !geometry_.channels_last && big_.channels > 1 && big_.pixels > 1;
    if (copied) copy.emplace(images * big_.pixels * big_.channels);
    for (int64_t first = 0; first < big_.batch; first += images) {
      const int64_t count = std::min(images, big_.batch - first);
      const T* x = big_.data + first * big_.channels * big_.pixels;
      if (copied) {
        transpose_matrices(copy->data(), x, count, big_.pixels, big_.channels);
        x = copy->data();
      }
      pack_small(panels.data(), first, count);
      const int64_t taps = gather_.taps(), blocks = (depth_ + kChannels - 1) / kChannels;
      parallel_for(0, taps * geometry_.groups * blocks, 1, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i)
          add_tap(x, panels.data(), count, i / blocks / taps, i / blocks % taps, i % blocks * kChannels);
      });
    }
    store();
  }

 private:
  static constexpr int64_t kChannels = 4 * kTileRows;  // of the big side, per task

  // Panels [group][panel][pixel][lanes] of the small side.
  void pack_small(T* to, int64_t first, int64_t count) {
    const int64_t pixels = count * small_.pixels, panels = (width_ + 2 * kLanes<T> - 1) / (2 * kLanes<T>);
    constexpr int64_t kSize = sizeof(T), kBlock = 64;
    const int64_t blocks = (small_.pixels + kBlock - 1) / kBlock;
    parallel_for(0, geometry_.groups * panels * count * blocks, 4, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t at = i % blocks * kBlock, n = i / blocks % count, panel = i / blocks / count % panels,
                      group = i / blocks / count / panels;
        const int64_t j = panel * 2 * kLanes<T>, w = panel_width<T>(width_ - j), columns = std::min(w, width_ - j);
        const int64_t rows = std::min(kBlock, small_.pixels - at);
        T* const rows_to = to + group * pixels * wide_ + j * pixels + (n * small_.pixels + at) * w;
        const T* const image = small_.data + (first + n) * small_.channels * small_.pixels;
        if (columns < w)
          for (int64_t r = 0; r < rows; ++r) std::fill(rows_to + r * w + columns, rows_to + (r + 1) * w, T(0));
        if (geometry_.channels_last)
          for (int64_t r = 0; r < rows; ++r)
            std::copy_n(image + (at + r) * small_.channels + group * width_ + j, columns, rows_to + r * w);
        else
          move_transposed(reinterpret_cast<char*>(rows_to), w * kSize,
                          reinterpret_cast<const char*>(image + (group * width_ + j) * small_.pixels + at),
                          small_.pixels * kSize, kSize, rows, columns);
      }
    });
  }

  // Adds what one tap of `count` images gives for channels [c0, c0 + kChannels) of a group.
  void add_tap(const T* x, const T* panels, int64_t count, int64_t group, int64_t tap, int64_t c0) {
    const GatherDim &a = gather_.dim[0], &b = gather_.dim[1], &c = gather_.dim[2];
    const auto tap_of = [](const GatherDim& d, int64_t i) { return d.taps[static_cast<std::size_t>(i)].offset; };
    const auto size_of = [](const GatherDim& d) { return static_cast<int64_t>(d.taps.size()); };
    const int64_t t0 = tap_of(a, tap / (size_of(b) * size_of(c))), t1 = tap_of(b, tap / size_of(c) % size_of(b)),
                  t2 = tap_of(c, tap % size_of(c));
    const int64_t low = t2 >= 0 ? 0 : (-t2 + c.in_step - 1) / c.in_step;  // first place whose tap is inside
    const int64_t high = c.in_size - t2 <= 0 ? 0 : std::min(c.count, (c.in_size - t2 - 1) / c.in_step + 1);
    if (low >= high) return;
    std::vector<PixelRun<T>> runs;
    for (int64_t n = 0; n < count; ++n)
      for (int64_t o0 = 0; o0 < a.count; ++o0)
        for (int64_t o1 = 0; o1 < b.count; ++o1) {
          const int64_t i0 = o0 * a.in_step + t0, i1 = o1 * b.in_step + t1, i2 = low * c.in_step + t2;
          if (i0 < 0 || i0 >= a.in_size || i1 < 0 || i1 >= b.in_size) continue;
          runs.push_back(
              {x + (((n * a.in_size + i0) * b.in_size + i1) * c.in_size + i2) * big_.channels + group * depth_,
               ((n * a.count + o0) * b.count + o1) * c.count + low, high - low});
        }
    const int64_t pixels = count * small_.pixels, along = c.in_step * big_.channels,
                  end = std::min(depth_, c0 + kChannels);
    const std::size_t step = static_cast<std::size_t>(std::max<int64_t>(1, 512 / (high - low)));
    for (std::size_t r = 0; r < runs.size(); r += step) {
      const std::span<const PixelRun<T>> some(runs.data() + r, std::min(step, runs.size() - r));
      for (int64_t channel = c0; channel < end;) {
        const int64_t left = end - channel, rows = left >= kTileRows ? kTileRows
                                                   : left >= 8       ? 8
                                                   : left >= 4       ? 4
                                                                     : std::min<int64_t>(left, 2);
        for (int64_t j = 0; j < width_;) {
          const int64_t w = panel_width<T>(width_ - j);
          const bool one = w == kLanes<T>;
          const auto tile = rows == kTileRows ? one ? &weight_rows<T, 1, kTileRows> : &weight_rows<T, 2, kTileRows>
                            : rows == 8 ? one ? &weight_rows<T, 1, 8> : &weight_rows<T, 2, 8>
                            : rows == 4 ? one ? &weight_rows<T, 1, 4> : &weight_rows<T, 2, 4>
                            : rows == 2 ? one ? &weight_rows<T, 1, 2> : &weight_rows<T, 2, 2>
                            : one ? &weight_rows<T, 1, 1>
                                              : &weight_rows<T, 2, 1>;
          tile(some, channel, along, panels + group * pixels * wide_ + j * pixels,
               sums_.data() + ((group * gather_.taps() + tap) * depth_ + channel) * wide_ + j, wide_);
          j += w;
        }
        channel += rows;
      }
    }
  }

  void store() {
    const IntArrayRef s = weight_.strides();
    T* const to = static_cast<T*>(weight_.data_ptr());
    std::vector<int64_t> places;
    gather_.each_tap([&](int64_t, const auto& a, const auto& b, const auto& c) {
      places.push_back(a.index * s[2] + b.index * s[3] + c.index * s[4]);
    });
    const int64_t blocks = wide_ / kLanes<T>, taps = static_cast<int64_t>(places.size());
    parallel_for(0, geometry_.groups * blocks, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t j = i % blocks * kLanes<T>, n = std::min(kLanes<T>, width_ - j);
        const T* const from = sums_.data() + i / blocks * taps * depth_ * wide_ + j;
        T* const lines = to + (i / blocks * width_ + j) * s[0];
        for (int64_t k = 0; k < depth_; ++k)
          for (int64_t t = 0; t < taps; ++t)
            for (int64_t q = 0; q < n; ++q)
              lines[q * s[0] + k * s[1] + places[static_cast<std::size_t>(t)]] = from[(t * depth_ + k) * wide_ + q];
      }
    });
  }

  const ConvolutionGeometry& geometry_;
  const Tensor& weight_;
  Side<T> big_, small_;
  Gather gather_;
  int64_t depth_, width_, wide_;  // channels of a group: big side, small side, small side in whole vectors
  Buffer<T> sums_;                // [group][tap][big channel][wide]
};

}  // namespace tenon::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
