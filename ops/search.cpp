// SPDX-License-Identifier: Apache-2.0
#define TENON_DEFINE_OPERATORS
#include <tenon/ops/search.h>

#include <tenon/dispatch/make_tensor.h>
#include <tenon/dispatch/pointwise.h>

#include <tenon/dispatch/declare_only.h>
//
#include <tenon/ops/compare.h>
#include <tenon/ops/copy.h>
#include <tenon/ops/factory.h>
#include <tenon/ops/index.h>
#include <tenon/ops/sort.h>
#include <tenon/ops/unary.h>
#include <tenon/ops/view.h>
#include <tenon/ops/where.h>

#include <limits>

namespace tenon::impl {
namespace {

Device device_of(const Call& call, const Operand& a, const Operand& b, const Tensor& c = {}) {
  return call.device_of({a.is_tensor() ? &a.tensor() : nullptr, b.is_tensor() ? &b.tensor() : nullptr, &c});
}
// A number becomes a 0-dim tensor.
Tensor tensor_of(const Operand& o, DType t, Device device) {
  if (!o.is_tensor()) return scalar_tensor(o.number(), TensorOptions(t).device(device));
  return o.tensor().dtype() == t ? o.tensor() : o.tensor().to(t);
}
DType common_dtype(const Call& call, const Operand& a, const Operand& b) {
  const DType t = dispatch::result_type(a, b);
  TENON_CHECK(!is_complex(t), DtypeError, call.name(), ": expected real numbers or bool, got ", t,
              ", which has no order");
  return t;
}

Tensor search(Call& call, const Tensor& boundaries, const Operand& self, const Tensor& sorter, Device device,
              bool out_int32, bool right) {
  const DType t = common_dtype(call, boundaries, self);
  const int64_t n = boundaries.sizes().back();
  TENON_CHECK(!out_int32 || n <= std::numeric_limits<int32_t>::max(), ValueError, call.name(),
              ": out_int32: positions among ", n, " elements do not fit int32");
  const IntArrayRef sizes = self.is_tensor() ? self.tensor().sizes() : IntArrayRef();
  const Tensor* const given = self.is_tensor() ? &self.tensor() : nullptr;
  const Tensor out = call.output(0, sizes, out_int32 ? kInt32 : kInt64, device, {&boundaries, given, &sorter});
  if (out.is_meta()) return out;
  const auto kernel = op::searchsorted.kernel(boundaries.backend(), dispatch::key_of(t));
  if (out.numel() == 0) return out;
  const Tensor result = out.is_contiguous() ? out : dispatch::make_tensor(sizes, out.dtype(), device);
  kernel(result, tensor_of(boundaries, t, device).contiguous(), tensor_of(self, t, device).contiguous(),
         sorter.defined() ? sorter.to(kInt64).contiguous() : Tensor(), right);
  return result;
}

}  // namespace

Tensor searchsorted(Call& call, const Tensor& sequence, const Operand& self, bool out_int32, bool right,
                    std::optional<std::string_view> side, const Tensor& sorter) {
  const Device device = device_of(call, sequence, self, sorter);
  TENON_CHECK(!side || *side == "left" || *side == "right", ValueError,
              "searchsorted: side: expected left or right, got ", side.value_or(""));
  TENON_CHECK(!side || !right || *side == "right", ValueError, "searchsorted: side: left, but right is true");
  TENON_CHECK(sequence.dim() > 0, ShapeError, "searchsorted: sorted_sequence: expected at least 1 dimension, got 0");
  const IntArrayRef sizes = self.is_tensor() ? self.tensor().sizes() : IntArrayRef();
  if (sequence.dim() > 1) {
    bool fits = static_cast<int64_t>(sizes.size()) == sequence.dim();
    for (std::size_t d = 0; fits && d + 1 < sizes.size(); ++d) fits = sizes[d] == sequence.sizes()[d];
    TENON_CHECK(fits, ShapeError, "searchsorted: self: expected the leading sizes of sorted_sequence, ",
                sequence.sizes(), ", got ", sizes);
  }
  if (sorter.defined()) {
    TENON_CHECK(sorter.sizes() == sequence.sizes(), ShapeError,
                "searchsorted: sorter: expected the sizes of sorted_sequence, ", sequence.sizes(), ", got ",
                sorter.sizes());
    TENON_CHECK(sorter.dtype() == kInt64, DtypeError, "searchsorted: sorter: expected int64, got ", sorter.dtype());
  }
  return search(call, sequence, self, sorter, device, out_int32, right || (side && *side == "right"));
}

Tensor bucketize(Call& call, const Operand& self, const Tensor& boundaries, bool out_int32, bool right) {
  const Device device = device_of(call, self, boundaries);
  TENON_CHECK(boundaries.dim() == 1, ShapeError, "bucketize: boundaries: expected a vector, got ", boundaries.dim(),
              " dimensions");
  return search(call, boundaries, self, {}, device, out_int32, right);
}

Tensor isin(Call& call, const Operand& elements, const Operand& test_elements, bool, bool invert) {
  const Device device = device_of(call, elements, test_elements);
  const DType t = common_dtype(call, elements, test_elements);
  const Tensor x = tensor_of(elements, t, device).detach(), test = tensor_of(test_elements, t, device).detach();
  if (test.numel() == 0 || x.numel() == 0) return full(x.sizes(), invert, TensorOptions(kBool).device(device));
  const Tensor sorted = std::get<0>(tenon::sort(test.reshape({-1})));
  const Tensor at = clamp_max(tenon::searchsorted(sorted, x), test.numel() - 1);
  const Tensor nearest = index_select(sorted, 0, at.reshape({-1})).view(x.sizes());
  return invert ? ne(nearest, x) : eq(nearest, x);
}

}  // namespace tenon::impl
