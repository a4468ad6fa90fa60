// SPDX-License-Identifier: Apache-2.0
// multi_head_attention_forward (ops/attention.h): projections, masks as PyTorch joins them, attention head by head.
#include <tenon/ops/attention.h>
//
#include <tenon/ops/binary.h>
#include <tenon/ops/cat.h>
#include <tenon/ops/factory.h>
#include <tenon/ops/matmul.h>
#include <tenon/ops/random.h>
#include <tenon/ops/rearrange.h>
#include <tenon/ops/reduce.h>
#include <tenon/ops/softmax.h>
#include <tenon/ops/unary.h>
#include <tenon/ops/view.h>
#include <tenon/ops/where.h>

#include <cmath>
#include <limits>

namespace tenon::impl {
namespace {

constexpr const char* kWho = "multi_head_attention_forward";

/// A mask as numbers to add: -inf where a bool one is true.
Tensor as_scores(const char* name, const Tensor& mask, DType t) {
  if (!mask.defined()) return mask;
  TENON_CHECK(mask.dtype() == kBool || is_floating_point(mask.dtype()), DtypeError, kWho, ": ", name,
              ": expected bool or a floating dtype, got ", mask.dtype());
  if (mask.dtype() != kBool) return mask;
  const Tensor none = zeros(mask.sizes(), TensorOptions(t).device(mask.device()));
  return masked_fill(none, mask, -std::numeric_limits<double>::infinity());
}
/// One more column (dimension -1) of zeros, or (dimension 1) row.
Tensor padded(const Tensor& t, int64_t dim) {
  if (!t.defined()) return t;
  DimVector sizes(t.sizes());
  sizes[dim < 0 ? sizes.size() - 1 : static_cast<std::size_t>(dim)] = 1;
  return cat({t, zeros(sizes, TensorOptions(t.dtype()).device(t.device()))}, dim);
}
void check_sizes(const char* name, const Tensor& t, IntArrayRef expected) {
  TENON_CHECK(t.sizes() == expected, ShapeError, kWho, ": ", name, ": expected sizes ", expected, ", got ", t.sizes());
}

}  // namespace

std::tuple<Tensor, Tensor> multi_head_attention_forward(
    Call& call, const Tensor& query, const Tensor& key, const Tensor& value, int64_t embed_dim_to_check,
    int64_t num_heads, const Tensor& in_proj_weight, const Tensor& in_proj_bias, const Tensor& bias_k,
    const Tensor& bias_v, bool add_zero_attn, double dropout_p, const Tensor& out_proj_weight,
    const Tensor& out_proj_bias, bool training, const Tensor& key_padding_mask, bool need_weights,
    const Tensor& attn_mask, bool use_separate_proj_weight, const Tensor& q_proj_weight, const Tensor& k_proj_weight,
    const Tensor& v_proj_weight, const Tensor& static_k, const Tensor& static_v, bool average_attn_weights,
    bool is_causal) {
  call.device_of({&query, &key, &value, &in_proj_weight, &out_proj_weight, &key_padding_mask, &attn_mask});
  const bool batched = query.dim() == 3;
  TENON_CHECK(query.dim() == 2 || batched, ShapeError, kWho, ": query: expected 2 or 3 dimensions, got sizes ",
              query.sizes());
  for (const Tensor* t : {&key, &value})
    TENON_CHECK(t->dim() == query.dim(), ShapeError, kWho, ": key, value: expected ", query.dim(),
                " dimensions as query, got sizes ", t->sizes());
  TENON_CHECK(!key_padding_mask.defined() || key_padding_mask.dim() == query.dim() - 1, ShapeError, kWho,
              ": key_padding_mask: expected ", query.dim() - 1, " dimensions, got sizes ", key_padding_mask.sizes());
  TENON_CHECK(!attn_mask.defined() || attn_mask.dim() == 2 || attn_mask.dim() == 3, ShapeError, kWho,
              ": attn_mask: expected 2 or 3 dimensions, got sizes ", attn_mask.sizes());
  const auto with_batch = [&](const Tensor& t, int64_t dim) { return batched || !t.defined() ? t : t.unsqueeze(dim); };
  const Tensor q_in = with_batch(query, 1), k_in = with_batch(key, 1), v_in = with_batch(value, 1);
  const int64_t length = q_in.size(0), batch = q_in.size(1), width = q_in.size(2);
  TENON_CHECK(width == embed_dim_to_check, ShapeError, kWho, ": query: expected vectors of ", embed_dim_to_check,
              ", got sizes ", query.sizes());
  TENON_CHECK(num_heads > 0 && width % num_heads == 0, ValueError, kWho, ": num_heads: expected a divisor of ", width,
              ", got ", num_heads);
  if (use_separate_proj_weight)
    TENON_CHECK(k_in.sizes().slice(0, 2) == v_in.sizes().slice(0, 2), ShapeError, kWho,
                ": value: expected rows as key's, got sizes ", key.sizes(), " and ", value.sizes());
  else
    check_sizes("value", value, key.sizes());
  TENON_CHECK(k_in.size(1) == batch, ShapeError, kWho, ": key: expected a batch of ", batch, ", got sizes ",
              key.sizes());
  TENON_CHECK(!is_causal || attn_mask.defined(), ValueError, kWho, ": is_causal: expected attn_mask beside the hint");
  TENON_CHECK(dropout_p >= 0 && dropout_p <= 1, ValueError, kWho, ": dropout_p: expected a value in [0, 1], got ",
              dropout_p);

  Tensor padding = as_scores("key_padding_mask", with_batch(key_padding_mask, 0), query.dtype()), mask;
  const bool causal = is_causal && !padding.defined() && !need_weights;
  if (!causal) mask = as_scores("attn_mask", attn_mask, query.dtype());

  // Projections.
  Tensor q, k, v;
  if (use_separate_proj_weight) {
    TENON_CHECK(q_proj_weight.defined() && k_proj_weight.defined() && v_proj_weight.defined(), ValueError, kWho,
                ": use_separate_proj_weight: expected q_proj_weight, k_proj_weight and v_proj_weight");
    const std::vector<Tensor> b = in_proj_bias.defined() ? split(in_proj_bias, width) : std::vector<Tensor>(3);
    q = linear(q_in, q_proj_weight, b[0]);
    k = linear(k_in, k_proj_weight, b[1]);
    v = linear(v_in, v_proj_weight, b[2]);
  } else {
    TENON_CHECK(in_proj_weight.defined(), ValueError, kWho, ": in_proj_weight: expected a tensor");
    check_sizes("in_proj_weight", in_proj_weight, {3 * width, width});
    const auto part = [&](const Tensor& t, int64_t from, int64_t to) {
      return t.defined() ? t.slice(0, from * width, to * width) : t;
    };
    const auto project = [&](const Tensor& x, int64_t from, int64_t to) {
      return linear(x, part(in_proj_weight, from, to), part(in_proj_bias, from, to));
    };
    if (key.is_same(value)) {
      const bool self = query.is_same(key);
      const Tensor all = self ? project(q_in, 0, 3) : project(k_in, 1, 3);
      q = self ? all.slice(2, 0, width) : project(q_in, 0, 1);
      k = all.slice(2, self ? width : 0, self ? 2 * width : width);
      v = all.slice(2, self ? 2 * width : width, self ? 3 * width : 2 * width);
    } else {
      q = project(q_in, 0, 1), k = project(k_in, 1, 2), v = project(v_in, 2, 3);
    }
  }
  if (mask.defined()) {
    if (mask.dim() == 2) mask = mask.unsqueeze(0);
    check_sizes("attn_mask", mask,
                {mask.size(0) == 1 && attn_mask.dim() == 2 ? 1 : batch * num_heads, length, k_in.size(0)});
  }
  TENON_CHECK(bias_k.defined() == bias_v.defined(), ValueError, kWho, ": bias_k, bias_v: expected both or neither");
  if (bias_k.defined()) {
    TENON_CHECK(!static_k.defined() && !static_v.defined(), ValueError, kWho,
                ": bias_k, bias_v: not together with static_k and static_v");
    k = cat({k, repeat(bias_k, {1, batch, 1})}, 0);
    v = cat({v, repeat(bias_v, {1, batch, 1})}, 0);
    mask = padded(mask, -1);
    padding = padded(padding, -1);
  }

  // Heads: [batch * num_heads, rows, head].
  const int64_t head = width / num_heads;
  const auto heads = [&](const Tensor& t) { return t.reshape({t.size(0), batch * num_heads, head}).transpose(0, 1); };
  q = heads(q);
  const auto given = [&](const char* name, const Tensor& fixed, const Tensor& own) {
    if (!fixed.defined()) return heads(own);
    TENON_CHECK(fixed.dim() == 3 && fixed.size(0) == batch * num_heads && fixed.size(2) == head, ShapeError, kWho, ": ",
                name, ": expected sizes [", batch * num_heads, ", S, ", head, "], got ", fixed.sizes());
    return fixed;
  };
  k = given("static_k", static_k, k);
  v = given("static_v", static_v, v);
  if (add_zero_attn) {
    k = padded(k, 1);
    v = padded(v, 1);
    mask = padded(mask, -1);
    padding = padded(padding, -1);
  }
  const int64_t keys = k.size(1);
  if (padding.defined()) {
    check_sizes("key_padding_mask", padding, {batch, keys});
    const Tensor wide =
        padding.view({batch, 1, 1, keys}).expand({batch, num_heads, 1, keys}).reshape({batch * num_heads, 1, keys});
    mask = mask.defined() ? mask.add(wide) : wide;
  }
  const double p = training ? dropout_p : 0;
  const auto output = [&](const Tensor& t) {  // [batch * num_heads, length, head]
    const Tensor joined = t.transpose(0, 1).reshape({length, batch, width});
    const Tensor y = linear(joined, out_proj_weight, out_proj_bias);
    return batched ? y : y.squeeze(IntArrayRef(1));
  };
  if (need_weights) {
    Tensor s = bmm(q.mul(std::sqrt(1.0 / static_cast<double>(head))), k.transpose(1, 2));
    if (mask.defined()) s = s.add(mask);
    Tensor weights = softmax(s, -1);
    if (p > 0) weights = dropout(weights, p);
    const Tensor y = output(bmm(weights, v));
    weights = weights.view({batch, num_heads, length, keys});
    if (average_attn_weights) weights = weights.mean(IntArrayRef(1));
    return {y, batched ? weights : weights.squeeze(IntArrayRef(0))};
  }
  const auto four = [&](const Tensor& t) { return t.view({batch, num_heads, t.size(1), t.size(2)}); };
  if (mask.defined()) mask = mask.size(0) == 1 ? mask.unsqueeze(0) : mask.view({batch, num_heads, mask.size(1), keys});
  const Tensor y =
      scaled_dot_product_attention(four(q), four(k), four(v), {.attn_mask = mask, .dropout_p = p, .is_causal = causal});
  return {output(y.reshape({batch * num_heads, length, head})), Tensor()};
}

}  // namespace tenon::impl
