// SPDX-License-Identifier: Apache-2.0
#define TENON_DEFINE_OPERATORS
#include <tenon/ops/decomposition.h>

#include <tenon/dispatch/declare_only.h>
//
#include <tenon/dispatch/make_tensor.h>
#include <tenon/dispatch/pointwise.h>

#include <algorithm>

namespace tenon::impl {
namespace {

void check_matrices(const Call& call, const Tensor& a) {
  TENON_CHECK(a.dim() >= 2, ShapeError, call.name(), ": A: expected at least two dimensions, got ", a.dim());
  TENON_CHECK((a.is_floating_point() && item_size(a.dtype()) >= 4) || a.is_complex(), DtypeError, call.name(),
              ": A: expected float32, float64 or a complex dtype, got ", a.dtype());
}
// A's sizes with the last two replaced.
DimVector sizes_of(const Tensor& a, std::initializer_list<int64_t> last) {
  DimVector sizes(a.sizes().slice(0, a.sizes().size() - 2));
  for (const int64_t n : last) sizes.push_back(n);
  return sizes;
}

}  // namespace

Tensor linalg_inv(Call& call, const Tensor& a) {
  check_matrices(call, a);
  TENON_CHECK(a.size(-1) == a.size(-2), ShapeError, "linalg_inv: A: expected square matrices, got sizes ", a.sizes());
  call.enter(a.device());
  const Tensor out = dispatch::make_tensor(a.sizes(), a.dtype(), a.device());
  if (out.is_meta()) return out;
  const auto kernel = op::linalg_inv.kernel(a.backend(), dispatch::key_of(a.dtype()));
  if (out.numel() != 0) kernel(out, a.contiguous());
  return out;
}

std::tuple<Tensor, Tensor, Tensor> _linalg_svd(Call& call, const Tensor& a) {
  check_matrices(call, a);
  call.enter(a.device());
  const int64_t m = a.size(-2), n = a.size(-1), k = std::min(m, n);
  const Tensor u = dispatch::make_tensor(sizes_of(a, {m, k}), a.dtype(), a.device()),
               s = dispatch::make_tensor(sizes_of(a, {k}), real_of(a.dtype()), a.device()),
               vh = dispatch::make_tensor(sizes_of(a, {k, n}), a.dtype(), a.device());
  if (!a.is_meta()) {
    const auto kernel = op::_linalg_svd.kernel(a.backend(), dispatch::key_of(a.dtype()));
    if (a.numel() != 0) kernel(u, s, vh, a.contiguous());
  }
  return {u, s, vh};
}

}  // namespace tenon::impl
