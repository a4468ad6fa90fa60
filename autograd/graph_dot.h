// SPDX-License-Identifier: Apache-2.0
// The recorded graph as text for Graphviz: `dot -Tsvg`. Data flows downwards, gradients go up against the arrows.
#pragma once

#include <tenon/autograd/node.h>

#include <string>

namespace tenon::autograd {

struct GraphDotOptions {
  /// Names of tensors: leaves, or results in between.
  std::vector<std::pair<std::string, Tensor>> names;
  bool saved = false;  ///< what each step keeps for backward, with its bytes
};

/// The graph behind `tensors`: a box for each leaf that requires grad, an ellipse for each operator or Function (its name,
/// and what it saved), arrows with the sizes and dtype of what went along. The same graph gives the same text, whatever ran
/// before. Tensors without history add nothing.
TENON_API std::string graph_dot(TensorList tensors, const GraphDotOptions& options = {});
inline std::string graph_dot(const Tensor& t, const GraphDotOptions& options = {}) {
  return graph_dot(TensorList(&t, 1), options);
}
/// With the names of a module: graph_dot(loss, model.named_parameters()).
template <class Named, class = decltype(std::string(std::declval<Named>().name), std::declval<Named>().tensor)>
std::string graph_dot(const Tensor& t, const std::vector<Named>& names, bool saved = false) {
  GraphDotOptions options;
  options.saved = saved;
  for (const Named& each : names) options.names.emplace_back(each.name, each.tensor);
  return graph_dot(t, options);
}

}  // namespace tenon::autograd
