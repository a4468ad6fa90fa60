// SPDX-License-Identifier: Apache-2.0
#define TENON_DEFINE_OPERATORS
#include <tenon/ops/compare.h>

#include <limits>

namespace tenon {
namespace detail {
bool holds(DType t, const Scalar& number);
}
// Whether integer dtype `t` can take a number, rounded toward zero; as in PyTorch, negative ones may wrap to uint8.
bool detail::holds(DType t, const Scalar& number) {
  if (!is_integral(t) || number.is_bool()) return true;
  const int64_t width = 8 * item_size(t);
  const int64_t high = width == 64 ? INT64_MAX : (int64_t{1} << (t == kUInt8 ? width : width - 1)) - 1;
  const int64_t low = t == kUInt8 ? -high : -high - 1;
  if (number.is_integral()) return number.integer() >= low && number.integer() <= high;
  const double v = number.real();
  if (width == 64) return v >= -0x1p63 && v < 0x1p63;
  return v > static_cast<double>(low) - 1 && v < static_cast<double>(high) + 1;
}
}  // namespace tenon

namespace tenon::impl {
namespace {
using dispatch::Pointwise;

// uint8 tensors and the number 300: the promoted dtype is uint8, but 300 wrapped to 44 would give wrong answers.
bool representable(const Operand& o, DType t) {
  if (o.is_tensor() || !o.number().is_integral() || !is_integral(t)) return true;
  const int64_t v = o.number().integer();
  switch (t) {
    case kUInt8:
      return v >= 0 && v <= 255;
    case kInt8:
      return v >= -128 && v <= 127;
    case kInt16:
      return v >= -32768 && v <= 32767;
    case kInt32:
      return v >= INT32_MIN && v <= INT32_MAX;
    default:
      return true;
  }
}

Tensor to_bool(Pointwise& p, DType compute) {
  return p.run<void(const LoopPlan&)>(compute, kBool, dispatch::key_of(compute));
}

Tensor compare(Call& call, const Tensor& self, const Operand& other, bool ordered) {
  Pointwise p(call, self, other);
  const DType t = p.promoted();
  TENON_CHECK(!ordered || !is_complex(t), DtypeError, call.name(), ": complex numbers have no order");
  return to_bool(p, representable(other, t) ? t : kInt64);
}

Tensor logical(Call& call, const Tensor& self, const Tensor& other) {
  Pointwise p(call, self, other);
  return to_bool(p, p.promoted());
}

}  // namespace

Tensor eq(Call& call, const Tensor& self, const Operand& other) { return compare(call, self, other, false); }
Tensor ne(Call& call, const Tensor& self, const Operand& other) { return compare(call, self, other, false); }
Tensor lt(Call& call, const Tensor& self, const Operand& other) { return compare(call, self, other, true); }
Tensor le(Call& call, const Tensor& self, const Operand& other) { return compare(call, self, other, true); }
Tensor gt(Call& call, const Tensor& self, const Operand& other) { return compare(call, self, other, true); }
Tensor ge(Call& call, const Tensor& self, const Operand& other) { return compare(call, self, other, true); }

Tensor logical_and(Call& call, const Tensor& self, const Tensor& other) { return logical(call, self, other); }
Tensor logical_or(Call& call, const Tensor& self, const Tensor& other) { return logical(call, self, other); }
Tensor logical_xor(Call& call, const Tensor& self, const Tensor& other) { return logical(call, self, other); }

bool equal(Call&, const Tensor& self, const Tensor& other) {
  return self.sizes() == other.sizes() && op::eq(self, other).all().item<bool>();
}

Tensor isclose(Call& call, const Tensor& self, const Tensor& other, double rtol, double atol, bool equal_nan) {
  TENON_CHECK(self.dtype() == other.dtype(), DtypeError, call.name(), ": other: expected the dtype of self, ",
              self.dtype(), ", got ", other.dtype());
  TENON_CHECK(rtol >= 0 && atol >= 0, ValueError, call.name(), ": rtol, atol: must not be negative, got ", rtol,
              " and ", atol);
  const DType t = self.is_complex() ? kComplex128 : kFloat64;
  const Tensor a = self.detach().to(t), b = other.detach().to(t), distance = a.sub(b).abs();
  // An infinite bound would let everything pass. Equality is asked of what came: doubles do not hold every int64.
  Tensor close = op::le(distance, b.abs().mul(rtol).add(atol))
                     .logical_and(op::lt(distance, std::numeric_limits<double>::infinity()))
                     .logical_or(op::eq(self.detach(), other.detach()));
  return equal_nan ? close.logical_or(op::ne(a, a).logical_and(op::ne(b, b))) : close;
}
bool allclose(Call& call, const Tensor& self, const Tensor& other, double rtol, double atol, bool equal_nan) {
  return isclose(call, self, other, rtol, atol, equal_nan).all().item<bool>();
}

}  // namespace tenon::impl
