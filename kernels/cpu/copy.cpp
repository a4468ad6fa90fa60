// SPDX-License-Identifier: Apache-2.0
// copy: moves bytes when both sides have one dtype, else converts. The cell is the destination's dtype, the source's is
// switched here. 16-bit and 8-bit floats go through float32 (run_plan does that), so they add no loops of their own.
// Copies are bound by memory, so all of it is compiled once, for the baseline.
#include <tenon/kernels/cpu/convert.h>
#include <tenon/kernels/cpu/loops.h>
#include <tenon/ops/copy.h>

#include <cstring>

namespace tenon::cpu {
namespace {

template <int64_t kSize>
void copy_dense(const void*, char* const* data, int64_t n) {
  if (data[0] != data[1]) std::memcpy(data[0], data[1], static_cast<std::size_t>(n * kSize));
}

void move(const LoopPlan& plan) {
  const int64_t size = item_size(plan.dtype[0]);
  // The result is dense along dimension 0 and the source along dimension 1: transpose block by block. A block is built
  // in the first-level cache and then written row by row, because rows of the result may all fall into one cache set.
  if (plan.ndim >= 2 && plan.strides[0][0] == size && plan.strides[1][1] == size && plan.shape[0] >= 8 &&
      plan.shape[1] >= 8) {
    const int64_t block_rows = 256 / size, block_columns = 256 / size;
    const int64_t bands = (plan.shape[0] + block_columns - 1) / block_columns,
                  planes = plan.numel / (plan.shape[0] * plan.shape[1]);
    const int64_t grain = kGrain / (block_columns * plan.shape[1]);
    const bool streams = plan.numel * size >= kStreamBytes;
    return parallel_for(0, bands * planes, grain > 0 ? grain : 1, [&](int64_t b, int64_t e) {
      alignas(64) char block[256 * 256];
      for (int64_t band = b; band < e; ++band) {
        char *to = plan.data[0], *from = plan.data[1];
        int64_t plane = band / bands;
        for (int d = 2; d < plan.ndim; plane /= plan.shape[d++]) {
          to += plane % plan.shape[d] * plan.strides[0][d];
          from += plane % plan.shape[d] * plan.strides[1][d];
        }
        const int64_t c = band % bands * block_columns;
        const int64_t columns = plan.shape[0] - c < block_columns ? plan.shape[0] - c : block_columns,
                      bytes = columns * size;
        for (int64_t r = 0; r < plan.shape[1]; r += block_rows) {  // down the rows: the source is read in order
          const int64_t rows = plan.shape[1] - r < block_rows ? plan.shape[1] - r : block_rows;
          move_transposed(block, bytes, from + r * size + c * plan.strides[1][0], plan.strides[1][0], size, rows,
                          columns);
          for (int64_t k = 0; k < rows; ++k) {
            char* target = to + (r + k) * plan.strides[0][1] + c * size;
            streams ? stream_bytes(target, block + k * bytes, bytes)
                    : void(std::memcpy(target, block + k * bytes, static_cast<std::size_t>(bytes)));
          }
        }
      }
      if (streams) end_stream();
    });
  }
  if (plan.contiguous && plan.strides[1][0] == size && plan.numel * size >= kStreamBytes &&
      plan.data[0] != plan.data[1])
    return parallel_for(0, plan.numel * size, kGrain * 4, [&](int64_t b, int64_t e) {
      stream_bytes(plan.data[0] + b, plan.data[1] + b, e - b);
      end_stream();
    });
  RunBody body{nullptr, nullptr, {plan.dtype[0], plan.dtype[0]}, kGrain};
  switch (size) {
    case 1:
      body.run = copy_dense<1>;
      break;
    case 2:
      body.run = copy_dense<2>;
      break;
    case 4:
      body.run = copy_dense<4>;
      break;
    case 8:
      body.run = copy_dense<8>;
      break;
    default:
      body.run = copy_dense<16>;
  }
  run_body(plan, body, 2);
}

// C++'s conversions, made total where PyTorch relies on them: floats reach small integers through a wider one and
// wrap; a complex number gives its real part; anything nonzero, NaN too, is true.
template <class D, class S>
D convert(S x) {
  if constexpr (std::is_same_v<D, bool>) {
    return x != S(0);
  } else if constexpr (is_complex_v<S>) {
    if constexpr (is_complex_v<D>)
      return D(x);
    else
      return convert<D>(x.re);
  } else if constexpr (is_complex_v<D>) {
    return D(static_cast<typename D::value_type>(x));
  } else if constexpr (std::is_floating_point_v<S> && std::is_integral_v<D> && sizeof(D) < 4) {
    using Wide = std::conditional_t<std::is_same_v<D, uint8_t>, int64_t, int32_t>;
    return static_cast<D>(static_cast<Wide>(x));
  } else {
    return static_cast<D>(x);
  }
}

// The types loops are made for: small floats are float here.
using LoopTypes = Join<Integers, Floats, Complexes, Bools>;

template <class T>
void copy_cpu(const LoopPlan& plan) {
  if (plan.dtype[0] == plan.dtype[1]) return move(plan);
  using D = compute_t<T>;
  const DType from = plan.dtype[1];
  if constexpr (std::is_same_v<T, D>) {
    const DType loop = is_half(from) || is_float8(from) ? kFloat32 : from;
    visit_dtype<LoopTypes>("copy", loop, [&](auto tag) {
      using S = typename decltype(tag)::type;
      elementwise(plan, [](S x) { return convert<D>(x); });
    });
  } else {
    copy_cpu<float>(plan);  // and run_plan rounds float32 to what the plan says
  }
}
using CopyTypes = Join<AllTypes, Float8s>;
TENON_REGISTER_KERNEL(op::copy, cpu, CopyTypes, copy_cpu);

}  // namespace
}  // namespace tenon::cpu
