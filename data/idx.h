// SPDX-License-Identifier: Apache-2.0
// The IDX format of MNIST and its relatives, plain or gzip-compressed: two zero bytes, a type byte, the number of
// dimensions, the sizes as big-endian 32-bit numbers, then the elements.
#pragma once

#include <tenon/core/tensor.h>

#include <string>

namespace tenon::data {

/// The file's array on the CPU in its own dtype (uint8, int8, int16, int32, float32, float64). IoError naming the file when it
/// is missing, not IDX, truncated or longer than it says.
TENON_API Tensor read_idx(const std::string& path);

struct LabelledImages {
  Tensor images;  ///< uint8 [N, height, width]
  Tensor labels;  ///< uint8 [N]
};
struct FashionMnist {
  LabelledImages train, test;
};
/// Reads train-images-idx3-ubyte[.gz] and its three companions from `folder`. IoError naming what is missing.
TENON_API FashionMnist read_fashion_mnist(const std::string& folder = "/usr/share/datasets/fashion-mnist");

}  // namespace tenon::data
