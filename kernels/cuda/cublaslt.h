// SPDX-License-Identifier: Apache-2.0
// Matrix products by cuBLASLt, which is opened on first use: neither library of tenon links it. It is looked for by the
// loader's own rules, then in the usual CUDA folders; TENON_CUBLASLT names a file instead. Without it: LibraryError with
// everything that was tried.
//
// Note [Plans]. What cuBLASLt needs to know of a product (descriptors, the algorithm its heuristic picked) is kept per
// thread in a table with one slot per hash, so that a repeated product costs its launch and no locks. A refused product
// is remembered too.
#pragma once

#include <tenon/core/dtype.h>

#include <cstdint>
#include <cstring>

namespace tenon::cuda {

/// d = alpha * a @ b + beta * c (+ bias), all column-major: d is m x n, a [m, k], b [k, n]; a transposed operand lies in
/// memory as its transpose. Leading dimensions and batch steps in elements.
struct ProductKey {
  int64_t m, n, k, batch;
  int64_t a_ld, b_ld, c_ld, d_ld;
  int64_t a_step, b_step, c_step, d_step;
  uint16_t a_align, b_align, c_align, d_align;  ///< bytes, a power of two
  uint8_t a_transposed, b_transposed;
  uint8_t bias;  ///< one number per row of d is added
  uint8_t tf32;
  uint8_t dtype;
  uint8_t device;
  uint8_t unused[2];

  bool operator==(const ProductKey& o) const { return std::memcmp(this, &o, sizeof o) == 0; }
  uint64_t hash() const {
    uint64_t words[sizeof(ProductKey) / 8], h = 0x9E3779B97F4A7C15u;
    static_assert(sizeof words == sizeof(ProductKey));
    std::memcpy(words, this, sizeof words);
    for (const uint64_t w : words) h = (h ^ w) * 0xD6E8FEB86659FD93u, h ^= h >> 32;
    return h;
  }
};
/// The largest power of two up to 256 that divides an address and, for batches, the step in bytes.
inline uint16_t alignment(const void* address, int64_t step_bytes) {
  uint64_t bits = reinterpret_cast<uintptr_t>(address) | static_cast<uint64_t>(step_bytes) | 256u;
  return static_cast<uint16_t>(bits & (~bits + 1));
}

struct Product {
  ProductKey key;
  const void *a, *b, *c, *bias;
  void* d;
  const void *alpha, *beta;  ///< on the host: float for the halves, else of the dtype
};

/// Queues the product on the current stream; false when cuBLASLt has no algorithm for it. LibraryError, CudaError.
bool multiply(const Product& product);

}  // namespace tenon::cuda
