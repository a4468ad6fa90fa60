// SPDX-License-Identifier: Apache-2.0
// Attention: softmax(scale query key^T + mask) value over the last two dimensions, for any batch dimensions.
#pragma once

#include <tenon/dispatch/register.h>
#include <tenon/dispatch/registry.h>

namespace tenon {

// Kernels: all tensors but attn_mask have one rank, dtype and batch dimensions (views may be expanded); out and the gradients
// are contiguous, logsumexp [batch..., L] contiguous in the type computed in. attn_mask [batch..., L, S]: bool, of that
// dtype, or undefined. No tensor is empty but for E = 0 or S = 0.
/// scaled_dot_product_attention and the logarithm of each row's sum (float32 for 16-bit floats). Nothing of L x S elements
/// is kept. `attn_mask` is not differentiable here.
TENON_OP(scaled_dot_product_attention_forward,
         "scaled_dot_product_attention_forward(Tensor query, Tensor key, Tensor value, Tensor? attn_mask, bool "
         "is_causal, float scale) -> (Tensor output, Tensor logsumexp)",
         kernel, kNoInplace,
         std::tuple<Tensor, Tensor>(const Tensor&, const Tensor&, const Tensor&, const Tensor&, bool, double),
         void(const Tensor& out, const Tensor& logsumexp, const Tensor& query, const Tensor& key, const Tensor& value,
              const Tensor& attn_mask, bool is_causal, double scale))
/// Its gradients.
TENON_OP(scaled_dot_product_attention_backward,
         "scaled_dot_product_attention_backward(Tensor grad_output, Tensor query, Tensor key, Tensor value, Tensor "
         "output, Tensor logsumexp, Tensor? attn_mask, bool is_causal, float scale) -> (Tensor grad_query, Tensor "
         "grad_key, Tensor grad_value)",
         kernel, kNoInplace,
         std::tuple<Tensor, Tensor, Tensor>(const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                                            const Tensor&, const Tensor&, bool, double),
         void(const Tensor& grad_query, const Tensor& grad_key, const Tensor& grad_value, const Tensor& grad_output,
              const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& output,
              const Tensor& logsumexp, const Tensor& attn_mask, bool is_causal, double scale))
TENON_OP(scaled_dot_product_attention,
         "scaled_dot_product_attention(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None, float "
         "dropout_p=0.0, bool is_causal=False, *, float? scale=None, bool enable_gqa=False) -> Tensor",
         composite, kNoInplace,
         Tensor(const Tensor&, const Tensor&, const Tensor&, const Tensor&, double, bool, std::optional<double>, bool),
         void())
TENON_OP(multi_head_attention_forward,
         "multi_head_attention_forward(Tensor query, Tensor key, Tensor value, int embed_dim_to_check, int num_heads, "
         "Tensor? in_proj_weight, Tensor? in_proj_bias, Tensor? bias_k, Tensor? bias_v, bool add_zero_attn, float "
         "dropout_p, Tensor out_proj_weight, Tensor? out_proj_bias, bool training=True, Tensor? key_padding_mask=None, "
         "bool need_weights=True, Tensor? attn_mask=None, bool use_separate_proj_weight=False, Tensor? "
         "q_proj_weight=None, Tensor? k_proj_weight=None, Tensor? v_proj_weight=None, Tensor? static_k=None, Tensor? "
         "static_v=None, bool average_attn_weights=True, bool is_causal=False) -> (Tensor output, Tensor weights)",
         composite, kNoInplace,
         std::tuple<Tensor, Tensor>(const Tensor&, const Tensor&, const Tensor&, int64_t, int64_t, const Tensor&,
                                    const Tensor&, const Tensor&, const Tensor&, bool, double, const Tensor&,
                                    const Tensor&, bool, const Tensor&, bool, const Tensor&, bool, const Tensor&,
                                    const Tensor&, const Tensor&, const Tensor&, const Tensor&, bool, bool),
         void())

struct AttentionOptions {
  Tensor attn_mask =
      {};  ///< broadcasts to [..., L, S]: bool (true: takes part), or of query's dtype, added to the scores
  double dropout_p = 0;              ///< of the probabilities; whoever calls this outside of training leaves it 0
  bool is_causal = false;            ///< position i sees keys 0 to i; not together with attn_mask
  std::optional<double> scale = {};  ///< 1 / sqrt(E) unless given
  bool enable_gqa = false;           ///< heads (dimension -3) of key and value each serve several of query's
};
/// softmax(query key^T * scale + mask) value: query [..., L, E], key [..., S, E], value [..., S, Ev], of one floating dtype,
/// give [..., L, Ev]; batch dimensions broadcast. A row of which every key is masked is 0. Without dropout, and unless the mask
/// wants a gradient, nothing of L x S elements is kept for backward.
inline Tensor scaled_dot_product_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                                           const AttentionOptions& o = {}) {
  return op::scaled_dot_product_attention(query, key, value, o.attn_mask, o.dropout_p, o.is_causal, o.scale,
                                          o.enable_gqa);
}

/// query key^T * scale, plus the mask, -inf where a bool or the causal one hides a key: [..., L, S].
TENON_API Tensor attention_scores(const Tensor& query, const Tensor& key, const Tensor& attn_mask, bool is_causal,
                                  double scale);
/// The probabilities alone, softmax(query key^T * scale + mask), for query [..., L, E] and key [..., S, E]: [..., L, S].
TENON_API Tensor attention_probabilities(const Tensor& query, const Tensor& key, const Tensor& attn_mask,
                                         bool is_causal, double scale);

/// The rest of multi_head_attention_forward's arguments, in PyTorch's names.
struct MultiHeadOptions {
  Tensor bias_k = {}, bias_v = {};
  bool add_zero_attn = false;
  double dropout_p = 0;
  bool training = true;
  Tensor key_padding_mask = {};  ///< [N, S] or [S]: bool (true: ignored) or added to the scores
  bool need_weights = true;
  Tensor attn_mask = {};  ///< [L, S] or [N * num_heads, L, S]: bool (true: ignored) or added to the scores
  Tensor q_proj_weight = {}, k_proj_weight = {}, v_proj_weight = {};  ///< in place of in_proj_weight
  Tensor static_k = {}, static_v = {};
  bool average_attn_weights = true;
  bool is_causal = false;  ///< a hint that attn_mask is the causal mask
};
/// Multi-head attention (Vaswani et al. 2017): query [L, N, E] or [L, E], key and value [S, N, E] or [S, E]. Gives the
/// output, sizes of query, and, with need_weights, the probabilities [N, L, S] averaged over heads or [N, num_heads, L, S].
inline std::tuple<Tensor, Tensor> multi_head_attention_forward(const Tensor& query, const Tensor& key,
                                                               const Tensor& value, int64_t num_heads,
                                                               const Tensor& in_proj_weight, const Tensor& in_proj_bias,
                                                               const Tensor& out_proj_weight,
                                                               const Tensor& out_proj_bias,
                                                               const MultiHeadOptions& o = {}) {
  return op::multi_head_attention_forward(query, key, value, query.size(-1), num_heads, in_proj_weight, in_proj_bias,
                                          o.bias_k, o.bias_v, o.add_zero_attn, o.dropout_p, out_proj_weight,
                                          out_proj_bias, o.training, o.key_padding_mask, o.need_weights, o.attn_mask,
                                          o.q_proj_weight.defined(), o.q_proj_weight, o.k_proj_weight, o.v_proj_weight,
                                          o.static_k, o.static_v, o.average_attn_weights, o.is_causal);
}

}  // namespace tenon
