// SPDX-License-Identifier: Apache-2.0
// The host's half of the element loops: from a plan to kernel parameters, compiled once for all operators.
#include <tenon/kernels/cuda/loops.cuh>

namespace tenon::cuda {

template <int N>
bool make_args(LoopArgs<N>& p, const LoopRange& range, int width) {
  const LoopPlan& plan = *range.plan;
  const int ndim = plan.ndim > 0 ? plan.ndim : 1;
  const int64_t inner = plan.ndim > 0 ? range.shape[0] : 1;
  p.splat = 0;
  p.numbers = plan.numbers;
  p.ndim = ndim;

  // Elements by which the addresses miss the vectors' alignment: one dimension may start inside a vector, if all
  // operands do so alike.
  int64_t missing = -1;
  for (int k = 0; k < N; ++k) {
    p.data[k] = range.data[k];
    if (plan.is_number(k)) {
      __builtin_memcpy(p.number[k], plan.number[k], 16);
      for (int d = 0; d < ndim; ++d) p.stride[k][d] = 0;
      continue;
    }
    const int64_t size = item_size(plan.dtype[k]);
    const int64_t step = plan.ndim > 0 ? plan.strides[k][0] : size;
    for (int d = 1; d < ndim; ++d) p.stride[k][d] = static_cast<int32_t>(plan.strides[k][d]);
    p.stride[k][0] = static_cast<int32_t>(step * width);
    if (width == 1) continue;
    if (step == 0 && k >= plan.outputs) {
      p.splat |= 1u << k;
      continue;
    }
    if (step != size) return false;
    const int64_t bytes = size * width, past = static_cast<int64_t>(reinterpret_cast<uintptr_t>(p.data[k]) % bytes);
    if (past % size != 0) return false;
    if (missing < 0) missing = past / size;
    if (missing != past / size || (ndim > 1 && past != 0)) return false;
    for (int d = 1; d < ndim; ++d)
      if (plan.strides[k][d] % bytes != 0) return false;
  }
  if (missing < 0) missing = 0;
  if (ndim > 1 && inner % width != 0) return false;

  int64_t vectors = 0;
  if (ndim == 1) {
    p.lo = static_cast<uint32_t>(missing);
    p.hi = static_cast<uint32_t>(missing + range.numel);
    vectors = ceil_div(missing + range.numel, width);
    for (int k = 0; k < N && missing > 0; ++k)
      if (!plan.is_number(k) && !((p.splat >> k) & 1u)) p.data[k] -= missing * item_size(plan.dtype[k]);
  } else {
    p.lo = 0;
    p.hi = static_cast<uint32_t>(range.numel);
    vectors = range.numel / width;
    p.sizes[0] = Divider(static_cast<uint32_t>(inner / width));
    for (int d = 1; d + 1 < ndim; ++d) p.sizes[d] = Divider(static_cast<uint32_t>(range.shape[d]));
  }
  p.vectors = static_cast<uint32_t>(vectors);
  return true;
}

template TENON_API bool make_args<1>(LoopArgs<1>&, const LoopRange&, int);
template TENON_API bool make_args<2>(LoopArgs<2>&, const LoopRange&, int);
template TENON_API bool make_args<3>(LoopArgs<3>&, const LoopRange&, int);
template TENON_API bool make_args<4>(LoopArgs<4>&, const LoopRange&, int);
template TENON_API bool make_args<5>(LoopArgs<5>&, const LoopRange&, int);

}  // namespace tenon::cuda
