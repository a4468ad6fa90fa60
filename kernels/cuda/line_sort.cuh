// SPDX-License-Identifier: Apache-2.0
// Sorts short lines in shared memory: a bitonic network over pairs of order key and position, which are all
// different, so the order is stable. A block takes one line, or several that fit together. What is written is a range
// of the sorted line: all of it (sort), its begin (topk) or one element (order statistics).
#pragma once

#include <tenon/kernels/cuda/launch.h>
#include <tenon/kernels/order_key.h>
#include <tenon/ops/sort.h>

namespace tenon::cuda {

constexpr int kLineSortThreads = 256;
/// Longest line sort_lines takes.
constexpr int64_t kLineSortLimit = 4096;

struct LineSortArgs {
  int64_t lines;
  int n, padded, lines_per_block;  // padded: n rounded up to a power of two
  int first, count;                // of the sorted line, written; `first` is found for a median
  bool inverted;
  OrderStatistic statistic;
};

namespace detail {

/// A shared array of items: key and position in one word where the key leaves room.
template <class T, bool kPacked = sizeof(T) <= 4>
struct LineItems;
template <class T>
struct LineItems<T, true> {
  static constexpr int kBytes = 8;
  uint64_t* items;
  __device__ LineItems(char* memory, int) : items(reinterpret_cast<uint64_t*>(memory)) {}
  __device__ void set(int i, uint64_t key, uint32_t place) { items[i] = key << 32 | place; }
  __device__ void pad(int i) { items[i] = ~uint64_t(0); }
  __device__ uint64_t key(int i) const { return items[i] >> 32; }
  __device__ uint32_t place(int i) const { return static_cast<uint32_t>(items[i]); }
  __device__ void order(int i, int j, bool ascending) {
    const uint64_t a = items[i], b = items[j];
    if ((a > b) == ascending) items[i] = b, items[j] = a;
  }
};
template <class T>
struct LineItems<T, false> {
  static constexpr int kBytes = 12;
  uint64_t* keys;
  uint32_t* places;
  __device__ LineItems(char* memory, int count)
      : keys(reinterpret_cast<uint64_t*>(memory)), places(reinterpret_cast<uint32_t*>(keys + count)) {}
  __device__ void set(int i, uint64_t key, uint32_t place) { keys[i] = key, places[i] = place; }
  __device__ void pad(int i) { keys[i] = ~uint64_t(0), places[i] = ~uint32_t(0); }
  __device__ uint64_t key(int i) const { return keys[i]; }
  __device__ uint32_t place(int i) const { return places[i]; }
  __device__ void order(int i, int j, bool ascending) {
    const uint64_t a = keys[i], b = keys[j];
    const uint32_t p = places[i], q = places[j];
    if ((a > b || (a == b && p > q)) != ascending) return;
    keys[i] = b, keys[j] = a;
    places[i] = q, places[j] = p;
  }
};

template <class T>
__global__ void __launch_bounds__(kLineSortThreads)
    sort_lines_kernel(const LineSortArgs p, const T* x, T* values, int64_t* indices) {
  using K = OrderKey<T>;
  using Key = order_key_t<T>;
  extern __shared__ __align__(16) char line_sort_memory[];
  const int size = p.lines_per_block * p.padded;
  LineItems<T> items(line_sort_memory, size);
  const int64_t first_line = int64_t(blockIdx.x) * p.lines_per_block;
  for (int i = threadIdx.x; i < size; i += kLineSortThreads) {
    const int64_t line = first_line + i / p.padded;
    const int place = i & (p.padded - 1);
    if (line < p.lines && place < p.n) {
      const Key key = K::of(x[line * p.n + place]);
      items.set(i, p.inverted ? static_cast<Key>(~key) : key, static_cast<uint32_t>(place));
    } else {
      items.pad(i);
    }
  }
  __syncthreads();
  for (int run = 2; run <= p.padded; run *= 2) {
    for (int step = run / 2; step > 0; step /= 2) {
      for (int pair = threadIdx.x; pair < size / 2; pair += kLineSortThreads) {
        const int i = (pair / step) * 2 * step + pair % step;
        items.order(i, i + step, (i & (p.padded - 1) & run) == 0);
      }
      __syncthreads();
    }
  }
  for (int i = threadIdx.x; i < p.lines_per_block * p.count; i += kLineSortThreads) {
    const int local = i / p.count, base = local * p.padded;
    const int64_t line = first_line + local;
    if (line >= p.lines) break;
    int first = p.first;
    if (p.statistic != OrderStatistic::kth) {  // NaN comes last: the first one by halving
      int low = 0, high = K::kFloating ? p.n : 0;
      while (low < high) {
        const int middle = (low + high) / 2;
        if (static_cast<Key>(items.key(base + middle)) == K::kNan)
          high = middle;
        else
          low = middle + 1;
      }
      const int numbers = K::kFloating ? low : p.n;
      if (p.statistic == OrderStatistic::median)
        first = numbers < p.n ? numbers : (p.n - 1) / 2;
      else
        first = numbers > 0 ? (numbers - 1) / 2 : 0;
    }
    const int at = base + first + i % p.count;
    const uint32_t place = items.place(at);
    const int64_t to = line * p.count + i % p.count;
    if (values) {
      const Key raw = static_cast<Key>(items.key(at));
      const Key key = p.inverted ? static_cast<Key>(~raw) : raw;
      values[to] = K::exact(key) ? K::value(key) : x[line * p.n + place];
    }
    indices[to] = place;
  }
}

}  // namespace detail

/// Sorts `lines` lines of n <= kLineSortLimit elements and writes elements first to first + count - 1 of each. For a
/// median count is 1 and `first` is not read. `values` may be null.
template <class T>
void sort_lines(const T* x, int64_t lines, int64_t n, T* values, int64_t* indices, int64_t first, int64_t count,
                bool inverted, OrderStatistic statistic = OrderStatistic::kth) {
  int padded = 2;
  while (padded < n) padded *= 2;
  const int per_block = padded < 1024 ? 1024 / padded : 1;
  const LineSortArgs p{
      lines,    static_cast<int>(n), padded, per_block, static_cast<int>(first), static_cast<int>(count), inverted,
      statistic};
  launch(detail::sort_lines_kernel<T>, static_cast<unsigned>(ceil_div(lines, per_block)), kLineSortThreads,
         static_cast<std::size_t>(per_block * padded * detail::LineItems<T>::kBytes), p, x, values, indices);
}

}  // namespace tenon::cuda
