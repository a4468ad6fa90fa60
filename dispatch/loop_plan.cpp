// SPDX-License-Identifier: Apache-2.0
#include <tenon/dispatch/loop_plan.h>
#include <tenon/dispatch/reduce_plan.h>

#include <cstring>

namespace tenon {

LoopPlan::LoopPlan(const LoopPlan& o) {
  std::memcpy(static_cast<void*>(this), static_cast<const void*>(&o), sizeof o);
  for (int i = 0; i < operands; ++i) {
    if (is_number(i)) data[i] = reinterpret_cast<char*>(number[i]);
  }
}
namespace {

// Stride in bytes of dimension `d` of the common shape for one tensor: 0 where it broadcasts.
int64_t broadcast_stride(const Tensor& t, std::size_t d, std::size_t rank) {
  const std::size_t missing = rank - static_cast<std::size_t>(t.dim());
  if (d < missing) return 0;
  const std::size_t own = d - missing;
  return t.sizes()[own] == 1 ? 0 : t.strides()[own] * t.itemsize();
}

// Whether dimension `a` should be walked inside `b`: the first operand (outputs lead) with different nonzero
// strides decides; a tie keeps the logical order.
template <class Stride>
bool inner(int operands, int64_t size_a, int64_t size_b, int a, int b, Stride&& stride) {
  for (int i = 0; i < operands; ++i) {
    const int64_t sa = stride(i, a), sb = stride(i, b);
    if (sa == 0 || sb == 0) continue;
    const int64_t aa = sa < 0 ? -sa : sa, ab = sb < 0 ? -sb : sb;
    if (aa != ab) return aa < ab;
    if (size_a != size_b) return size_a < size_b;
  }
  return false;
}

}  // namespace

void make_plan(LoopPlan& plan, IntArrayRef shape, std::span<const PlanOperand> operands, int outputs) {
  TENON_ASSERT(operands.size() <= LoopPlan::kMaxOperands);
  const int n = static_cast<int>(operands.size());
  plan.operands = n;
  plan.outputs = outputs;
  plan.numbers = 0;
  int64_t numel = 1;
  for (const int64_t s : shape) numel *= s;
  plan.numel = numel;

  // Fast path: every tensor is contiguous with exactly this shape, or has one element.
  bool flat = true;
  for (int i = 0; i < n; ++i) {
    const PlanOperand& o = operands[i];
    if (!o.tensor) {
      plan.numbers |= 1u << i;
      plan.dtype[i] = o.dtype;
      o.number->store(o.dtype, plan.number[i]);
      plan.data[i] = reinterpret_cast<char*>(plan.number[i]);
      continue;
    }
    plan.dtype[i] = o.tensor->dtype();
    plan.data[i] = static_cast<char*>(o.tensor->data_ptr());
    const bool same = o.tensor->is_contiguous() && o.tensor->numel() == numel;
    flat = flat && (same || (i >= outputs && o.tensor->numel() == 1));
  }
  if (flat) {
    plan.ndim = 1;
    plan.contiguous = true;
    plan.shape[0] = numel;
    for (int i = 0; i < n; ++i) {
      const bool one = !operands[i].tensor || (i >= outputs && operands[i].tensor->numel() == 1 && numel != 1);
      plan.strides[i][0] = one ? 0 : item_size(plan.dtype[i]);
    }
    return;
  }

  const std::size_t rank = shape.size();
  int order[kMaxDims];  // logical dimensions, innermost first
  for (std::size_t d = 0; d < rank; ++d) order[d] = static_cast<int>(rank - 1 - d);
  int64_t logical[LoopPlan::kMaxOperands][kMaxDims];
  for (int i = 0; i < n; ++i)
    for (std::size_t d = 0; d < rank; ++d)
      logical[i][d] = operands[i].tensor ? broadcast_stride(*operands[i].tensor, d, rank) : 0;
  auto stride = [&](int i, int d) { return logical[i][d]; };
  for (std::size_t i = 1; i < rank; ++i)  // insertion sort: ranks are small and mostly ordered
    for (std::size_t j = i; j > 0 && inner(n, shape[order[j]], shape[order[j - 1]], order[j], order[j - 1], stride);
         --j)
      std::swap(order[j], order[j - 1]);

  int dims = 0;
  for (std::size_t k = 0; k < rank; ++k) {
    const int d = order[k];
    const int64_t size = shape[d];
    if (size == 1) continue;
    if (dims > 0) {
      bool merge = true;
      for (int i = 0; i < n && merge; ++i) merge = plan.strides[i][dims - 1] * plan.shape[dims - 1] == logical[i][d];
      if (merge) {
        plan.shape[dims - 1] *= size;
        continue;
      }
    }
    plan.shape[dims] = size;
    for (int i = 0; i < n; ++i) plan.strides[i][dims] = logical[i][d];
    ++dims;
  }
  plan.ndim = dims;
  plan.contiguous = dims <= 1;
  if (dims == 0) {
    plan.ndim = 1;
    plan.shape[0] = numel;
    for (int i = 0; i < n; ++i) plan.strides[i][0] = plan.is_number(i) ? 0 : item_size(plan.dtype[i]);
    return;
  }
  for (int i = 0; i < n && plan.contiguous; ++i)
    plan.contiguous = plan.strides[i][0] == item_size(plan.dtype[i]) || (i >= outputs && plan.strides[i][0] == 0);
}

void make_plan(ReducePlan& plan, const Tensor& input, std::span<const Tensor> outputs, uint32_t reduced,
               bool keep_order) {
  const int rank = static_cast<int>(input.dim());
  const int count = static_cast<int>(outputs.size());
  plan.outputs = count;
  plan.input = static_cast<const char*>(input.data_ptr());
  plan.input_dtype = input.dtype();
  for (int o = 0; o < count; ++o) {
    plan.output[o] = static_cast<char*>(outputs[o].data_ptr());
    plan.output_dtype[o] = outputs[o].dtype();
  }
  plan.kept_ndim = plan.reduced_ndim = 0;
  plan.kept_numel = plan.reduced_numel = 1;

  int order[kMaxDims];
  for (int d = 0; d < rank; ++d) order[d] = rank - 1 - d;
  auto stride = [&](int, int d) { return input.strides()[d]; };
  const bool positions = keep_order;
  for (int i = 1; i < rank; ++i)
    for (int j = i; j > 0; --j) {
      const int a = order[j], b = order[j - 1];
      const bool both_reduced = ((reduced >> a) & 1u) && ((reduced >> b) & 1u);
      if (positions && both_reduced) break;
      if (!inner(1, input.sizes()[a], input.sizes()[b], a, b, stride)) break;
      std::swap(order[j], order[j - 1]);
    }

  for (int k = 0; k < rank; ++k) {
    const int d = order[k];
    const int64_t size = input.sizes()[d];
    const int64_t step = input.strides()[d] * input.itemsize();
    if ((reduced >> d) & 1u) {
      plan.reduced_numel *= size;
      if (size == 1) continue;
      int& m = plan.reduced_ndim;
      if (m > 0 && plan.reduced_strides[m - 1] * plan.reduced_shape[m - 1] == step) {
        plan.reduced_shape[m - 1] *= size;
      } else {
        plan.reduced_shape[m] = size;
        plan.reduced_strides[m++] = step;
      }
      continue;
    }
    plan.kept_numel *= size;
    if (size == 1) continue;
    int& m = plan.kept_ndim;
    bool merge = m > 0 && plan.kept_strides[m - 1] * plan.kept_shape[m - 1] == step;
    for (int o = 0; o < count && merge; ++o)
      merge = plan.output_strides[o][m - 1] * plan.kept_shape[m - 1] == outputs[o].strides()[d] * outputs[o].itemsize();
    if (merge) {
      plan.kept_shape[m - 1] *= size;
    } else {
      plan.kept_shape[m] = size;
      plan.kept_strides[m] = step;
      for (int o = 0; o < count; ++o) plan.output_strides[o][m] = outputs[o].strides()[d] * outputs[o].itemsize();
      ++m;
    }
  }
}

}  // namespace tenon
