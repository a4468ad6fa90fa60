// SPDX-License-Identifier: Apache-2.0
#define TENON_DEFINE_OPERATORS
#include <tenon/ops/attention.h>

#include <tenon/dispatch/declare_only.h>
//
#include <tenon/dispatch/make_tensor.h>
#include <tenon/ops/binary.h>
#include <tenon/ops/compare.h>
#include <tenon/ops/factory.h>
#include <tenon/ops/matmul.h>
#include <tenon/ops/random.h>
#include <tenon/ops/rearrange.h>
#include <tenon/ops/reduce.h>
#include <tenon/ops/softmax.h>
#include <tenon/ops/statistics.h>
#include <tenon/ops/unary.h>
#include <tenon/ops/view.h>
#include <tenon/ops/where.h>

#include <cmath>
#include <limits>

namespace tenon::impl {
namespace {

constexpr double kNever = -std::numeric_limits<double>::infinity();
constexpr std::string_view kName = "scaled_dot_product_attention";

IntArrayRef batch_of(const Tensor& t) { return t.sizes().slice(0, t.sizes().size() - 2); }
DimVector with(IntArrayRef batch, std::initializer_list<int64_t> rest) {
  DimVector sizes(batch);
  for (const int64_t s : rest) sizes.push_back(s);
  return sizes;
}
bool broadcasts_to(IntArrayRef from, IntArrayRef to) {
  if (from.size() > to.size()) return false;
  for (std::size_t i = 1; i <= from.size(); ++i)
    if (from[from.size() - i] != 1 && from[from.size() - i] != to[to.size() - i]) return false;
  return true;
}
DType computed_in(DType t) { return is_half(t) ? kFloat32 : t; }

void check_operands(const Tensor& q, const Tensor& k, const Tensor& v) {
  const struct {
    const char* name;
    const Tensor& t;
  } all[] = {{"query", q}, {"key", k}, {"value", v}};
  for (const auto& a : all) {
    TENON_CHECK(is_floating_point(a.t.dtype()) && a.t.dtype() == q.dtype(), DtypeError, kName, ": ", a.name,
                ": expected the floating dtype of query, ", q.dtype(), ", got ", a.t.dtype());
    TENON_CHECK(a.t.dim() >= 2, ShapeError, kName, ": ", a.name, ": expected at least 2 dimensions, got sizes ",
                a.t.sizes());
  }
  TENON_CHECK(q.size(-1) == k.size(-1), ShapeError, kName, ": key: expected vectors of ", q.size(-1),
              " as query's, got sizes ", k.sizes());
  TENON_CHECK(k.size(-2) == v.size(-2), ShapeError, kName, ": value: expected ", k.size(-2), " rows as key, got sizes ",
              v.sizes());
}
void check_mask(const Tensor& mask, DType t, IntArrayRef scores) {
  if (!mask.defined()) return;
  TENON_CHECK(mask.dtype() == kBool || mask.dtype() == t, DtypeError, kName, ": attn_mask: expected bool or ", t,
              " as query, got ", mask.dtype());
  TENON_CHECK(broadcasts_to(mask.sizes(), scores), ShapeError, kName, ": attn_mask: expected sizes that broadcast to ",
              scores, ", got ", mask.sizes());
}

struct Geometry {
  DimVector batch, scores;
  Device device;
  Geometry(Call& call, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask)
      : batch(batch_of(q)), scores(with(batch, {q.size(-2), k.size(-2)})), device(call.device_of({&q, &k, &v, &mask})) {
    check_operands(q, k, v);
    TENON_CHECK(batch_of(k) == IntArrayRef(batch) && batch_of(v) == IntArrayRef(batch), ShapeError, call.name(),
                ": expected equal batch dimensions, got query ", q.sizes(), ", key ", k.sizes(), ", value ", v.sizes());
    check_mask(mask, q.dtype(), scores);
  }
};
Tensor own_output(Call& call, int i, const DimVector& sizes, DType t, Device device,
                  std::initializer_list<const Tensor*> inputs) {
  const Tensor out = call.output(i, sizes, t, device, inputs);
  return out.is_contiguous() || out.is_meta() ? out : dispatch::make_tensor(sizes, t, device);
}
Tensor expanded(const Tensor& mask, const DimVector& sizes) { return mask.defined() ? mask.expand(sizes) : mask; }

}  // namespace

std::tuple<Tensor, Tensor> scaled_dot_product_attention_forward(Call& call, const Tensor& q, const Tensor& k,
                                                                const Tensor& v, const Tensor& mask, bool is_causal,
                                                                double scale) {
  const Geometry g(call, q, k, v, mask);
  const DType wide = computed_in(q.dtype());
  Tensor out = own_output(call, 0, with(g.batch, {q.size(-2), v.size(-1)}), q.dtype(), g.device, {&q, &k, &v, &mask});
  Tensor lse = own_output(call, 1, with(g.batch, {q.size(-2)}), wide, g.device, {&q, &k, &v, &mask});
  if (lse.numel() == 0 || out.is_meta()) return {out, lse};
  op::scaled_dot_product_attention_forward.kernel(q.backend(), dispatch::key_of(q.dtype()))(
      out, lse, q, k, v, expanded(mask, g.scores), is_causal, scale);
  return {out, lse};
}

std::tuple<Tensor, Tensor, Tensor> scaled_dot_product_attention_backward(Call& call, const Tensor& grad,
                                                                         const Tensor& q, const Tensor& k,
                                                                         const Tensor& v, const Tensor& out,
                                                                         const Tensor& lse, const Tensor& mask,
                                                                         bool is_causal, double scale) {
  const Geometry g(call, q, k, v, mask);
  const DType t = q.dtype(), wide = computed_in(t);
  call.device_of({&grad, &q, &out, &lse});
  const DimVector sizes = with(g.batch, {q.size(-2), v.size(-1)});
  for (const Tensor* each : {&grad, &out})
    TENON_CHECK(each->sizes() == IntArrayRef(sizes) && each->dtype() == t, ShapeError, call.name(),
                ": grad_output, output: expected ", t, " of sizes ", sizes, ", got ", each->dtype(), " of ",
                each->sizes());
  TENON_CHECK(lse.sizes() == IntArrayRef(sizes).slice(0, sizes.size() - 1) && is_floating_point(lse.dtype()),
              ShapeError, call.name(), ": logsumexp: expected floats of sizes ",
              IntArrayRef(sizes).slice(0, sizes.size() - 1), ", got ", lse.dtype(), " of ", lse.sizes());
  const auto own = [&](int i, const Tensor& like) {
    return own_output(call, i, DimVector(like.sizes()), t, g.device, {&grad, &q, &k, &v, &out, &lse, &mask});
  };
  Tensor dq = own(0, q), dk = own(1, k), dv = own(2, v);
  if (dq.is_meta()) return {dq, dk, dv};
  if (lse.numel() == 0 || k.size(-2) == 0) return {dq.zero_(), dk.zero_(), dv.zero_()};
  op::scaled_dot_product_attention_backward.kernel(q.backend(), dispatch::key_of(t))(
      dq, dk, dv, grad, q, k, v, out, lse.to(wide).contiguous(), expanded(mask, g.scores), is_causal, scale);
  return {dq, dk, dv};
}

Tensor scaled_dot_product_attention(Call& call, const Tensor& query, const Tensor& key, const Tensor& value,
                                    const Tensor& mask, double dropout_p, bool is_causal, std::optional<double> scale,
                                    bool enable_gqa) {
  call.device_of({&query, &key, &value, &mask});
  check_operands(query, key, value);
  TENON_CHECK(dropout_p >= 0 && dropout_p <= 1, ValueError, kName, ": dropout_p: expected a value in [0, 1], got ",
              dropout_p);
  TENON_CHECK(!is_causal || !mask.defined(), ValueError, kName,
              ": attn_mask and is_causal: expected one of them at most");
  Tensor k = key, v = value;
  if (enable_gqa) {
    for (Tensor* t : {&k, &v}) {
      TENON_CHECK(query.dim() >= 3 && t->dim() >= 3 && t->size(-3) > 0 && query.size(-3) % t->size(-3) == 0, ShapeError,
                  kName,
                  ": enable_gqa: expected heads of query that are a multiple of those of key and value, got sizes ",
                  query.sizes(), " and ", t->sizes());
      *t = repeat_interleave(*t, query.size(-3) / t->size(-3), -3);
    }
  }
  const DimVector batch =
      dispatch::broadcast_sizes(dispatch::broadcast_sizes(batch_of(query), batch_of(k), kName), batch_of(v), kName);
  const int64_t rows = query.size(-2), columns = k.size(-2);
  check_mask(mask, query.dtype(), with(batch, {rows, columns}));
  const double factor = scale ? *scale : 1 / std::sqrt(static_cast<double>(query.size(-1)));
  if (dropout_p == 0 && !(mask.defined() && mask.requires_grad())) {
    const auto wide = [&](const Tensor& t) { return t.expand(with(batch, {t.size(-2), t.size(-1)})); };
    return std::get<0>(
        op::scaled_dot_product_attention_forward(wide(query), wide(k), wide(v), mask, is_causal, factor));
  }
  const DType t = computed_in(query.dtype());
  const Tensor p = attention_probabilities(query.to(t), k.to(t), mask, is_causal, factor);
  return matmul(dropout(p, dropout_p), v.to(t)).to(query.dtype());
}

}  // namespace tenon::impl

namespace tenon {
Tensor attention_scores(const Tensor& query, const Tensor& key, const Tensor& mask, bool is_causal, double scale) {
  Tensor s = matmul(query.mul(scale), key.transpose(-2, -1));
  if (is_causal) {
    const TensorOptions o = TensorOptions(kInt64).device(query.device());
    s = masked_fill(s, gt(arange(key.size(-2), o), arange(query.size(-2), o).unsqueeze(1)), impl::kNever);
  }
  if (!mask.defined()) return s;
  return mask.dtype() == kBool ? masked_fill(s, logical_not(mask), impl::kNever) : s.add(mask.to(s.dtype()));
}
Tensor attention_probabilities(const Tensor& query, const Tensor& key, const Tensor& mask, bool is_causal,
                               double scale) {
  const Tensor s = attention_scores(query, key, mask, is_causal, scale);
  if (!mask.defined()) return softmax(s, -1);
  // softmax of rows without a key, and its gradient, would be NaN.
  const Tensor none = all(s.eq(impl::kNever), IntArrayRef(-1), true);
  return masked_fill(softmax(masked_fill(s, none, 0), -1), none, 0);
}
}  // namespace tenon
