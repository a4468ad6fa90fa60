// SPDX-License-Identifier: Apache-2.0
// Convolutions of float and double with many channels: channels-last pixels, read where they lie through a table of
// pointers (the indirect convolution of Dukhan, 2019), times packed weights, in the register tile of matmul.cpp. Padding is
// a pointer to zeros. Contiguous tensors are transposed on the way in and out, a few images at a time. Read once per SIMD
// target, after targets.h.
#include <tenon/kernels/cpu/convolution.h>
#include <tenon/kernels/cpu/scratch.h>

#include <utility>

#if defined(TENON_KERNELS_CPU_CONVOLUTION_DENSE) == defined(HWY_TARGET_TOGGLE)
#ifdef TENON_KERNELS_CPU_CONVOLUTION_DENSE
#undef TENON_KERNELS_CPU_CONVOLUTION_DENSE
#else
#define TENON_KERNELS_CPU_CONVOLUTION_DENSE
#endif

HWY_BEFORE_NAMESPACE();
namespace tenon::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class T>
inline constexpr int64_t kLanes = static_cast<int64_t>(hn::MaxLanes(hn::ScalableTag<T>()));
inline constexpr int64_t kTileRows = HWY_TARGET == HWY_AVX3 ? 14 : 6;
inline constexpr int64_t kBlockPixels = 16 * kTileRows;  ///< pixels that pass all weights before the next ones do
inline constexpr int64_t kPanelBytes = 256 << 10;        ///< of weights read again and again for a block
template <class T>
int64_t panel_width(int64_t left) {
  return left > kLanes<T> ? 2 * kLanes<T> : kLanes<T>;
}
template <class T>
int64_t padded(int64_t n) {
  return (n + kLanes<T> - 1) / kLanes<T> * kLanes<T>;
}

template <class T, class V>
HWY_INLINE void store_part(T* to, V v, int64_t left) {
  const hn::ScalableTag<T> d;
  if (left >= kLanes<T>)
    hn::StoreU(v, d, to);
  else if (left > 0)
    hn::BlendedStore(v, hn::FirstN(d, static_cast<std::size_t>(left)), d, to);
}

template <class T>
HWY_INLINE auto load_part(const T* from, int64_t left) {
  const hn::ScalableTag<T> d;
  if (left >= kLanes<T>) return hn::LoadU(d, from);
  return left > 0 ? hn::MaskedLoad(hn::FirstN(d, static_cast<std::size_t>(left)), d, from) : hn::Zero(d);
}

/// R pixels times one panel of channels: to[r][...] = bias + sum over taps and c < depth of from[tap][r][c] * b; without
/// a bias the sum is added to what is there.
template <class T, int kVectors, std::size_t... R>
HWY_INLINE void gather_tile(int64_t taps, int64_t depth, const T* const* HWY_RESTRICT from, int64_t tap_step,
                            const T* HWY_RESTRICT b, const T* bias, T* const* to, int64_t rows, int64_t columns,
                            std::index_sequence<R...>) {
  const hn::ScalableTag<T> d;
  using V = hn::Vec<decltype(d)>;
  constexpr int64_t kSecond = (kVectors - 1) * kLanes<T>;
  V sum0[] = {bias ? hn::LoadU(d, bias) : load_part(to[R], columns)...};
  [[maybe_unused]] V sum1[] = {bias ? hn::LoadU(d, bias + kSecond) : load_part(to[R] + kSecond, columns - kSecond)...};
  for (int64_t t = 0; t < taps; ++t, from += tap_step) {
    const T* const p[] = {from[R]...};
    for (int64_t c = 0; c < depth; ++c, b += kVectors * kLanes<T>) {
      const V b0 = hn::LoadU(d, b);
      if constexpr (kVectors == 2) {
        const V b1 = hn::LoadU(d, b + kLanes<T>);
        ((sum0[R] = hn::MulAdd(hn::Set(d, p[R][c]), b0, sum0[R]),
          sum1[R] = hn::MulAdd(hn::Set(d, p[R][c]), b1, sum1[R])),
         ...);
      } else {
        ((sum0[R] = hn::MulAdd(hn::Set(d, p[R][c]), b0, sum0[R])), ...);
      }
    }
  }
  ((static_cast<int64_t>(R) < rows ? store_part(to[R], sum0[R], columns) : void()), ...);
  if constexpr (kVectors == 2)
    ((static_cast<int64_t>(R) < rows ? store_part(to[R] + kLanes<T>, sum1[R], columns - kLanes<T>) : void()), ...);
}
template <class T, int kVectors, int kRows>
HWY_NOINLINE void gather_rows(int64_t taps, int64_t depth, const T* const* from, int64_t tap_step, const T* b,
                              const T* bias, T* const* to, int64_t rows, int64_t columns) {
  gather_tile<T, kVectors>(taps, depth, from, tap_step, b, bias, to, rows, columns,
                           std::make_index_sequence<static_cast<std::size_t>(kRows)>());
}

/// One phase and its weights: panels of out channels, each [tap][in channel][lanes].
template <class T>
struct Packed {
  Gather gather;
  const T* weights;  ///< of group 0
  int64_t group_step;
};

template <class T>
class DenseGather {
 public:
  /// `image_group` images of `in`, channels last, are convolved at a time.
  DenseGather(const Tensor& out, const Tensor& in, const Tensor& weight, const Tensor& bias,
              const ConvolutionGeometry& g)
      : geometry_(g), out_(out), in_(in), zeros_(in_.channels), bias_(g.groups * padded<T>(out_.channels / g.groups)) {
    depth_ = in_.channels / g.groups, width_ = out_.channels / g.groups;
    std::fill_n(zeros_.data(), in_.channels, T(0));
    const int64_t wide = padded<T>(width_);
    for (int64_t i = 0; i < g.groups * wide; ++i) {
      const int64_t c = i % wide;
      bias_.data()[i] = bias.defined() && c < width_ ? static_cast<T*>(bias.data_ptr())[i / wide * width_ + c] : T(0);
    }
    pack(weight, phases_of(g, out.sizes(), in.sizes(), weight.sizes()));
  }
  void run() {
    const int64_t images = std::clamp<int64_t>(kBlockPixels / std::min(in_.pixels, out_.pixels), 1, in_.batch);
    const int64_t steps = (in_.batch + images - 1) / images;
    const auto several = [&](int64_t begin, int64_t end) {
      for (int64_t s = begin; s < end; ++s) run_images(s * images, std::min(images, in_.batch - s * images));
    };
    steps >= 2 * num_threads() ? parallel_for(0, steps, 1, several) : several(0, steps);
  }

 private:
  void pack(const Tensor& weight, std::vector<Gather> phases) {
    const int64_t wide = padded<T>(width_);
    int64_t taps = 0;
    for (const Gather& p : phases) taps += p.taps();
    weights_.emplace(std::max<int64_t>(1, taps * depth_ * wide * geometry_.groups));
    T* to = weights_->data();
    const T* const from = static_cast<const T*>(weight.data_ptr());
    const IntArrayRef s = weight.strides();
    const bool small = geometry_.part == ConvolutionPart::small;
    const int64_t out_step = s[small ? 0 : 1], in_step = s[small ? 1 : 0];
    const int64_t group_from = weight.sizes()[0] / geometry_.groups * s[0];
    const int64_t panels = (width_ + 2 * kLanes<T> - 1) / (2 * kLanes<T>);
    for (Gather& p : phases) {
      const int64_t count = p.taps(), group_step = count * depth_ * wide;
      std::vector<int64_t> places;
      p.each_tap([&](int64_t, const auto& a, const auto& b, const auto& c) {
        places.push_back(a.index * s[2] + b.index * s[3] + c.index * s[4]);
      });
      parallel_for(0, geometry_.groups * panels, 1, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          const int64_t group = i / panels, j = i % panels * 2 * kLanes<T>, w = panel_width<T>(width_ - j);
          const int64_t n = std::min(w, width_ - j);
          T* const panel = to + group * group_step + j * count * depth_;
          for (int64_t k = 0; k < depth_; ++k)
            for (int64_t t = 0; t < count; ++t) {
              const T* const line =
                  from + group * group_from + k * in_step + j * out_step + places[static_cast<std::size_t>(t)];
              T* const row = panel + (t * depth_ + k) * w;
              for (int64_t q = 0; q < n; ++q) row[q] = line[q * out_step];
              for (int64_t q = n; q < w; ++q) row[q] = T(0);
            }
        }
      });
      phases_.push_back({std::move(p), to, group_step});
      to += group_step * geometry_.groups;
    }
  }

  void run_images(int64_t first, int64_t images) {
    const T* x = in_.data + first * in_.channels * in_.pixels;
    std::optional<Buffer<T>> copy;
    if (!geometry_.channels_last && in_.channels > 1 && in_.pixels > 1) {
      copy.emplace(images * in_.channels * in_.pixels);
      transpose_matrices(copy->data(), x, images, in_.pixels, in_.channels);
      x = copy->data();
    }
    for (const Packed<T>& p : phases_) {
      const int64_t pixels = images * p.gather.count(), blocks = (pixels + kBlockPixels - 1) / kBlockPixels;
      // Few blocks and many threads: shorter blocks.
      const int64_t threads = in_parallel_region() ? 1 : num_threads();
      const int64_t split = std::max<int64_t>(1, std::min(kBlockPixels / (2 * kTileRows), 2 * threads / blocks));
      const int64_t step = threads == 1 ? kBlockPixels : kBlockPixels / split / kTileRows * kTileRows;
      const int64_t parts = (pixels + step - 1) / step;
      parallel_for(0, parts * geometry_.groups, 1, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          const int64_t q = i % parts * step;
          block(p, i / parts, x, first, q, std::min(step, pixels - q));
        }
      });
    }
  }

  // Pixels [q0, q0 + count) of the images from `first` on, all channels of a group.
  void block(const Packed<T>& p, int64_t group, const T* x, int64_t first, int64_t q0, int64_t count) {
    const Gather& g = p.gather;
    const int64_t taps = g.taps(), lines = (count + kTileRows - 1) / kTileRows * kTileRows, per_image = g.count();
    const bool last = geometry_.channels_last || out_.channels == 1 || out_.pixels == 1;
    Scratch<const T*> table(taps * lines + 1, 0);
    Scratch<T*> targets(lines, 1);
    Scratch<T> sums(last ? 1 : count * width_, 2);
    Scratch<int64_t> places(count, 3);
    for (int64_t q = 0; q < lines; ++q) {
      const int64_t place = q0 + std::min(q, count - 1), n = place / per_image, at = place % per_image;
      const int64_t o2 = at % g.dim[2].count, o1 = at / g.dim[2].count % g.dim[1].count,
                    o0 = at / g.dim[2].count / g.dim[1].count;
      const T** entry = table.data() + q / kTileRows * taps * kTileRows + q % kTileRows;
      const T* const image = x + n * in_.pixels * in_.channels + group * depth_;
      for (const auto& a : g.dim[0].taps) {
        const int64_t i0 = o0 * g.dim[0].in_step + a.offset;
        const bool in0 = i0 >= 0 && i0 < g.dim[0].in_size;
        for (const auto& b : g.dim[1].taps) {
          const int64_t i1 = o1 * g.dim[1].in_step + b.offset;
          const bool in1 = in0 && i1 >= 0 && i1 < g.dim[1].in_size;
          const int64_t row = (i0 * g.dim[1].in_size + i1) * g.dim[2].in_size;
          for (const auto& c : g.dim[2].taps) {
            const int64_t i2 = o2 * g.dim[2].in_step + c.offset;
            *entry = in1 && i2 >= 0 && i2 < g.dim[2].in_size ? image + (row + i2) * in_.channels : zeros_.data();
            entry += kTileRows;
          }
        }
      }
      if (q >= count) continue;
      const int64_t pixel =
          ((g.dim[0].out_first + o0 * g.dim[0].out_step) * out_.size[1] + g.dim[1].out_first + o1 * g.dim[1].out_step) *
              out_.size[2] +
          g.dim[2].out_first + o2 * g.dim[2].out_step;
      places.data()[q] = last ? 0 : (first + n) * out_.channels * out_.pixels + pixel;
      targets.data()[q] = last ? out_.data + ((first + n) * out_.pixels + pixel) * out_.channels + group * width_
                               : sums.data() + q * width_;
    }
    const T* const weights = p.weights + group * p.group_step;
    for (int64_t j = 0; j < width_;) {
      const int64_t w = panel_width<T>(width_ - j), columns = std::min(w, width_ - j);
      const T* const b = weights + j * taps * depth_;
      const T* const bias = bias_.data() + group * padded<T>(width_) + j;
      // Of a long panel as many taps at a time as the second cache holds.
      const int64_t some = std::max<int64_t>(1, kPanelBytes / (depth_ * w * static_cast<int64_t>(sizeof(T))));
      int64_t t = 0;
      do {
        const int64_t part = std::min(some, taps - t);
        for (int64_t q = 0; q < count; q += kTileRows) {
          T* to[kTileRows];
          const int64_t rows = std::min(kTileRows, count - q);
          for (int64_t r = 0; r < kTileRows; ++r) to[r] = targets.data()[q + std::min(r, rows - 1)] + j;
          const auto tile = rows <= 4 ? w == kLanes<T> ? &gather_rows<T, 1, 4> : &gather_rows<T, 2, 4>
                                      : rows <= 8 ? w == kLanes<T> ? &gather_rows < T,
                     1, kTileRows == 14 ? 8 : 6 > : &gather_rows < T, 2,
                     kTileRows == 14 ? 8 : 6 >
              : w == kLanes<T> ? &gather_rows<T, 1, kTileRows>
                               : &gather_rows<T, 2, kTileRows>;
          tile(part, depth_, table.data() + q * taps + t * kTileRows, kTileRows, b + t * depth_ * w,
               t == 0 ? bias : nullptr, to, rows, columns);
        }
        t += part;
      } while (t < taps);
      j += w;
    }
    if (last) return;
    for (int64_t q = 0; q < count;) {  // runs of neighbouring pixels
      int64_t n = 1;
      while (q + n < count && places.data()[q + n] == places.data()[q] + n) ++n;
      move_transposed(reinterpret_cast<char*>(out_.data + places.data()[q] + group * width_ * out_.pixels),
                      out_.pixels * static_cast<int64_t>(sizeof(T)),
                      reinterpret_cast<const char*>(sums.data() + q * width_), width_ * static_cast<int64_t>(sizeof(T)),
                      sizeof(T), width_, n);
      q += n;
    }
  }

  const ConvolutionGeometry& geometry_;
  Side<T> out_, in_;
  Buffer<T> zeros_, bias_;
  std::optional<Buffer<T>> weights_;
  std::vector<Packed<T>> phases_;
  int64_t depth_, width_;  // channels of a group: read, made
};

}  // namespace tenon::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
