// SPDX-License-Identifier: Apache-2.0
// Gradients of rows against finite differences, first order and, where the row says so, second.
#include <tenon/autograd/gradcheck.h>
#include <tenon/ops/copy.h>
#include <tenon/ops/random.h>
#include <tenon/ops/view.h>
#include <tenon/testing/op_case.h>

namespace tenon::testing {
namespace {

bool checked(const Tensor& t) { return t.defined() && (t.dtype() == kFloat64 || t.dtype() == kComplex128); }

// The arguments with the tensors that are differentiated replaced, in order.
std::vector<Value> with_inputs(const OpCase& row, const std::vector<Value>& args, TensorList inputs) {
  std::vector<Value> r = args;
  std::size_t next = 0;
  for (std::size_t i = 0; i < r.size(); ++i) {
    Value& v = r[i];
    if (!(row.gradient_arguments >> i & 1u)) continue;
    if (v.is_tensor() && checked(v.tensor())) v = Value(inputs[next++]);
    if (v.kind() == Value::Kind::tensor_list)
      for (Tensor& t : v.tensors())
        if (checked(t)) t = inputs[next++];
  }
  return r;
}

std::string check_sample(const OpCase& row, const Sample& s, uint32_t seed, bool strided) {
  std::vector<Value> bound;
  std::string reason;
  if (!dispatch::bind_arguments(row.op->schema(), s.args, s.kwargs, bound, &reason))
    return "the arguments do not fit: " + reason;
  std::vector<Tensor> inputs;
  int64_t elements = 0;
  const auto leaf = [&](const Tensor& t) {
    if (!checked(t)) return;
    elements += t.numel();
    Tensor x =
        strided && t.dim() >= 2 ? t.transpose(0, -1).clone(MemoryFormat::contiguous).transpose(0, -1) : t.clone();
    inputs.push_back(x.detach().requires_grad_());
  };
  for (std::size_t i = 0; i < bound.size(); ++i) {
    const Value& v = bound[i];
    if (!(row.gradient_arguments >> i & 1u)) continue;
    if (v.is_tensor()) leaf(v.tensor());
    if (v.kind() == Value::Kind::tensor_list)
      for (const Tensor& t : v.tensors()) leaf(t);
  }
  if (inputs.empty() || elements > 130) return {};
  const autograd::CheckedFunction f = [&](TensorList leaves) {
    if (row.is_random) manual_seed(seed);
    dispatch::Results results;
    row.typed(*row.op, with_inputs(row, bound, leaves), results);
    std::vector<Tensor> out;
    for (int i = 0; i < results.count && i < row.gradient_results; ++i) {
      if (results.items[i].is_tensor())
        out.push_back(results.items[i].tensor());
      else
        for (const Tensor& t : results.items[i].tensors()) out.push_back(t);
    }
    return out;
  };
  std::string text;
  autograd::GradcheckOptions options;
  options.raise = false;
  options.report = &text;
  options.seed = seed;
  if (!autograd::gradcheck(f, inputs, options)) return "gradient: " + text;
  if (row.check_second && elements <= 60 && !autograd::gradgradcheck(f, inputs, options))
    return "gradient of the gradient: " + text;
  return {};
}

}  // namespace

Failures check_gradient(const OpCase& row, const Run& run) {
  Failures failures;
  if (!row.check_gradient) return failures;
  for (const DType t : row.dtype_list) {
    if (t != kFloat64 && t != kComplex128) continue;
    const std::vector<Sample> samples = row.make_samples(t, run.seed);
    for (std::size_t i = 0; i < samples.size() && failures.size() < 6; ++i) {
      if (!samples[i].gradient) continue;
      for (const bool strided : {false, true}) {
        if (strided && !samples[i].layouts) continue;
        std::string text;
        try {
          text = check_sample(row, samples[i], run.seed, strided);
        } catch (const std::exception& e) {
          text = std::string("threw: ") + e.what();
        }
        if (!text.empty())
          failures.push_back(row.label + ", " + name(t) + ", sample " + std::to_string(i) +
                             (strided ? ", strided" : "") + ", seed " + std::to_string(run.seed) + ": " + text);
      }
    }
  }
  return failures;
}

}  // namespace tenon::testing
