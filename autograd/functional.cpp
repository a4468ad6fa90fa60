// SPDX-License-Identifier: Apache-2.0
#include <tenon/autograd/autograd.h>
#include <tenon/autograd/autograd_meta.h>
#include <tenon/autograd/functional.h>
#include <tenon/core/operand.h>
#include <tenon/dispatch/make_tensor.h>
#include <tenon/ops/cat.h>
#include <tenon/ops/view.h>

namespace tenon::autograd {
namespace {

Tensor filled(IntArrayRef sizes, const Tensor& like, double value) {
  const NoGradGuard no_grad;
  Tensor t = dispatch::make_tensor(sizes, like.dtype(), like.device());
  t.fill_(value);
  return t;
}
Tensor zeros_as(const Tensor& t) { return filled(t.sizes(), t, 0); }

// One evaluation of a function, and gradients of what it gave.
class Evaluation {
 public:
  Evaluation(const char* who, const TensorFunction& f, TensorList given, bool create_graph, bool strict)
      : who_(who), create_graph_(create_graph), strict_(strict) {
    TENON_CHECK(!given.empty(), ValueError, who, ": inputs: expected at least one tensor");
    for (std::size_t i = 0; i < given.size(); ++i) {
      const Tensor& t = given[i];
      TENON_CHECK(t.defined(), ValueError, who, ": input ", i, ": expected a tensor, got an undefined one");
      TENON_CHECK(is_differentiable(t.dtype()), DtypeError, who, ": input ", i,
                  ": expected a floating-point or complex tensor, got ", t.dtype());
      // Connected with what the caller has, or a leaf of this evaluation's own.
      Tensor own = t.is_inference() ? t.clone() : create_graph && takes_part(t) ? t.view(t.sizes()) : t.detach();
      if (!takes_part(own)) own.requires_grad_();
      inputs.push_back(static_cast<Tensor&&>(own));
    }
    outputs = f(inputs);
    TENON_CHECK(!outputs.empty(), ValueError, who, ": the function gave no tensor");
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      TENON_CHECK(outputs[i].defined(), ValueError, who, ": output ", i, ": expected a tensor, got an undefined one");
      TENON_CHECK(!strict || takes_part(outputs[i]), AutogradError, who, ": output ", i,
                  " is independent of the inputs");
    }
  }

  void expect_scalar() const {
    TENON_CHECK(outputs.size() == 1 && outputs[0].numel() == 1, ValueError, who_,
                ": expected a function with one one-element output, got ", outputs.size(), " of sizes ",
                outputs[0].sizes());
  }

  // `v` as given, checked against `like`; ones if it was left out and may be.
  std::vector<Tensor> vectors(TensorList v, const std::vector<Tensor>& like, const char* what) const {
    if (v.empty()) {
      TENON_CHECK(like.size() == 1 && like[0].numel() == 1, ValueError, who_, ": v: can be left out for a single ",
                  what, " of one element only");
      return {filled(like[0].sizes(), like[0], 1)};
    }
    TENON_CHECK(v.size() == like.size(), ValueError, who_, ": v: expected ", like.size(), " tensors, one per ", what,
                ", got ", v.size());
    for (std::size_t i = 0; i < v.size(); ++i) {
      TENON_CHECK(v[i].defined(), ValueError, who_, ": v: tensor ", i, " is undefined");
      TENON_CHECK(v[i].sizes() == like[i].sizes(), ShapeError, who_, ": v: tensor ", i, ": expected sizes ",
                  like[i].sizes(), ", got ", v[i].sizes());
    }
    return {v.begin(), v.end()};
  }

  // Gradients of those `of` that have a history, undefined where they do not depend on `with`.
  std::vector<Tensor> gradients(const std::vector<Tensor>& of, const std::vector<Tensor>& v,
                                const std::vector<Tensor>& with, bool create) const {
    std::vector<Tensor> some, weights;
    for (std::size_t i = 0; i < of.size(); ++i) {
      if (!of[i].defined() || !is_differentiable(of[i].dtype()) || !takes_part(of[i])) continue;
      some.push_back(of[i]);
      weights.push_back(v[i]);
    }
    if (some.empty()) return std::vector<Tensor>(with.size());
    return autograd::grad(some, with, weights, true, create, true);
  }

  // Zeros in the place of undefined results, unless that is an error.
  std::vector<Tensor> settle(std::vector<Tensor> results, const std::vector<Tensor>& like, const char* what,
                             const char* on) const {
    for (std::size_t i = 0; i < results.size(); ++i) {
      TENON_CHECK(!strict_ || results[i].defined(), AutogradError, who_, ": ", what, " ", i, " is independent of ", on);
      TENON_CHECK(!strict_ || !create_graph_ || takes_part(results[i]), AutogradError, who_, ": the result for ", what,
                  " ", i, " is independent of the inputs, so it cannot be differentiated again");
      if (!results[i].defined()) results[i] = zeros_as(like[i]);
    }
    return results;
  }

  // The gradient of the one output, to be differentiated again.
  std::vector<Tensor> first_derivatives() const {
    std::vector<Tensor> g = gradients(outputs, {filled(outputs[0].sizes(), outputs[0], 1)}, inputs, true);
    for (std::size_t i = 0; i < g.size(); ++i) {
      TENON_CHECK(!strict_ || g[i].defined(), AutogradError, who_, ": the output does not depend on input ", i,
                  " (strict)");
      TENON_CHECK(!strict_ || takes_part(g[i]), AutogradError, who_, ": the gradient for input ", i,
                  " does not depend on ", g.size() == 1 ? "input 0" : "any input", " (strict)");
      if (!g[i].defined()) g[i] = zeros_as(inputs[i]);
    }
    return g;
  }

  TensorLists finish(std::vector<Tensor> products) {
    if (!create_graph_)
      for (Tensor& t : outputs) t = t.detach();
    return {static_cast<std::vector<Tensor>&&>(outputs), static_cast<std::vector<Tensor>&&>(products)};
  }

  // J v by differentiating u^T J, which is linear in u.
  std::vector<Tensor> forward_product(const std::vector<Tensor>& of, const std::vector<Tensor>& v) const {
    std::vector<Tensor> u;
    for (const Tensor& t : of) u.push_back(zeros_as(t).requires_grad_());
    return gradients(gradients(of, u, inputs, true), v, u, create_graph_);
  }

  std::vector<Tensor> inputs, outputs;

 private:
  const char* who_;
  bool create_graph_, strict_;
};

TensorMatrix jacobian_of(const char* who, const TensorFunction& f, TensorList given, bool create_graph, bool strict,
                         bool of_gradient = false) {
  const InferenceMode recording(false);
  const Evaluation e(who, f, given, create_graph, strict);
  TensorMatrix result;
  for (std::size_t i = 0; i < e.outputs.size(); ++i) {
    const Tensor& y = e.outputs[i];
    TENON_CHECK(is_differentiable(y.dtype()), DtypeError, who, ": output ", i,
                ": expected a floating-point or complex tensor, got ", y.dtype());
    TensorMatrix rows(e.inputs.size());
    for (int64_t k = 0; k < y.numel(); ++k) {
      const Tensor v = zeros_as(y);
      v.view({-1})[k].fill_(1.0);
      std::vector<Tensor> g = e.gradients({y}, {v}, e.inputs, create_graph);
      for (std::size_t j = 0; j < g.size(); ++j)
        TENON_CHECK(!strict || g[j].defined(), AutogradError, who,
                    of_gradient ? ": the gradient for input " : ": output ", i, " does not depend on input ", j,
                    " (strict)");
      g = e.settle(static_cast<std::vector<Tensor>&&>(g), e.inputs, "input", "the output");
      for (std::size_t j = 0; j < g.size(); ++j) rows[j].push_back(g[j]);
    }
    std::vector<Tensor>& blocks = result.emplace_back();
    for (std::size_t j = 0; j < rows.size(); ++j) {
      DimVector sizes(y.sizes());
      for (const int64_t n : e.inputs[j].sizes()) sizes.push_back(n);
      blocks.push_back(rows[j].empty() ? filled(sizes, e.inputs[j], 0) : stack(rows[j]).view(sizes));
    }
  }
  return result;
}

}  // namespace

namespace internal {
TensorLists vjp(const TensorFunction& f, TensorList inputs, TensorList v, bool create_graph, bool strict) {
  const InferenceMode recording(false);
  Evaluation e("vjp", f, inputs, create_graph, strict);
  const std::vector<Tensor> weights = e.vectors(v, e.outputs, "output");
  return e.finish(e.settle(e.gradients(e.outputs, weights, e.inputs, create_graph), e.inputs, "input", "the outputs"));
}

TensorLists jvp(const TensorFunction& f, TensorList inputs, TensorList v, bool create_graph, bool strict) {
  const InferenceMode recording(false);
  Evaluation e("jvp", f, inputs, create_graph, strict);
  const std::vector<Tensor> weights = e.vectors(v, e.inputs, "input");
  return e.finish(e.settle(e.forward_product(e.outputs, weights), e.outputs, "output", "the inputs"));
}

TensorMatrix jacobian(const TensorFunction& f, TensorList inputs, bool create_graph, bool strict) {
  return jacobian_of("jacobian", f, inputs, create_graph, strict);
}

TensorMatrix hessian(const TensorFunction& f, TensorList inputs, bool create_graph, bool strict) {
  const InferenceMode recording(false);
  const TensorFunction gradient = [&](TensorList in) {
    const Evaluation e("hessian", f, in, true, strict);
    e.expect_scalar();
    return e.first_derivatives();
  };
  return jacobian_of("hessian", gradient, inputs, create_graph, strict, true);
}

namespace {
TensorLists hessian_product(const char* who, bool forward, const TensorFunction& f, TensorList inputs, TensorList v,
                            bool create_graph, bool strict) {
  const InferenceMode recording(false);
  Evaluation e(who, f, inputs, create_graph, strict);
  e.expect_scalar();
  const std::vector<Tensor> weights = e.vectors(v, e.inputs, "input");
  const std::vector<Tensor> first = e.first_derivatives();
  std::vector<Tensor> product =
      forward ? e.forward_product(first, weights) : e.gradients(first, weights, e.inputs, create_graph);
  return e.finish(e.settle(static_cast<std::vector<Tensor>&&>(product), e.inputs, "input", "the gradient"));
}
}  // namespace

TensorLists vhp(const TensorFunction& f, TensorList inputs, TensorList v, bool create_graph, bool strict) {
  return hessian_product("vhp", false, f, inputs, v, create_graph, strict);
}
TensorLists hvp(const TensorFunction& f, TensorList inputs, TensorList v, bool create_graph, bool strict) {
  return hessian_product("hvp", true, f, inputs, v, create_graph, strict);
}

}  // namespace internal

}  // namespace tenon::autograd
