// SPDX-License-Identifier: Apache-2.0
// The state of one backward run: which nodes take part, what they await and what has arrived. Internal.
#pragma once

#include <tenon/autograd/node.h>

namespace tenon::autograd {

class Task {
 public:
  struct Entry {
    Node* node = nullptr;
    uint32_t awaited = 0;  ///< contributions still to come
    bool wanted = true;    ///< leads to something that was asked for
    bool several = false;
    int32_t capture = -1;      ///< first in the list of captures at this node
    Tensor one;                ///< what arrived, for nodes of one output
    std::vector<Tensor> many;  ///< the same for others
    std::span<Tensor> grads() { return several ? std::span<Tensor>(many) : std::span<Tensor>(&one, 1); }
  };

  /// Finds every node from `roots` on and counts. The graph must not change afterwards.
  void discover(std::span<const Edge> roots);
  Entry* find(const Node* node) {
    const std::size_t i = probe(node);
    return table_[i] ? &entries_[table_[i] - 1] : nullptr;
  }
  std::vector<Entry>& entries() { return entries_; }
  std::size_t position(const Entry& e) const { return static_cast<std::size_t>(&e - entries_.data()); }

  // The ready queue: a heap by sequence number.
  void push(Entry& e);
  Entry* pop();

 private:
  uint32_t insert(Node* node);
  std::size_t probe(const Node* node) const;
  void grow();

  std::vector<Entry> entries_;
  std::vector<uint32_t> table_;  // open addressing: position + 1, 0 is free; size a power of two
  std::vector<uint32_t> ready_;
};

}  // namespace tenon::autograd
