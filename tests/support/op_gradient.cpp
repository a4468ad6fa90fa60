// SPDX-License-Identifier: Apache-2.0
// Gradients of rows against finite differences, first order and, where the row says so, second; those of 16-bit floats
// against float64's at the same values.
#include <tenon/autograd/autograd.h>
#include <tenon/autograd/gradcheck.h>
#include <tenon/ops/binary.h>
#include <tenon/ops/copy.h>
#include <tenon/ops/random.h>
#include <tenon/ops/view.h>
#include <tenon/testing/op_case.h>

#include <algorithm>
#include <cmath>

namespace tenon::testing {
namespace {

bool is_double(const Tensor& t) { return t.defined() && (t.dtype() == kFloat64 || t.dtype() == kComplex128); }

bool low(const Tensor& t) { return t.defined() && (t.dtype() == kFloat16 || t.dtype() == kBFloat16); }

// The arguments with the tensors that are differentiated replaced, in order.
std::vector<Value> with_inputs(const OpCase& row, const std::vector<Value>& args, TensorList inputs) {
  std::vector<Value> r = args;
  std::size_t next = 0;
  for (std::size_t i = 0; i < r.size(); ++i) {
    Value& v = r[i];
    if (!(row.gradient_arguments >> i & 1u)) continue;
    if (v.is_tensor() && is_double(v.tensor())) v = Value(inputs[next++]);
    if (v.kind() == Value::Kind::tensor_list)
      for (Tensor& t : v.tensors())
        if (is_double(t)) t = inputs[next++];
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
    if (!is_double(t)) return;
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

// Gradients of the sum of all results.
std::vector<Tensor> plain_gradients(const OpCase& row, const std::vector<Value>& args, TensorList inputs) {
  dispatch::Results results;
  row.typed(*row.op, args, results);
  Tensor loss;
  const auto add = [&](const Tensor& t) {
    if (!t.defined() || !t.requires_grad()) return;
    const Tensor part = t.to(kFloat64).sum();
    loss = loss.defined() ? loss + part : part;
  };
  for (int i = 0; i < results.count && i < row.gradient_results; ++i) {
    if (results.items[i].is_tensor())
      add(results.items[i].tensor());
    else
      for (const Tensor& t : results.items[i].tensors()) add(t);
  }
  if (!loss.defined()) return std::vector<Tensor>(inputs.size());
  return autograd::grad({&loss, 1}, inputs, {}, {}, false, true);
}

std::string check_low_precision(const OpCase& row, const Sample& s) {
  std::vector<Value> narrow_args;
  std::string reason;
  if (!dispatch::bind_arguments(row.op->schema(), s.args, s.kwargs, narrow_args, &reason)) return {};
  std::vector<Value> wide_args = narrow_args;
  std::vector<Tensor> narrow, wide;
  for (std::size_t i = 0; i < narrow_args.size(); ++i) {
    const bool leaf = (row.gradient_arguments >> i & 1u) != 0;
    const auto replace = [&](Tensor& small, Tensor& large) {
      if (!low(small)) return;
      small = small.detach().clone();
      large = small.to(kFloat64);
      if (!leaf) return;
      narrow.push_back(small.requires_grad_());
      wide.push_back(large.requires_grad_());
    };
    Value &small = narrow_args[i], &large = wide_args[i];
    if (small.is_tensor()) {
      Tensor a = small.tensor(), b = a;
      replace(a, b);
      small = Value(a), large = Value(b);
    } else if (small.kind() == Value::Kind::tensor_list) {
      for (std::size_t k = 0; k < small.tensors().size(); ++k) replace(small.tensors()[k], large.tensors()[k]);
    }
  }
  if (narrow.empty()) return {};
  const std::vector<Tensor> found = plain_gradients(row, narrow_args, narrow),
                            right = plain_gradients(row, wide_args, wide);
  for (std::size_t k = 0; k < found.size(); ++k) {
    if (found[k].defined() != right[k].defined()) return "a gradient is there in one dtype only";
    if (!found[k].defined()) continue;
    if (found[k].dtype() != narrow[k].dtype()) return std::string("the gradient has dtype ") + name(found[k].dtype());
    const std::vector<double> x = found[k].to(kFloat64).to_vector<double>(), y = right[k].to_vector<double>();
    double largest = 1;
    for (const double v : y) largest = std::max(largest, std::abs(v));
    if (!(largest < 1000)) continue;  // out of a half's range, or of its precision
    // Some ten roundings of a formula's parts, which may be larger than the gradient.
    const double bound_of = largest * (narrow[k].dtype() == kFloat16 ? 0x1p-5 : 0x1p-2);
    for (std::size_t e = 0; e < x.size(); ++e)
      if (!(std::abs(x[e] - y[e]) <= bound_of))
        return "input " + std::to_string(k) + " element " + std::to_string(e) + ": " + std::to_string(x[e]) +
               ", in float64 " + std::to_string(y[e]);
  }
  return {};
}

}  // namespace

Failures check_gradient(const OpCase& row, const Run& run) {
  Failures failures;
  if (!row.check_gradient) return failures;
  for (const DType t : row.dtype_list) {
    const bool low_precision = t == kFloat16 || t == kBFloat16;
    if (t != kFloat64 && t != kComplex128 && !low_precision) continue;
    if (low_precision && row.is_random) continue;
    const std::vector<Sample> samples = row.make_samples(t, run.seed);
    for (std::size_t i = 0; i < samples.size() && failures.size() < 6; ++i) {
      if (!samples[i].gradient) continue;
      for (const bool strided : {false, true}) {
        if (strided && (!samples[i].layouts || low_precision)) continue;
        std::string text;
        try {
          text =
              low_precision ? check_low_precision(row, samples[i]) : check_sample(row, samples[i], run.seed, strided);
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
