// SPDX-License-Identifier: Apache-2.0
#include <tenon/core/operand.h>
#include <tenon/dispatch/thread_state.h>
#include <tenon/nn/clip_grad.h>
#include <tenon/ops/binary.h>
#include <tenon/ops/cat.h>
#include <tenon/ops/factory.h>
#include <tenon/ops/reduce.h>
#include <tenon/ops/unary.h>

#include <cmath>

namespace tenon::nn {
namespace {
std::vector<Tensor> gradients(TensorList parameters) {
  std::vector<Tensor> all;
  for (const Tensor& p : parameters)
    if (Tensor g = p.grad(); g.defined()) all.push_back(static_cast<Tensor&&>(g));
  return all;
}

Tensor norm(const Tensor& given, double p) {
  Tensor t = is_complex(given.dtype()) ? given.abs() : given;
  if (item_size(t.dtype()) < 4) t = t.to(kFloat32);
  if (t.numel() == 0) return zeros({}, TensorOptions(t.dtype()).device(t.device()));
  if (p == 2) return square(t).sum().sqrt();
  t = t.abs();
  if (std::isinf(p)) return t.max();
  return p == 1 ? t.sum() : t.pow(p).sum().pow(1 / p);
}
}  // namespace

Tensor clip_grad_norm_(TensorList parameters, double max_norm, double norm_type, bool error_if_nonfinite) {
  TENON_CHECK(max_norm >= 0, ValueError, "clip_grad_norm_: max_norm: expected a number >= 0, got ", max_norm);
  TENON_CHECK(norm_type > 0, ValueError, "clip_grad_norm_: norm_type: expected a number > 0, got ", norm_type);
  const NoGradGuard no_grad;
  const std::vector<Tensor> grads = gradients(parameters);
  if (grads.empty()) return zeros({});
  std::vector<Tensor> norms;
  for (const Tensor& g : grads) norms.push_back(norm(g, norm_type).to(grads[0].device()));
  const Tensor total = norm(stack(norms), norm_type);
  if (error_if_nonfinite) {
    const double value = total.item<double>();
    TENON_CHECK(std::isfinite(value), ValueError, "clip_grad_norm_: the norm of the gradients is ", value,
                "; set error_if_nonfinite=false to scale by it nevertheless");
  }
  const Tensor factor = ((total + 1e-6).pow(-1) * max_norm).clamp({}, 1.0);
  for (Tensor g : grads) g.mul_(factor.to(g.device()));
  return total;
}

void clip_grad_value_(TensorList parameters, double limit) {
  TENON_CHECK(limit >= 0, ValueError, "clip_grad_value_: limit: expected a number >= 0, got ", limit);
  const NoGradGuard no_grad;
  for (Tensor g : gradients(parameters)) g.clamp_(-limit, limit);
}

}  // namespace tenon::nn
