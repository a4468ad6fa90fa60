// SPDX-License-Identifier: Apache-2.0
// The driver behind reductions.
//
// Note [Rows and columns]. In rows, one accumulator takes the elements of one result, which lie side by side (or are
// gathered). In columns, neighbouring results are accumulated side by side, a row of the input at a time: for sums
// over outer dimensions, and for results of a few elements each, where a call per result would be all overhead.
// Note [Chunks]. Where there are few results, the reduced elements are split into chunks of a fixed size, each with its
// own accumulators, merged in order afterwards.
#include <tenon/kernels/cpu/convert.h>
#include <tenon/kernels/cpu/run_reduce.h>

#include <memory>
#include <new>

namespace tenon::cpu {
namespace {

constexpr int64_t kBlock = 1024;         // elements gathered at once
constexpr int64_t kTile = 1024;          // columns side by side
constexpr int64_t kChunk = 65536;        // elements one accumulator takes when results are few
constexpr int64_t kManyUnits = 64;       // work is not split further beyond that many units
constexpr int64_t kDenseRun = 64;        // shorter runs are gathered
constexpr int64_t kFewElements = 16;     // per result: accumulate in columns
constexpr int64_t kSerial = 32768;       // elements worth a second thread
constexpr int64_t kMaxAccumulator = 64;  // bytes

// A position in some dimensions of an array, and the address there.
struct Cursor {
  const char* at;
  int64_t index[kMaxDims];
  int ndim;
  const int64_t *shape, *strides;

  Cursor(const char* base, int n, const int64_t* sizes, const int64_t* steps, int64_t position)
      : at(base), ndim(n), shape(sizes), strides(steps) {
    for (int d = 0; d < n; ++d) {
      index[d] = position % sizes[d];
      position /= sizes[d];
      at += index[d] * steps[d];
    }
  }
  /// Elements to the end of dimension 0.
  int64_t left() const { return ndim ? shape[0] - index[0] : 1; }
  int64_t stride() const { return ndim ? strides[0] : 0; }
  void advance(int64_t n) {  // at most left()
    if (ndim == 0) return;
    index[0] += n;
    at += n * strides[0];
    for (int d = 0; index[d] == shape[d] && d + 1 < ndim; ++d) {
      index[d] = 0;
      ++index[d + 1];
      at += strides[d + 1] - shape[d] * strides[d];
    }
  }
};

struct FreeAligned {
  void operator()(char* p) const { ::operator delete (p, std::align_val_t{64}); }
};

class Reducer {
 public:
  Reducer(const ReducePlan& plan, const ReduceBody& body)
      : p_(plan), b_(body), item_(item_size(plan.input_dtype)), converts_(plan.input_dtype != body.input) {
    TENON_CHECK(!converts_ || (is_half(plan.input_dtype) && body.input == kFloat32), DtypeError,
                "reduction: expected an input of ", body.input, ", got ", plan.input_dtype);
    TENON_ASSERT(body.accumulator_bytes <= kMaxAccumulator);
  }

  void run() {
    const bool dense_rows = p_.reduced_ndim > 0 && p_.reduced_strides[0] == item_;
    const bool dense_columns = p_.kept_ndim > 0 && p_.kept_strides[0] == item_;
    const bool few = p_.reduced_numel < kFewElements && p_.kept_ndim > 0 && p_.kept_shape[0] >= kFewElements;
    few || (dense_columns && !dense_rows) ? columns() : rows();
  }

 private:
  struct Chunks {
    int64_t size, count;
  };
  Chunks chunks(int64_t units, int64_t width) const {
    const int64_t size = kChunk / width > 64 ? kChunk / width : 64;
    if (units >= kManyUnits || p_.reduced_numel < 2 * size) return {p_.reduced_numel, 1};
    return {size, (p_.reduced_numel + size - 1) / size};
  }
  static std::unique_ptr<char, FreeAligned> room(int64_t bytes) {
    return std::unique_ptr<char, FreeAligned>(
        static_cast<char*>(::operator new (static_cast<std::size_t>(bytes), std::align_val_t{64})));
  }
  Cursor kept_at(int64_t i) const { return Cursor(p_.input, p_.kept_ndim, p_.kept_shape, p_.kept_strides, i); }

  // Writes n results, the first one with kept index `first`; they stay within kept dimension 0.
  void store(const void* acc, int64_t first, int64_t n) const {
    char* out[ReducePlan::kMaxOutputs];
    int64_t step[ReducePlan::kMaxOutputs];
    for (int k = 0; k < p_.outputs; ++k) {
      out[k] = p_.output[k];
      step[k] = p_.kept_ndim ? p_.output_strides[k][0] : 0;
      int64_t rest = first;
      for (int d = 0; d < p_.kept_ndim; rest /= p_.kept_shape[d++])
        out[k] += rest % p_.kept_shape[d] * p_.output_strides[k][d];
    }
    b_.store(b_.f, acc, n, out, step);
  }

  // --- rows --------------------------------------------------------------------------------------------------
  void rows() {
    const Chunks c = chunks(p_.kept_numel, 1);
    if (c.count == 1) {
      const int64_t elements = p_.reduced_numel > 0 ? p_.reduced_numel : 1;
      parallel_for(0, p_.kept_numel, kSerial / elements + 1, [&](int64_t b, int64_t e) {
        alignas(64) char acc[kMaxAccumulator];
        Cursor kept = kept_at(b);
        for (int64_t i = b; i < e; ++i, kept.advance(1)) {
          b_.init(b_.f, acc, 1);
          row(acc, kept.at, 0, p_.reduced_numel);
          store(acc, i, 1);
        }
      });
      return;
    }
    const auto memory = room(p_.kept_numel * c.count * kMaxAccumulator);
    parallel_for(0, p_.kept_numel * c.count, 1, [&](int64_t b, int64_t e) {
      for (int64_t u = b; u < e; ++u) {
        char* acc = memory.get() + u * kMaxAccumulator;
        const int64_t first = u % c.count * c.size;
        b_.init(b_.f, acc, 1);
        row(acc, kept_at(u / c.count).at, first, first + c.size < p_.reduced_numel ? first + c.size : p_.reduced_numel);
      }
    });
    for (int64_t i = 0; i < p_.kept_numel; ++i) {
      char* acc = memory.get() + i * c.count * kMaxAccumulator;
      for (int64_t k = 1; k < c.count; ++k) b_.merge(b_.f, acc, acc + k * kMaxAccumulator, 1);
      store(acc, i, 1);
    }
  }

  // Positions [first, last) of one result.
  void row(void* acc, const char* base, int64_t first, int64_t last) const {
    if (first >= last) return;
    alignas(64) char buffer[kBlock * 16];
    Cursor c(base, p_.reduced_ndim, p_.reduced_shape, p_.reduced_strides, first);
    while (first < last) {
      int64_t n = c.left() < last - first ? c.left() : last - first;
      if (!converts_ && c.stride() == item_ && n >= kDenseRun) {
        b_.run(b_.f, acc, c.at, n, first);
        c.advance(n);
      } else {
        n = last - first < kBlock ? last - first : kBlock;
        b_.run(b_.f, acc, gather(buffer, c, n), n, first);
      }
      first += n;
    }
  }

  // n elements from the cursor on as a dense array of the body's type.
  const void* gather(char* buffer, Cursor& c, int64_t n) const {
    char* raw = converts_ ? buffer + kBlock * 8 : buffer;
    const char* source = raw;
    if (c.stride() == item_ && c.left() >= n) {
      source = c.at;
      c.advance(n);
    } else {
      for (int64_t done = 0; done < n;) {
        const int64_t m = c.left() < n - done ? c.left() : n - done;
        move_strided(raw + done * item_, item_, c.at, c.stride(), item_, m);
        c.advance(m);
        done += m;
      }
    }
    if (!converts_) return source;
    small_to_float(reinterpret_cast<float*>(buffer), source, p_.input_dtype, n);
    return buffer;
  }

  // --- columns -----------------------------------------------------------------------------------------------
  void columns() {
    const int64_t width = p_.kept_shape[0], outer = p_.kept_numel / width;
    const int64_t tile = width < kTile ? width : kTile, tiles = (width + tile - 1) / tile;
    const Chunks c = chunks(outer * tiles, tile);
    const int64_t room_of = (tile * b_.accumulator_bytes + 63) / 64 * 64;
    const int64_t elements = tile * (c.size > 0 ? c.size : 1);
    const auto memory = c.count > 1 ? room(outer * tiles * c.count * room_of) : nullptr;
    const auto first_of = [&](int64_t unit) { return unit / tiles * width + unit % tiles * tile; };
    const auto width_of = [&](int64_t unit) {
      return width - unit % tiles * tile < tile ? width - unit % tiles * tile : tile;
    };
    parallel_for(0, outer * tiles * c.count, kSerial / elements + 1, [&](int64_t b, int64_t e) {
      const auto local = c.count > 1 ? nullptr : room(room_of);
      for (int64_t u = b; u < e; ++u) {
        const int64_t unit = u / c.count, first = u % c.count * c.size;
        char* acc = c.count > 1 ? memory.get() + u * room_of : local.get();
        b_.init(b_.f, acc, width_of(unit));
        column_tile(acc, kept_at(first_of(unit)).at, width_of(unit), first,
                    first + c.size < p_.reduced_numel ? first + c.size : p_.reduced_numel);
        if (c.count == 1) store(acc, first_of(unit), width_of(unit));
      }
    });
    if (c.count == 1) return;
    parallel_for(0, outer * tiles, 1, [&](int64_t b, int64_t e) {
      for (int64_t unit = b; unit < e; ++unit) {
        char* acc = memory.get() + unit * c.count * room_of;
        for (int64_t k = 1; k < c.count; ++k) b_.merge(b_.f, acc, acc + k * room_of, width_of(unit));
        store(acc, first_of(unit), width_of(unit));
      }
    });
  }

  void column_tile(void* acc, const char* base, int64_t n, int64_t first, int64_t last) const {
    if (first >= last) return;
    const int64_t step = p_.kept_strides[0], own = item_size(b_.input);
    alignas(64) char buffer[kTile * 16];
    char* narrow = buffer + kTile * 8;
    Cursor c(base, p_.reduced_ndim, p_.reduced_shape, p_.reduced_strides, first);
    while (first < last) {
      int64_t rows = c.left() < last - first ? c.left() : last - first;
      if (!converts_ && step == item_) {
        direct_columns(acc, c.at, n, rows, c.stride(), first);
      } else {
        const int64_t fit = kTile / n;
        rows = rows < fit ? rows : fit;
        for (int64_t r = 0; r < rows; ++r) {
          const char* source = c.at + r * c.stride();
          if (step != item_) {
            char* dense = converts_ ? narrow : buffer + r * n * own;
            move_strided(dense, item_, source, step, item_, n);
            source = dense;
          }
          if (converts_) small_to_float(reinterpret_cast<float*>(buffer + r * n * own), source, p_.input_dtype, n);
        }
        b_.columns(b_.f, acc, buffer, n, rows, n * own, first);
      }
      c.advance(rows);
      first += rows;
    }
  }

  // Few columns whose rows follow one another are folded: several rows side by side make one wide row.
  void direct_columns(void* acc, const char* x, int64_t n, int64_t rows, int64_t stride, int64_t position) const {
    constexpr int64_t kWide = 64;
    const int64_t fold = b_.folds && stride == n * item_ ? kWide / n : 1;
    if (fold > 1 && rows >= 8 * fold) {
      alignas(64) char wide[kWide * 16];
      const int64_t whole = rows / fold * fold;
      b_.init(b_.f, wide, fold * n);
      b_.columns(b_.f, wide, x, fold * n, rows / fold, fold * stride, position);
      for (int64_t k = 0; k < fold; ++k) b_.merge(b_.f, acc, wide + k * n * b_.accumulator_bytes, n);
      x += whole * stride;
      rows -= whole;
      position += whole;
    }
    if (rows > 0) b_.columns(b_.f, acc, x, n, rows, stride, position);
  }

  const ReducePlan& p_;
  const ReduceBody& b_;
  const int64_t item_;
  const bool converts_;
};

}  // namespace

void run_reduce(const ReducePlan& plan, const ReduceBody& body) {
  if (plan.kept_numel != 0) Reducer(plan, body).run();
}

}  // namespace tenon::cpu
