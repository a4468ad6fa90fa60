// SPDX-License-Identifier: Apache-2.0
#include <tenon/autograd/task.h>

#include <algorithm>

namespace tenon::autograd {

std::size_t Task::probe(const Node* node) const {
  const std::size_t mask = table_.size() - 1;
  std::size_t i = (reinterpret_cast<uintptr_t>(node) >> 4) * 0x9E3779B97F4A7C15u >> 20 & mask;
  while (table_[i] && entries_[table_[i] - 1].node != node) i = (i + 1) & mask;
  return i;
}

void Task::grow() {
  table_.assign(table_.empty() ? 64 : table_.size() * 4, 0);
  for (std::size_t k = 0; k < entries_.size(); ++k) table_[probe(entries_[k].node)] = static_cast<uint32_t>(k + 1);
}

// The entry of `node`; `entries_` grew if it is new.
uint32_t Task::insert(Node* node) {
  if ((entries_.size() + 1) * 2 > table_.size()) grow();
  const std::size_t i = probe(node);
  if (!table_[i]) {
    entries_.emplace_back().node = node;
    Entry& e = entries_.back();
    e.several = node->outputs() != 1;
    if (e.several) e.many.resize(node->outputs());
    table_[i] = static_cast<uint32_t>(entries_.size());
  }
  return table_[i] - 1;
}

void Task::discover(std::span<const Edge> roots) {
  entries_.reserve(16);
  ready_.reserve(16);
  for (const Edge& e : roots) insert(e.node.get());
  // New entries are appended, so the list is its own queue.
  for (std::size_t k = 0; k < entries_.size(); ++k) {
    for (const Edge& e : entries_[k].node->edges())
      if (e) ++entries_[insert(e.node.get())].awaited;
  }
}

void Task::push(Entry& e) {
  ready_.push_back(static_cast<uint32_t>(position(e)));
  if (ready_.size() > 1)
    std::push_heap(ready_.begin(), ready_.end(),
                   [&](uint32_t a, uint32_t b) { return entries_[a].node->sequence() < entries_[b].node->sequence(); });
}

Task::Entry* Task::pop() {
  if (ready_.empty()) return nullptr;
  if (ready_.size() > 1)
    std::pop_heap(ready_.begin(), ready_.end(),
                  [&](uint32_t a, uint32_t b) { return entries_[a].node->sequence() < entries_[b].node->sequence(); });
  const uint32_t k = ready_.back();
  ready_.pop_back();
  return &entries_[k];
}

}  // namespace tenon::autograd
