// SPDX-License-Identifier: Apache-2.0
// Reduction: the call shape of operators that reduce dimensions. It resolves the dims, makes the outputs, plans and
// calls the kernel of the input's dtype; the plan tells the kernel the output dtypes.
#pragma once

#include <tenon/dispatch/op.h>
#include <tenon/dispatch/reduce_plan.h>

namespace tenon::dispatch {

class TENON_API Reduction {
 public:
  /// `dims` absent or empty: all dimensions. IndexError on a dim out of range or given twice.
  Reduction(Call& call, const Tensor& self, std::optional<IntArrayRef> dims, bool keepdim);
  /// One dimension, or all of them flattened when absent (argmax).
  Reduction(Call& call, const Tensor& self, std::optional<int64_t> dim, bool keepdim);

  /// Sizes of the results, with or without the reduced dimensions as keepdim says.
  IntArrayRef sizes() const { return sizes_; }
  int64_t reduced_numel() const { return reduced_numel_; }
  /// ShapeError for operators without an identity (amax) when there are results but nothing to choose from.
  void require_elements() const;
  /// Reduced dimensions keep their logical order: for operators that return positions.
  Reduction& keep_order() {
    keep_order_ = true;
    return *this;
  }

  template <class K, class... Attributes>
  Tensor run(DType result, const Attributes&... attributes) {
    Tensor outputs[1];
    const DType dtypes[1] = {result};
    run_kernel<K>(outputs, dtypes, attributes...);
    return static_cast<Tensor&&>(outputs[0]);
  }
  template <class K, class... Attributes>
  std::tuple<Tensor, Tensor> run2(DType first, DType second, const Attributes&... attributes) {
    Tensor outputs[2];
    const DType dtypes[2] = {first, second};
    run_kernel<K>(outputs, dtypes, attributes...);
    return {static_cast<Tensor&&>(outputs[0]), static_cast<Tensor&&>(outputs[1])};
  }

 private:
  template <class K, class... Attributes>
  void run_kernel(std::span<Tensor> outputs, std::span<const DType> dtypes, const Attributes&... attributes) {
    ReducePlan plan;
    prepare(plan, outputs, dtypes);
    if (self_.device().is_meta()) return;
    const KernelCall<K> kernel(call_.op.kernel(self_.backend(), key_of(self_.dtype())), self_.backend());
    if (plan.kept_numel != 0) kernel(plan, attributes...);
  }
  void set_mask(uint32_t mask, bool keepdim);
  void prepare(ReducePlan& plan, std::span<Tensor> outputs, std::span<const DType> dtypes);

  Call& call_;
  const Tensor& self_;
  uint32_t mask_ = 0;
  bool keep_order_ = false;
  int64_t reduced_numel_ = 1;
  DimVector sizes_;
};

/// Bit mask of `dims` (absent or empty: all); IndexError naming `who` when one is out of range or given twice.
TENON_API uint32_t dim_mask(std::optional<IntArrayRef> dims, int64_t rank, std::string_view who);

}  // namespace tenon::dispatch
