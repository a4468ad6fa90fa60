// SPDX-License-Identifier: Apache-2.0
// Conformance cases (JSON lines: inputs, expected outputs and gradients of one operator call) as tensors and values.
#pragma once

#include <tenon/core/index.h>
#include <tenon/dispatch/registry.h>

#include <map>
#include <nlohmann/json.hpp>

namespace tenon::conformance {

using Json = nlohmann::json;

/// How inputs are laid out in memory; values are always those of the case.
enum class Layout { as_given, transposed, every_second, shifted, expanded };

/// Reads the arguments of one case onto one device.
class CaseReader {
 public:
  CaseReader(const Json& test, Device device, Layout layout);
  /// A tensor of the case, on the CPU and contiguous: expected values.
  static Tensor expected(const Json& tensor);
  /// An argument; lists become lists of tensors or integers.
  dispatch::Value value(const Json& v);
  /// What stands between brackets: slices, numbers, null, ellipsis, tensors and lists of numbers.
  std::vector<TensorIndex> indices(const Json& v);
  /// Shared storages the case's views refer to.
  const std::map<std::string, Tensor>& storages() const { return storages_; }

 private:
  Tensor tensor(const Json& v);
  Tensor laid_out(const Tensor& t) const;
  Device device_;
  Layout layout_;
  std::map<std::string, Tensor> storages_;
};

bool is_tensor(const Json& v);
/// A number as the cases write it: plain, a decimal string, "nan", "inf", "-inf".
double number(const Json& v);

}  // namespace tenon::conformance
