// SPDX-License-Identifier: Apache-2.0
// Multi-head attention and the Transformer (Vaswani et al. 2017), with PyTorch's parameters. Sequences are [T, N, E], with
// batch_first [N, T, E], or [T, E]. Bool masks are true where a position is ignored, floating ones are added to scores.
#pragma once

#include <tenon/nn/layers.h>
#include <tenon/nn/linear.h>

namespace tenon::nn {

struct MultiheadAttentionOptions {
  double dropout = 0;
  bool bias = true, add_bias_kv = false, add_zero_attn = false;
  std::optional<int64_t> kdim = {}, vdim = {};  ///< features of key and value; embed_dim unless given
  bool batch_first = false;
};
struct AttentionArguments {
  Tensor key_padding_mask = {};  ///< [N, S] or [S]
  bool need_weights = true;      ///< without them, nothing of L x S elements is kept
  Tensor attn_mask = {};         ///< [L, S] or [N * num_heads, L, S]
  bool average_attn_weights = true;
  bool is_causal = false;  ///< a hint that attn_mask is causal_mask(L)
};
class TENON_API MultiheadAttention : public ModuleOf<MultiheadAttention> {
 public:
  MultiheadAttention(int64_t embed_dim, int64_t num_heads, const MultiheadAttentionOptions& options = {},
                     const TensorOptions& tensors = {});
  void members(Members& m) override;
  /// The output, sizes of query, and the probabilities [N, L, S], [N, num_heads, L, S] if they are not averaged.
  std::tuple<Tensor, Tensor> forward(const Tensor& query, const Tensor& key, const Tensor& value,
                                     const AttentionArguments& a = {});
  std::string describe() const override { return "MultiheadAttention"; }

  Tensor in_proj_weight, q_proj_weight, k_proj_weight, v_proj_weight, in_proj_bias, bias_k, bias_v;
  Linear out_proj;
  MultiheadAttentionOptions options;
  int64_t num_heads;
};

/// A float mask [size, size]: -inf above the diagonal, else 0.
TENON_API Tensor causal_mask(int64_t size, const TensorOptions& options = {});

struct TransformerOptions {
  int64_t dim_feedforward = 2048;
  double dropout = 0.1;
  std::string activation = "relu";  ///< or "gelu"
  double layer_norm_eps = 1e-5;
  bool batch_first = false, norm_first = false, bias = true;
};
struct DecoderMasks {
  Tensor tgt_mask = {}, memory_mask = {}, tgt_key_padding_mask = {}, memory_key_padding_mask = {};
  bool tgt_is_causal = false, memory_is_causal = false;
};

/// Self-attention and a two-layer perceptron, each added to its input and normalised after, or (norm_first) before.
class TENON_API TransformerEncoderLayer : public ModuleOf<TransformerEncoderLayer> {
 public:
  TransformerEncoderLayer(int64_t d_model, int64_t nhead, const TransformerOptions& options = {},
                          const TensorOptions& tensors = {});
  void members(Members& m) override;
  Tensor forward(const Tensor& src, const Tensor& src_mask = {}, const Tensor& src_key_padding_mask = {},
                 bool is_causal = false);

  MultiheadAttention self_attn;
  Linear linear1, linear2;
  LayerNorm norm1, norm2;
  Dropout dropout, dropout1, dropout2;
  TransformerOptions options;
};
/// The same with attention to `memory`, the encoder's output, in between.
class TENON_API TransformerDecoderLayer : public ModuleOf<TransformerDecoderLayer> {
 public:
  TransformerDecoderLayer(int64_t d_model, int64_t nhead, const TransformerOptions& options = {},
                          const TensorOptions& tensors = {});
  void members(Members& m) override;
  Tensor forward(const Tensor& tgt, const Tensor& memory, const DecoderMasks& masks = {});

  MultiheadAttention self_attn, multihead_attn;
  Linear linear1, linear2;
  LayerNorm norm1, norm2, norm3;
  Dropout dropout, dropout1, dropout2, dropout3;
  TransformerOptions options;
};
/// Clones of a layer one after the other, and a normalisation at the end if given.
class TENON_API TransformerEncoder : public ModuleOf<TransformerEncoder> {
 public:
  TransformerEncoder(const TransformerEncoderLayer& layer, int64_t num_layers,
                     std::optional<LayerNorm> final_norm = {});
  void members(Members& m) override;
  Tensor forward(const Tensor& src, const Tensor& mask = {}, const Tensor& src_key_padding_mask = {},
                 bool is_causal = false);

  std::vector<TransformerEncoderLayer> layers;
  std::optional<LayerNorm> norm;
};
class TENON_API TransformerDecoder : public ModuleOf<TransformerDecoder> {
 public:
  TransformerDecoder(const TransformerDecoderLayer& layer, int64_t num_layers,
                     std::optional<LayerNorm> final_norm = {});
  void members(Members& m) override;
  Tensor forward(const Tensor& tgt, const Tensor& memory, const DecoderMasks& masks = {});

  std::vector<TransformerDecoderLayer> layers;
  std::optional<LayerNorm> norm;
};

}  // namespace tenon::nn
