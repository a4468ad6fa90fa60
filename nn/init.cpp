// SPDX-License-Identifier: Apache-2.0
#include <tenon/dispatch/thread_state.h>
#include <tenon/nn/init.h>
#include <tenon/ops/random.h>

#include <cmath>

namespace tenon::nn::init {
namespace {
int64_t fan(const Tensor& weight, std::size_t dim) {
  TENON_CHECK(weight.dim() >= 2, ShapeError, "init: weight: expected at least 2 dimensions, got sizes ",
              weight.sizes());
  int64_t n = weight.sizes()[dim];
  for (std::size_t d = 2; d < weight.sizes().size(); ++d) n *= weight.sizes()[d];
  return n;
}
}  // namespace

int64_t fan_in(const Tensor& weight) { return fan(weight, 1); }
int64_t fan_out(const Tensor& weight) { return fan(weight, 0); }

void uniform_(const Tensor& t, double from, double to) {
  const NoGradGuard no_grad;
  tenon::uniform_(t, from, to);
}
void normal_(const Tensor& t, double mean, double std) {
  const NoGradGuard no_grad;
  tenon::normal_(t, mean, std);
}
void constant_(const Tensor& t, const Scalar& value) {
  const NoGradGuard no_grad;
  Tensor target = t;
  target.fill_(value);
}
void kaiming_uniform_(const Tensor& weight, double a) {
  const double bound = std::sqrt(2 / (1 + a * a)) * std::sqrt(3.0 / static_cast<double>(fan_in(weight)));
  init::uniform_(weight, -bound, bound);
}
void kaiming_normal_(const Tensor& weight) {
  init::normal_(weight, 0, std::sqrt(2.0 / static_cast<double>(fan_in(weight))));
}
void xavier_uniform_(const Tensor& weight, double gain) {
  const double bound = gain * std::sqrt(6.0 / static_cast<double>(fan_in(weight) + fan_out(weight)));
  init::uniform_(weight, -bound, bound);
}

}  // namespace tenon::nn::init
