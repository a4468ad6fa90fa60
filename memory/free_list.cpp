// SPDX-License-Identifier: Apache-2.0
// The treap of sizes. Priorities are a hash of the block's descriptor: random enough for the expected depth,
// and the same program makes the same tree.
#include <tenon/memory/free_list.h>

namespace tenon::memory {
namespace {

uint32_t priority_of(const Block* block) {
  const uint64_t x = static_cast<uint64_t>(reinterpret_cast<uintptr_t>(block) >> 6) * 0x9E3779B97F4A7C15ull;
  return static_cast<uint32_t>(x >> 32);
}

// Cuts the subtree `t` into the sizes below `size` and those above it.
void split(Block* t, int64_t size, Block** low, Block** high) {
  while (t) {
    if (t->size < size) {
      *low = t;
      low = &t->right;
      t = t->right;
    } else {
      *high = t;
      high = &t->left;
      t = t->left;
    }
  }
  *low = nullptr;
  *high = nullptr;
}

// Joins two subtrees, all sizes of `low` being below those of `high`, at `link`.
void join(Block* low, Block* high, Block** link) {
  while (low && high) {
    if (low->priority >= high->priority) {
      *link = low;
      link = &low->right;
      low = low->right;
    } else {
      *link = high;
      link = &high->left;
      high = high->left;
    }
  }
  *link = low ? low : high;
}

}  // namespace

void SizeTree::insert(Block* block) {
  block->priority = priority_of(block);
  block->list_prev = nullptr;
  block->list_next = nullptr;
  Block** link = &root_;
  Block** place = nullptr;
  while (Block* node = *link) {
    if (node->size == block->size) {  // second in the list: the node itself stays where it is
      block->list_prev = node;
      block->list_next = node->list_next;
      if (node->list_next) node->list_next->list_prev = block;
      node->list_next = block;
      return;
    }
    if (!place && node->priority < block->priority) place = link;
    link = block->size < node->size ? &node->left : &node->right;
  }
  if (!place) place = link;
  split(*place, block->size, &block->left, &block->right);
  *place = block;
}

void SizeTree::remove(Block* block) {
  if (block->list_prev) {
    block->list_prev->list_next = block->list_next;
    if (block->list_next) block->list_next->list_prev = block->list_prev;
    return;
  }
  Block** link = &root_;
  while (*link != block) link = block->size < (*link)->size ? &(*link)->left : &(*link)->right;
  if (Block* heir = block->list_next) {
    heir->list_prev = nullptr;
    heir->left = block->left;
    heir->right = block->right;
    heir->priority = block->priority;
    *link = heir;
  } else {
    join(block->left, block->right, link);
  }
}

Block* SizeTree::best(int64_t size) const {
  Block* found = nullptr;
  for (Block* node = root_; node;) {
    if (node->size >= size) {
      found = node;
      if (node->size == size) break;
      node = node->left;
    } else {
      node = node->right;
    }
  }
  return found && found->list_next ? found->list_next : found;
}

int64_t SizeTree::largest() const {
  const Block* node = root_;
  while (node && node->right) node = node->right;
  return node ? node->size : 0;
}

}  // namespace tenon::memory
