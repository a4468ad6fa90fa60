// SPDX-License-Identifier: Apache-2.0
// Convolutions (ops/convolution.h): 1 x 1 kernels as matrix products, floats with enough channels through
// convolution_dense.h, all others through convolution_planes.h; 16-bit floats are computed in float32 from copies.
#include <tenon/kernels/cpu/convolution.h>
#include <tenon/kernels/cpu/scratch.h>
#include <tenon/ops/matmul.h>

#include <optional>
#include <span>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tenon/kernels/cpu/convolution.cpp"
#include <tenon/kernels/cpu/targets.h>

#include <tenon/kernels/cpu/convolution_dense.h>
#include <tenon/kernels/cpu/convolution_depthwise.h>
#include <tenon/kernels/cpu/convolution_planes.h>
#include <tenon/kernels/cpu/convolution_planes_weight.h>
#include <tenon/kernels/cpu/convolution_weight.h>

#ifndef TENON_KERNELS_CPU_CONVOLUTION_COMMON
#define TENON_KERNELS_CPU_CONVOLUTION_COMMON
namespace tenon::cpu {

inline int64_t pixels_of(const Tensor& t) { return t.sizes()[2] * t.sizes()[3] * t.sizes()[4]; }

/// Kernels of one tap that move no pixel: products of matrices. False when it is no such convolution, or when the images
/// are so small that each would be a poor product.
inline bool pointwise(const Tensor& out, const Tensor& a, const Tensor& b, const Tensor& bias,
                      const ConvolutionGeometry& g) {
  using dispatch::make_view;
  const bool is_weight = g.part == ConvolutionPart::weight;
  const Tensor &weight = is_weight ? out : b, &side = is_weight ? b : out;
  const int64_t n = a.sizes()[0], p = pixels_of(a);
  if (g.groups != 1 || pixels_of(weight) != 1 || pixels_of(side) != p) return false;
  for (int d = 0; d < 3; ++d)
    if (g.padding[d] != 0 || (g.stride[d] != 1 && a.sizes()[static_cast<std::size_t>(d) + 2] != 1)) return false;
  const bool flat = g.channels_last || p == 1;  // pixels of all images make one matrix
  if (!flat && p < 128) return false;
  const auto key = dispatch::key_of(out.dtype());
  const auto images = [&](const Tensor& t) {  // [n, channels, pixels] or [n * pixels, channels]
    const int64_t c = t.sizes()[1];
    return flat ? make_view(t, {n * p, c}, {c, 1}, t.storage_offset())
                : make_view(t, {n, c, p}, {c * p, p, 1}, t.storage_offset());
  };
  const auto matrix = [&](bool transposed, int64_t batch) {  // [M, C], or [C, M]
    const int64_t rows = transposed ? 1 : 0, columns = 1 - rows;
    const IntArrayRef s = weight.sizes(), t = weight.strides();
    const auto i = static_cast<std::size_t>(rows), j = static_cast<std::size_t>(columns);
    return batch == 0 ? make_view(weight, {s[i], s[j]}, {t[i], t[j]}, weight.storage_offset())
                      : make_view(weight, {batch, s[i], s[j]}, {0, t[i], t[j]}, weight.storage_offset());
  };
  if (is_weight && flat) {  // b^T a
    const Tensor y = images(b);
    op::mm.kernel(Backend::cpu, key)(
        matrix(false, 0), {}, make_view(y, {y.size(1), n * p}, {1, y.size(1)}, y.storage_offset()), images(a), 0, 1);
  } else if (is_weight) {
    const Tensor sum = matrix(false, 0), x = images(a), y = images(b);
    for (int64_t i = 0; i < n; ++i) {
      const int64_t c = x.size(1), m = y.size(1);
      op::addmm.kernel(Backend::cpu, key)(
          sum, i == 0 ? Tensor() : sum, make_view(y, {m, p}, {p, 1}, y.storage_offset() + i * m * p),
          make_view(x, {p, c}, {1, p}, x.storage_offset() + i * c * p), i == 0 ? 0 : 1, 1);
    }
  } else {
    const bool big = g.part == ConvolutionPart::big;
    const Tensor to = images(out);
    const Tensor added = !bias.defined() ? bias
                         : flat          ? make_view(bias, to.sizes(), {0, 1}, bias.storage_offset())
                                         : make_view(bias, to.sizes(), {0, 1, 0}, bias.storage_offset());
    if (flat)
      op::addmm.kernel(Backend::cpu, key)(to, added, images(a), matrix(!big, 0), bias.defined() ? 1 : 0, 1);
    else
      op::baddbmm.kernel(Backend::cpu, key)(to, added, matrix(big, n), images(a), bias.defined() ? 1 : 0, 1);
  }
  return true;
}

/// The contiguous form of a channels-last tensor, with its data if `filled`; `t` itself when it is both.
template <class T>
Tensor planar(const Tensor& t, const ConvolutionGeometry& g, bool filled) {
  if (!g.channels_last) return t;
  const Tensor copy = dispatch::make_tensor(t.sizes(), t.dtype(), t.device());
  if (filled)
    transpose_matrices(static_cast<T*>(copy.data_ptr()), static_cast<const T*>(t.data_ptr()), t.sizes()[0],
                       t.sizes()[1], pixels_of(t));
  return copy;
}

}  // namespace tenon::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace tenon::cpu::HWY_NAMESPACE {

template <class T>
void convolution_cpu(const Tensor& out, const Tensor& a, const Tensor& b, const Tensor& bias,
                     const ConvolutionGeometry& g) {
  const bool is_weight = g.part == ConvolutionPart::weight;
  if constexpr (std::is_floating_point_v<T>) {
    if (pointwise(out, a, b, bias, g)) return;
    // In vectors of channels of the result (of a weight: of the small side), unless most lanes would be idle.
    const int64_t read = a.sizes()[1] / g.groups, made = (is_weight ? b : out).sizes()[1] / g.groups;
    if (made >= 8 && read >= 4) {
      if (is_weight)
        DenseWeight<T>(out, a, b, g).run();
      else
        DenseGather<T>(out, a, b, bias, g).run();
      return;
    }
    if (g.channels_last && read == 1 && made == 1 && a.sizes()[1] >= 8) {
      is_weight ? weight_depthwise<T>(out, a, b, g) : gather_depthwise<T>(out, a, b, bias, g);
      return;
    }
  }
  if (is_weight) return weight_planes<T>(out, planar<T>(a, g, true), planar<T>(b, g, true), g);
  const Tensor to = planar<T>(out, g, false);
  gather_planes<T>(to, planar<T>(a, g, true), b, bias, g);
  if (!to.is_same(out))
    transpose_matrices(static_cast<T*>(out.data_ptr()), static_cast<const T*>(to.data_ptr()), out.sizes()[0],
                       pixels_of(out), out.sizes()[1]);
}

using Types = Join<Integers, Floats, Complexes>;
TENON_REGISTER_SIMD_KERNEL(op::convolution, Types, convolution_cpu);
TENON_REGISTER_SIMD_KERNEL(op::convolution_backward, Types, convolution_cpu);

}  // namespace tenon::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tenon::cpu {
namespace {

// A float32 tensor of the same geometry as dense `t`, with its data if `filled`.
Tensor widened(const Tensor& t, bool filled) {
  if (!t.defined()) return t;
  const Tensor wide = dispatch::make_tensor(t.sizes(), kFloat32, t.device(), t.strides());
  constexpr int64_t kStep = 8192;
  if (filled)
    parallel_for(0, (t.numel() + kStep - 1) / kStep, 4, [&](int64_t begin, int64_t end) {
      const int64_t from = begin * kStep, to = std::min(end * kStep, t.numel());
      small_to_float(static_cast<float*>(wide.data_ptr()) + from, static_cast<const uint16_t*>(t.data_ptr()) + from,
                     t.dtype(), to - from);
    });
  return wide;
}

template <class T>
void half_convolution(const Tensor& out, const Tensor& a, const Tensor& b, const Tensor& bias,
                      const ConvolutionGeometry& g) {
  const Tensor sums = widened(out, false);
  op::convolution.kernel(Backend::cpu, dispatch::key_of(kFloat32))(sums, widened(a, true), widened(b, true),
                                                                   widened(bias, true), g);
  constexpr int64_t kStep = 8192;
  parallel_for(0, (out.numel() + kStep - 1) / kStep, 4, [&](int64_t begin, int64_t end) {
    const int64_t from = begin * kStep, to = std::min(end * kStep, out.numel());
    float_to_small(static_cast<uint16_t*>(out.data_ptr()) + from, out.dtype(),
                   static_cast<const float*>(sums.data_ptr()) + from, to - from);
  });
}
TENON_REGISTER_KERNEL(op::convolution, cpu, Halves, half_convolution);
TENON_REGISTER_KERNEL(op::convolution_backward, cpu, Halves, half_convolution);

}  // namespace
}  // namespace tenon::cpu
#endif
