// SPDX-License-Identifier: Apache-2.0
#include <tenon/nn/attention.h>
#include <tenon/nn/init.h>
#include <tenon/ops/attention.h>
#include <tenon/ops/binary.h>
#include <tenon/ops/factory.h>
#include <tenon/ops/triangle.h>
#include <tenon/ops/unary.h>
#include <tenon/ops/view.h>

#include <limits>

namespace tenon::nn {
namespace {

Tensor activate(const std::string& activation, const Tensor& x) { return activation == "relu" ? relu(x) : gelu(x); }
const TransformerOptions& checked(const TransformerOptions& o) {
  TENON_CHECK(o.activation == "relu" || o.activation == "gelu", ValueError,
              "Transformer: activation: expected 'relu' or 'gelu', got '", o.activation, "'");
  return o;
}
MultiheadAttentionOptions attention_options(const TransformerOptions& o) {
  return {.dropout = o.dropout, .bias = o.bias, .batch_first = o.batch_first};
}
LayerNorm make_norm(int64_t size, const TransformerOptions& o, const TensorOptions& tensors) {
  LayerNorm norm({size}, o.layer_norm_eps, tensors);
  if (!o.bias) norm.bias = {};
  return norm;
}
/// x + block(norm(x)), or norm(x + block(x)).
template <class F>
Tensor residual(bool norm_first, LayerNorm& norm, const Tensor& x, F&& block) {
  return norm_first ? x.add(block(norm(x))) : norm(x.add(block(x)));
}

}  // namespace

Tensor causal_mask(int64_t size, const TensorOptions& options) {
  return triu(full({size, size}, -std::numeric_limits<double>::infinity(), options), 1);
}

MultiheadAttention::MultiheadAttention(int64_t embed_dim, int64_t heads, const MultiheadAttentionOptions& o,
                                       const TensorOptions& tensors)
    : out_proj(embed_dim, embed_dim, o.bias, tensors), options(o), num_heads(heads) {
  TENON_CHECK(embed_dim > 0 && heads > 0 && embed_dim % heads == 0, ValueError,
              "MultiheadAttention: num_heads: expected a divisor of embed_dim ", embed_dim, ", got ", heads);
  const int64_t kdim = o.kdim.value_or(embed_dim), vdim = o.vdim.value_or(embed_dim);
  const auto xavier = [&](int64_t rows, int64_t columns) {
    Tensor t = parameter(empty({rows, columns}, tensors));
    init::xavier_uniform_(t);
    return t;
  };
  if (kdim == embed_dim && vdim == embed_dim) {
    in_proj_weight = xavier(3 * embed_dim, embed_dim);
  } else {
    q_proj_weight = xavier(embed_dim, embed_dim);
    k_proj_weight = xavier(embed_dim, kdim);
    v_proj_weight = xavier(embed_dim, vdim);
  }
  if (o.bias) {
    in_proj_bias = parameter(zeros({3 * embed_dim}, tensors));
    init::zeros_(out_proj.bias);
  }
  if (!o.add_bias_kv) return;
  for (Tensor* t : {&bias_k, &bias_v}) {
    *t = parameter(empty({1, 1, embed_dim}, tensors));
    init::xavier_normal_(*t);
  }
}
void MultiheadAttention::members(Members& m) {
  m("in_proj_weight", in_proj_weight)("q_proj_weight", q_proj_weight)("k_proj_weight", k_proj_weight);
  m("v_proj_weight", v_proj_weight)("in_proj_bias", in_proj_bias)("bias_k", bias_k)("bias_v", bias_v);
  m("out_proj", out_proj);
}
std::tuple<Tensor, Tensor> MultiheadAttention::forward(const Tensor& query, const Tensor& key, const Tensor& value,
                                                       const AttentionArguments& a) {
  const bool turn = options.batch_first && query.dim() == 3;
  const auto in = [turn](const Tensor& t) { return turn && t.dim() == 3 ? t.transpose(0, 1) : t; };
  const Tensor q = in(query), k = key.is_same(query) ? q : in(key), v = value.is_same(key) ? k : in(value);
  auto [y, weights] =
      multi_head_attention_forward(q, k, v, num_heads, in_proj_weight, in_proj_bias, out_proj.weight, out_proj.bias,
                                   {.bias_k = bias_k,
                                    .bias_v = bias_v,
                                    .add_zero_attn = options.add_zero_attn,
                                    .dropout_p = options.dropout,
                                    .training = is_training(),
                                    .key_padding_mask = a.key_padding_mask,
                                    .need_weights = a.need_weights,
                                    .attn_mask = a.attn_mask,
                                    .q_proj_weight = q_proj_weight,
                                    .k_proj_weight = k_proj_weight,
                                    .v_proj_weight = v_proj_weight,
                                    .average_attn_weights = a.average_attn_weights,
                                    .is_causal = a.is_causal});
  return {turn ? y.transpose(0, 1) : y, weights};
}

TransformerEncoderLayer::TransformerEncoderLayer(int64_t d_model, int64_t nhead, const TransformerOptions& o,
                                                 const TensorOptions& tensors)
    : self_attn(d_model, nhead, attention_options(checked(o)), tensors),
      linear1(d_model, o.dim_feedforward, o.bias, tensors),
      linear2(o.dim_feedforward, d_model, o.bias, tensors),
      norm1(make_norm(d_model, o, tensors)),
      norm2(make_norm(d_model, o, tensors)),
      dropout(o.dropout),
      dropout1(o.dropout),
      dropout2(o.dropout),
      options(o) {}
void TransformerEncoderLayer::members(Members& m) {
  m("self_attn", self_attn)("linear1", linear1)("dropout", dropout)("linear2", linear2);
  m("norm1", norm1)("norm2", norm2)("dropout1", dropout1)("dropout2", dropout2);
}
Tensor TransformerEncoderLayer::forward(const Tensor& src, const Tensor& src_mask, const Tensor& src_key_padding_mask,
                                        bool is_causal) {
  const Tensor x = residual(options.norm_first, norm1, src, [&](const Tensor& t) {
    return dropout1(std::get<0>(self_attn(t, t, t,
                                          AttentionArguments{.key_padding_mask = src_key_padding_mask,
                                                             .need_weights = false,
                                                             .attn_mask = src_mask,
                                                             .is_causal = is_causal})));
  });
  return residual(options.norm_first, norm2, x, [&](const Tensor& t) {
    return dropout2(linear2(dropout(activate(options.activation, linear1(t)))));
  });
}

TransformerDecoderLayer::TransformerDecoderLayer(int64_t d_model, int64_t nhead, const TransformerOptions& o,
                                                 const TensorOptions& tensors)
    : self_attn(d_model, nhead, attention_options(checked(o)), tensors),
      multihead_attn(d_model, nhead, attention_options(o), tensors),
      linear1(d_model, o.dim_feedforward, o.bias, tensors),
      linear2(o.dim_feedforward, d_model, o.bias, tensors),
      norm1(make_norm(d_model, o, tensors)),
      norm2(make_norm(d_model, o, tensors)),
      norm3(make_norm(d_model, o, tensors)),
      dropout(o.dropout),
      dropout1(o.dropout),
      dropout2(o.dropout),
      dropout3(o.dropout),
      options(o) {}
void TransformerDecoderLayer::members(Members& m) {
  m("self_attn", self_attn)("multihead_attn", multihead_attn)("linear1", linear1)("dropout", dropout);
  m("linear2", linear2)("norm1", norm1)("norm2", norm2)("norm3", norm3);
  m("dropout1", dropout1)("dropout2", dropout2)("dropout3", dropout3);
}
Tensor TransformerDecoderLayer::forward(const Tensor& tgt, const Tensor& memory, const DecoderMasks& masks) {
  Tensor x = residual(options.norm_first, norm1, tgt, [&](const Tensor& t) {
    return dropout1(std::get<0>(self_attn(t, t, t,
                                          AttentionArguments{.key_padding_mask = masks.tgt_key_padding_mask,
                                                             .need_weights = false,
                                                             .attn_mask = masks.tgt_mask,
                                                             .is_causal = masks.tgt_is_causal})));
  });
  x = residual(options.norm_first, norm2, x, [&](const Tensor& t) {
    return dropout2(std::get<0>(multihead_attn(t, memory, memory,
                                               AttentionArguments{.key_padding_mask = masks.memory_key_padding_mask,
                                                                  .need_weights = false,
                                                                  .attn_mask = masks.memory_mask,
                                                                  .is_causal = masks.memory_is_causal})));
  });
  return residual(options.norm_first, norm3, x, [&](const Tensor& t) {
    return dropout3(linear2(dropout(activate(options.activation, linear1(t)))));
  });
}

TransformerEncoder::TransformerEncoder(const TransformerEncoderLayer& layer, int64_t num_layers,
                                       std::optional<LayerNorm> final_norm)
    : norm(std::move(final_norm)) {
  for (int64_t i = 0; i < num_layers; ++i) layers.push_back(clone(layer));
}
void TransformerEncoder::members(Members& m) {
  m("layers", layers);
  if (norm) m("norm", *norm);
}
Tensor TransformerEncoder::forward(const Tensor& src, const Tensor& mask, const Tensor& src_key_padding_mask,
                                   bool is_causal) {
  Tensor x = src;
  for (TransformerEncoderLayer& layer : layers) x = layer(x, mask, src_key_padding_mask, is_causal);
  return norm ? (*norm)(x) : x;
}

TransformerDecoder::TransformerDecoder(const TransformerDecoderLayer& layer, int64_t num_layers,
                                       std::optional<LayerNorm> final_norm)
    : norm(std::move(final_norm)) {
  for (int64_t i = 0; i < num_layers; ++i) layers.push_back(clone(layer));
}
void TransformerDecoder::members(Members& m) {
  m("layers", layers);
  if (norm) m("norm", *norm);
}
Tensor TransformerDecoder::forward(const Tensor& tgt, const Tensor& memory, const DecoderMasks& masks) {
  Tensor x = tgt;
  for (TransformerDecoderLayer& layer : layers) x = layer(x, memory, masks);
  return norm ? (*norm)(x) : x;
}

}  // namespace tenon::nn
