// SPDX-License-Identifier: Apache-2.0
// The two free lists of a stream's pool, both answering "the smallest block of at least n bytes".
// Note [Best fit]. Blocks of the small pool are multiples of 512 bytes up to 2 MiB, so there is one list per
// size and a two-level bitmap finds the best fit in constant time. Large blocks have any size: a treap over
// the *distinct* sizes, with the blocks of one size in a list on its node, finds it in expected O(log d) for
// d distinct sizes, and a training loop, which frees and asks for the same sizes, hardly ever rebalances it.
// Equal blocks are handed out last in, first out: the warmest one first.
// Internal: not for users' files. Not thread-safe: the allocator's lock protects them.
#pragma once

#include <tenon/memory/block.h>

#include <cstdint>

namespace tenon::memory {

inline constexpr int64_t kMinBlock = 512;          ///< every block is a multiple of this
inline constexpr int64_t kSmallSegment = 2 << 20;  ///< what the small pool takes from the device at a time

/// Blocks of kMinBlock bytes and more, one list per size below kSmallSegment and one for that and everything above,
/// which only expandable segments have.
class SizeBins {
 public:
  void insert(Block* block) {
    const int bin = bin_of(block->size);
    block->list_prev = nullptr;
    block->list_next = heads_[bin];
    if (heads_[bin]) heads_[bin]->list_prev = block;
    heads_[bin] = block;
    words_[bin >> 6] |= uint64_t{1} << (bin & 63);
    summary_ |= uint64_t{1} << (bin >> 6);
  }
  void remove(Block* block) {
    if (block->list_next) block->list_next->list_prev = block->list_prev;
    if (block->list_prev) {
      block->list_prev->list_next = block->list_next;
      return;
    }
    const int bin = bin_of(block->size);
    heads_[bin] = block->list_next;
    if (heads_[bin]) return;
    words_[bin >> 6] &= ~(uint64_t{1} << (bin & 63));
    if (words_[bin >> 6] == 0) summary_ &= ~(uint64_t{1} << (bin >> 6));
  }
  /// The best fit, still in the list, or null.
  Block* best(int64_t size) const {
    const int bin = bin_of(size);
    int word = bin >> 6;
    uint64_t bits = words_[word] & (~uint64_t{0} << (bin & 63));
    if (bits == 0) {
      const uint64_t rest = word == 63 ? 0 : summary_ & (~uint64_t{0} << (word + 1));
      if (rest == 0) return nullptr;
      word = __builtin_ctzll(rest);
      bits = words_[word];
    }
    return heads_[(word << 6) + __builtin_ctzll(bits)];
  }
  int64_t largest() const {
    if (summary_ == 0) return 0;
    const int word = 63 - __builtin_clzll(summary_);
    if (const Block* b = heads_[kBins - 1]) {
      int64_t most = 0;
      for (; b; b = b->list_next) most = b->size > most ? b->size : most;
      return most;
    }
    return ((int64_t{word} << 6) + 64 - __builtin_clzll(words_[word])) * kMinBlock;
  }

  /// The blocks of kSmallSegment bytes and more, by list_next.
  Block* whole() const { return heads_[kBins - 1]; }

 private:
  static constexpr int kBins = static_cast<int>(kSmallSegment / kMinBlock);
  static_assert(kBins == 64 * 64, "two levels of 64 bits");
  static int bin_of(int64_t size) { return size >= kSmallSegment ? kBins - 1 : static_cast<int>(size / kMinBlock) - 1; }

  uint64_t summary_ = 0;
  uint64_t words_[64] = {};
  Block* heads_[kBins] = {};
};

/// Blocks of any size, ordered by size.
class TENON_API SizeTree {
 public:
  void insert(Block* block);
  void remove(Block* block);
  /// The best fit, still in the tree, or null.
  Block* best(int64_t size) const;
  int64_t largest() const;

 private:
  Block* root_ = nullptr;
};

}  // namespace tenon::memory
