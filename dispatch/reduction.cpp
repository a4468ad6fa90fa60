// SPDX-License-Identifier: Apache-2.0
#include <tenon/dispatch/make_tensor.h>
#include <tenon/dispatch/reduction.h>

namespace tenon::dispatch {

uint32_t dim_mask(std::optional<IntArrayRef> dims, int64_t rank, std::string_view who) {
  const uint32_t all = rank >= 32 ? ~0u : (1u << (rank == 0 ? 1 : rank)) - 1u;
  if (!dims || dims->empty()) return all;
  uint32_t mask = 0;
  for (const int64_t d : *dims) {
    const int64_t w = wrap_dim(d, rank, std::string(who).c_str());
    TENON_CHECK(!((mask >> w) & 1u), IndexError, who, ": dim: dimension ", w, " is given twice in ", *dims);
    mask |= 1u << w;
  }
  return mask;
}

Reduction::Reduction(Call& call, const Tensor& self, std::optional<IntArrayRef> dims, bool keepdim)
    : call_(call), self_(self) {
  set_mask(dim_mask(dims, self.dim(), call.name()), keepdim);
}

Reduction::Reduction(Call& call, const Tensor& self, std::optional<int64_t> dim, bool keepdim)
    : call_(call), self_(self) {
  std::optional<IntArrayRef> dims;
  if (dim) dims = IntArrayRef(*dim);
  set_mask(dim_mask(dims, self.dim(), call.name()), keepdim);
}

void Reduction::set_mask(uint32_t mask, bool keepdim) {
  mask_ = mask;
  for (int64_t d = 0; d < self_.dim(); ++d) {
    const int64_t size = self_.sizes()[static_cast<std::size_t>(d)];
    if ((mask >> d) & 1u) {
      reduced_numel_ *= size;
      if (keepdim) sizes_.push_back(1);
    } else {
      sizes_.push_back(size);
    }
  }
}

void Reduction::require_elements() const {
  int64_t results = 1;
  for (const int64_t s : IntArrayRef(sizes_)) results *= s;
  TENON_CHECK(reduced_numel_ != 0 || results == 0, IndexError, call_.name(), ": self: the reduced dimensions of sizes ",
              self_.sizes(), " have no elements, and the operator has no identity");
}

void Reduction::prepare(ReducePlan& plan, std::span<Tensor> outputs, std::span<const DType> dtypes) {
  Tensor kept[ReducePlan::kMaxOutputs];
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    outputs[i] = call_.output(static_cast<int>(i), sizes_, dtypes[i], self_.device(), {&self_});
    // The plan wants the input's rank: reduced dimensions of size 1.
    const Tensor& out = outputs[i];
    DimVector sizes, strides;
    const bool keepdim = out.dim() == self_.dim();
    std::size_t next = 0;
    for (int64_t d = 0; d < self_.dim(); ++d) {
      const bool reduced = (mask_ >> d) & 1u;
      if (reduced && !keepdim) {
        sizes.push_back(1);
        strides.push_back(0);
        continue;
      }
      sizes.push_back(out.sizes()[next]);
      strides.push_back(out.strides()[next++]);
    }
    kept[i] = make_alias(out);
    kept[i].impl()->set_geometry(sizes, strides, out.storage_offset());
  }
  make_plan(plan, self_, {kept, outputs.size()}, mask_, keep_order_);
}

}  // namespace tenon::dispatch
