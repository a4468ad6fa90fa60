// SPDX-License-Identifier: Apache-2.0
// Decompositions of matrices on the GPU: copied to the host, computed there by the CPU's kernels, and back.
#include <tenon/dispatch/make_tensor.h>
#include <tenon/ops/decomposition.h>

namespace tenon {
namespace {

template <class Kernel, class... Outs>
void on_host(const Kernel& kernel, const Tensor& a, const Outs&... outs) {
  const Tensor hosts[] = {dispatch::make_tensor(outs.sizes(), outs.dtype(), Device(kCPU))...};
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    kernel(hosts[I]..., a.cpu());
    (Tensor(outs).copy_(hosts[I]), ...);
  }
  (std::index_sequence_for<Outs...>());
}

template <class T>
void inverse_cuda(const Tensor& out, const Tensor& a) {
  on_host(op::linalg_inv.kernel(Backend::cpu, dispatch::kKeyOf<T>), a, out);
}
template <class T>
void svd_cuda(const Tensor& u, const Tensor& s, const Tensor& vh, const Tensor& a) {
  on_host(op::_linalg_svd.kernel(Backend::cpu, dispatch::kKeyOf<T>), a, u, s, vh);
}

using Wide = Join<Floats, Complexes>;
TENON_REGISTER_KERNEL(op::linalg_inv, cuda, Wide, inverse_cuda);
TENON_REGISTER_KERNEL(op::_linalg_svd, cuda, Wide, svd_cuda);

}  // namespace
}  // namespace tenon
