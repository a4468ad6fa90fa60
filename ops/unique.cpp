// SPDX-License-Identifier: Apache-2.0
#define TENON_DEFINE_OPERATORS
#include <tenon/ops/unique.h>

#include <tenon/dispatch/make_tensor.h>

#include <tenon/dispatch/declare_only.h>
//
#include <tenon/ops/binary.h>
#include <tenon/ops/cat.h>
#include <tenon/ops/copy.h>
#include <tenon/ops/factory.h>
#include <tenon/ops/index.h>
#include <tenon/ops/sort.h>
#include <tenon/ops/view.h>

namespace tenon::impl {
namespace {
using dispatch::make_tensor;

struct Input {
  Tensor self;  // of at least one dimension, without a history
  Tensor rows;  // [n, m], contiguous
  int64_t dim;  // of the slices
  std::vector<int64_t> inverse_sizes;
};

Input prepare(Call& call, const Tensor& self, std::optional<int64_t> dim) {
  TENON_CHECK(!self.is_complex(), DtypeError, call.name(), ": self: complex numbers have no order");
  TENON_CHECK(!self.is_meta(), DeviceError, call.name(),
              ": self: the result's size depends on values, which a meta "
              "tensor has not");
  call.enter(self.device());
  if (!dim || self.dim() == 0) {
    if (dim) wrap_dim(*dim, self.dim(), std::string(call.name()).c_str());
    const Tensor flat = self.reshape({-1}).contiguous();
    return {flat, flat.view({self.numel(), 1}), 0, dim ? std::vector<int64_t>{1} : self.sizes().vec()};
  }
  const int64_t d = wrap_dim(*dim, self.dim(), std::string(call.name()).c_str());
  const int64_t n = self.size(d);
  TENON_CHECK(n == 0 || self.numel() != 0, ShapeError, call.name(), ": self: slices along dimension ", d,
              " have no elements; sizes are ", self.sizes());
  int64_t width = 1;  // of a row
  DimVector dims(1, d);
  for (int64_t k = 0; k < self.dim(); ++k) {
    if (k == d) continue;
    width *= self.size(k);
    dims.push_back(k);
  }
  return {self, self.permute(dims).reshape({n, width}).contiguous(), d, {n}};
}

// `rows`, taken in `order` (undefined: as they stand), become groups, and groups results: slices of `from` along
// `dim`, whose slice i is row i. `places`: where row i of the groups stood in the input; undefined: at i.
std::vector<Tensor> group(const Input& in, const Tensor& from, const Tensor& rows, const Tensor& order,
                          const Tensor& places, bool inverse, bool counts) {
  const int64_t n = rows.size(0);
  const Device device = rows.device();
  const TensorOptions index = TensorOptions(kInt64).device(device);
  std::vector<Tensor> results;
  const auto kernel = op::unique_consecutive.kernel(rows.backend(), dispatch::key_of(rows.dtype()));
  if (n == 0) {
    results.push_back(from.clone());
    if (inverse) results.push_back(zeros(in.inverse_sizes, index));
    if (counts) results.push_back(zeros({0}, index));
    return results;
  }
  const Tensor groups = make_tensor({n}, kInt64, device), starts = make_tensor({n}, kInt64, device);
  const int64_t count = kernel(groups, starts, rows, order);
  const Tensor firsts = starts.slice(0, 0, count);
  results.push_back(index_select(from, in.dim, order.defined() ? index_select(order, 0, firsts) : firsts));
  if (inverse) {
    const Tensor numbers = places.defined() ? index_copy(make_tensor({n}, kInt64, device), 0, places, groups) : groups;
    results.push_back(numbers.view(in.inverse_sizes));
  }
  if (counts) results.push_back(sub(cat({firsts.slice(0, 1), full({1}, n, index)}), firsts));
  return results;
}

}  // namespace

std::vector<Tensor> unique(Call& call, const Tensor& self, bool, bool return_inverse, bool return_counts,
                           std::optional<int64_t> dim) {
  const Input in = prepare(call, self, dim);
  const int64_t n = in.rows.size(0);
  if (n == 0) return group(in, in.self, in.rows, {}, {}, return_inverse, return_counts);
  const Tensor order = make_tensor({n}, kInt64, self.device());
  const auto key = dispatch::key_of(self.dtype());
  if (in.rows.size(1) == 1 && in.self.dim() == 1) {  // single elements: neighbours lie side by side once sorted
    const Tensor sorted = make_tensor({n}, self.dtype(), self.device());
    op::sort.kernel(self.backend(), key)(sorted, order, in.rows.view({n}), false);
    return group(in, sorted, sorted.view({n, 1}), {}, order, return_inverse, return_counts);
  }
  op::unique.kernel(self.backend(), key)(order, in.rows);
  return group(in, in.self, in.rows, order, order, return_inverse, return_counts);
}

std::vector<Tensor> unique_consecutive(Call& call, const Tensor& self, bool return_inverse, bool return_counts,
                                       std::optional<int64_t> dim) {
  const Input in = prepare(call, self, dim);
  return group(in, in.self, in.rows, {}, {}, return_inverse, return_counts);
}

}  // namespace tenon::impl
