// SPDX-License-Identifier: Apache-2.0
// Matrix products for kernels that are made of them: the loops of matmul.cpp on plain pointers.
#pragma once

#include <cstdint>

namespace tenon::cpu {

/// c = beta * s + alpha * a @ b, c [m, n], a [m, k]; strides in elements. s may be null or c.
template <class T>
struct Product {
  int64_t m, n, k;
  const T *a, *b, *s;
  T* c;
  int64_t a_row, a_column, b_row, b_column, s_row, s_column, c_row, c_column;
  T alpha, beta;

  Product transposed() const {
    return {n, m, k, b, a, s, c, b_column, b_row, a_column, a_row, s_column, s_row, c_column, c_row, alpha, beta};
  }
};

/// For the best SIMD target of this CPU. Uses scratch slots 0 and 1; runs in parallel unless called from a parallel region.
void matrix_product(const Product<float>& x);
void matrix_product(const Product<double>& x);

}  // namespace tenon::cpu
