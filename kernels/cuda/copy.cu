// SPDX-License-Identifier: Apache-2.0
// copy within one device. Elements of one dtype move as words: through tiles when the two sides are contiguous along
// different dimensions, else in the element loop. Conversions are keyed on the result's dtype and switch the source's
// here: pairs that training meets have vector loops of their own, all others (and all strided ones) share one kernel
// per result dtype, which switches per block.
#include <tenon/ops/copy.h>
#include <tenon/kernels/cuda/loops.cuh>
#include <tenon/kernels/cuda/scalar.cuh>
#include <tenon/kernels/cuda/transpose.cuh>

namespace tenon {
namespace {

using CopyTypes = Join<AllTypes, Float8s>;

// Sets up a transpose; false when the plan is not one, or too thin to fill tiles.
bool make_transpose(cuda::TransposeArgs& p, unsigned& blocks, bool& vectors, const LoopPlan& plan) {
  const int64_t size = item_size(plan.dtype[0]);
  const int64_t *out = plan.strides[0], *in = plan.strides[1];
  if (plan.ndim < 2 || out[0] != size || in[0] == size || in[0] == 0) return false;
  int y = 1;
  while (y < plan.ndim && in[y] != size) ++y;
  constexpr int64_t kThin = 16, kLimit = int64_t(1) << 31;
  if (y == plan.ndim || plan.shape[0] < kThin || plan.shape[y] < kThin) return false;
  if (plan.shape[0] >= kLimit || plan.shape[y] >= kLimit) return false;
  p.out = plan.data[0];
  p.in = plan.data[1];
  p.x = static_cast<uint32_t>(plan.shape[0]);
  p.y = static_cast<uint32_t>(plan.shape[y]);
  p.out_step = out[y];
  p.in_step = in[0];
  const auto aligned = [](int64_t v) { return v % 16 == 0; };
  const int64_t width = 16 / size;
  vectors = aligned(reinterpret_cast<intptr_t>(p.out)) && aligned(reinterpret_cast<intptr_t>(p.in)) &&
            aligned(p.out_step) && aligned(p.in_step) && p.x % width == 0 && p.y % width == 0;
  int64_t batch = 1;
  p.batch_ndim = 0;
  for (int d = 1; d < plan.ndim; ++d) {
    if (d == y) continue;
    const int b = p.batch_ndim++;
    batch *= plan.shape[d];
    if (plan.shape[d] >= kLimit) return false;
    p.batch_sizes[b] = cuda::Divider(static_cast<uint32_t>(plan.shape[d]));
    p.out_strides[b] = out[d];
    p.in_strides[b] = in[d];
    vectors = vectors && aligned(out[d]) && aligned(in[d]);
  }
  const int64_t side = size <= 4 ? 64 : 32;
  p.tiles_x = static_cast<uint32_t>(cuda::ceil_div(p.x, side));
  p.tiles_y = static_cast<uint32_t>(cuda::ceil_div(p.y, side));
  const int64_t tiles = int64_t(p.tiles_x) * p.tiles_y;
  if (tiles * batch >= kLimit) return false;
  p.tiles = cuda::Divider(static_cast<uint32_t>(tiles));
  blocks = static_cast<unsigned>(tiles * batch);
  return true;
}

template <int Bytes>
void move_words(const LoopPlan& plan) {
  cuda::TransposeArgs p;
  unsigned blocks = 0;
  bool vectors = false;
  if (make_transpose(p, blocks, vectors, plan))
    cuda::detail::launch_transpose<Bytes>(p, blocks, vectors);
  else
    cuda::elementwise(plan, cuda::Identity<cuda::word_t<Bytes>>{});
}

// Compiled once, not per dtype.
void move(const LoopPlan& plan) {
  switch (item_size(plan.dtype[0])) {
    case 1:
      return move_words<1>(plan);
    case 2:
      return move_words<2>(plan);
    case 4:
      return move_words<4>(plan);
    case 8:
      return move_words<8>(plan);
    default:
      return move_words<16>(plan);
  }
}

template <class To, class From>
struct Convert {
  __device__ To operator()(From x) const { return cuda::convert<To>(x); }
};

template <class T, class... Ts>
constexpr bool one_of() {
  return (std::is_same_v<T, Ts> || ...);
}

// Pairs with a vector loop of their own.
template <class To, class From>
constexpr bool is_common() {
  constexpr bool training = one_of<To, float, float16, bfloat16>() && one_of<From, float, float16, bfloat16>();
  constexpr bool to_float = one_of<To, float>() && one_of<From, double, int64_t, int32_t, uint8_t, bool>();
  constexpr bool from_float = one_of<From, float>() && one_of<To, double, int64_t, int32_t, uint8_t, bool>();
  constexpr bool eights = (one_of<To, float8_e4m3fn, float8_e5m2>() && one_of<From, float, float16, bfloat16>()) ||
                          (one_of<From, float8_e4m3fn, float8_e5m2>() && one_of<To, float, float16, bfloat16>());
  constexpr bool masks = one_of<To, float16, bfloat16, int64_t>() && one_of<From, bool, uint8_t>();
  constexpr bool integers = (one_of<To, int64_t>() && one_of<From, int32_t>()) ||
                            (one_of<To, int32_t>() && one_of<From, int64_t>()) ||
                            (one_of<To, bool>() && one_of<From, uint8_t, int64_t>());
  return training || to_float || from_float || eights || masks || integers;
}

constexpr int kConvertUnroll = 4;

// Any source dtype, any strides: the switch is uniform, loads stay coalesced where the plan is.
template <class To>
__global__ void __launch_bounds__(cuda::kLoopThreads)
    convert_kernel(const __grid_constant__ cuda::LoopArgs<2> p, const DType from) {
  constexpr int U = kConvertUnroll;
  const cuda::detail::Walk<1, U, 2> walk(p);
  To y[U];
  auto load = [&](auto tag) {
    using From = typename decltype(tag)::type;
    From x[U];
#pragma unroll
    for (int u = 0; u < U; ++u)
      x[u] = walk.index[u] < p.vectors ? *reinterpret_cast<const From*>(p.data[1] + walk.offset[u][1]) : From{};
#pragma unroll
    for (int u = 0; u < U; ++u) y[u] = cuda::convert<To>(x[u]);
  };
  switch (from) {
    case kUInt8:
      load(TypeTag<uint8_t>{});
      break;
    case kInt8:
      load(TypeTag<int8_t>{});
      break;
    case kInt16:
      load(TypeTag<int16_t>{});
      break;
    case kInt32:
      load(TypeTag<int32_t>{});
      break;
    case kInt64:
      load(TypeTag<int64_t>{});
      break;
    case kFloat16:
      load(TypeTag<float16>{});
      break;
    case kBFloat16:
      load(TypeTag<bfloat16>{});
      break;
    case kFloat32:
      load(TypeTag<float>{});
      break;
    case kFloat64:
      load(TypeTag<double>{});
      break;
    case kComplex64:
      load(TypeTag<complex<float>>{});
      break;
    case kComplex128:
      load(TypeTag<complex<double>>{});
      break;
    case kBool:
      load(TypeTag<bool>{});
      break;
    case kFloat8_e4m3fn:
      load(TypeTag<float8_e4m3fn>{});
      break;
    case kFloat8_e5m2:
      load(TypeTag<float8_e5m2>{});
      break;
    default:
      return;
  }
#pragma unroll
  for (int u = 0; u < U; ++u)
    if (walk.index[u] < p.vectors) *reinterpret_cast<To*>(p.data[0] + walk.offset[u][0]) = y[u];
}

template <class To, class From>
bool try_vectors(const cuda::LoopRange& range) {
  constexpr int W = static_cast<int>(16 / (sizeof(To) > sizeof(From) ? sizeof(To) : sizeof(From)));
  cuda::LoopArgs<2> p;
  if (!cuda::make_args(p, range, W)) return false;
  using F = Convert<To, From>;
  cuda::detail::launch_elementwise<W, cuda::detail::unroll<F, W, 1>(), F, To, From>(p, F{});
  return true;
}

template <class To>
void copy_cuda(const LoopPlan& plan) {
  if (plan.numel == 0) return;
  if (plan.dtype[0] == plan.dtype[1]) return move(plan);
  const DType from = plan.dtype[1];
  cuda::for_each_32bit(plan, [&](const cuda::LoopRange& range) {
    bool done = false;
    CopyTypes::for_each([&](auto tag) {
      using From = typename decltype(tag)::type;
      if constexpr (is_common<To, From>() && !std::is_same_v<To, From>) {
        if (dtype_of<From>() == from) done = try_vectors<To, From>(range);
      }
    });
    if (done) return;
    cuda::LoopArgs<2> p;
    cuda::make_args(p, range, 1);
    cuda::launch(convert_kernel<To>, cuda::detail::walk_blocks(p, kConvertUnroll), cuda::kLoopThreads, 0, p, from);
  });
}

TENON_REGISTER_KERNEL(op::copy, cuda, CopyTypes, copy_cuda);

}  // namespace
}  // namespace tenon
