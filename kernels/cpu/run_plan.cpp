// SPDX-License-Identifier: Apache-2.0
// The driver behind elementwise().
//
// Note [Blocks]. A body sees dense arrays of its own types. An operand that already is one is passed as it lies.
// Any other (broadcast along the inner dimension, a number, strided, or a 16-bit or 8-bit float) goes through a block
// of 2 KiB that stays in the first-level cache, filled before the body runs and, for an output, stored after it.
// Note [Three walks]. Rows: the inner dimension in pieces, the usual case. Tiles: an input that is dense along the
// second dimension instead of the first (a transposed one) is fetched in tiles of many rows, so that the cache
// lines read are used whole. Short rows: many rows are gathered into one block, because a body call per row of three
// elements would be all overhead.
#include <tenon/kernels/cpu/convert.h>
#include <tenon/kernels/cpu/run_plan.h>

namespace tenon::cpu {
namespace {

constexpr int kOperands = LoopPlan::kMaxOperands;
constexpr int64_t kBlockBytes = 2048;
constexpr int64_t kTileBytes = 32768;
constexpr int64_t kTileLine = 256;  // bytes read at once from a transposed operand: fewer waste the memory's pages
constexpr int kTileOperands = 3;
constexpr int64_t kShortRow = 32;
constexpr int64_t kUnit = 256;  // elements; threads split at multiples, so that vectors stay aligned

struct Width16 {
  uint64_t part[2];
};

struct Layout {  // what is the same for all threads of one call
  const LoopPlan& plan;
  const RunBody& body;
  int64_t block;  // elements
  int64_t tile_rows, tile_columns;
  int64_t item[kOperands];  // bytes in the plan's array
  int64_t own[kOperands];   // bytes in the body's array
  bool converts[kOperands];
  bool linear[kOperands];  // dense in the order of the plan
  bool passes[kOperands];  // the inner dimension is what the body wants
  bool all_pass;
  bool tiles;
  bool streams;  // see Note [Streaming]

  Layout(const LoopPlan& p, const RunBody& b) : plan(p), body(b) {
    int64_t widest = 1;
    all_pass = true;
    tiles = false;
    for (int i = 0; i < p.operands; ++i) {
      item[i] = item_size(p.dtype[i]);
      own[i] = item_size(b.dtype[i]);
      widest = own[i] > widest ? own[i] : widest;
      converts[i] = p.dtype[i] != b.dtype[i];
      TENON_CHECK(!converts[i] || ((is_half(p.dtype[i]) || is_float8(p.dtype[i])) && b.dtype[i] == kFloat32),
                  DtypeError, "elementwise: operand ", i, ": expected ", b.dtype[i], ", got ", p.dtype[i]);
      passes[i] = !converts[i] && p.strides[i][0] == item[i];
      all_pass = all_pass && passes[i];
      linear[i] = true;
      for (int64_t d = 0, step = item[i]; d < p.ndim; step *= p.shape[d++])
        linear[i] = linear[i] && p.strides[i][d] == step;
      tiles = tiles || (p.ndim >= 2 && transposed(i));
    }
    streams = p.numel * item[0] >= kStreamBytes;
    for (int i = p.outputs; i < p.operands; ++i) streams = streams && p.data[i] != p.data[0];
    block = kBlockBytes / widest;
    tile_rows = kTileLine / widest;
    tile_columns = kTileBytes / (tile_rows * widest);
    tiles = tiles && p.shape[0] >= kShortRow && p.shape[1] >= 8;
  }
  bool transposed(int i) const {
    return i >= plan.outputs && !converts[i] && plan.strides[i][1] == item[i] && plan.strides[i][0] != item[i] &&
           plan.strides[i][0] != 0;
  }
};

class Walker {
 public:
  explicit Walker(const Layout& layout) : l_(layout), p_(layout.plan) {}
  ~Walker() {
    if (l_.streams) end_stream();
  }

  void contiguous(int64_t begin, int64_t end) {
    char* at[kOperands];
    for (int i = 0; i < p_.operands; ++i) at[i] = p_.data[i] + begin * p_.strides[i][0];
    row(at, end - begin);
  }

  void rows(int64_t begin, int64_t end) {
    start(begin);
    while (begin < end) {
      int64_t n = p_.shape[0] - index_[0];
      if (n > end - begin) n = end - begin;
      row(at_, n);
      begin += n;
      advance(n);
    }
  }

  void short_rows(int64_t begin, int64_t end) {
    while (begin < end) {
      const int64_t n = end - begin < l_.block ? end - begin : l_.block;
      char* data[kOperands];
      for (int i = 0; i < p_.operands; ++i) {
        data[i] = l_.linear[i] && !l_.converts[i] ? p_.data[i] + begin * l_.item[i] : block_[i];
        if (i < p_.outputs || data[i] != block_[i]) continue;
        char* dense = l_.linear[i] ? p_.data[i] + begin * l_.item[i] : l_.converts[i] ? narrow_[i] : block_[i];
        if (!l_.linear[i]) spread<false>(i, dense, begin, n);
        if (l_.converts[i]) small_to_float(reinterpret_cast<float*>(block_[i]), dense, p_.dtype[i], n);
      }
      l_.body.run(l_.body.f, data, n);
      for (int i = 0; i < p_.outputs; ++i) {
        if (data[i] != block_[i]) continue;
        char* dense = l_.linear[i] ? p_.data[i] + begin * l_.item[i] : l_.converts[i] ? narrow_[i] : block_[i];
        if (l_.converts[i]) float_to_small(dense, p_.dtype[i], reinterpret_cast<const float*>(block_[i]), n);
        if (!l_.linear[i]) spread<true>(i, dense, begin, n);
      }
      begin += n;
    }
  }

  // Columns [first, last) of one plane of dimensions 0 and 1; no more than tile_columns. Going down the rows reads
  // transposed operands in order.
  void tile_band(char* const* plane, int64_t first, int64_t last) {
    const int64_t n = last - first, tile_rows = l_.tile_rows;
    for (int64_t r = 0; r < p_.shape[1]; r += tile_rows) {
      const int64_t rows = p_.shape[1] - r < tile_rows ? p_.shape[1] - r : tile_rows;
      const char* tile_of[kOperands] = {};
      int tiles = 0;
      for (int i = p_.outputs; i < p_.operands && tiles < kTileOperands; ++i) {
        if (!l_.transposed(i)) continue;
        move_transposed(tile_[tiles], n * l_.item[i], plane[i] + r * l_.item[i] + first * p_.strides[i][0],
                        p_.strides[i][0], l_.item[i], rows, n);
        tile_of[i] = tile_[tiles++];
      }
      for (int64_t k = 0; k < rows; ++k) {
        constexpr int64_t kAhead = 4;  // rows; each lies on a page of its own, where no hardware looks ahead
        for (int i = p_.outputs; i < p_.operands; ++i)
          if (l_.passes[i])
            for (int64_t byte = 0; byte < n * l_.item[i]; byte += 64)
              __builtin_prefetch(plane[i] + (r + k + kAhead) * p_.strides[i][1] + first * p_.strides[i][0] + byte);
        char* at[kOperands];
        for (int i = 0; i < p_.operands; ++i)
          at[i] = tile_of[i] ? const_cast<char*>(tile_of[i]) + k * n * l_.item[i]
                             : plane[i] + (r + k) * p_.strides[i][1] + first * p_.strides[i][0];
        row(at, n, tile_of);
      }
    }
  }

  /// Addresses of the plane with number `plane` over dimensions 2 and up.
  void plane_at(int64_t plane, char** at) const {
    for (int i = 0; i < p_.operands; ++i) at[i] = p_.data[i];
    for (int d = 2; d < p_.ndim; ++d) {
      const int64_t k = plane % p_.shape[d];
      plane /= p_.shape[d];
      for (int i = 0; i < p_.operands; ++i) at[i] += k * p_.strides[i][d];
    }
  }

 private:
  void start(int64_t position) {
    for (int i = 0; i < p_.operands; ++i) at_[i] = p_.data[i];
    for (int d = 0; d < p_.ndim; ++d) {
      index_[d] = position % p_.shape[d];
      position /= p_.shape[d];
      for (int i = 0; i < p_.operands; ++i) at_[i] += index_[d] * p_.strides[i][d];
    }
  }

  // n elements on, within the current row or to the start of the next.
  void advance(int64_t n) {
    index_[0] += n;
    for (int i = 0; i < p_.operands; ++i) at_[i] += n * p_.strides[i][0];
    for (int d = 0; index_[d] == p_.shape[d] && d + 1 < p_.ndim; ++d) {
      index_[d] = 0;
      ++index_[d + 1];
      for (int i = 0; i < p_.operands; ++i) at_[i] += p_.strides[i][d + 1] - p_.shape[d] * p_.strides[i][d];
    }
  }

  // Moves n elements from position `begin` on between operand i and a dense array.
  template <bool kToOperand>
  void spread(int i, char* dense, int64_t begin, int64_t n) {
    switch (l_.item[i]) {
      case 1:
        return spread_as<kToOperand, uint8_t>(i, dense, begin, n);
      case 2:
        return spread_as<kToOperand, uint16_t>(i, dense, begin, n);
      case 4:
        return spread_as<kToOperand, uint32_t>(i, dense, begin, n);
      case 8:
        return spread_as<kToOperand, uint64_t>(i, dense, begin, n);
      default:
        return spread_as<kToOperand, Width16>(i, dense, begin, n);
    }
  }
  template <bool kToOperand, class T>
  void spread_as(int i, char* dense, int64_t begin, int64_t n) {
    const int64_t* strides = p_.strides[i];
    int64_t index[kMaxDims], position = begin;
    char* at = p_.data[i];
    for (int d = 0; d < p_.ndim; ++d) {
      index[d] = position % p_.shape[d];
      position /= p_.shape[d];
      at += index[d] * strides[d];
    }
    T* flat = reinterpret_cast<T*>(dense);
    const int64_t width = p_.shape[0], step = strides[0], back = strides[1] - width * step;
    for (T* const last = flat + n; flat < last;) {
      const int64_t m = width - index[0] < last - flat ? width - index[0] : last - flat;
      for (int64_t k = 0; k < m; ++k, at += step)
        kToOperand ? void(*reinterpret_cast<T*>(at) = *flat++) : void(*flat++ = *reinterpret_cast<const T*>(at));
      index[0] += m;
      if (index[0] < width) return;
      index[0] = 0;
      at += back;
      ++index[1];
      for (int d = 1; index[d] == p_.shape[d] && d + 1 < p_.ndim; ++d) {
        index[d] = 0;
        ++index[d + 1];
        at += strides[d + 1] - p_.shape[d] * strides[d];
      }
    }
  }

  // n elements along dimension 0. tile_of[i]: operand i lies dense in a tile already.
  void row(char* const* at, int64_t n, const char* const* tile_of = nullptr) {
    if (l_.all_pass && !l_.streams) return l_.body.run(l_.body.f, at, n);
    for (int64_t done = 0; done < n; done += l_.block) {
      const int64_t m = n - done < l_.block ? n - done : l_.block;
      char* data[kOperands];
      for (int i = 0; i < p_.operands; ++i) {
        const bool dense = l_.passes[i] || (tile_of && tile_of[i]);
        char* source = at[i] + done * (dense ? l_.item[i] : p_.strides[i][0]);
        data[i] = dense && !(l_.streams && i < p_.outputs) ? source : block_[i];
        if (!dense && i >= p_.outputs) fetch(i, source, m);
      }
      l_.body.run(l_.body.f, data, m);
      for (int i = 0; i < p_.outputs; ++i)
        if (data[i] == block_[i]) store(i, at[i] + done * p_.strides[i][0], m);
    }
  }

  void fetch(int i, const char* source, int64_t n) {
    const int64_t stride = p_.strides[i][0];
    if (stride == 0) {  // one value: often still there from the block before
      if (repeated_[i] == source && repeated_count_[i] >= n) return;
      repeated_[i] = source;
      repeated_count_[i] = n;
      if (l_.converts[i]) {
        float value;
        small_to_float(&value, source, p_.dtype[i], 1);
        move_strided(block_[i], 4, reinterpret_cast<const char*>(&value), 0, 4, n);
      } else {
        move_strided(block_[i], l_.item[i], source, 0, l_.item[i], n);
      }
      return;
    }
    if (!l_.converts[i]) return move_strided(block_[i], l_.item[i], source, stride, l_.item[i], n);
    if (stride != l_.item[i]) {
      move_strided(narrow_[i], l_.item[i], source, stride, l_.item[i], n);
      source = narrow_[i];
    }
    small_to_float(reinterpret_cast<float*>(block_[i]), source, p_.dtype[i], n);
  }

  void store(int i, char* target, int64_t n) {
    const int64_t stride = p_.strides[i][0];
    const bool unit = stride == l_.item[i];
    char* dense = block_[i];
    if (l_.converts[i]) {
      dense = unit && !l_.streams ? target : narrow_[i];
      float_to_small(dense, p_.dtype[i], reinterpret_cast<const float*>(block_[i]), n);
      if (dense == target) return;
    }
    unit&& l_.streams ? stream_bytes(target, dense, n * l_.item[i])
                      : move_strided(target, stride, dense, l_.item[i], l_.item[i], n);
  }

  const Layout& l_;
  const LoopPlan& p_;
  char* at_[kOperands];
  int64_t index_[kMaxDims];
  const char* repeated_[kOperands] = {};
  int64_t repeated_count_[kOperands];
  alignas(64) char block_[kOperands][kBlockBytes];
  alignas(64) char tile_[kTileOperands][kTileBytes];
  alignas(64) char narrow_[kOperands][kBlockBytes / 2];  // small floats on their way
};

// Small dense arrays beside a few numbers, without the apparatus; false when the plan is something else.
bool run_small(const LoopPlan& plan, const RunBody& body) {
  constexpr int64_t kBytes = 2048;
  constexpr int kRepeated = 3;
  if (plan.ndim > 1 || !plan.contiguous || plan.numel > kBytes / 16) return false;
  alignas(64) char repeated[kRepeated][kBytes];
  char* data[kOperands];
  int count = 0;
  for (int i = 0; i < plan.operands; ++i) {
    data[i] = plan.data[i];
    if (plan.dtype[i] != body.dtype[i]) return false;
    if (i < plan.outputs || plan.strides[i][0] != 0) continue;
    if (count == kRepeated) return false;
    data[i] = repeated[count++];
    const int64_t size = item_size(plan.dtype[i]);
    move_strided(data[i], size, plan.data[i], 0, size, plan.numel);
  }
  body.run(body.f, data, plan.numel);
  return true;
}

}  // namespace

void run_plan(const LoopPlan& plan, const RunBody& body) {
  if (plan.numel == 0 || run_small(plan, body)) return;
  const Layout layout(plan, body);
  const int64_t units = (plan.numel + kUnit - 1) / kUnit;
  const auto split = [&](auto walk) {
    parallel_for(0, units, body.grain / kUnit, [&](int64_t b, int64_t e) {
      Walker walker(layout);
      walk(walker, b * kUnit, e * kUnit < plan.numel ? e * kUnit : plan.numel);
    });
  };
  if (plan.ndim <= 1) return split([](Walker& w, int64_t b, int64_t e) { w.contiguous(b, e); });
  if (plan.shape[0] < kShortRow) return split([](Walker& w, int64_t b, int64_t e) { w.short_rows(b, e); });
  if (!layout.tiles) return split([](Walker& w, int64_t b, int64_t e) { w.rows(b, e); });

  const int64_t width = layout.tile_columns, bands = (plan.shape[0] + width - 1) / width;  // of one plane
  const int64_t planes = plan.numel / (plan.shape[0] * plan.shape[1]);
  const int64_t grain = body.grain / (width * plan.shape[1]);
  parallel_for(0, bands * planes, grain > 0 ? grain : 1, [&](int64_t b, int64_t e) {
    Walker walker(layout);
    for (int64_t band = b; band < e; ++band) {
      char* at[kOperands];
      walker.plane_at(band / bands, at);
      const int64_t first = band % bands * width;
      walker.tile_band(at, first, first + width < plan.shape[0] ? first + width : plan.shape[0]);
    }
  });
}

}  // namespace tenon::cpu
