// SPDX-License-Identifier: Apache-2.0
#define TENON_DEFINE_OPERATORS
#include <tenon/ops/elementwise_loss.h>

#include <tenon/dispatch/declare_only.h>
//
#include <tenon/dispatch/make_tensor.h>
#include <tenon/ops/activation.h>
#include <tenon/ops/binary.h>
#include <tenon/ops/compare.h>
#include <tenon/ops/exponential.h>
#include <tenon/ops/factory.h>
#include <tenon/ops/loss.h>
#include <tenon/ops/reduce.h>
#include <tenon/ops/unary.h>
#include <tenon/ops/view.h>
#include <tenon/ops/where.h>

#include <cmath>

namespace tenon::impl {
namespace {

using LossKernel = void(const LoopPlan&, ElementLoss, double);

ElementLoss known(const Call& call, int64_t kind) {
  TENON_CHECK(kind >= 0 && kind <= static_cast<int64_t>(ElementLoss::logits), ValueError, call.name(),
              ": kind: expected 0 to 5, got ", kind);
  return static_cast<ElementLoss>(kind);
}
DType check_floating(std::string_view who, DType t) {
  TENON_CHECK(is_floating_point(t), DtypeError, who, ": expected a floating dtype, got ", t);
  return t;
}
Tensor losses(const char* who, const Tensor& self, const Tensor& target, ElementLoss kind, double number = 1) {
  check_floating(who, dispatch::result_type(self, target));
  dispatch::broadcast_sizes(self.sizes(), target.sizes(), who);  // for the name in the error
  return op::elementwise_loss(self, target, static_cast<int64_t>(kind), number);
}
void check_same_sizes(const char* who, const char* name, const Tensor& t, const Tensor& self) {
  TENON_CHECK(t.sizes() == self.sizes(), ShapeError, who, ": ", name, ": expected the sizes of self, ", self.sizes(),
              ", got ", t.sizes());
}
// "mean" divides by the weights; without them by the number of elements.
Tensor weighted(const char* who, const Tensor& each, const Tensor& self, const Tensor& weight, int64_t reduction) {
  if (!weight.defined()) return detail::reduced_loss(each, reduction);
  check_same_sizes(who, "weight", weight, self);
  const Tensor all = op::mul(each, weight);
  if (reduction != kReductionMean) return detail::reduced_loss(all, reduction);
  return op::div(all.sum(), weight.sum(), {});
}
int64_t parse(const char* who, std::string_view reduction) { return detail::parse_reduction(who, reduction); }

}  // namespace

Tensor elementwise_loss(Call& call, const Tensor& self, const Tensor& target, int64_t kind, double number) {
  const ElementLoss loss = known(call, kind);
  dispatch::Pointwise p(call, self, target);
  const DType t = check_floating(call.name(), p.promoted());
  return p.run<LossKernel>(t, loss, number);
}
Tensor elementwise_loss_backward(Call& call, const Tensor& grad_output, const Tensor& self, const Tensor& target,
                                 int64_t kind, double number) {
  const ElementLoss loss = known(call, kind);
  const DType t = check_floating(call.name(), dispatch::result_type(self, target));
  return dispatch::Pointwise(call, grad_output, self, target).run<LossKernel>(t, loss, number);
}

Tensor l1_loss(Call&, const Tensor& self, const Tensor& target, std::string_view reduction, const Tensor& weight) {
  const int64_t how = parse("l1_loss", reduction);
  const bool complex = is_complex(dispatch::result_type(self, target));
  const Tensor each =
      complex ? op::abs(op::sub(self, target, 1)) : losses("l1_loss", self, target, ElementLoss::absolute);
  return weighted("l1_loss", each, self, weight, how);
}
Tensor mse_loss(Call&, const Tensor& self, const Tensor& target, std::string_view reduction, const Tensor& weight) {
  const int64_t how = parse("mse_loss", reduction);
  return weighted("mse_loss", losses("mse_loss", self, target, ElementLoss::squared), self, weight, how);
}
Tensor smooth_l1_loss(Call&, const Tensor& self, const Tensor& target, std::string_view reduction, double beta) {
  const int64_t how = parse("smooth_l1_loss", reduction);
  TENON_CHECK(beta >= 0, ValueError, "smooth_l1_loss: beta: expected a number that is not negative, got ", beta);
  const ElementLoss kind = beta == 0 ? ElementLoss::absolute : ElementLoss::smooth;
  return detail::reduced_loss(losses("smooth_l1_loss", self, target, kind, beta), how);
}
Tensor huber_loss(Call&, const Tensor& self, const Tensor& target, std::string_view reduction, double delta,
                  const Tensor& weight) {
  const int64_t how = parse("huber_loss", reduction);
  TENON_CHECK(delta > 0, ValueError, "huber_loss: delta: expected a number > 0, got ", delta);
  Tensor each = losses("huber_loss", self, target, ElementLoss::huber, delta);
  if (weight.defined()) {
    check_same_sizes("huber_loss", "weight", weight, self);
    each = op::mul(each, weight);
  }
  return detail::reduced_loss(each, how);
}
Tensor binary_cross_entropy(Call&, const Tensor& self, const Tensor& target, const Tensor& weight,
                            std::string_view reduction) {
  const int64_t how = parse("binary_cross_entropy", reduction);
  check_same_sizes("binary_cross_entropy", "target", target, self);
  TENON_CHECK(target.dtype() == self.dtype(), DtypeError, "binary_cross_entropy: target: expected the dtype of self, ",
              self.dtype(), ", got ", target.dtype());
  const Tensor each = losses("binary_cross_entropy", self, target, ElementLoss::binary);
  return detail::reduced_loss(weight.defined() ? op::mul(each, weight) : each, how);
}
Tensor binary_cross_entropy_with_logits(Call&, const Tensor& self, const Tensor& target, const Tensor& weight,
                                        std::string_view reduction, const Tensor& pos_weight) {
  const char* const who = "binary_cross_entropy_with_logits";
  const int64_t how = parse(who, reduction);
  check_same_sizes(who, "target", target, self);
  Tensor each;
  if (pos_weight.defined()) {
    check_floating(who, dispatch::result_type(self, target));
    const Tensor factor = op::add(op::mul(op::sub(pos_weight, 1, 1), target), 1, 1);
    each = op::sub(op::mul(op::sub(Scalar(1), target, 1), self), op::mul(factor, op::log_sigmoid(self)), 1);
  } else {
    each = losses(who, self, target, ElementLoss::logits);
  }
  return detail::reduced_loss(weight.defined() ? op::mul(each, weight) : each, how);
}

Tensor kl_div(Call&, const Tensor& self, const Tensor& target, std::string_view reduction, bool log_target) {
  const bool batch = reduction == "batchmean";
  const int64_t how = batch ? kReductionSum : parse("kl_div", reduction);
  check_floating("kl_div", dispatch::result_type(self, target));
  const Tensor each = log_target ? op::mul(op::exp(target), op::sub(target, self, 1))
                                 : op::sub(op::xlogy(target, target), op::mul(target, self), 1);
  const Tensor loss = detail::reduced_loss(each, how);
  return batch && self.dim() != 0 ? op::div(loss, self.size(0), {}) : loss;
}
Tensor poisson_nll_loss(Call&, const Tensor& input, const Tensor& target, bool log_input, bool full, double eps,
                        std::string_view reduction) {
  const int64_t how = parse("poisson_nll_loss", reduction);
  dispatch::broadcast_sizes(input.sizes(), target.sizes(), "poisson_nll_loss");
  Tensor each = log_input ? op::sub(op::exp(input), op::mul(target, input), 1)
                          : op::sub(input, op::mul(target, op::log(op::add(input, eps, 1))), 1);
  if (full) {
    const Tensor log_target = op::log(target);
    const Tensor stirling = op::add(op::sub(op::mul(target, log_target), target, 1),
                                    op::mul(op::add(log_target, 1.8378770664093453, 1), 0.5), 1);
    each = op::add(each, op::where(op::gt(target, 1), stirling, 0), 1);
  }
  return detail::reduced_loss(each, how);
}
Tensor gaussian_nll_loss(Call&, const Tensor& input, const Tensor& target, const Operand& var, bool full, double eps,
                         std::string_view reduction) {
  const char* const who = "gaussian_nll_loss";
  const int64_t how = parse(who, reduction);
  Tensor spread = var.is_tensor() ? var.tensor() : op::full_like(input.detach(), var.number(), {}, {}, {});
  const IntArrayRef sizes = input.sizes(), given = spread.sizes();
  if (!(given == sizes)) {
    const std::size_t rank = sizes.size();
    bool fits = rank == given.size();  // entries of one element broadcast
    for (std::size_t d = 0; fits && d < rank; ++d) fits = sizes[d] == given[d] || given[d] == 1;
    const bool shorter = given.size() + 1 == rank && sizes.slice(0, rank - 1) == given;
    TENON_CHECK(fits || shorter, ShapeError, who, ": var: expected sizes that fit input's ", sizes, ", got ", given);
    if (shorter) spread = op::unsqueeze(spread, -1);
  }
  TENON_CHECK(spread.is_meta() || !op::any(op::lt(spread.detach(), 0), {}, false).item().to<bool>(), ValueError, who,
              ": var: expected no negative entries");
  // The bound has no part in the gradient.
  spread = op::add(spread, op::sub(op::clamp_min(spread.detach(), eps), spread.detach(), 1), 1);
  const Tensor away = op::sub(input, target, 1);
  Tensor each = op::mul(op::add(op::log(spread), op::div(op::mul(away, away), spread, {}), 1), 0.5);
  if (full) each = op::add(each, 0.9189385332046727, 1);
  return detail::reduced_loss(each, how);
}
Tensor soft_margin_loss(Call&, const Tensor& self, const Tensor& target, std::string_view reduction) {
  const int64_t how = parse("soft_margin_loss", reduction);
  check_floating("soft_margin_loss", dispatch::result_type(self, target));
  return detail::reduced_loss(op::log1p(op::exp(op::neg(op::mul(self, target)))), how);
}
Tensor hinge_embedding_loss(Call&, const Tensor& self, const Tensor& target, double margin,
                            std::string_view reduction) {
  const int64_t how = parse("hinge_embedding_loss", reduction);
  const Tensor apart = op::where(op::ne(target, 1), op::clamp_min(op::sub(Scalar(margin), self, 1), 0), 0);
  return detail::reduced_loss(op::add(apart, op::where(op::ne(target, -1), self, 0), 1), how);
}
Tensor margin_ranking_loss(Call&, const Tensor& input1, const Tensor& input2, const Tensor& target, double margin,
                           std::string_view reduction) {
  const int64_t how = parse("margin_ranking_loss", reduction);
  TENON_CHECK(input1.dim() == input2.dim() && input1.dim() == target.dim(), ShapeError,
              "margin_ranking_loss: input2, target: expected as many dimensions as input1, ", input1.sizes(), ", got ",
              input2.sizes(), " and ", target.sizes());
  const Tensor away = op::mul(op::neg(target), op::sub(input1, input2, 1));
  return detail::reduced_loss(op::clamp_min(op::add(away, margin, 1), 0), how);
}

}  // namespace tenon::impl
