// SPDX-License-Identifier: Apache-2.0
#define TENON_DEFINE_OPERATORS
#include <tenon/ops/loss.h>

#include <tenon/dispatch/declare_only.h>
//
#include <tenon/dispatch/make_tensor.h>
#include <tenon/dispatch/pointwise.h>
#include <tenon/ops/binary.h>
#include <tenon/ops/compare.h>
#include <tenon/ops/softmax.h>
#include <tenon/ops/unary.h>
#include <tenon/ops/where.h>

#include <algorithm>
#include <limits>

namespace tenon::impl {
namespace {
using dispatch::make_view;

int64_t parse_reduction(const char* who, std::string_view text) {
  const bool known = text == "none" || text == "mean" || text == "sum";
  TENON_CHECK(known, ValueError, who, ": reduction: expected \"none\", \"mean\" or \"sum\", got \"", text, "\"");
  return text == "none" ? kReductionNone : text == "mean" ? kReductionMean : kReductionSum;
}

struct ClassShape {
  int64_t n = 1, classes = 1, inner = 1;
};

ClassShape check_classes(const Call& call, const Tensor& self, const Tensor& target, const Tensor& weight,
                         int64_t reduction) {
  // People call nll_loss and cross_entropy; messages do not name the halves they run.
  std::string_view who = call.name();
  if (const std::size_t at = who.find("_forward"); at != std::string_view::npos) who = who.substr(0, at);
  TENON_CHECK(self.dim() >= 1, ShapeError, who, ": self: expected at least one dimension, got a 0-dim tensor");
  TENON_CHECK(is_floating_point(self.dtype()), DtypeError, who, ": self: expected a floating dtype, got ",
              self.dtype());
  TENON_CHECK(target.dtype() == kInt64 || target.dtype() == kUInt8, DtypeError, who, ": target: expected int64, got ",
              target.dtype(), is_floating_point(target.dtype()) ? " (class probabilities have the sizes of self)" : "");
  TENON_CHECK(reduction >= kReductionNone && reduction <= kReductionSum, ValueError, who,
              ": reduction: expected 0 (none), 1 (mean) or 2 (sum), got ", reduction);
  DimVector expected;
  ClassShape shape;
  const std::size_t class_dim = self.dim() == 1 ? 0 : 1;
  for (std::size_t d = 0; d < self.sizes().size(); ++d) {
    (d == class_dim ? shape.classes : d < class_dim ? shape.n : shape.inner) *= self.sizes()[d];
    if (d != class_dim) expected.push_back(self.sizes()[d]);
  }
  TENON_CHECK(target.sizes() == IntArrayRef(expected), ShapeError, who, ": target: expected sizes ", expected,
              " for self of ", self.sizes(), ", got ", target.sizes());
  if (weight.defined()) {
    TENON_CHECK(weight.dim() == 1 && weight.numel() == shape.classes, ShapeError, who, ": weight: expected sizes [",
                shape.classes, "], got ", weight.sizes());
    TENON_CHECK(weight.dtype() == self.dtype(), DtypeError, who, ": weight: expected the dtype of self, ", self.dtype(),
                ", got ", weight.dtype());
  }
  return shape;
}

Tensor classes_view(const Tensor& t, const ClassShape& s) {
  return make_view(t, {s.n, s.classes, s.inner}, {s.classes * s.inner, s.inner, 1}, t.storage_offset());
}
Tensor target_view(const Tensor& target, const ClassShape& s) {
  const Tensor t = target.to(kInt64).contiguous();
  return make_view(t, {s.n, s.inner}, {s.inner, 1}, t.storage_offset());
}
Tensor dense(const Tensor& t) { return t.defined() ? t.contiguous() : t; }

// Refused at once, not as a gradient that silently stays away.
void check_weight(const char* who, const Tensor& weight) {
  TENON_CHECK(!weight.defined() || !grad_enabled() || !weight.requires_grad(), AutogradError, who,
              ": weight: is not differentiable here, but requires grad; detach() it");
}

Tensor reduce(const Tensor& losses, int64_t reduction) {
  return reduction == kReductionNone ? losses : reduction == kReductionMean ? losses.mean() : losses.sum();
}

// The weights along the class dimension of `self`, to multiply with.
Tensor class_weights(const Tensor& weight, const Tensor& self, int64_t class_dim) {
  DimVector sizes(self.sizes().size(), 1);
  sizes[static_cast<std::size_t>(class_dim)] = weight.numel();
  return weight.view(sizes);
}

}  // namespace

std::tuple<Tensor, Tensor> nll_loss_forward(Call& call, const Tensor& self, const Tensor& target, const Tensor& weight,
                                            int64_t reduction, int64_t ignore_index) {
  const Device device = call.device_of({&self, &target, &weight});
  const ClassShape shape = check_classes(call, self, target, weight, reduction);
  const IntArrayRef sizes = reduction == kReductionNone ? target.sizes() : IntArrayRef();
  Tensor out = call.output(0, sizes, self.dtype(), device, {&self, &target, &weight});
  if (!out.is_contiguous()) out = dispatch::make_tensor(sizes, self.dtype(), device);
  Tensor total = call.output(1, IntArrayRef(), self.dtype(), device, {&self, &target, &weight});
  if (out.is_meta()) return {out, total};
  const auto kernel = op::nll_loss_forward.kernel(self.backend(), dispatch::key_of(self.dtype()));
  if (reduction == kReductionNone || target.numel() == 0) total.zero_();
  if (target.numel() == 0) {
    if (reduction != kReductionNone)
      out.fill_(reduction == kReductionSum ? 0.0 : std::numeric_limits<double>::quiet_NaN());
    return {out, total};
  }
  kernel(out, total, classes_view(self.contiguous(), shape), target_view(target, shape), dense(weight), reduction,
         ignore_index);
  return {out, total};
}

Tensor nll_loss_backward(Call& call, const Tensor& grad_output, const Tensor& self, const Tensor& target,
                         const Tensor& weight, int64_t reduction, int64_t ignore_index, const Tensor& total_weight) {
  const Device device = call.device_of({&grad_output, &self, &target, &weight, &total_weight});
  const ClassShape shape = check_classes(call, self, target, weight, reduction);
  TENON_CHECK(reduction == kReductionNone ? grad_output.sizes() == target.sizes() : grad_output.numel() == 1,
              ShapeError, "nll_loss_backward: grad_output: expected the sizes of the loss, got ", grad_output.sizes());
  TENON_CHECK(grad_output.dtype() == self.dtype(), DtypeError,
              "nll_loss_backward: grad_output: expected the dtype of self, ", self.dtype(), ", got ",
              grad_output.dtype());
  Tensor out =
      call.output(0, self.sizes(), self.dtype(), device, {&grad_output, &self, &target, &weight, &total_weight});
  if (!out.is_contiguous()) out = dispatch::make_tensor(self.sizes(), self.dtype(), device);
  if (out.is_meta() || out.numel() == 0) return out;
  out.zero_();
  op::nll_loss_backward.kernel(self.backend(), dispatch::key_of(self.dtype()))(
      classes_view(out, shape), grad_output.contiguous(), target_view(target, shape), dense(weight), reduction,
      ignore_index, total_weight);
  return out;
}

Tensor nll_loss(Call&, const Tensor& self, const Tensor& target, const Tensor& weight, std::string_view reduction,
                int64_t ignore_index) {
  return op::nll_loss_int(self, target, weight, parse_reduction("nll_loss", reduction), ignore_index);
}
Tensor nll_loss_int(Call&, const Tensor& self, const Tensor& target, const Tensor& weight, int64_t reduction,
                    int64_t ignore_index) {
  check_weight("nll_loss", weight);
  return std::get<0>(op::nll_loss_forward(self, target, weight, reduction, ignore_index));
}

Tensor cross_entropy(Call&, const Tensor& self, const Tensor& target, const Tensor& weight, std::string_view reduction,
                     int64_t ignore_index, double label_smoothing) {
  const int64_t how = parse_reduction("cross_entropy", reduction);
  TENON_CHECK(label_smoothing >= 0 && label_smoothing <= 1, ValueError,
              "cross_entropy: label_smoothing: expected a number in [0, 1], got ", label_smoothing);
  TENON_CHECK(self.dim() >= 1, ShapeError, "cross_entropy: self: expected at least one dimension, got a 0-dim tensor");
  const int64_t class_dim = self.dim() == 1 ? 0 : 1, classes = self.size(class_dim);
  TENON_CHECK(!weight.defined() || (weight.dim() == 1 && weight.numel() == classes), ShapeError,
              "cross_entropy: weight: expected sizes [", classes, "], got ", weight.sizes());
  if (self.sizes() == target.sizes()) {  // class probabilities
    TENON_CHECK(is_floating_point(target.dtype()), DtypeError,
                "cross_entropy: target: expected a floating dtype for class probabilities, got ", target.dtype());
    TENON_CHECK(ignore_index < 0, ValueError, "cross_entropy: ignore_index: not supported for class probabilities");
    const Tensor logs = op::log_softmax(self, class_dim, {});
    Tensor wanted = target;
    if (label_smoothing > 0)
      wanted = op::add(op::mul(target, 1 - label_smoothing), label_smoothing / static_cast<double>(classes), 1);
    Tensor products = op::mul(logs, wanted);
    if (weight.defined()) products = op::mul(products, class_weights(weight, self, class_dim));
    if (how == kReductionNone) return op::neg(products.sum(IntArrayRef(class_dim)));
    const Tensor total = op::neg(products.sum());
    // One loss for every position that is not a class.
    const int64_t positions = self.numel() / std::max<int64_t>(classes, 1);
    return how == kReductionSum ? total : op::div(total, static_cast<double>(positions), {});
  }
  const Tensor logs = op::log_softmax(self, class_dim, {});
  check_weight("cross_entropy", weight);
  const auto [loss, total_weight] = op::nll_loss_forward(logs, target, weight, how, ignore_index);
  if (label_smoothing == 0) return loss;
  const Tensor weighted = weight.defined() ? op::mul(logs, class_weights(weight, self, class_dim)) : logs;
  const Tensor ignored = op::eq(target, ignore_index);
  const Tensor smooth = op::masked_fill(op::neg(weighted.sum(IntArrayRef(class_dim))), ignored, 0);
  Tensor smooth_loss = smooth;
  if (how != kReductionNone) smooth_loss = smooth.sum();
  if (how == kReductionMean) smooth_loss = op::div(smooth_loss, total_weight, {});
  return op::add(op::mul(loss, 1 - label_smoothing),
                 op::mul(smooth_loss, label_smoothing / static_cast<double>(classes)), 1);
}

Tensor mse_loss(Call&, const Tensor& self, const Tensor& target, std::string_view reduction) {
  const int64_t how = parse_reduction("mse_loss", reduction);
  const DType t = dispatch::result_type(self, target);
  TENON_CHECK(is_floating_point(t), DtypeError, "mse_loss: expected a floating dtype, got ", t);
  dispatch::broadcast_sizes(self.sizes(), target.sizes(), "mse_loss");  // for the name in the error
  const Tensor difference = op::sub(self, target, 1);
  return reduce(op::mul(difference, difference), how);
}

}  // namespace tenon::impl
