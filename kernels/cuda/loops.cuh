// SPDX-License-Identifier: Apache-2.0
// elementwise(plan, f): applies a device function to every element of a plan's operands, on the current stream.
// f(inputs...) -> output takes and returns element types (numbers become operands too); for two outputs it returns
// Two<A, B>. Written for the halves, f computes in float: they convert both ways by themselves.
//
// Note [One kernel per width]. A cell costs two kernels: vectors of up to 16 bytes, and single elements for what is
// strided or misaligned. Both walk up to kMaxDims dimensions; dimension 0 of the first counts in vectors, so a
// contiguous plan and a row or column broadcast are the same code, and a plan of one dimension divides nothing.
// Per operand, uniform branches choose between a vector, one value for the vector (stride 0) and a number.
//
// Note [Walking rows]. With long rows a thread's vectors lie below each other, not side by side: a row that is
// broadcast is then read from the cache by the same warp at once, and offsets of rows are the block's, not the thread's.
#pragma once

#include <tenon/kernels/cuda/divider.h>
#include <tenon/kernels/cuda/launch.h>
#include <tenon/kernels/cuda/split.h>
#include <tenon/kernels/cuda/vector.cuh>

#include <utility>

namespace tenon::cuda {

/// The results of a function with two outputs.
template <class A, class B>
struct Two {
  A first;
  B second;
};

/// A plan as a kernel parameter: N operands, outputs first.
template <int N>
struct LoopArgs {
  uint32_t vectors;  ///< to walk
  uint32_t lo, hi;   ///< the elements that exist, counted from the start of vector 0
  uint32_t rows;     ///< 0: vectors are numbered throughout; else as Note [Walking rows], and this many rows
  uint32_t splat;    ///< bit k: operand k has one value for all elements of a vector
  uint32_t numbers;  ///< bit k: operand k is number[k]
  int ndim;
  char* data[N];                ///< at vector 0, which may begin before the first element
  int32_t stride[N][kMaxDims];  ///< bytes; dimension 0 counts in vectors
  Divider sizes[kMaxDims];
  Divider segments;  ///< blocks a row takes
  alignas(16) unsigned char number[N][16];
};

/// Fills `p` for vectors of `width` elements; false when the operands' strides or addresses do not allow them.
template <int N>
TENON_API bool make_args(LoopArgs<N>& p, const LoopRange& range, int width);

inline constexpr int kLoopThreads = 256;

namespace detail {

template <class R>
struct Outputs {
  static constexpr int count = 1;
  static constexpr std::size_t widest = sizeof(R);
};
template <class A, class B>
struct Outputs<Two<A, B>> {
  static constexpr int count = 2;
  static constexpr std::size_t widest = sizeof(A) > sizeof(B) ? sizeof(A) : sizeof(B);
};

template <class F>
struct Callable : Callable<decltype(&F::operator())> {};
template <class C, class R, class... As>
struct Callable<R (C::*)(As...) const> {
  using type = R(std::remove_cvref_t<As>...);
};

// Elements per vector: 16 bytes of the widest operand, or fewer for long functions, which say so by kWidth.
template <class F, int Widest>
constexpr int width() {
  if constexpr (requires { F::kWidth; }) return F::kWidth < 16 / Widest ? F::kWidth : 16 / Widest;
  return 16 / Widest;
}

// W * U elements a thread: enough loads in flight, without unrolling a function more than 16 times.
template <class F, int W, int Inputs>
constexpr int unroll() {
  if constexpr (requires { F::kUnroll; }) return F::kUnroll;
  constexpr int most = Inputs > 2 ? 2 : 4;
  return W * most <= 16 ? most : (W >= 16 ? 1 : 16 / W);
}

// What a thread walks: U vectors, their numbers (beyond p.vectors: none) and every operand's offset of each.
template <int W, int U, int N>
struct Walk {
  uint32_t index[U];
  int32_t offset[U][N];
  bool whole;  // uniform in the block: every vector of the tile is there with all elements, and no access needs a test

  __device__ __forceinline__ explicit Walk(const LoopArgs<N>& p) {
    uint32_t outer[U];
    if (p.rows == 0) {
      constexpr uint32_t kTile = kLoopThreads * U;
      const uint32_t tile = blockIdx.x * kTile;
      whole = tile * W >= p.lo && (tile + kTile) * W <= p.hi;
#pragma unroll
      for (int u = 0; u < U; ++u) {
        outer[u] = index[u] = tile + u * kLoopThreads + threadIdx.x;
#pragma unroll
        for (int k = 0; k < N; ++k) offset[u][k] = 0;
      }
      if (p.ndim > 1)
        step(p, 0, outer);
      else
        last(p, 0, outer);
    } else {
      const uint32_t group = p.segments.quotient(blockIdx.x), segment = blockIdx.x - group * p.segments.size;
      const uint32_t column = segment * kLoopThreads + threadIdx.x, columns = p.sizes[0].size;
      whole = (segment + 1) * kLoopThreads <= columns && (group + 1) * U <= p.rows;
#pragma unroll
      for (int u = 0; u < U; ++u) {
        outer[u] = group * U + u;
        index[u] = column < columns && outer[u] < p.rows ? outer[u] * columns + column : ~0u;
#pragma unroll
        for (int k = 0; k < N; ++k) offset[u][k] = static_cast<int32_t>(column) * p.stride[k][0];
      }
    }
    if (p.ndim < 2) return;
    if (p.ndim > 2) {
      step(p, 1, outer);
#pragma unroll 1
      for (int d = 2; d + 1 < p.ndim; ++d) step(p, d, outer);
    }
    last(p, p.ndim - 1, outer);
  }
  __device__ __forceinline__ bool exists(const LoopArgs<N>& p, int u, int w) const {
    const uint32_t e = index[u] * W + w;
    return index[u] < p.vectors && e >= p.lo && e < p.hi;
  }

 private:
  // Takes dimension d off the numbers.
  __device__ __forceinline__ void step(const LoopArgs<N>& p, int d, uint32_t (&outer)[U]) {
    const Divider size = p.sizes[d];
#pragma unroll
    for (int u = 0; u < U; ++u) {
      const uint32_t quotient = size.quotient(outer[u]), rest = outer[u] - quotient * size.size;
      outer[u] = quotient;
#pragma unroll
      for (int k = 0; k < N; ++k) offset[u][k] += static_cast<int32_t>(rest) * p.stride[k][d];
    }
  }
  __device__ __forceinline__ void last(const LoopArgs<N>& p, int d, const uint32_t (&outer)[U]) {
#pragma unroll
    for (int u = 0; u < U; ++u)
#pragma unroll
      for (int k = 0; k < N; ++k) offset[u][k] += static_cast<int32_t>(outer[u]) * p.stride[k][d];
  }
};

/// Blocks to launch for a Walk of U vectors a thread.
template <int N>
unsigned walk_blocks(const LoopArgs<N>& p, int U) {
  return static_cast<unsigned>(p.rows == 0 ? ceil_div(p.vectors, int64_t(kLoopThreads) * U)
                                           : ceil_div(p.rows, U) * p.segments.size);
}

template <int K, class T, int W, int U, int N>
__device__ __forceinline__ void load_operand(Vector<T, W> (&x)[U], const LoopArgs<N>& p, const Walk<W, U, N>& walk) {
  if ((p.numbers >> K) & 1u) {
    T value;
    memcpy(&value, p.number[K], sizeof(T));
#pragma unroll
    for (int u = 0; u < U; ++u)
#pragma unroll
      for (int w = 0; w < W; ++w) x[u].v[w] = value;
  } else if (W > 1 && ((p.splat >> K) & 1u)) {
    T value[U];
#pragma unroll
    for (int u = 0; u < U; ++u)
      value[u] = walk.index[u] < p.vectors ? *reinterpret_cast<const T*>(p.data[K] + walk.offset[u][K]) : T{};
#pragma unroll
    for (int u = 0; u < U; ++u)
#pragma unroll
      for (int w = 0; w < W; ++w) x[u].v[w] = value[u];
  } else if (walk.whole) {
#pragma unroll
    for (int u = 0; u < U; ++u) x[u] = load_vector<T, W>(p.data[K] + walk.offset[u][K]);
  } else {
#pragma unroll
    for (int u = 0; u < U; ++u)
#pragma unroll
      for (int w = 0; w < W; ++w)
        x[u].v[w] = walk.exists(p, u, w)
                        ? *reinterpret_cast<const T*>(p.data[K] + walk.offset[u][K] + w * static_cast<int>(sizeof(T)))
                        : T{};
  }
}

template <int K, class T, int W, int U, int N>
__device__ __forceinline__ void store_operand(const Vector<T, W> (&x)[U], const LoopArgs<N>& p,
                                              const Walk<W, U, N>& walk) {
  if (walk.whole) {
#pragma unroll
    for (int u = 0; u < U; ++u) store_vector<T, W>(p.data[K] + walk.offset[u][K], x[u]);
  } else {
#pragma unroll
    for (int u = 0; u < U; ++u)
#pragma unroll
      for (int w = 0; w < W; ++w)
        if (walk.exists(p, u, w))
          *reinterpret_cast<T*>(p.data[K] + walk.offset[u][K] + w * static_cast<int>(sizeof(T))) = x[u].v[w];
  }
}

// The vectors of all inputs, one member each.
template <int I, int W, int U, class T>
struct Slot {
  Vector<T, W> x[U];
};
template <int W, int U, class Sequence, class... As>
struct Slots;
template <int W, int U, std::size_t... I, class... As>
struct Slots<W, U, std::index_sequence<I...>, As...> : Slot<static_cast<int>(I), W, U, As>... {
  template <int First, int N>
  __device__ __forceinline__ void load(const LoopArgs<N>& p, const Walk<W, U, N>& walk) {
    (load_operand<First + static_cast<int>(I), As>(Slot<static_cast<int>(I), W, U, As>::x, p, walk), ...);
  }
  template <class F>
  __device__ __forceinline__ auto call(const F& f, int u, int w) const {
    return f(Slot<static_cast<int>(I), W, U, As>::x[u].v[w]...);
  }
};

template <int W, int U, class F, class R, int N, class... As>
__global__ void __launch_bounds__(kLoopThreads) elementwise_kernel(const __grid_constant__ LoopArgs<N> p, const F f) {
  const Walk<W, U, N> walk(p);
  if (walk.index[0] >= p.vectors) return;  // most of a small tensor's only block
  Slots<W, U, std::index_sequence_for<As...>, As...> in;
  in.template load<N - static_cast<int>(sizeof...(As))>(p, walk);
  if constexpr (Outputs<R>::count == 1) {
    Vector<R, W> y[U];
#pragma unroll
    for (int u = 0; u < U; ++u)
#pragma unroll
      for (int w = 0; w < W; ++w) y[u].v[w] = in.call(f, u, w);
    store_operand<0>(y, p, walk);
  } else {
    using A = decltype(R::first);
    using B = decltype(R::second);
    Vector<A, W> y[U];
    Vector<B, W> z[U];
#pragma unroll
    for (int u = 0; u < U; ++u)
#pragma unroll
      for (int w = 0; w < W; ++w) {
        const R r = in.call(f, u, w);
        y[u].v[w] = r.first;
        z[u].v[w] = r.second;
      }
    store_operand<0>(y, p, walk);
    store_operand<1>(z, p, walk);
  }
}

template <int W, int U, class F, class R, class... As, int N>
void launch_elementwise(const LoopArgs<N>& p, const F& f) {
  launch(elementwise_kernel<W, U, F, R, N, As...>, walk_blocks(p, U), kLoopThreads, 0, p, f);
}

template <class Signature>
struct Elementwise;
template <class R, class... As>
struct Elementwise<R(As...)> {
  template <class F>
  static void run(const LoopPlan& plan, const F& f) {
    constexpr int kInputs = static_cast<int>(sizeof...(As)), N = Outputs<R>::count + kInputs;
    constexpr std::size_t sizes[] = {Outputs<R>::widest, sizeof(As)...};
    constexpr auto widest = [](auto& list) {
      std::size_t most = 1;
      for (const std::size_t s : list) most = s > most ? s : most;
      return static_cast<int>(most);
    }(sizes);
    constexpr int W = width<F, widest>();
    static_assert(N <= 5, "elementwise: at most three inputs and two outputs");
    TENON_ASSERT(plan.operands == N && plan.outputs == Outputs<R>::count);
    for_each_32bit(plan, [&](const LoopRange& range) {
      LoopArgs<N> p;
      if (W > 1 && make_args(p, range, W)) {
        launch_elementwise<W, unroll<F, W, kInputs>(), F, R, As...>(p, f);
      } else {
        make_args(p, range, 1);
        launch_elementwise<1, unroll<F, 1, kInputs>(), F, R, As...>(p, f);
      }
    });
  }
};

}  // namespace detail

/// Moves words as they are (copies, fills).
template <class Word>
struct Identity {
  static constexpr int kUnroll = 4;
  __device__ Word operator()(Word x) const { return x; }
};

/// As below, for functions whose parameter types cannot be read from them: elementwise<float(float, float)>(plan, f).
template <class Signature, class F>
requires(std::is_function_v<Signature>) void elementwise(const LoopPlan& plan, const F& f) {
  detail::Elementwise<Signature>::run(plan, f);
}

/// Applies f to every element. Long functions may limit the code made of them: `static constexpr int kWidth` (elements
/// per vector) and `kUnroll` (vectors per thread) as members of f. The plan's operands must have f's types: outputs first, then inputs.
template <class F>
void elementwise(const LoopPlan& plan, const F& f) {
  detail::Elementwise<typename detail::Callable<F>::type>::run(plan, f);
}

}  // namespace tenon::cuda
