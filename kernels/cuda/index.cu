// SPDX-License-Identifier: Apache-2.0
// Operators that move elements by index: index_select, embedding, gather, index_copy, scatter. Keyed on the element width.
#include <tenon/ops/index.h>
#include <tenon/kernels/cuda/indexed_in_order.cuh>

#include <tenon/streams/guard.h>

namespace tenon {
namespace {

using cuda::IndexedArgs;

// values = indexed[index]; zero where the index is out of range.
template <int Bytes>
struct Fetch {
  using Word = cuda::word_t<Bytes>;
  template <int W, int U>
  __device__ __forceinline__ void run(const IndexedArgs& p, const int32_t (&offset)[U][3], const int64_t (&index)[U],
                                      const bool (&exists)[U], const bool (&valid)[U]) const {
    cuda::Vector<Word, W> x[U];
#pragma unroll
    for (int u = 0; u < U; ++u) {
      x[u] = {};
      if (valid[u]) x[u] = cuda::load_vector<Word, W>(p.loop.data[1] + offset[u][1] + index[u] * p.step);
    }
#pragma unroll
    for (int u = 0; u < U; ++u)
      if (exists[u]) cuda::store_vector<Word, W>(p.loop.data[0] + offset[u][0], x[u]);
  }
};

// indexed[index] = values.
template <int Bytes>
struct Place {
  using Word = cuda::word_t<Bytes>;
  template <int W, int U>
  __device__ __forceinline__ void run(const IndexedArgs& p, const int32_t (&offset)[U][3], const int64_t (&index)[U],
                                      const bool (&)[U], const bool (&valid)[U]) const {
    cuda::Vector<Word, W> x[U];
#pragma unroll
    for (int u = 0; u < U; ++u)
      if (valid[u]) x[u] = cuda::load_vector<Word, W>(p.loop.data[0] + offset[u][0]);
#pragma unroll
    for (int u = 0; u < U; ++u)
      if (valid[u]) cuda::store_vector<Word, W>(p.loop.data[1] + offset[u][1] + index[u] * p.step, x[u]);
  }
};

template <int Bytes>
void fetch(const char* op, const char* argument, const Tensor& out, const Tensor& self, int64_t dim,
           const Tensor& index) {
  const DeviceGuard guard(out.device());
  cuda::indexed_loop<Bytes, true>(out, self, dim, index, cuda::index_check(op, argument, self.size(dim), dim),
                                  Fetch<Bytes>{});
}

template <class T>
void index_select_cuda(const Tensor& out, const Tensor& self, int64_t dim, const Tensor& index) {
  fetch<sizeof(T)>("index_select", "index", out, self, dim, index);
}
template <class T>
void gather_cuda(const Tensor& out, const Tensor& self, int64_t dim, const Tensor& index) {
  fetch<sizeof(T)>("gather", "index", out, self, dim, index);
}
template <class T>
void embedding_cuda(const Tensor& out, const Tensor& weight, int64_t dim, const Tensor& index) {
  fetch<sizeof(T)>("embedding", "input", out, weight, dim, index);
}
// Of several values for one place the last one stays when the order is asked for, else any of them.
struct Last {
  template <class Word>
  __device__ Word operator()(const Word&, const Word& v) const {
    return v;
  }
};
template <class T>
void scatter_cuda(const Tensor& out, int64_t dim, const Tensor& index, const Tensor& src, const char* who) {
  const DeviceGuard guard(out.device());
  const cuda::IndexCheck check = cuda::index_check(who, "index", out.size(dim), dim);
  if (is_deterministic())
    cuda::indexed_in_order<cuda::word_t<sizeof(T)>>(src, out, dim, index, check, Last{});
  else
    cuda::indexed_loop<sizeof(T), true>(src, out, dim, index, check, Place<sizeof(T)>{});
}
template <class T>
void index_copy_cuda(const Tensor& out, int64_t dim, const Tensor& index, const Tensor& source) {
  scatter_cuda<T>(out, dim, index, source, "index_copy");
}

TENON_REGISTER_KERNEL(op::index_select, cuda, Widths, index_select_cuda);
TENON_REGISTER_KERNEL(op::gather, cuda, Widths, gather_cuda);
TENON_REGISTER_KERNEL(op::embedding, cuda, Widths, embedding_cuda);
TENON_REGISTER_KERNEL(op::index_copy, cuda, Widths, index_copy_cuda);
TENON_REGISTER_KERNEL(op::scatter, cuda, Widths, scatter_cuda);

}  // namespace
}  // namespace tenon
