// SPDX-License-Identifier: Apache-2.0
// Long sequences of token numbers in a file, as models of sequences are trained on: mapped, not read, so that a file larger than
// memory will do.
#pragma once

#include <tenon/data/dataset.h>

#include <string>

namespace tenon::data {

/// The file as a 1-d tensor of `dtype` (any integer dtype, or uint16 as written by many tokenisers: say kInt16 and mask) on
/// the CPU, after `skip_bytes` of header. Pages are read when touched; the mapping ends with the tensor's storage. Writes stay
/// in this process. IoError when the file is missing or its size is no multiple of the element's.
TENON_API Tensor map_tokens(const std::string& path, DType dtype, int64_t skip_bytes = 0);

/// Sample i: int64 tokens [i stride, i stride + length) and the same one further on, which a model should predict.
class TENON_API TokenDataset : public Dataset {
 public:
  /// `tokens`: 1-d, of an integer dtype; int16 is taken as unsigned. stride 0: length. ValueError when there is no whole sample.
  TokenDataset(Tensor tokens, int64_t length, int64_t stride = 0);
  int64_t size() const override;
  Batch get(int64_t index) const override;

 private:
  Tensor tokens_;
  int64_t length_, stride_;
};

}  // namespace tenon::data
