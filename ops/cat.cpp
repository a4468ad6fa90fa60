// SPDX-License-Identifier: Apache-2.0
#define TENON_DEFINE_OPERATORS
#include <tenon/ops/cat.h>

#include <tenon/dispatch/make_tensor.h>

namespace tenon::impl {
namespace {

// A tensor that takes no part, as PyTorch has always allowed.
bool skipped(const Tensor& t) { return t.dim() == 1 && t.sizes()[0] == 0; }

}  // namespace

Tensor cat(Call& call, TensorList tensors, int64_t dim) {
  TENON_CHECK(!tensors.empty(), ValueError, "cat: tensors: expected at least one tensor, got an empty list");
  DType dtype = DType::undefined;
  const Tensor* first = nullptr;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const Tensor& t = tensors[i];
    TENON_CHECK(t.defined(), ValueError, "cat: tensors: element ", i, " is an undefined tensor");
    TENON_CHECK(t.dim() > 0, ShapeError, "cat: tensors: element ", i, " is 0-dim; expected at least one dimension");
    TENON_CHECK(t.device() == tensors[0].device(), DeviceError, "cat: expected all tensors on one device, got ",
                tensors[0].device(), " and ", t.device(), " (element ", i, ")");
    dtype = dtype == DType::undefined ? t.dtype() : promote_types(dtype, t.dtype());
    if (!first && !skipped(t)) first = &t;
  }
  if (!first) first = &tensors[0];
  const int64_t rank = first->dim();
  const auto at = static_cast<std::size_t>(wrap_dim(dim, rank, "cat"));
  DimVector sizes(first->sizes());
  sizes[at] = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const Tensor& t = tensors[i];
    if (skipped(t)) continue;
    TENON_CHECK(t.dim() == rank, ShapeError, "cat: tensors: expected ", rank, " dimensions like the others, got ",
                t.dim(), " in element ", i);
    for (std::size_t d = 0; d < sizes.size(); ++d)
      TENON_CHECK(d == at || t.sizes()[d] == sizes[d], ShapeError,
                  "cat: tensors: sizes must agree except in dimension ", at, "; expected ", first->sizes(), ", got ",
                  t.sizes(), " in element ", i);
    sizes[at] += t.sizes()[at];
  }
  Tensor out;
  if (call.form == dispatch::Form::functional) {
    out = dispatch::make_tensor(sizes, dtype, first->device());
  } else {
    for (const Tensor& t : tensors)
      TENON_CHECK(call.destinations.empty() || dispatch::overlap(call.destinations[0], t) == dispatch::Overlap::none,
                  AliasError, "cat: out: shares memory with one of the tensors");
    out = call.output(0, sizes, dtype, first->device());
  }
  if (out.numel() == 0 || out.is_meta()) return out;
  // Usually nothing needs a cast or a skip, and the list goes to the kernel as it is.
  bool plain = true;
  for (const Tensor& t : tensors) plain = plain && t.dtype() == dtype && t.numel() != 0;
  std::vector<Tensor> prepared;
  if (!plain) {
    for (const Tensor& t : tensors)
      if (t.numel() != 0) prepared.push_back(t.dtype() == dtype ? t : t.to(dtype));
    tensors = prepared;
  }
  op::cat.kernel(out.backend(), dispatch::width_key(item_size(dtype)))(out, tensors, static_cast<int64_t>(at));
  return out;
}

Tensor stack(Call&, TensorList tensors, int64_t dim) {
  TENON_CHECK(!tensors.empty(), ValueError, "stack: tensors: expected at least one tensor, got an empty list");
  for (std::size_t i = 0; i < tensors.size(); ++i)
    TENON_CHECK(tensors[i].defined(), ValueError, "stack: tensors: element ", i, " is an undefined tensor");
  const int64_t at = wrap_dim(dim, tensors[0].dim() + 1, "stack");
  std::vector<Tensor> rows;
  rows.reserve(tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    TENON_CHECK(tensors[i].sizes() == tensors[0].sizes(), ShapeError, "stack: tensors: expected equal sizes, got ",
                tensors[0].sizes(), " and ", tensors[i].sizes(), " (element ", i, ")");
    rows.push_back(tensors[i].unsqueeze(at));
  }
  return op::cat(rows, at);
}

}  // namespace tenon::impl
