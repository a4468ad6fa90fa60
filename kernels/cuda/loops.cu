// SPDX-License-Identifier: Apache-2.0
// The host's half of element loops and reductions: from a plan to kernel parameters and launch shapes, compiled once
// for all operators.
#include <tenon/kernels/cuda/loops.cuh>
#include <tenon/kernels/cuda/reduce.cuh>

namespace tenon::cuda {

template <int N>
bool make_args(LoopArgs<N>& p, const LoopRange& range, int width) {
  const LoopPlan& plan = *range.plan;
  const int ndim = plan.ndim > 0 ? plan.ndim : 1;
  const int64_t inner = plan.ndim > 0 ? range.shape[0] : 1;
  p.splat = 0;
  p.numbers = plan.numbers;
  p.ndim = ndim;
  p.rows = 0;

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
    const int64_t columns = inner / width;
    p.sizes[0] = Divider(static_cast<uint32_t>(columns));
    for (int d = 1; d + 1 < ndim; ++d) p.sizes[d] = Divider(static_cast<uint32_t>(range.shape[d]));
    // A row is cut into blocks, so it should fill them.
    if (columns % kLoopThreads == 0 || columns >= 4 * kLoopThreads) {
      p.rows = static_cast<uint32_t>(vectors / columns);
      p.segments = Divider(static_cast<uint32_t>(ceil_div(columns, kLoopThreads)));
    }
  }
  p.vectors = static_cast<uint32_t>(vectors);
  return true;
}

template TENON_API bool make_args<1>(LoopArgs<1>&, const LoopRange&, int);
template TENON_API bool make_args<2>(LoopArgs<2>&, const LoopRange&, int);
template TENON_API bool make_args<3>(LoopArgs<3>&, const LoopRange&, int);
template TENON_API bool make_args<4>(LoopArgs<4>&, const LoopRange&, int);
template TENON_API bool make_args<5>(LoopArgs<5>&, const LoopRange&, int);

// --- reductions ---------------------------------------------------------------------------------------------------
namespace {

constexpr int64_t kCountLimit = int64_t(1) << 30;  // elements per split
constexpr int64_t kMostSplits = 8192;

uint32_t log2_ceil(int64_t n) {
  uint32_t log = 0;
  while ((int64_t(1) << log) < n) ++log;
  return log;
}
int64_t absolute(int64_t v) { return v < 0 ? -v : v; }
int64_t clamp(int64_t v, int64_t low, int64_t high) { return v < low ? low : v > high ? high : v; }

bool multiples(const int64_t* strides, int from, int to, int64_t bytes) {
  for (int d = from; d < to; ++d)
    if (strides[d] % bytes != 0) return false;
  return true;
}
bool aligned(const void* p, int64_t bytes) {
  return reinterpret_cast<uintptr_t>(p) % static_cast<uintptr_t>(bytes) == 0;
}

// Cuts the reduced range into about `wanted` splits of a multiple of `granule` elements.
void choose_splits(ReduceArgs& p, const ReducePlan& plan, int64_t wanted, int64_t granule) {
  const int64_t n = plan.reduced_numel;
  p.split_bytes = 0;
  p.split_start = 0;
  wanted = clamp(wanted, 1, kMostSplits);
  if (plan.reduced_ndim > 1 && n >= 2 * kCountLimit) {  // too many to number them: whole slices of the outermost
    const int outer = plan.reduced_ndim - 1;
    const int64_t size = plan.reduced_shape[outer], inner = n / size;
    TENON_CHECK(inner < kCountLimit, ShapeError, "reduction: more than 2^30 strided elements in one slice");
    const int64_t slices = clamp(ceil_div(size, wanted), ceil_div(size, kMostSplits), kCountLimit / inner);
    p.chunk = slices * inner;
    p.split_bytes = slices * plan.reduced_strides[outer];
    p.splits = static_cast<uint32_t>(ceil_div(size, slices));
    return;
  }
  if (wanted < ceil_div(n, kCountLimit)) wanted = ceil_div(n, kCountLimit);
  p.chunk = wanted == 1 ? (n > 0 ? n : 1) : ceil_div(ceil_div(n, wanted), granule) * granule;
  p.splits = n > 0 ? static_cast<uint32_t>(ceil_div(n, p.chunk)) : 1;
  if (plan.reduced_ndim == 1) p.split_bytes = p.chunk * plan.reduced_strides[0];
  if (plan.reduced_ndim > 1) p.split_start = p.splits > 1 ? static_cast<uint32_t>(p.chunk) : 0;
}

}  // namespace

void plan_reduce(ReduceLaunch& launch, const ReduceRange& range, int width, int column_width) {
  const ReducePlan& plan = *range.plan;
  const int64_t size = item_size(plan.input_dtype), n = plan.reduced_numel, kept = range.kept_numel;
  const int kd = plan.kept_ndim, rd = plan.reduced_ndim;
  const int sms = device_limits().multiprocessors;
  const bool row = rd > 0 && plan.reduced_strides[0] == size;
  bool columns = false;
  if (kd > 0 && !row) {
    const int64_t step = plan.kept_strides[0];
    columns = rd == 0 || step == size || absolute(step) < absolute(plan.reduced_strides[0]);
  }
  bool vectors;
  if (columns) {
    const int64_t bytes = size * column_width;
    vectors = column_width > 1 && plan.kept_strides[0] == size && range.kept_shape[0] % column_width == 0 &&
              aligned(range.input, bytes) && multiples(plan.kept_strides, 1, kd, bytes) &&
              multiples(plan.reduced_strides, 0, rd, bytes);
  } else {
    vectors = width > 1 && row && n >= 2 * width &&
              (rd == 1 || (plan.reduced_shape[0] % width == 0 && aligned(range.input, 16) &&
                           multiples(plan.reduced_strides, 1, rd, 16) && multiples(plan.kept_strides, 0, kd, 16)));
  }
  launch.columns = columns;
  launch.vectors = vectors;

  ReduceArgs& p = launch.args;
  p.input = range.input;
  p.partial = nullptr;
  p.reduced = n;
  p.kept = static_cast<uint32_t>(kept);
  p.kept_ndim = kd;
  p.reduced_ndim = rd > 0 ? rd : 1;
  const int kept_width = columns && vectors ? column_width : 1, reduced_width = !columns && vectors ? width : 1;
  launch.kept_width = kept_width;
  for (int d = 0; d < kd; ++d) {
    const int w = d == 0 ? kept_width : 1;
    if (d + 1 < kd) p.kept_sizes[d] = Divider(static_cast<uint32_t>(range.kept_shape[d] / w));
    p.kept_strides[d] = plan.kept_strides[d] * w;
    for (int o = 0; o < plan.outputs; ++o) p.output_strides[o][d] = plan.output_strides[o][d] * w;
  }
  for (int o = 0; o < 2; ++o) p.output[o] = o < plan.outputs ? range.output[o] : nullptr;
  p.reduced_strides[0] = size;
  for (int d = 0; d < rd; ++d) {
    const int w = d == 0 ? reduced_width : 1;
    if (d + 1 < rd && n > 0) p.reduced_sizes[d] = Divider(static_cast<uint32_t>(plan.reduced_shape[d] / w));
    p.reduced_strides[d] = plan.reduced_strides[d] * w;
  }

  // Splits are many, so that the last blocks to run cost little; but a split costs a second kernel, so short work is
  // not split. `turns`: how often a thread goes round its loop without splits.
  if (columns) {
    const int64_t count = kept / kept_width;
    uint32_t down = static_cast<uint32_t>(clamp(log2_ceil(ceil_div(n, 4)), 0, 3)), across = 8 - down;
    while (across > 0 && (int64_t(1) << (across - 1)) >= count) --across, ++down;
    while (across > 3 && (count >> across) < sms && n > (int64_t(4) << down)) --across, ++down;  // rather more blocks
    p.group_log2 = across;
    const int64_t blocks = ceil_div(count, int64_t(1) << across), rows = int64_t(4) << down, turns = n / rows;
    int64_t splits = 1;
    if (blocks < 4 * sms && turns >= 12) splits = clamp(16 * sms / blocks, 1, turns / 3);
    choose_splits(p, plan, splits, rows);
    launch.grid = dim3(static_cast<unsigned>(blocks), p.splits);
    return;
  }
  const int64_t units = ceil_div(n, reduced_width);
  const bool few = kept * 32 < int64_t(sms) * 512;
  const bool block = units >= 512 || (few && units >= 128);
  p.group_log2 = block ? 8 : static_cast<uint32_t>(clamp(log2_ceil(units), 0, 5));
  const int64_t blocks = ceil_div(kept, kReduceThreads >> p.group_log2), granule = int64_t(kReduceThreads) * 4;
  const int64_t turns = units / granule;
  int64_t splits = 1;
  if (block && blocks < 4 * sms && turns >= 12) splits = clamp(32 * sms / blocks, 1, turns / 3);
  choose_splits(p, plan, splits, granule * reduced_width);
  launch.grid = dim3(static_cast<unsigned>(blocks), p.splits);
}

void plan_combine(ReduceLaunch& launch) {
  ReduceArgs& p = launch.args;
  p.partial = nullptr;
  if (launch.kept_width > 1) {  // count the results one by one again
    if (p.kept_ndim > 1) p.kept_sizes[0] = Divider(p.kept_sizes[0].size * static_cast<uint32_t>(launch.kept_width));
    for (int o = 0; o < 2; ++o)
      if (p.output[o]) p.output_strides[o][0] /= launch.kept_width;
  }
  const int64_t enough = int64_t(device_limits().multiprocessors) * kReduceThreads;
  p.group_log2 = p.kept >= enough ? 0 : p.splits >= 256 ? 8 : log2_ceil(p.splits < 32 ? p.splits : 32);
  launch.grid = dim3(static_cast<unsigned>(ceil_div(p.kept, kReduceThreads >> p.group_log2)));
}

namespace {
void cut_range(const ReduceRange& range, void (*f)(const ReduceRange&, const void*), const void* context) {
  if (range.kept_numel < 2 * kCountLimit) return f(range, context);
  const ReducePlan& plan = *range.plan;
  int widest = 0;
  for (int d = 1; d < plan.kept_ndim; ++d)
    if (range.kept_shape[d] > range.kept_shape[widest]) widest = d;
  const int64_t size = range.kept_shape[widest], half = size > 2048 ? ceil_div(size / 2, 1024) * 1024 : size / 2;
  ReduceRange part = range;
  part.kept_shape[widest] = half;
  part.kept_numel = range.kept_numel / size * half;
  cut_range(part, f, context);
  part.kept_shape[widest] = size - half;
  part.kept_numel = range.kept_numel - part.kept_numel;
  part.input += half * plan.kept_strides[widest];
  for (int o = 0; o < plan.outputs; ++o) part.output[o] += half * plan.output_strides[o][widest];
  cut_range(part, f, context);
}
}  // namespace

void for_each_range(const ReducePlan& plan, void (*f)(const ReduceRange&, const void*), const void* context) {
  if (plan.kept_numel == 0) return;
  ReduceRange range;
  range.plan = &plan;
  range.kept_numel = plan.kept_numel;
  for (int d = 0; d < plan.kept_ndim; ++d) range.kept_shape[d] = plan.kept_shape[d];
  range.input = plan.input;
  for (int o = 0; o < 2; ++o) range.output[o] = o < plan.outputs ? plan.output[o] : nullptr;
  cut_range(range, f, context);
}

}  // namespace tenon::cuda
