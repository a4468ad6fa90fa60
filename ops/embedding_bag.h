// SPDX-License-Identifier: Apache-2.0
// Bags of embeddings: sums, means or maxima of the rows that a list of indices names, without the rows in between.
#pragma once

#include <tenon/dispatch/register.h>
#include <tenon/dispatch/registry.h>

namespace tenon {

enum BagMode : int64_t { kBagSum = 0, kBagMean = 1, kBagMax = 2 };

// Kernel: output [bags, columns]; bag_of [n] holds -1s and gets the bag of every index that counts; counts [bags]; places
// [bags, columns] (max only) the row each maximum is from, -1 in an empty bag. weight [rows, columns], per_sample_weights
// [n] or undefined. Bag b begins at offsets[b] and ends where the next begins, if there is one, else with the indices. All
// contiguous, index tensors int64; padding_idx -1: none.
/// embedding_bag with the bag of each index (-1: it does not count), how many count in each bag, and in mode 2 (0: sum, 1:
/// mean, 2: max) the row each maximum comes from.
TENON_OP(
    embedding_bag_forward,
    "embedding_bag_forward(Tensor weight, Tensor indices, Tensor offsets, int mode, Tensor? per_sample_weights, bool "
    "scale_grad_by_freq=False, bool include_last_offset=False, int padding_idx=-1) -> (Tensor output, Tensor bag_of, "
    "Tensor counts, Tensor places)",
    kernel, kNoInplace,
    std::tuple<Tensor, Tensor, Tensor, Tensor>(const Tensor&, const Tensor&, const Tensor&, int64_t, const Tensor&,
                                               bool, bool, int64_t),
    void(const Tensor& output, const Tensor& bag_of, const Tensor& counts, const Tensor& places, const Tensor& weight,
         const Tensor& indices, const Tensor& offsets, const Tensor& per_sample_weights, int64_t mode,
         int64_t padding_idx))
/// The "sum", "mean" or "max" of the rows of `weight` [rows, columns] that each bag of indices names, [bags, columns]: a bag
/// is a row of a matrix `input`, or what lies between the `offsets` into a vector (the last one to the end, or to the last
/// offset with `include_last_offset`). `per_sample_weights`, sizes of input, multiply the rows of a sum. Indices equal to
/// `padding_idx` do not count; an empty bag gives zeros. With `max_norm` the rows named are first scaled, in place, to that
/// norm at most. int64 or int32 indices, floating weight.
TENON_OP(
    embedding_bag,
    "embedding_bag(Tensor input, Tensor weight, Tensor? offsets=None, float? max_norm=None, float norm_type=2.0, bool "
    "scale_grad_by_freq=False, str mode='mean', bool sparse=False, Tensor? per_sample_weights=None, bool "
    "include_last_offset=False, int? padding_idx=None) -> Tensor",
    composite, kNoInplace,
    Tensor(const Tensor&, const Tensor&, const Tensor&, std::optional<double>, double, bool, std::string_view, bool,
           const Tensor&, bool, std::optional<int64_t>),
    void())

struct EmbeddingBagOptions {
  std::optional<double> max_norm;
  double norm_type = 2;
  bool scale_grad_by_freq = false;
  std::string mode = "mean";
  bool include_last_offset = false;
  std::optional<int64_t> padding_idx;
};
inline Tensor embedding_bag(const Tensor& input, const Tensor& weight, const Tensor& offsets = {},
                            const EmbeddingBagOptions& o = {}, const Tensor& per_sample_weights = {}) {
  return op::embedding_bag(input, weight, offsets, o.max_norm, o.norm_type, o.scale_grad_by_freq, o.mode, false,
                           per_sample_weights, o.include_last_offset, o.padding_idx);
}

}  // namespace tenon
