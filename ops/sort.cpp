// SPDX-License-Identifier: Apache-2.0
#define TENON_DEFINE_OPERATORS
#include <tenon/ops/sort.h>

#include <tenon/dispatch/make_tensor.h>

#include <limits>

namespace tenon::impl {
namespace {
using dispatch::make_tensor;
using dispatch::make_view;
using Pair = std::tuple<Tensor, Tensor>;

// `t` with dimension `dim` behind the others; of one dimension when it had none.
Tensor lines_of(const Tensor& t, int64_t dim) {
  DimVector sizes, strides;
  for (int64_t d = 0; d < t.dim(); ++d) {
    if (d == dim) continue;
    sizes.push_back(t.size(d));
    strides.push_back(t.stride(d));
  }
  sizes.push_back(t.dim() == 0 ? 1 : t.size(dim));
  strides.push_back(t.dim() == 0 ? 1 : t.stride(dim));
  return make_view(t, sizes, strides, t.storage_offset());
}

void check_ordered(const Call& call, const Tensor& self) {
  TENON_CHECK(!self.is_complex(), DtypeError, call.name(), ": self: complex numbers have no order");
}
int64_t checked_dim(const Call& call, const Tensor& self, int64_t dim) {
  check_ordered(call, self);
  return wrap_dim(dim, self.dim(), std::string(call.name()).c_str());
}
int64_t length_of(const Tensor& self, int64_t dim) { return self.dim() == 0 ? 1 : self.size(dim); }

// Runs f(results, lines of self) with contiguous results in the layout of the lines, and brings them to `outputs`.
template <class F>
void with_lines(std::span<const Tensor> outputs, const Tensor& self, int64_t dim, bool reduced, F&& f) {
  const Tensor input = lines_of(self, dim).contiguous();
  Tensor results[2];
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].defined()) continue;
    const Tensor t = reduced ? outputs[i] : lines_of(outputs[i], dim);
    results[i] = t.is_contiguous() ? t : make_tensor(t.sizes(), t.dtype(), t.device());
  }
  f(results, input);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].defined()) continue;
    Tensor t = reduced ? outputs[i] : lines_of(outputs[i], dim);
    if (!t.is_contiguous()) t.copy_(results[i]);
  }
}

// Values and int64 positions of `count` elements of each line.
Pair make_results(Call& call, const Tensor& self, int64_t dim, int64_t count) {
  DimVector sizes(self.sizes());
  if (self.dim() > 0) sizes[static_cast<std::size_t>(dim)] = count;
  const Device device = self.device();
  Tensor values = call.output(0, sizes, self.dtype(), device, {&self});
  return {std::move(values), call.output(1, sizes, kInt64, device, {&self})};
}
Pair make_reduced(Call& call, const Tensor& self, int64_t dim, bool keepdim) {
  TENON_CHECK(length_of(self, dim) > 0 || self.numel() != 0, IndexError, call.name(), ": dimension ", dim,
              " of self has no elements");
  DimVector sizes;
  for (int64_t d = 0; d < self.dim(); ++d) {
    if (d != dim) sizes.push_back(self.size(d));
    if (d == dim && keepdim) sizes.push_back(1);
  }
  Tensor values = call.output(0, sizes, self.dtype(), self.device(), {&self});
  return {std::move(values), call.output(1, sizes, kInt64, self.device(), {&self})};
}

Pair statistic(Call& call, const Tensor& self, int64_t dim, bool keepdim, int64_t k, OrderStatistic what) {
  const Pair results = make_reduced(call, self, dim, keepdim);
  const auto& [values, indices] = results;
  if (self.is_meta()) return results;
  const auto kernel = op::kthvalue.kernel(self.backend(), dispatch::key_of(self.dtype()));
  if (self.numel() == 0) return results;
  const Tensor outputs[] = {values, indices};
  with_lines(outputs, self, dim, true,
             [&](const Tensor* to, const Tensor& lines) { kernel(to[0], to[1], lines, k, what); });
  return results;
}

Pair median_along(Call& call, const Tensor& self, int64_t dim, bool keepdim, OrderStatistic what) {
  return statistic(call, self, checked_dim(call, self, dim), keepdim, 0, what);
}

Tensor median_of_all(Call& call, const Tensor& self, OrderStatistic what) {
  check_ordered(call, self);
  const DType t = self.dtype();
  TENON_CHECK(self.numel() != 0 || is_floating_point(t), IndexError, call.name(), ": self has no elements");
  const Tensor out = call.output(0, {}, t, self.device(), {&self});
  if (self.is_meta()) return out;
  const auto kernel = op::kthvalue.kernel(self.backend(), dispatch::key_of(t));
  if (self.numel() == 0) {
    Tensor(out).fill_(std::numeric_limits<double>::quiet_NaN());
    return out;
  }
  const Tensor x = self.contiguous();
  kernel(out, make_tensor({}, kInt64, self.device()), make_view(x, {x.numel()}, {1}, x.storage_offset()), 0, what);
  return out;
}

}  // namespace

Pair sort(Call& call, const Tensor& self, int64_t dim, bool descending, std::optional<bool>) {
  const int64_t d = checked_dim(call, self, dim);
  const Pair results = make_results(call, self, d, length_of(self, d));
  if (self.is_meta()) return results;
  const auto kernel = op::sort.kernel(self.backend(), dispatch::key_of(self.dtype()));
  if (self.numel() == 0) return results;
  const Tensor outputs[] = {std::get<0>(results), std::get<1>(results)};
  with_lines(outputs, self, d, false,
             [&](const Tensor* to, const Tensor& lines) { kernel(to[0], to[1], lines, descending); });
  return results;
}

Tensor argsort(Call& call, const Tensor& self, int64_t dim, bool descending, std::optional<bool>) {
  const int64_t d = checked_dim(call, self, dim);
  const Tensor indices = call.output(0, self.sizes(), kInt64, self.device(), {&self});
  if (self.is_meta()) return indices;
  const auto kernel = op::sort.kernel(self.backend(), dispatch::key_of(self.dtype()));
  if (self.numel() == 0) return indices;
  const Tensor outputs[] = {indices};
  with_lines(outputs, self, d, false,
             [&](const Tensor* to, const Tensor& lines) { kernel(Tensor(), to[0], lines, descending); });
  return indices;
}

Tensor msort(Call& call, const Tensor& self) {
  check_ordered(call, self);
  return std::get<0>(op::sort(self, 0, false, {}));
}

Pair topk(Call& call, const Tensor& self, int64_t k, int64_t dim, bool largest, bool) {
  const int64_t d = checked_dim(call, self, dim), n = length_of(self, d);
  TENON_CHECK(k >= 0 && k <= n, ValueError, "topk: k: expected 0 to ", n, ", the size of dimension ", d, ", got ", k);
  // All elements of a 0-dim tensor are one: k = 0 has no shape to be in.
  TENON_CHECK(self.dim() > 0 || k == 1, ValueError, "topk: k: expected 1 for a 0-dim tensor, got ", k);
  const Pair results = make_results(call, self, d, k);
  if (self.is_meta()) return results;
  const auto kernel = op::topk.kernel(self.backend(), dispatch::key_of(self.dtype()));
  if (std::get<0>(results).numel() == 0) return results;
  const Tensor outputs[] = {std::get<0>(results), std::get<1>(results)};
  with_lines(outputs, self, d, false,
             [&](const Tensor* to, const Tensor& lines) { kernel(to[0], to[1], lines, largest); });
  return results;
}

Pair kthvalue(Call& call, const Tensor& self, int64_t k, int64_t dim, bool keepdim) {
  const int64_t d = checked_dim(call, self, dim), n = length_of(self, d);
  TENON_CHECK(k >= 1 && k <= n, ValueError, "kthvalue: k: expected 1 to ", n, ", the size of dimension ", d, ", got ",
              k);
  return statistic(call, self, d, keepdim, k, OrderStatistic::kth);
}

Tensor median(Call& call, const Tensor& self) { return median_of_all(call, self, OrderStatistic::median); }
Tensor nanmedian(Call& call, const Tensor& self) { return median_of_all(call, self, OrderStatistic::nanmedian); }
Pair median_dim(Call& call, const Tensor& self, int64_t dim, bool keepdim) {
  return median_along(call, self, dim, keepdim, OrderStatistic::median);
}
Pair nanmedian_dim(Call& call, const Tensor& self, int64_t dim, bool keepdim) {
  return median_along(call, self, dim, keepdim, OrderStatistic::nanmedian);
}

Pair mode(Call& call, const Tensor& self, int64_t dim, bool keepdim) {
  const int64_t d = checked_dim(call, self, dim);
  const Pair results = make_reduced(call, self, d, keepdim);
  if (self.is_meta()) return results;
  const auto key = dispatch::key_of(self.dtype());
  const auto sorter = op::sort.kernel(self.backend(), key);
  const auto kernel = op::mode.kernel(self.backend(), key);
  if (self.numel() == 0) return results;
  const Tensor outputs[] = {std::get<0>(results), std::get<1>(results)};
  with_lines(outputs, self, d, true, [&](const Tensor* to, const Tensor& lines) {
    const Tensor sorted = make_tensor(lines.sizes(), lines.dtype(), lines.device());
    const Tensor order = make_tensor(lines.sizes(), kInt64, lines.device());
    sorter(sorted, order, lines, false);
    kernel(to[0], to[1], sorted, order);
  });
  return results;
}

}  // namespace tenon::impl
