// SPDX-License-Identifier: Apache-2.0
// Sorting, selection and the most frequent element (ops/sort.h), on pairs of an order key and a position. The pairs
// are all different, so any method gives the stable order. Long lines are sorted by radix, eight bits a pass, split
// over the threads when there are fewer lines than threads. The code depends on the element type only where keys are
// made and values written.
#include <tenon/dispatch/make_tensor.h>
#include <tenon/kernels/cpu/parallel.h>
#include <tenon/kernels/cpu/run_plan.h>
#include <tenon/kernels/cpu/scratch.h>
#include <tenon/kernels/order_key.h>
#include <tenon/ops/sort.h>

#include <algorithm>
#include <array>
#include <optional>

namespace tenon::cpu {
namespace {

/// Key above, position below: for keys of up to 32 bits and lines of up to 2^32 elements.
struct PackedItem {
  uint64_t bits;
  PackedItem() = default;
  PackedItem(uint64_t key, int64_t place) : bits(key << 32 | static_cast<uint64_t>(place)) {}
  uint64_t key() const { return bits >> 32; }
  int64_t place() const { return static_cast<int64_t>(bits & 0xffffffffu); }
  bool operator<(const PackedItem& other) const { return bits < other.bits; }
};
struct WideItem {
  uint64_t bits;
  int64_t position;
  WideItem() = default;
  WideItem(uint64_t key, int64_t place) : bits(key), position(place) {}
  uint64_t key() const { return bits; }
  int64_t place() const { return position; }
  bool operator<(const WideItem& other) const {
    return bits != other.bits ? bits < other.bits : position < other.position;
  }
};

/// Scratch memory, from the caching allocator when it is much.
template <class T>
class Buffer {
 public:
  Buffer(int64_t count, int slot) {
    const int64_t bytes = count * static_cast<int64_t>(sizeof(T));
    if (bytes <= (1 << 20)) {
      small_.emplace(count, slot);
      data_ = small_->data();
    } else {
      large_ = dispatch::make_tensor({bytes}, kUInt8, kCPU);
      data_ = static_cast<T*>(large_.data_ptr());
    }
  }
  T* data() const { return data_; }

 private:
  std::optional<Scratch<T>> small_;
  Tensor large_;
  T* data_;
};

/// Pieces a line of n elements is split into, one a thread; 1 where other lines keep the threads busy.
int64_t pieces_of(int64_t n, bool split) { return split ? std::clamp<int64_t>(n / kGrain, 1, num_threads()) : 1; }

// Sorts by radix; the result is in `items` or in `other`, which is returned.
template <class Item>
Item* radix_sort(Item* items, Item* other, int64_t n, int key_bytes, bool split) {
  using Counts = std::array<int64_t, 256>;
  const int64_t pieces = pieces_of(n, split), size = (n + pieces - 1) / pieces;
  const Buffer<Counts> memory(pieces, 2);
  Counts* const counts = memory.data();
  // The digits of a whole line are counted at once; those of pieces change with every pass.
  std::array<Counts, 8> whole;
  if (pieces == 1) {
    for (int byte = 0; byte < key_bytes; ++byte) whole[static_cast<std::size_t>(byte)] = {};
    for (int64_t i = 0; i < n; ++i) {
      uint64_t key = items[i].key();
      for (int byte = 0; byte < key_bytes; ++byte, key >>= 8) ++whole[static_cast<std::size_t>(byte)][key & 0xffu];
    }
  }
  for (int byte = 0; byte < key_bytes; ++byte) {
    const int shift = 8 * byte;
    const auto digit = [shift](const Item& item) { return static_cast<std::size_t>(item.key() >> shift & 0xffu); };
    if (pieces == 1) counts[0] = whole[static_cast<std::size_t>(byte)];
    if (pieces > 1)
      parallel_for(0, pieces, 1, [&](int64_t begin, int64_t end) {
        for (int64_t p = begin; p < end; ++p) {
          Counts local{};
          for (int64_t i = p * size, e = std::min(n, i + size); i < e; ++i) ++local[digit(items[i])];
          counts[p] = local;
        }
      });
    int64_t total = 0;
    bool one_digit = false;
    for (std::size_t d = 0; d < 256; ++d) {
      const int64_t before = total;
      for (int64_t p = 0; p < pieces; ++p) {
        const int64_t count = counts[p][d];
        counts[p][d] = total;
        total += count;
      }
      one_digit = one_digit || total - before == n;
    }
    if (one_digit) continue;
    parallel_for(0, pieces, 1, [&](int64_t begin, int64_t end) {
      for (int64_t p = begin; p < end; ++p) {
        Counts to = counts[p];
        for (int64_t i = p * size, e = std::min(n, i + size); i < e; ++i) other[to[digit(items[i])]++] = items[i];
      }
    });
    std::swap(items, other);
  }
  return items;
}

constexpr int64_t kShort = 160;  // lines a comparison sort is faster on

template <class Item>
Item* sort_items(Item* items, Item* other, int64_t n, int key_bytes, bool split) {
  if (n > kShort) return radix_sort(items, other, n, key_bytes, split);
  std::sort(items, items + n);
  return items;
}

template <class T>
uint64_t key_of(const T& v, bool inverted) {
  const auto key = OrderKey<T>::of(v);
  return inverted ? static_cast<order_key_t<T>>(~key) : key;
}
template <class Item, class T>
void make_items(Item* items, const T* x, int64_t begin, int64_t end, bool inverted) {
  for (int64_t i = begin; i < end; ++i) items[i - begin] = Item(key_of(x[i], inverted), i);
}
template <class Item, class T>
void write_items(T* values, int64_t* indices, const Item* items, const T* x, int64_t begin, int64_t end,
                 bool inverted) {
  for (int64_t i = begin; i < end; ++i) {
    const int64_t place = items[i].place();
    indices[i] = place;
    if (!values) continue;
    const auto raw = static_cast<order_key_t<T>>(items[i].key());
    const auto key = inverted ? static_cast<order_key_t<T>>(~raw) : raw;
    values[i] = OrderKey<T>::exact(key) ? OrderKey<T>::value(key) : x[place];
  }
}

// f(Item tag, line, split) for every line, over the threads when there are enough lines.
template <class T, class F>
void each_line(int64_t lines, int64_t n, const F& f) {
  const bool packed = sizeof(T) <= 4 && n <= (int64_t(1) << 32);
  const auto run = [&](int64_t line, bool split) {
    if (packed)
      f(TypeTag<PackedItem>(), line, split);
    else
      f(TypeTag<WideItem>(), line, split);
  };
  if (lines < num_threads() && n > kGrain) {
    for (int64_t line = 0; line < lines; ++line) run(line, true);
    return;
  }
  parallel_for(0, lines, std::max<int64_t>(1, kGrain / 8 / n), [&](int64_t begin, int64_t end) {
    for (int64_t line = begin; line < end; ++line) run(line, false);
  });
}

template <class T>
T* data_of(const Tensor& t) {
  return t.defined() ? static_cast<T*>(t.data_ptr()) : nullptr;
}

template <class T>
void sort_cpu(const Tensor& values, const Tensor& indices, const Tensor& self, bool descending) {
  const int64_t n = self.sizes().back(), lines = self.numel() / n;
  const T* const in = data_of<const T>(self);
  T* const out = data_of<T>(values);
  int64_t* const where = data_of<int64_t>(indices);
  each_line<T>(lines, n, [&](auto tag, int64_t line, bool split) {
    using Item = typename decltype(tag)::type;
    const Buffer<Item> first(n, 0), second(n, 1);
    const T* const x = in + line * n;
    const int64_t grain = split ? kGrain : n;
    parallel_for(0, n, grain,
                 [&](int64_t begin, int64_t end) { make_items(first.data() + begin, x, begin, end, descending); });
    const Item* const sorted = sort_items(first.data(), second.data(), n, static_cast<int>(sizeof(T)), split);
    parallel_for(0, n, grain, [&](int64_t begin, int64_t end) {
      write_items(out ? out + line * n : nullptr, where + line * n, sorted, x, begin, end, descending);
    });
  });
}

// The k first of the elements from `begin` to `end` in the order of items, in any order, into `best`, which has room
// for 2 k + 1024: elements that cannot be among them are passed over by their key alone.
template <class Item, class T>
int64_t select_first(Item* best, const T* x, int64_t begin, int64_t end, int64_t k, bool inverted) {
  const int64_t room = 2 * k + 1024;
  int64_t count = 0;
  uint64_t limit = ~uint64_t(0);
  bool limited = false;
  for (int64_t i = begin; i < end; ++i) {
    const uint64_t key = key_of(x[i], inverted);
    if (limited && key >= limit) continue;  // an equal one comes later
    best[count++] = Item(key, i);
    if (count < room) continue;
    std::nth_element(best, best + k - 1, best + count);
    count = k;
    limit = best[k - 1].key();
    limited = true;
  }
  if (count <= k) return count;
  std::nth_element(best, best + k - 1, best + count);
  return k;
}

template <class T>
void topk_cpu(const Tensor& values, const Tensor& indices, const Tensor& self, bool largest) {
  const int64_t n = self.sizes().back(), lines = self.numel() / n, k = values.sizes().back();
  const T* const in = data_of<const T>(self);
  T* const out = data_of<T>(values);
  int64_t* const where = data_of<int64_t>(indices);
  each_line<T>(lines, n, [&](auto tag, int64_t line, bool split) {
    using Item = typename decltype(tag)::type;
    const T* const x = in + line * n;
    T* const to = out + line * k;
    int64_t* const places = where + line * k;
    if (k > n / 8 && n > kShort) {  // most of the work of sorting them all
      const Buffer<Item> items(n, 0), other(n, 1);
      make_items(items.data(), x, 0, n, largest);
      write_items(to, places, radix_sort(items.data(), other.data(), n, static_cast<int>(sizeof(T)), split), x, 0, k,
                  largest);
      return;
    }
    const int64_t pieces = pieces_of(n, split), size = (n + pieces - 1) / pieces, room = 2 * k + 1024;
    const Buffer<Item> memory(pieces * room, 0);
    const Buffer<int64_t> counts(pieces, 1);
    Item* const best = memory.data();
    parallel_for(0, pieces, 1, [&](int64_t begin, int64_t end) {
      for (int64_t p = begin; p < end; ++p)
        counts.data()[p] = select_first(best + p * room, x, p * size, std::min(n, (p + 1) * size), k, largest);
    });
    int64_t count = counts.data()[0];
    for (int64_t p = 1; p < pieces; ++p) {
      std::copy_n(best + p * room, counts.data()[p], best + count);
      count += counts.data()[p];
    }
    if (count > k) std::nth_element(best, best + k - 1, best + count);
    std::sort(best, best + k);
    write_items(to, places, best, x, 0, k, largest);
  });
}

template <class T>
void kthvalue_cpu(const Tensor& values, const Tensor& indices, const Tensor& self, int64_t k,
                  OrderStatistic statistic) {
  const int64_t n = self.sizes().back(), lines = self.numel() / n;
  const T* const in = data_of<const T>(self);
  T* const out = data_of<T>(values);
  int64_t* const where = data_of<int64_t>(indices);
  each_line<T>(lines, n, [&](auto tag, int64_t line, bool) {
    using Item = typename decltype(tag)::type;
    const T* const x = in + line * n;
    int64_t rank = k - 1;
    if (statistic != OrderStatistic::kth) {
      int64_t nans = 0;
      if constexpr (OrderKey<T>::kFloating)
        for (int64_t i = 0; i < n; ++i) nans += OrderKey<T>::of(x[i]) == OrderKey<T>::kNan;
      // NaN sorts last: the first of them follows the numbers.
      if (statistic == OrderStatistic::median)
        rank = nans > 0 ? n - nans : (n - 1) / 2;
      else
        rank = nans < n ? (n - nans - 1) / 2 : 0;
    }
    const Buffer<Item> items(n, 0);
    make_items(items.data(), x, 0, n, false);
    std::nth_element(items.data(), items.data() + rank, items.data() + n);
    where[line] = items.data()[rank].place();
    out[line] = x[where[line]];
  });
}

template <class T>
void mode_cpu(const Tensor& values, const Tensor& indices, const Tensor& sorted, const Tensor& order) {
  const int64_t n = sorted.sizes().back(), lines = sorted.numel() / n;
  const T* const in = data_of<const T>(sorted);
  const int64_t* const places = data_of<const int64_t>(order);
  T* const out = data_of<T>(values);
  int64_t* const where = data_of<int64_t>(indices);
  using C = compute_t<T>;
  parallel_for(0, lines, std::max<int64_t>(1, kGrain / n), [&](int64_t begin, int64_t end) {
    for (int64_t line = begin; line < end; ++line) {
      const T* const x = in + line * n;
      int64_t best = 0, most = 0, run = 0;
      for (int64_t i = 0; i < n; ++i) {
        run = i > 0 && static_cast<C>(x[i]) == static_cast<C>(x[i - 1]) ? run + 1 : 1;
        if (run > most) most = run, best = i;
      }
      out[line] = x[best];
      where[line] = places[line * n + best];
    }
  });
}

using Ordered = Join<Numbers, Bools>;
TENON_REGISTER_KERNEL(op::sort, cpu, Ordered, sort_cpu);
TENON_REGISTER_KERNEL(op::topk, cpu, Ordered, topk_cpu);
TENON_REGISTER_KERNEL(op::kthvalue, cpu, Ordered, kthvalue_cpu);
TENON_REGISTER_KERNEL(op::mode, cpu, Ordered, mode_cpu);

}  // namespace
}  // namespace tenon::cpu
