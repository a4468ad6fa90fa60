// SPDX-License-Identifier: Apache-2.0
// Matrix products of the other dtypes (ops/matmul.h): integers, exact and wrapping, and complex numbers by a plain
// blocked loop over packed rows; 16-bit floats by converted copies and the float32 product.
#include <tenon/dispatch/make_tensor.h>
#include <tenon/kernels/cpu/convert.h>
#include <tenon/kernels/cpu/parallel.h>
#include <tenon/kernels/cpu/run_plan.h>
#include <tenon/kernels/cpu/scratch.h>
#include <tenon/ops/matmul.h>

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tenon/kernels/cpu/matmul_generic.cpp"
#include <tenon/kernels/cpu/targets.h>

HWY_BEFORE_NAMESPACE();
namespace tenon::cpu::HWY_NAMESPACE {

/// sums[j] += a * b[j]. The compiler vectorises it.
template <class T>
void add_scaled(T* HWY_RESTRICT sums, T a, const T* HWY_RESTRICT b, int64_t n) {
  for (int64_t j = 0; j < n; ++j) sums[j] = static_cast<T>(sums[j] + a * b[j]);
}

// Integers are multiplied as unsigned numbers: they wrap, whatever their sign.
template <class T>
struct Wrapping {
  using type = T;
};
template <>
struct Wrapping<int8_t> {
  using type = uint8_t;
};
template <>
struct Wrapping<int16_t> {
  using type = uint32_t;
};
template <>
struct Wrapping<int32_t> {
  using type = uint32_t;
};
template <>
struct Wrapping<int64_t> {
  using type = uint64_t;
};

template <class T>
void plain_product(const Tensor& out, const Tensor& self, const Tensor& a, const Tensor& b, const Scalar& beta,
                   const Scalar& alpha) {
  using W = typename Wrapping<T>::type;
  const std::size_t d = out.sizes().size() - 2;
  const int64_t batch = d == 0 ? 1 : out.sizes()[0], m = out.sizes()[d], n = out.sizes()[d + 1], k = a.sizes()[d + 1];
  const auto matrix_of = [d](const Tensor& t, int64_t i) {
    return static_cast<T*>(t.data_ptr()) + (d == 0 ? 0 : i * t.strides()[0]);
  };
  constexpr int64_t kColumns = 256, kRowsAtOnce = 32;
  const int64_t blocks = (n + kColumns - 1) / kColumns, bands = (m + kRowsAtOnce - 1) / kRowsAtOnce;
  const W scale = static_cast<W>(alpha.to<T>()), keep = static_cast<W>(beta.to<T>());
  const int64_t work = std::min(n, kColumns) * std::min(m, kRowsAtOnce) * std::max<int64_t>(k, 1);
  parallel_for(0, batch * blocks * bands, std::max<int64_t>(1, 100000 / work), [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      const int64_t i = t / (blocks * bands), j0 = t / bands % blocks * kColumns, r0 = t % bands * kRowsAtOnce;
      const int64_t columns = std::min(kColumns, n - j0), rows = std::min(kRowsAtOnce, m - r0);
      const T *const am = matrix_of(a, i), *const bm = matrix_of(b, i);
      Scratch<W> memory(rows * columns + columns, 2);
      W *const sums = memory.data(), *const row = sums + rows * columns;
      for (int64_t q = 0; q < rows * columns; ++q) sums[q] = W(0);
      for (int64_t p = 0; p < k; ++p) {
        const T* const from = bm + p * b.strides()[d] + j0 * b.strides()[d + 1];
        for (int64_t j = 0; j < columns; ++j) row[j] = static_cast<W>(from[j * b.strides()[d + 1]]);
        const T* const column = am + r0 * a.strides()[d] + p * a.strides()[d + 1];
        for (int64_t r = 0; r < rows; ++r)
          add_scaled(sums + r * columns, static_cast<W>(column[r * a.strides()[d]]), row, columns);
      }
      T* const c = matrix_of(out, i);
      const T* const s = self.defined() ? matrix_of(self, i) : nullptr;
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t j = 0; j < columns; ++j) {
          W v = static_cast<W>(scale * sums[r * columns + j]);
          if (s)
            v = static_cast<W>(
                v + keep * static_cast<W>(s[(r0 + r) * self.strides()[d] + (j0 + j) * self.strides()[d + 1]]));
          c[(r0 + r) * out.strides()[d] + (j0 + j) * out.strides()[d + 1]] = static_cast<T>(v);
        }
    }
  });
}

using PlainTypes = Join<Integers, Complexes>;
TENON_REGISTER_SIMD_KERNEL(op::mm, PlainTypes, plain_product);
TENON_REGISTER_SIMD_KERNEL(op::bmm, PlainTypes, plain_product);
TENON_REGISTER_SIMD_KERNEL(op::addmm, PlainTypes, plain_product);
TENON_REGISTER_SIMD_KERNEL(op::baddbmm, PlainTypes, plain_product);

}  // namespace tenon::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tenon::cpu {
namespace {

// A float32 copy with the sizes of `t`, dense, the contiguous dimension staying contiguous.
Tensor widened(const Tensor& t) {
  const std::size_t rank = t.sizes().size();
  const bool columns = t.strides()[rank - 1] != 1 && t.strides()[rank - 2] == 1;  // a transposed view
  const std::size_t inner = columns ? rank - 2 : rank - 1, outer = columns ? rank - 1 : rank - 2;
  const int64_t run = t.sizes()[inner], lines = t.sizes()[outer], batch = rank == 3 ? t.sizes()[0] : 1;
  DimVector strides(rank, 0);
  strides[inner] = 1;
  strides[outer] = run;
  if (rank == 3) strides[0] = run * lines;
  const Tensor wide = dispatch::make_tensor(t.sizes(), kFloat32, t.device(), strides);
  auto* const to = static_cast<float*>(wide.data_ptr());
  const auto* const from = static_cast<const uint16_t*>(t.data_ptr());
  const int64_t step = t.strides()[inner];
  parallel_for(0, batch * lines, std::max<int64_t>(1, kGrain / std::max<int64_t>(run, 1)),
               [&](int64_t begin, int64_t end) {
                 for (int64_t l = begin; l < end; ++l) {
                   const uint16_t* const line =
                       from + (rank == 3 ? l / lines * t.strides()[0] : 0) + l % lines * t.strides()[outer];
                   if (step == 1)
                     small_to_float(to + l * run, line, t.dtype(), run);
                   else
                     for (int64_t i = 0; i < run; ++i) small_to_float(to + l * run + i, line + i * step, t.dtype(), 1);
                 }
               });
  return wide;
}

template <class T>
void half_product(const Tensor& out, const Tensor& self, const Tensor& a, const Tensor& b, const Scalar& beta,
                  const Scalar& alpha) {
  const Tensor sums = dispatch::make_tensor(out.sizes(), kFloat32, out.device());
  op::bmm.kernel(Backend::cpu, dispatch::key_of(kFloat32))(sums, Tensor(), widened(a), widened(b), 0, 1);
  const std::size_t rank = out.sizes().size();
  const int64_t n = out.sizes()[rank - 1], rows = out.sizes()[rank - 2], lines = out.numel() / n;
  const float scale = alpha.to<float>(), keep = beta.to<float>();
  float* const sum = static_cast<float*>(sums.data_ptr());
  const auto line_of = [&](const Tensor& t, int64_t l) {
    return static_cast<T*>(t.data_ptr()) + (rank == 3 ? l / rows * t.strides()[0] : 0) +
           l % rows * t.strides()[rank - 2];
  };
  parallel_for(0, lines, std::max<int64_t>(1, kGrain / n), [&](int64_t begin, int64_t end) {
    for (int64_t l = begin; l < end; ++l) {
      float* const v = sum + l * n;
      if (scale != 1)
        for (int64_t j = 0; j < n; ++j) v[j] *= scale;
      if (self.defined()) {
        const T* const s = line_of(self, l);
        const int64_t step = self.strides()[rank - 1];
        for (int64_t j = 0; j < n; ++j) v[j] += keep * static_cast<float>(s[j * step]);
      }
      T* const c = line_of(out, l);
      const int64_t step = out.strides()[rank - 1];
      if (step == 1)
        float_to_small(c, out.dtype(), v, n);
      else
        for (int64_t j = 0; j < n; ++j) c[j * step] = T(v[j]);
    }
  });
}
TENON_REGISTER_KERNEL(op::mm, cpu, Halves, half_product);
TENON_REGISTER_KERNEL(op::bmm, cpu, Halves, half_product);
TENON_REGISTER_KERNEL(op::addmm, cpu, Halves, half_product);
TENON_REGISTER_KERNEL(op::baddbmm, cpu, Halves, half_product);

}  // namespace
}  // namespace tenon::cpu
#endif
