// SPDX-License-Identifier: Apache-2.0
// Rows of pooling, folding and bags of embeddings, as in families.h. Both sides have functions for what differs in name.
#pragma once

/// m as images of 64 channels and 64 x 64 pixels, in either order of memory.
template <class Inputs>
auto images(const Inputs& in) {
  return in.m.view({-1, 64, 64, 64});
}
template <class Inputs>
auto images_last(const Inputs& in) {
  return in.m.view({-1, 64, 64, 64}).permute({0, 3, 1, 2});
}

#define TENON_WINDOW_ROWS(ROW)                                                                               \
  ROW("max_pool2d 2x2", 5, max_pool2d(images(in), {2, 2}))                                                   \
  ROW("max_pool2d 3x3 indices", 7, std::get<0>(max_pool2d_with_indices(images(in), {3, 3}, {2, 2}, {1, 1}))) \
  ROW("max_pool2d 3x3 channels last", 7,                                                                     \
      std::get<0>(max_pool2d_with_indices(images_last(in), {3, 3}, {2, 2}, {1, 1})))                         \
  ROW("max_pool2d 3x3 gradient", 12, max_pool_gradient(images(in)))                                          \
  ROW("avg_pool2d 2x2", 5, avg_pool2d(images(in), {2, 2}))                                                   \
  ROW("avg_pool2d 3x3 stride 1", 8, avg_pool2d(images(in), {3, 3}, {1, 1}, {1, 1}))                          \
  ROW("avg_pool2d 3x3 channels last", 5, avg_pool2d(images_last(in), {3, 3}, {2, 2}, {1, 1}))                \
  ROW("avg_pool2d 2x2 gradient", 9, avg_pool_gradient(images(in)))                                           \
  ROW("adaptive_avg_pool2d 1x1", 4, adaptive_avg_pool2d(images(in), {1, 1}))                                 \
  ROW("adaptive_avg_pool2d 7x7", 4, adaptive_avg_pool2d(images(in), {7, 7}))                                 \
  ROW("im2col 3x3 stride 2", 13, im2col(images(in), {3, 3}, {1, 1}, {1, 1}, {2, 2}))                         \
  ROW("col2im 2x2", 8, col2im(in.m.view({-1, 256, 1024}), {64, 64}, {2, 2}, {1, 1}, {0, 0}, {2, 2}))         \
  ROW("pixel_shuffle", 8, pixel_shuffle(images(in), 2))                                                      \
  ROW("embedding_bag sum", 0.3, bags(in, "sum"))                                                             \
  ROW("embedding_bag mean gradient", 0.6, bag_gradient(in))
