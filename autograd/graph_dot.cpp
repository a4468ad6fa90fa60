// SPDX-License-Identifier: Apache-2.0
#include <tenon/autograd/autograd_meta.h>
#include <tenon/autograd/graph_dot.h>
#include <tenon/core/operand.h>

#include <unordered_map>

namespace tenon::autograd {
namespace {

std::string quoted(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\r') continue;
    if (c == '"' || c == '\\') out += '\\';
    if (c == '\n')
      out += "\\n";  // dot's own line break
    else
      out += c;
  }
  return out;
}

std::string geometry(IntArrayRef sizes, DType dtype) { return tenon::detail::concat(dtype, " ", sizes); }

// Nodes in the order in which they are met from the roots, so numbers do not depend on what else the program did.
struct Graph {
  std::vector<Node*> nodes;
  std::unordered_map<const Node*, std::size_t> number;
  void add(Node* node) {
    if (number.emplace(node, nodes.size()).second) nodes.push_back(node);
  }
  explicit Graph(TensorList tensors) {
    for (const Tensor& t : tensors)
      if (const Edge e = t.defined() ? edge_of(t) : Edge{}) add(e.node.get());
    for (std::size_t i = 0; i < nodes.size(); ++i)
      for (const Edge& e : nodes[i]->edges())
        if (e) add(e.node.get());
  }
};

std::string label_of(const Node& node, const std::string& name, std::string_view leaf, bool saved) {
  std::string label = leaf.empty() ? quoted(node.name()) : std::string(leaf);
  if (!name.empty()) label = leaf.empty() ? label + "\\n" + quoted(name) : quoted(name) + "\\n" + label;
  if (!saved) return label;
  int64_t total = 0;
  node.visit_saved([&](std::string_view what, IntArrayRef sizes, DType dtype, int64_t bytes) {
    total += bytes;
    label += tenon::detail::concat("\\nkeeps ", what, ": ", geometry(sizes, dtype), ", ", bytes, " B");
  });
  return label;
}

}  // namespace

std::string graph_dot(TensorList tensors, const GraphDotOptions& options) {
  const Graph graph(tensors);
  std::unordered_map<const Node*, std::string> names, leaves;
  for (const auto& [name, tensor] : options.names) {
    const Edge e = tensor.defined() ? edge_of(tensor) : Edge{};
    if (!e || !graph.number.count(e.node.get())) continue;
    std::string& all = names[e.node.get()];
    all += (all.empty() ? "" : ", ") + name;
  }
  std::string arrows;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = *graph.nodes[i];
    for (std::size_t k = 0; k < node.edges().size(); ++k) {
      const Edge& e = node.edges()[k];
      if (!e) continue;
      const auto [sizes, dtype] = node.input_geometry(k);
      const std::string text = dtype == DType::undefined ? std::string() : geometry(sizes, dtype);
      const bool leaf = dynamic_cast<const AccumulateGrad*>(e.node.get()) != nullptr;
      if (leaf) leaves[e.node.get()] = text;
      arrows += tenon::detail::concat("  n", graph.number.at(e.node.get()), " -> n", i);
      const bool several = e.node->outputs() > 1;
      if (!leaf && (!text.empty() || several)) {
        arrows += " [label=\"" + text;
        if (several) arrows += tenon::detail::concat(text.empty() ? "" : "\\n", "output ", e.index);
        arrows += "\"]";
      }
      arrows += ";\n";
    }
  }
  // What came out: tensors of the call.
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const Edge e = tensors[i].defined() ? edge_of(tensors[i]) : Edge{};
    if (!e || dynamic_cast<const AccumulateGrad*>(e.node.get())) continue;
    arrows += tenon::detail::concat("  out", i, " [shape=plaintext, label=\"",
                                    geometry(tensors[i].sizes(), tensors[i].dtype()), "\"];\n  n",
                                    graph.number.at(e.node.get()), " -> out", i, ";\n");
  }

  std::string text =
      "digraph autograd {\n  node [fontname=\"Helvetica\", fontsize=11];\n"
      "  edge [fontname=\"Helvetica\", fontsize=9];\n";
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = *graph.nodes[i];
    const bool leaf = dynamic_cast<const AccumulateGrad*>(&node) != nullptr;
    const auto known = leaves.find(&node);
    const std::string kind = !leaf ? "" : known != leaves.end() && !known->second.empty() ? known->second : "leaf";
    text += tenon::detail::concat("  n", i, " [label=\"", label_of(node, names[&node], kind, options.saved), "\"",
                                  leaf ? ", shape=box, style=filled, fillcolor=\"#e8f0e0\"" : "", "];\n");
  }
  return text + arrows + "}\n";
}

}  // namespace tenon::autograd
