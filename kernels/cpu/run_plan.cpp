// SPDX-License-Identifier: Apache-2.0
// The driver behind elementwise().
//
// Note [Blocks]. A body sees dense arrays of its own types. An operand that already is one is passed as it lies.
// Any other (broadcast along the inner dimension, a number, strided, or a 16-bit float) goes through a block of
// a few KiB that stays in the first-level cache, filled before the body runs and, for an output, stored after it.
// Note [Three walks]. Rows: the inner dimension in pieces, the usual case. Tiles: an input that is dense along the
// second dimension instead of the first (a transposed one) is fetched 16 rows at a time, so that every cache line
// read is used whole. Short rows: many rows are gathered into one block, because a body call per row of three
// elements would be all overhead.
#include <tenon/kernels/cpu/convert.h>
#include <tenon/kernels/cpu/run_plan.h>

namespace tenon::cpu {
namespace {

constexpr int kOperands = LoopPlan::kMaxOperands;
constexpr int64_t kBlockBytes = 8192;
constexpr int64_t kTileRows = 16;
constexpr int64_t kShortRow = 32;
constexpr int64_t kUnit = 256;  // elements; threads split at multiples, so that vectors stay aligned

struct Layout {  // what is the same for all threads of one call
  const LoopPlan& plan;
  const RunBody& body;
  int64_t block;                 // elements
  int64_t item[kOperands];       // bytes in the plan's array
  int64_t own[kOperands];        // bytes in the body's array
  bool converts[kOperands];
  bool passes[kOperands];        // the inner dimension is what the body wants
  bool all_pass;
  bool tiles;

  Layout(const LoopPlan& p, const RunBody& b) : plan(p), body(b) {
    int64_t widest = 1;
    all_pass = true;
    tiles = false;
    for (int i = 0; i < p.operands; ++i) {
      item[i] = item_size(p.dtype[i]);
      own[i] = item_size(b.dtype[i]);
      widest = own[i] > widest ? own[i] : widest;
      converts[i] = p.dtype[i] != b.dtype[i];
      TENON_CHECK(!converts[i] || (is_half(p.dtype[i]) && b.dtype[i] == kFloat32), DtypeError,
                  "elementwise: operand ", i, ": expected ", b.dtype[i], ", got ", p.dtype[i]);
      passes[i] = !converts[i] && p.strides[i][0] == item[i];
      all_pass = all_pass && passes[i];
      tiles = tiles || (p.ndim >= 2 && transposed(i));
    }
    block = kBlockBytes / widest;
    tiles = tiles && p.shape[0] >= kShortRow && p.shape[1] >= kTileRows;
  }
  bool transposed(int i) const {
    return i >= plan.outputs && !converts[i] && plan.strides[i][1] == item[i] &&
           plan.strides[i][0] != item[i] && plan.strides[i][0] != 0;
  }
};

class Walker {
 public:
  explicit Walker(const Layout& layout) : l_(layout), p_(layout.plan) {}

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
    start(begin);
    while (begin < end) {
      const int64_t n = end - begin < l_.block ? end - begin : l_.block;
      save(saved_index_, index_, p_.ndim);
      save(saved_at_, at_, p_.operands);
      char* data[kOperands];
      for (int i = 0; i < p_.operands; ++i) data[i] = l_.converts[i] ? narrow_[i] : block_[i];
      pieces(n, [&](int64_t done, int64_t m) {
        for (int i = p_.outputs; i < p_.operands; ++i)
          move_strided(data[i] + done * l_.item[i], l_.item[i], at_[i], p_.strides[i][0], l_.item[i], m);
      });
      for (int i = p_.outputs; i < p_.operands; ++i)
        if (l_.converts[i]) half_to_float(reinterpret_cast<float*>(block_[i]), narrow_[i], p_.dtype[i], n);
      char* blocks[kOperands];
      for (int i = 0; i < p_.operands; ++i) blocks[i] = block_[i];
      l_.body.run(l_.body.f, blocks, n);
      for (int i = 0; i < p_.outputs; ++i)
        if (l_.converts[i]) float_to_half(narrow_[i], p_.dtype[i], reinterpret_cast<const float*>(block_[i]), n);
      save(index_, saved_index_, p_.ndim);
      save(at_, saved_at_, p_.operands);
      pieces(n, [&](int64_t done, int64_t m) {
        for (int i = 0; i < p_.outputs; ++i)
          move_strided(at_[i], p_.strides[i][0], data[i] + done * l_.item[i], l_.item[i], l_.item[i], m);
      });
      begin += n;
    }
  }

  // One plane of dimensions 0 and 1, rows [first, last) of dimension 1.
  void tile_rows(char* const* plane, int64_t first, int64_t last) {
    const int64_t columns = l_.block / kTileRows;
    for (int64_t r = first; r < last; r += kTileRows) {
      const int64_t rows = last - r < kTileRows ? last - r : kTileRows;
      for (int64_t c = 0; c < p_.shape[0]; c += columns) {
        const int64_t n = p_.shape[0] - c < columns ? p_.shape[0] - c : columns;
        for (int i = p_.outputs; i < p_.operands; ++i)
          if (l_.transposed(i))
            move_transposed(block_[i], columns * l_.item[i],
                            plane[i] + r * l_.item[i] + c * p_.strides[i][0], p_.strides[i][0], l_.item[i], rows, n);
        for (int64_t k = 0; k < rows; ++k) {
          char* at[kOperands];
          for (int i = 0; i < p_.operands; ++i)
            at[i] = l_.transposed(i) ? block_[i] + k * columns * l_.item[i]
                                     : plane[i] + (r + k) * p_.strides[i][1] + c * p_.strides[i][0];
          row(at, n, true);
        }
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
  template <class T>
  static void save(T* to, const T* from, int n) {
    for (int i = 0; i < n; ++i) to[i] = from[i];
  }

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

  template <class F>
  void pieces(int64_t n, F&& f) {
    for (int64_t done = 0; done < n;) {
      int64_t m = p_.shape[0] - index_[0];
      if (m > n - done) m = n - done;
      f(done, m);
      done += m;
      advance(m);
    }
  }

  // n elements along dimension 0. `tiled`: transposed operands already lie in their blocks.
  void row(char* const* at, int64_t n, bool tiled = false) {
    if (l_.all_pass) return l_.body.run(l_.body.f, at, n);
    for (int64_t done = 0; done < n; done += l_.block) {
      const int64_t m = n - done < l_.block ? n - done : l_.block;
      char* data[kOperands];
      for (int i = 0; i < p_.operands; ++i) {
        const bool in_block = tiled && l_.transposed(i);
        char* source = at[i] + done * (in_block ? l_.item[i] : p_.strides[i][0]);
        data[i] = l_.passes[i] || in_block ? source : block_[i];
        if (i >= p_.outputs && data[i] == block_[i] && !in_block) fetch(i, source, m);
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
        half_to_float(&value, source, p_.dtype[i], 1);
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
    half_to_float(reinterpret_cast<float*>(block_[i]), source, p_.dtype[i], n);
  }

  void store(int i, char* target, int64_t n) {
    const int64_t stride = p_.strides[i][0];
    if (!l_.converts[i]) return move_strided(target, stride, block_[i], l_.item[i], l_.item[i], n);
    char* dense = stride == l_.item[i] ? target : narrow_[i];
    float_to_half(dense, p_.dtype[i], reinterpret_cast<const float*>(block_[i]), n);
    if (dense != target) move_strided(target, stride, dense, l_.item[i], l_.item[i], n);
  }

  const Layout& l_;
  const LoopPlan& p_;
  char* at_[kOperands];
  char* saved_at_[kOperands];
  int64_t index_[kMaxDims];
  int64_t saved_index_[kMaxDims];
  const char* repeated_[kOperands] = {};
  int64_t repeated_count_[kOperands];
  alignas(64) char block_[kOperands][kBlockBytes];
  alignas(64) char narrow_[kOperands][kBlockBytes / 2];  // 16-bit floats on their way
};

}  // namespace

void run_plan(const LoopPlan& plan, const RunBody& body) {
  if (plan.numel == 0) return;
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

  const int64_t bands = (plan.shape[1] + kTileRows - 1) / kTileRows;  // of one plane
  const int64_t planes = plan.numel / (plan.shape[0] * plan.shape[1]);
  const int64_t grain = body.grain / (kTileRows * plan.shape[0]);
  parallel_for(0, bands * planes, grain > 0 ? grain : 1, [&](int64_t b, int64_t e) {
    Walker walker(layout);
    for (int64_t band = b; band < e; ++band) {
      char* at[kOperands];
      walker.plane_at(band / bands, at);
      const int64_t first = band % bands * kTileRows;
      walker.tile_rows(at, first, first + kTileRows < plan.shape[1] ? first + kTileRows : plan.shape[1]);
    }
  });
}

}  // namespace tenon::cpu
