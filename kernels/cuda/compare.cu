// SPDX-License-Identifier: Apache-2.0
// Comparisons and logic. One kernel per dtype serves all six comparisons, and one the three logical operators: which
// outcomes count as true is a number the kernel gets, and memory is the limit either way.
#include <tenon/ops/compare.h>
#include <tenon/kernels/cuda/loops.cuh>
#include <tenon/kernels/cuda/scalar.cuh>

namespace tenon {
namespace {

using Ordered = Join<Numbers, Bools>;

enum Outcome : uint32_t { kLess = 1, kEqual = 2, kGreater = 4, kUnordered = 8 };

template <class T>
struct Compare {
  uint32_t accepted;  // outcomes
  __device__ bool operator()(T a, T b) const {
    if constexpr (is_complex_v<T>) {
      return (accepted & (a == b ? kEqual : kUnordered)) != 0;
    } else {
      const cuda::compute_t<T> x = a, y = b;
      if constexpr (cuda::is_float_v<T>)
        return (accepted & (x < y ? kLess : x > y ? kGreater : x == y ? kEqual : kUnordered)) != 0;
      else
        return (accepted & (x < y ? kLess : x > y ? kGreater : kEqual)) != 0;
    }
  }
};
template <class T>
void eq_cuda(const LoopPlan& plan) {
  cuda::elementwise(plan, Compare<T>{kEqual});
}
template <class T>
void ne_cuda(const LoopPlan& plan) {
  cuda::elementwise(plan, Compare<T>{kLess | kGreater | kUnordered});
}
template <class T>
void lt_cuda(const LoopPlan& plan) {
  cuda::elementwise(plan, Compare<T>{kLess});
}
template <class T>
void le_cuda(const LoopPlan& plan) {
  cuda::elementwise(plan, Compare<T>{kLess | kEqual});
}
template <class T>
void gt_cuda(const LoopPlan& plan) {
  cuda::elementwise(plan, Compare<T>{kGreater});
}
template <class T>
void ge_cuda(const LoopPlan& plan) {
  cuda::elementwise(plan, Compare<T>{kGreater | kEqual});
}

template <class T>
struct Logical {
  uint32_t table;  // bit 2a + b: the result for a and b
  __device__ bool operator()(T a, T b) const {
    return (table >> (2 * static_cast<uint32_t>(cuda::is_nonzero(a)) + static_cast<uint32_t>(cuda::is_nonzero(b)))) &
           1u;
  }
};
template <class T>
void logical_and_cuda(const LoopPlan& plan) {
  cuda::elementwise(plan, Logical<T>{8});
}
template <class T>
void logical_or_cuda(const LoopPlan& plan) {
  cuda::elementwise(plan, Logical<T>{14});
}
template <class T>
void logical_xor_cuda(const LoopPlan& plan) {
  cuda::elementwise(plan, Logical<T>{6});
}

TENON_REGISTER_KERNEL(op::eq, cuda, AllTypes, eq_cuda);
TENON_REGISTER_KERNEL(op::ne, cuda, AllTypes, ne_cuda);
TENON_REGISTER_KERNEL(op::lt, cuda, Ordered, lt_cuda);
TENON_REGISTER_KERNEL(op::le, cuda, Ordered, le_cuda);
TENON_REGISTER_KERNEL(op::gt, cuda, Ordered, gt_cuda);
TENON_REGISTER_KERNEL(op::ge, cuda, Ordered, ge_cuda);
TENON_REGISTER_KERNEL(op::logical_and, cuda, AllTypes, logical_and_cuda);
TENON_REGISTER_KERNEL(op::logical_or, cuda, AllTypes, logical_or_cuda);
TENON_REGISTER_KERNEL(op::logical_xor, cuda, AllTypes, logical_xor_cuda);

}  // namespace
}  // namespace tenon
