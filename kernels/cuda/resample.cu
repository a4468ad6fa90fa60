// SPDX-License-Identifier: Apache-2.0
// Interpolation by one table of weights per dimension (kernels/grid_axes.h). A first kernel fills the tables, so that
// nothing comes from the host; then a thread makes an element of the result, or of the gradient by looking which elements
// of the result its own went into. uint8 goes dimension by dimension.
#include <tenon/kernels/cuda/divider.h>
#include <tenon/kernels/cuda/launch.h>
#include <tenon/kernels/cuda/workspace.h>
#include <tenon/kernels/grid_axes.h>
#include <tenon/ops/resample.h>
#include <tenon/kernels/cuda/vector.cuh>

#include <algorithm>
#include <vector>

namespace tenon {
namespace {

constexpr int kThreads = 256;

/// Entry i of the result: count[i] entries from first[i] on, weights at i * most. Entry j of the input went into entries
/// low[j] to high[j] of the result.
struct AxisTable {
  GridAxis axis;
  int64_t most;
  double* weights;
  int64_t *first, *count, *low, *high;
};
struct Tables {
  AxisTable axes[3];
};

__global__ void __launch_bounds__(kThreads) fill_tables(const __grid_constant__ Tables tables) {
  const AxisTable& t = tables.axes[blockIdx.y];
  for (int64_t i = int64_t(blockIdx.x) * kThreads + threadIdx.x; i < t.axis.out; i += int64_t(gridDim.x) * kThreads) {
    const grid::TapSpan span = grid::taps(t.axis, i, t.weights + i * t.most);
    t.first[i] = span.first;
    t.count[i] = span.count;
  }
}

// Where both ends of the spans, which never go back, pass j.
__global__ void __launch_bounds__(kThreads) find_users(const __grid_constant__ Tables tables) {
  const AxisTable& t = tables.axes[blockIdx.y];
  const auto search = [&](auto passed) {
    int64_t low = 0, high = t.axis.out;
    while (low < high) {
      const int64_t middle = low + (high - low) / 2;
      if (passed(middle))
        high = middle;
      else
        low = middle + 1;
    }
    return low;
  };
  for (int64_t j = int64_t(blockIdx.x) * kThreads + threadIdx.x; j < t.axis.in; j += int64_t(gridDim.x) * kThreads) {
    t.low[j] = search([&](int64_t i) { return t.first[i] + t.count[i] > j; });
    t.high[j] = search([&](int64_t i) { return t.first[i] > j; });
  }
}

struct TableMemory {
  cuda::Workspace memory;
  Tables tables;

  TableMemory(const Grid& grid, bool transposed) {
    int64_t bytes = 0, longest = 1, widest = 1;
    for (const GridAxis& a : grid.axes) {
      bytes += 8 * (a.out * (grid::most_taps(a) + 2) + (transposed ? 2 * a.in : 0));
      longest = std::max(longest, a.out), widest = std::max(widest, a.in);
    }
    char* at = memory.allocate(bytes);
    const auto take = [&](int64_t count) {
      char* const p = at;
      at += 8 * count;
      return p;
    };
    for (int k = 0; k < 3; ++k) {
      const GridAxis& a = grid.axes[k];
      AxisTable& t = tables.axes[k];
      t = {a, grid::most_taps(a), nullptr, nullptr, nullptr, nullptr, nullptr};
      t.weights = reinterpret_cast<double*>(take(a.out * t.most));
      t.first = reinterpret_cast<int64_t*>(take(a.out));
      t.count = reinterpret_cast<int64_t*>(take(a.out));
      if (!transposed) continue;
      t.low = reinterpret_cast<int64_t*>(take(a.in));
      t.high = reinterpret_cast<int64_t*>(take(a.in));
    }
    cuda::launch(fill_tables, dim3(blocks(longest), 3), kThreads, 0, tables);
    if (transposed) cuda::launch(find_users, dim3(blocks(widest), 3), kThreads, 0, tables);
  }
  static unsigned blocks(int64_t n) {
    return static_cast<unsigned>(std::min<int64_t>(cuda::ceil_div(n, kThreads), 1 << 16));
  }
};

// Place of element i among [outer][axes 0, 1, 2][inner].
struct Place {
  int64_t outer, at[3], inner;
};
struct Shape {
  int64_t inner, sizes[3];
  cuda::Divider dividers[4];  // innermost first
  bool wide;                  // 2^31 elements or more

  Shape(const Grid& grid, bool inputs, int64_t count) : inner(grid.inner), wide(count >= int64_t(1) << 31) {
    for (int k = 0; k < 3; ++k) sizes[k] = inputs ? grid.axes[k].in : grid.axes[k].out;
    if (wide) return;
    dividers[0] = cuda::Divider(static_cast<uint32_t>(inner));
    for (int k = 0; k < 3; ++k) dividers[1 + k] = cuda::Divider(static_cast<uint32_t>(sizes[2 - k]));
  }
  __device__ __forceinline__ Place place(int64_t i) const {
    Place p;
    const auto split = [&](int k, int64_t size, int64_t& rest) {
      const int64_t quotient = wide ? i / size : int64_t(dividers[k].quotient(static_cast<uint32_t>(i)));
      rest = i - quotient * size;
      i = quotient;
    };
    split(0, inner, p.inner);
    split(1, sizes[2], p.at[2]);
    split(2, sizes[1], p.at[1]);
    split(3, sizes[0], p.at[0]);
    p.outer = i;
    return p;
  }
};

// The entries that entry i of one side is made of, and their weights.
template <bool kTransposed>
__device__ __forceinline__ int64_t begin_of(const AxisTable& t, int64_t i) {
  return kTransposed ? t.low[i] : t.first[i];
}
template <bool kTransposed>
__device__ __forceinline__ int64_t end_of(const AxisTable& t, int64_t i) {
  return kTransposed ? t.high[i] : t.first[i] + t.count[i];
}
template <bool kTransposed>
__device__ __forceinline__ double weight_of(const AxisTable& t, int64_t i, int64_t j) {
  if (!kTransposed) return t.weights[i * t.most + j - t.first[i]];
  const int64_t k = i - t.first[j];
  return k >= 0 && k < t.count[j] ? t.weights[j * t.most + k] : 0;
}

template <class T, bool kTransposed>
__global__ void __launch_bounds__(kThreads)
    resample_kernel(T* out, const T* self, const int64_t count, const __grid_constant__ Shape shape,
                    const __grid_constant__ Tables tables) {
  using C = cuda::compute_t<T>;
  const AxisTable &tz = tables.axes[0], &ty = tables.axes[1], &tx = tables.axes[2];
  const int64_t in_z = kTransposed ? tz.axis.out : tz.axis.in, in_y = kTransposed ? ty.axis.out : ty.axis.in,
                in_x = kTransposed ? tx.axis.out : tx.axis.in;
  for (int64_t i = int64_t(blockIdx.x) * kThreads + threadIdx.x; i < count; i += int64_t(gridDim.x) * kThreads) {
    const Place p = shape.place(i);
    const int64_t z1 = end_of<kTransposed>(tz, p.at[0]), y1 = end_of<kTransposed>(ty, p.at[1]),
                  x0 = begin_of<kTransposed>(tx, p.at[2]), x1 = end_of<kTransposed>(tx, p.at[2]);
    C sum = 0;
    for (int64_t z = begin_of<kTransposed>(tz, p.at[0]); z < z1; ++z) {
      const double wz = weight_of<kTransposed>(tz, p.at[0], z);
      for (int64_t y = begin_of<kTransposed>(ty, p.at[1]); y < y1; ++y) {
        const C w = static_cast<C>(wz * weight_of<kTransposed>(ty, p.at[1], y));
        if (w == 0) continue;
        const T* const row = self + (((p.outer * in_z + z) * in_y + y) * in_x) * shape.inner + p.inner;
        C s = 0;
        for (int64_t x = x0; x < x1; ++x) {
          const C v = static_cast<C>(weight_of<kTransposed>(tx, p.at[2], x));
          if (v != 0) s += v * static_cast<C>(row[x * shape.inner]);
        }
        sum += w * s;
      }
    }
    out[i] = static_cast<T>(sum);
  }
}

unsigned grid_of(int64_t count) {
  return static_cast<unsigned>(std::min<int64_t>(cuda::ceil_div(count, kThreads), int64_t(1) << 22));
}

template <class T>
void resample_cuda(const Tensor& out, const Tensor& self, const Grid& grid, bool transposed) {
  const TableMemory memory(grid, transposed);
  const int64_t count = out.numel();
  const Shape shape(grid, transposed, count);
  cuda::launch(transposed ? resample_kernel<T, true> : resample_kernel<T, false>, grid_of(count), kThreads, 0,
               static_cast<T*>(out.data_ptr()), static_cast<const T*>(self.data_ptr()), count, shape, memory.tables);
}
TENON_REGISTER_KERNEL(op::resample, cuda, FloatsAndHalves, resample_cuda);

// One axis, `axis`, of bytes; weights have `bits` fractional bits.
__global__ void __launch_bounds__(kThreads)
    resample_bytes(uint8_t* out, const uint8_t* self, const int64_t count, const int64_t inner, const int bits,
                   const __grid_constant__ AxisTable t) {
  for (int64_t i = int64_t(blockIdx.x) * kThreads + threadIdx.x; i < count; i += int64_t(gridDim.x) * kThreads) {
    const int64_t c = i % inner, rest = i / inner, at = rest % t.axis.out, outer = rest / t.axis.out;
    const uint8_t* const x = self + (outer * t.axis.in + t.first[at]) * inner + c;
    int32_t sum = bits > 0 ? 1 << (bits - 1) : 0;
    for (int64_t k = 0; k < t.count[at]; ++k) {
      const double w = t.weights[at * t.most + k] * static_cast<double>(int64_t(1) << bits);
      sum += static_cast<int32_t>(w < 0 ? w - 0.5 : w + 0.5) * static_cast<int32_t>(x[k * inner]);
    }
    sum >>= bits;
    out[i] = static_cast<uint8_t>(sum < 0 ? 0 : sum > 255 ? 255 : sum);
  }
}

// As many fractional bits as fit a 16-bit number with the largest weight.
int fractional_bits(const GridAxis& a) {
  std::vector<double> w(static_cast<std::size_t>(grid::most_taps(a)));
  double largest = 0;
  for (int64_t i = 0; i < a.out; ++i) {
    const int64_t n = grid::taps(a, i, w.data()).count;
    for (int64_t k = 0; k < n; ++k) largest = std::max(largest, w[static_cast<std::size_t>(k)]);
  }
  int bits = 0;
  while (bits < 22 && 0.5 + largest * static_cast<double>(int64_t(1) << (bits + 1)) < 32768) ++bits;
  return bits;
}

// The last axis first. An axis of one size is left alone.
template <class T>
void resample_uint8_cuda(const Tensor& out, const Tensor& self, const Grid& grid, bool) {
  const TableMemory memory(grid, false);
  cuda::Workspace held[2];
  const auto* from = static_cast<const uint8_t*>(self.data_ptr());
  int64_t sizes[3] = {grid.axes[0].in, grid.axes[1].in, grid.axes[2].in}, inner = grid.inner;
  int left = 0;
  for (const GridAxis& a : grid.axes) left += a.in != a.out;
  if (left == 0) Tensor(out).copy_(self);
  for (int k = 2; k >= 0; inner *= sizes[k--]) {
    const GridAxis& a = grid.axes[k];
    if (a.in == a.out) continue;
    sizes[k] = a.out;
    const int64_t count = grid.outer * sizes[0] * sizes[1] * sizes[2] * grid.inner;
    cuda::Workspace& space = held[left % 2];
    auto* const to =
        reinterpret_cast<uint8_t*>(--left > 0 ? space.allocate(count) : static_cast<char*>(out.data_ptr()));
    cuda::launch(resample_bytes, grid_of(count), kThreads, 0, to, from, count, inner, fractional_bits(a),
                 memory.tables.axes[k]);
    from = to;
  }
}
TENON_REGISTER_KERNEL(op::resample, cuda, Types<uint8_t>, resample_uint8_cuda);

}  // namespace
}  // namespace tenon
