// SPDX-License-Identifier: Apache-2.0
// Named tensors in the safetensors format: an 8-byte little-endian length, a JSON header of that length (dtype, shape,
// byte range of each tensor), then the bytes. No code runs when a file is read.
#pragma once

#include <tenon/core/tensor.h>

#include <string>
#include <utility>

namespace tenon::data {

using NamedTensors = std::vector<std::pair<std::string, Tensor>>;

/// Writes to a temporary file beside `path` and renames it, so that a crash leaves the old file. Tensors may be on any
/// device and strided. ValueError for a name given twice or a dtype the format has no name for (complex); IoError.
TENON_API void save_safetensors(const std::string& path, const NamedTensors& tensors);
/// The same from structs with a name and a tensor: `save_safetensors(path, model.state())`.
template <class Named,
          class = decltype(std::pair<std::string, Tensor>(std::declval<Named>().name, std::declval<Named>().tensor))>
void save_safetensors(const std::string& path, const std::vector<Named>& tensors) {
  NamedTensors pairs;
  for (const Named& t : tensors) pairs.emplace_back(t.name, t.tensor);
  save_safetensors(path, pairs);
}
/// Tensors in the order of their bytes, on the CPU. IoError naming what is wrong with the file.
TENON_API NamedTensors load_safetensors(const std::string& path);

}  // namespace tenon::data
