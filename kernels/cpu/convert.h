// SPDX-License-Identifier: Apache-2.0
// Dense and strided runs of elements: moved by size, or converted between the small floats and float32 with the
// vectors of this CPU. The rounding is that of core/half.h, bit for bit.
#pragma once

#include <tenon/core/dtype.h>

namespace tenon::cpu {

/// n float32 values from n floats of 16 or 8 bits, and back (round to nearest even). Both arrays dense.
void small_to_float(float* to, const void* from, DType from_dtype, int64_t n);
void float_to_small(void* to, DType to_dtype, const float* from, int64_t n);

/// Moves n elements of `size` bytes (1, 2, 4, 8 or 16); strides in bytes, 0 in `from_stride` repeats one value.
void move_strided(char* to, int64_t to_stride, const char* from, int64_t from_stride, int64_t size, int64_t n);

/// to[r * to_row + c * size] = from[r * size + c * from_column] for r < rows, c < columns: a small transpose.
void move_transposed(char* to, int64_t to_row, const char* from, int64_t from_column, int64_t size, int64_t rows,
                     int64_t columns);

/// Copies dense bytes around the caches. Before another thread may read them, end_stream() has to be called.
void stream_bytes(char* to, const char* from, int64_t bytes);
void end_stream();
/// Results of at least so many bytes are worth it.
inline constexpr int64_t kStreamBytes = int64_t{16} << 20;

/// Order of the SIMD targets (HWY_TARGET): higher is better, -1 when this CPU cannot run it.
int target_rank(int64_t target);

}  // namespace tenon::cpu
