// SPDX-License-Identifier: Apache-2.0
#define TENON_DEFINE_OPERATORS
#include <tenon/ops/embedding_bag.h>

#include <tenon/dispatch/declare_only.h>
//
#include <tenon/dispatch/make_tensor.h>
#include <tenon/ops/binary.h>
#include <tenon/ops/copy.h>
#include <tenon/ops/factory.h>
#include <tenon/ops/index.h>
#include <tenon/ops/vector_norm.h>
#include <tenon/ops/view.h>

namespace tenon::impl {
namespace {

Tensor as_index(const char* name, const Tensor& t) {
  TENON_CHECK(t.dtype() == kInt64 || t.dtype() == kInt32, DtypeError, "embedding_bag: ", name,
              ": expected int64 or int32, got ", t.dtype());
  return t.to(kInt64).contiguous();
}

// Scales the rows of weight that `indices` names to `max_norm` at most; a row named twice is written twice alike.
void renormalise(const Tensor& weight, const Tensor& indices, double max_norm, double norm_type) {
  const NoGradGuard no_grad;
  if (indices.numel() == 0) return;
  const Tensor rows = renorm(index_select(weight.detach(), 0, indices), norm_type, 0, max_norm);
  op::index_copy.inplace(weight, weight, 0, indices, rows);
}

}  // namespace

std::tuple<Tensor, Tensor, Tensor, Tensor> embedding_bag_forward(Call& call, const Tensor& weight,
                                                                 const Tensor& indices, const Tensor& offsets,
                                                                 int64_t mode, const Tensor& per_sample_weights,
                                                                 bool scale_grad_by_freq, bool include_last_offset,
                                                                 int64_t padding_idx) {
  const Device device = call.device_of({&weight, &indices, &offsets, &per_sample_weights});
  const Tensor &w = weight, &scales = per_sample_weights;
  TENON_CHECK(w.dim() == 2 && is_floating_point(w.dtype()), ShapeError,
              "embedding_bag: weight: expected a matrix of a floating dtype, got sizes ", w.sizes(), " of ", w.dtype());
  TENON_CHECK(indices.dim() == 1 && offsets.dim() == 1, ShapeError,
              "embedding_bag: input, offsets: expected vectors, got sizes ", indices.sizes(), " and ", offsets.sizes());
  TENON_CHECK(mode >= kBagSum && mode <= kBagMax, ValueError, "embedding_bag: mode: expected 0 to 2, got ", mode);
  TENON_CHECK(!scales.defined() || mode == kBagSum, ValueError,
              "embedding_bag: per_sample_weights: expected mode \"sum\" with them");
  TENON_CHECK(!scales.defined() || (scales.sizes() == indices.sizes() && scales.dtype() == w.dtype()), ShapeError,
              "embedding_bag: per_sample_weights: expected the sizes of input, ", indices.sizes(),
              ", and the dtype of weight, ", w.dtype(), ", got ", scales.sizes(), " and ", scales.dtype());
  TENON_CHECK(mode != kBagMax || !scale_grad_by_freq, ValueError,
              "embedding_bag: scale_grad_by_freq: expected another mode than \"max\"");
  TENON_CHECK(!include_last_offset || offsets.numel() > 0, ShapeError,
              "embedding_bag: offsets: expected at least one with include_last_offset");
  const int64_t n = indices.numel(), bags = offsets.numel() - (include_last_offset ? 1 : 0), columns = w.size(1);
  const DimVector sizes{bags, columns};
  const auto own = [&](int i, IntArrayRef result, DType t) {
    const Tensor out = call.output(i, result, t, device, {&weight, &indices, &offsets, &per_sample_weights});
    return out.is_contiguous() ? out : dispatch::make_tensor(result, t, device);
  };
  const Tensor out = own(0, sizes, w.dtype());
  Tensor bag_of = own(1, n, kInt64), counts = own(2, bags, kInt64);
  const Tensor places = own(3, mode == kBagMax ? IntArrayRef(sizes) : IntArrayRef(0), kInt64);
  if (out.is_meta()) return {out, bag_of, counts, places};
  const auto kernel = op::embedding_bag_forward.kernel(w.backend(), dispatch::key_of(w.dtype()));
  if (n > 0) bag_of.fill_(-1);
  if (bags > 0)
    kernel(out, bag_of, counts, places, w.contiguous(), as_index("input", indices), as_index("offsets", offsets),
           scales.defined() ? scales.contiguous() : scales, mode, padding_idx);
  return {out, bag_of, counts, places};
}

Tensor embedding_bag(Call&, const Tensor& input, const Tensor& weight, const Tensor& offsets,
                     std::optional<double> max_norm, double norm_type, bool scale_grad_by_freq, std::string_view mode,
                     bool, const Tensor& per_sample_weights, bool include_last_offset,
                     std::optional<int64_t> padding_idx) {
  const bool known = mode == "sum" || mode == "mean" || mode == "max";
  TENON_CHECK(known, ValueError, "embedding_bag: mode: expected \"sum\", \"mean\" or \"max\", got \"", mode, "\"");
  TENON_CHECK(input.dim() == 1 || input.dim() == 2, ShapeError,
              "embedding_bag: input: expected 1 or 2 dimensions, got ", input.dim());
  TENON_CHECK(offsets.defined() == (input.dim() == 1), ShapeError, "embedding_bag: offsets: expected ",
              input.dim() == 1 ? "a vector for an input of one dimension" : "none for an input of two dimensions");
  TENON_CHECK(weight.dim() == 2, ShapeError, "embedding_bag: weight: expected a matrix, got ", weight.dim(),
              " dimensions");
  TENON_CHECK(!per_sample_weights.defined() || per_sample_weights.sizes() == input.sizes(), ShapeError,
              "embedding_bag: per_sample_weights: expected the sizes of input, ", input.sizes());
  const int64_t rows = weight.size(0);
  TENON_CHECK(!padding_idx || (*padding_idx >= -rows && *padding_idx < rows), ValueError,
              "embedding_bag: padding_idx: expected ", -rows, " to ", rows - 1, ", got ", padding_idx.value_or(0));
  const Tensor list = input.reshape({input.numel()}).to(kInt64);
  Tensor starts = offsets, scales = per_sample_weights;
  if (input.dim() == 2)
    starts = op::mul(arange(input.size(0), TensorOptions(kInt64).device(input.device())), input.size(1));
  if (scales.defined()) scales = scales.reshape({input.numel()});
  TENON_CHECK(input.dtype() == kInt64 || input.dtype() == kInt32, DtypeError,
              "embedding_bag: input: expected int64 or int32, got ", input.dtype());
  if (max_norm) renormalise(weight, list, *max_norm, norm_type);
  const int64_t how = mode == "sum" ? kBagSum : mode == "mean" ? kBagMean : kBagMax;
  return std::get<0>(op::embedding_bag_forward(weight, list, starts, how, scales, scale_grad_by_freq,
                                               include_last_offset, embedding_padding(padding_idx, rows)));
}

}  // namespace tenon::impl
