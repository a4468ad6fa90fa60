// SPDX-License-Identifier: Apache-2.0
#include <tenon/testing/reference.h>

#include <tenon/ops/copy.h>
#include <tenon/ops/factory.h>

#include <cmath>
#include <cstring>
#include <limits>

namespace tenon::testing {
namespace {

struct SmallFloat {
  int exponent_bits, mantissa_bits;
  bool finite;
};
bool small_float(DType t, SmallFloat& f) {
  switch (t) {
    case kFloat16:
      f = {5, 10, false};
      return true;
    case kBFloat16:
      f = {8, 7, false};
      return true;
    case kFloat8_e4m3fn:
      f = {4, 3, true};
      return true;
    case kFloat8_e5m2:
      f = {5, 2, false};
      return true;
    default:
      return false;
  }
}

Number decode(DType t, const char* p) {
  const auto as = [&](auto v) {
    std::memcpy(&v, p, sizeof v);
    return v;
  };
  SmallFloat f;
  if (small_float(t, f)) {
    const uint32_t code = item_size(t) == 2 ? as(uint16_t{}) : as(uint8_t{});
    return decode_small_float(code, f.exponent_bits, f.mantissa_bits, f.finite);
  }
  switch (t) {
    case kUInt8:
      return int64_t{as(uint8_t{})};
    case kInt8:
      return int64_t{as(int8_t{})};
    case kInt16:
      return int64_t{as(int16_t{})};
    case kInt32:
      return int64_t{as(int32_t{})};
    case kInt64:
      return as(int64_t{});
    case kBool:
      return int64_t{as(uint8_t{})};  // any byte but 0 and 1 is a defect and shows as such
    case kFloat32:
      return double{as(float{})};
    case kFloat64:
      return as(double{});
    case kComplex64: {
      float v[2];
      std::memcpy(v, p, sizeof v);
      return Complex(v[0], v[1]);
    }
    default: {
      double v[2];
      std::memcpy(v, p, sizeof v);
      return Complex(v[0], v[1]);
    }
  }
}

void encode(DType t, const Number& v, char* p) {
  const auto put = [&](auto x) { std::memcpy(p, &x, sizeof x); };
  SmallFloat f;
  if (small_float(t, f)) {
    const uint32_t code = encode_small_float(v.re(), f.exponent_bits, f.mantissa_bits, f.finite);
    return item_size(t) == 2 ? put(static_cast<uint16_t>(code)) : put(static_cast<uint8_t>(code));
  }
  switch (t) {
    case kUInt8:
    case kBool:
      return put(static_cast<uint8_t>(v.i));
    case kInt8:
      return put(static_cast<int8_t>(v.i));
    case kInt16:
      return put(static_cast<int16_t>(v.i));
    case kInt32:
      return put(static_cast<int32_t>(v.i));
    case kInt64:
      return put(v.i);
    case kFloat32:
      return put(static_cast<float>(v.re()));
    case kFloat64:
      return put(v.re());
    case kComplex64: {
      const float z[2] = {static_cast<float>(v.z.real()), static_cast<float>(v.z.imag())};
      std::memcpy(p, z, sizeof z);
      return;
    }
    default: {
      const double z[2] = {v.z.real(), v.z.imag()};
      std::memcpy(p, z, sizeof z);
    }
  }
}

// Integers wrap; a float that no int64 holds has no defined value and rows avoid it.
int64_t to_integer(const Number& v, DType from) {
  if (is_integral(from, true)) return v.i;
  const double x = v.re();
  return std::isfinite(x) && std::fabs(x) < 9.2e18 ? static_cast<int64_t>(x) : std::numeric_limits<int64_t>::min();
}

int kind_of(DType t) { return is_complex(t) ? 3 : is_floating_point(t) ? 2 : t == kBool ? 0 : 1; }

}  // namespace

int64_t count(const std::vector<int64_t>& sizes) {
  int64_t n = 1;
  for (const int64_t s : sizes) n *= s;
  return n;
}

Array make_array(DType t, std::vector<int64_t> sizes) {
  Array a;
  a.dtype = t;
  a.sizes = std::move(sizes);
  a.data.resize(static_cast<std::size_t>(count(a.sizes)));
  return a;
}

double decode_small_float(uint32_t code, int e, int m, bool finite) {
  const double sign = code >> (e + m) & 1u ? -1.0 : 1.0;
  const int exponent = static_cast<int>(code >> m & ((1u << e) - 1));
  const int mantissa = static_cast<int>(code & ((1u << m) - 1));
  const int top = (1 << e) - 1, bias = (1 << (e - 1)) - 1;
  if (finite ? exponent == top && mantissa == (1 << m) - 1 : exponent == top && mantissa != 0)
    return std::copysign(std::numeric_limits<double>::quiet_NaN(), sign);
  if (!finite && exponent == top) return sign * std::numeric_limits<double>::infinity();
  if (exponent == 0) return sign * std::ldexp(mantissa, 1 - bias - m);
  return sign * std::ldexp((1 << m) + mantissa, exponent - bias - m);
}

uint32_t encode_small_float(double v, int e, int m, bool finite) {
  const uint32_t sign = std::signbit(v) ? 1u << (e + m) : 0u;
  const int top = (1 << e) - 1, bias = (1 << (e - 1)) - 1;
  const uint32_t infinity = static_cast<uint32_t>(top) << m;
  const uint32_t nan = finite ? infinity | ((1u << m) - 1) : infinity | (1u << (m - 1));
  if (std::isnan(v)) return sign | nan;
  const double a = std::fabs(v);
  if (a == 0) return sign;
  if (std::isinf(v)) return sign | (finite ? nan : infinity);
  int exponent = std::ilogb(a);
  if (exponent < 1 - bias) exponent = 1 - bias;
  // In units of the last place; nearbyint rounds ties to even.
  const double units = std::nearbyint(std::ldexp(a, m - exponent));
  uint64_t code = (static_cast<uint64_t>(exponent + bias - 1) << m) + static_cast<uint64_t>(units);
  if (a < std::ldexp(1, 1 - bias)) code = static_cast<uint64_t>(units);
  const uint64_t last = finite ? nan - 1 : infinity - 1;
  if (exponent > bias + 1 || code > last) code = finite ? nan : infinity;
  return sign | static_cast<uint32_t>(code);
}

double epsilon(DType t) {
  SmallFloat f;
  if (small_float(t, f)) return std::ldexp(1, -f.mantissa_bits);
  const DType r = real_part(t);
  return r == kFloat64 ? std::ldexp(1, -52) : r == kFloat32 ? std::ldexp(1, -23) : 0;
}
double largest(DType t) {
  SmallFloat f;
  if (small_float(t, f))
    return decode_small_float(
        (((1u << f.exponent_bits) - 1) << f.mantissa_bits) + (f.finite ? 6 : 0) - (f.finite ? 0 : 1), f.exponent_bits,
        f.mantissa_bits, f.finite);
  return real_part(t) == kFloat32 ? std::numeric_limits<float>::max() : std::numeric_limits<double>::max();
}
double smallest_normal(DType t) {
  SmallFloat f;
  if (small_float(t, f)) return std::ldexp(1, 2 - (1 << (f.exponent_bits - 1)));
  return real_part(t) == kFloat32 ? std::numeric_limits<float>::min() : std::numeric_limits<double>::min();
}

Number convert(const Number& v, DType from, DType to) {
  if (to == kBool) return is_integral(from, true) ? v.i != 0 : v.z != Complex(0);
  switch (to) {
    case kUInt8:
      return int64_t{static_cast<uint8_t>(to_integer(v, from))};
    case kInt8:
      return int64_t{static_cast<int8_t>(to_integer(v, from))};
    case kInt16:
      return int64_t{static_cast<int16_t>(to_integer(v, from))};
    case kInt32:
      return int64_t{static_cast<int32_t>(to_integer(v, from))};
    case kInt64:
      return to_integer(v, from);
    default:
      break;
  }
  SmallFloat f;
  if (small_float(to, f))
    return decode_small_float(encode_small_float(v.re(), f.exponent_bits, f.mantissa_bits, f.finite), f.exponent_bits,
                              f.mantissa_bits, f.finite);
  const bool wide = is_integral(from, true) && from == kInt64;  // int64 to float32 rounds once, not through double
  if (to == kFloat32) return double{wide ? static_cast<float>(v.i) : static_cast<float>(v.re())};
  if (to == kFloat64) return v.re();
  if (to == kComplex64)
    return Complex(wide ? static_cast<float>(v.i) : static_cast<float>(v.z.real()), static_cast<float>(v.z.imag()));
  return v.z;
}

Array cast(const Array& a, DType to) {
  Array r = a;
  r.dtype = to;
  if (a.dtype != to)
    for (Number& v : r.data) v = convert(v, a.dtype, to);
  return r;
}

Array read(const Tensor& given) {
  const Tensor t = given.is_cpu() ? given.detach() : given.detach().to(Device(kCPU));
  Array a = make_array(t.dtype(), t.sizes().vec());
  const auto* base = static_cast<const char*>(t.data_ptr());
  std::vector<int64_t> at(a.sizes.size(), 0);
  int64_t offset = 0;
  for (Number& v : a.data) {
    v = decode(a.dtype, base + offset * item_size(a.dtype));
    for (int64_t d = a.dim() - 1; d >= 0; --d) {
      offset += t.strides()[d];
      if (++at[d] < a.sizes[d]) break;
      offset -= t.strides()[d] * at[d];
      at[d] = 0;
    }
  }
  return a;
}

Tensor write(const Array& a) {
  const Tensor t = empty(a.sizes, a.dtype);
  auto* p = static_cast<char*>(t.data_ptr());
  for (const Number& v : a.data) {
    encode(a.dtype, v, p);
    p += item_size(a.dtype);
  }
  return t;
}

DType real_part(DType t) { return t == kComplex64 ? kFloat32 : t == kComplex128 ? kFloat64 : t; }
DType floating(DType t) { return is_integral(t, true) ? kFloat32 : t; }

DType promote_pair(DType a, DType b) {
  if (a == b) return a;
  const int ka = kind_of(a), kb = kind_of(b);
  if (ka == 3 || kb == 3) {
    const auto wide = [](DType t) { return t == kFloat64 || t == kComplex128; };
    return wide(a) || wide(b) ? kComplex128 : kComplex64;
  }
  if (ka != kb) return ka > kb ? a : b;
  if (ka == 2) return item_size(a) == item_size(b) ? kFloat32 : item_size(a) > item_size(b) ? a : b;
  // Integers: unsigned 8-bit beside a signed type needs the next wider one.
  if (a == kUInt8 || b == kUInt8) {
    const DType other = a == kUInt8 ? b : a;
    return other == kInt8 ? kInt16 : other;
  }
  return item_size(a) > item_size(b) ? a : b;
}

DType promoted(const std::vector<Array>& operands) {
  DType rank[3] = {DType::undefined, DType::undefined, DType::undefined};  // dimensioned, 0-dim, numbers
  for (const Array& a : operands) {
    if (!a.defined()) continue;
    const int r = a.number ? 2 : a.sizes.empty() ? 1 : 0;
    DType t = a.dtype;
    if (a.number) t = is_complex(t) ? kComplex64 : is_floating_point(t) ? kFloat32 : t;
    rank[r] = rank[r] == DType::undefined ? t : promote_pair(rank[r], t);
  }
  DType result = DType::undefined;
  for (int r = 0; r < 3; ++r) {
    if (rank[r] == DType::undefined) continue;
    if (result == DType::undefined) {
      result = rank[r];
    } else if (kind_of(rank[r]) > kind_of(result)) {
      // A complex number beside float64 stays as precise as the floats are.
      result =
          kind_of(rank[r]) == 3 && kind_of(result) == 2 ? (result == kFloat64 ? kComplex128 : kComplex64) : rank[r];
    }
  }
  return result;
}

std::vector<int64_t> broadcast(const std::vector<int64_t>& a, const std::vector<int64_t>& b) {
  std::vector<int64_t> out(std::max(a.size(), b.size()), 1);
  for (std::size_t k = 1; k <= out.size(); ++k) {
    const int64_t x = k <= a.size() ? a[a.size() - k] : 1, y = k <= b.size() ? b[b.size() - k] : 1;
    out[out.size() - k] = x == 1 ? y : x;
  }
  return out;
}

int64_t flat_index(const std::vector<int64_t>& index, const std::vector<int64_t>& sizes) {
  int64_t n = 0;
  for (std::size_t d = 0; d < sizes.size(); ++d) n = n * sizes[d] + index[d];
  return n;
}

Array reduced(const Array& x, const std::vector<int64_t>& dims, bool keepdim, DType result,
              const std::function<Number(const Elements&, double&)>& f) {
  std::vector<bool> gone(x.sizes.size(), dims.empty());
  for (const int64_t d : dims)
    if (!x.sizes.empty()) gone[d < 0 ? d + x.dim() : d] = true;
  std::vector<int64_t> kept(x.sizes), sizes;
  for (std::size_t d = 0; d < gone.size(); ++d) {
    if (gone[d]) kept[d] = 1;
    if (!gone[d] || keepdim) sizes.push_back(kept[d]);
  }
  std::vector<Elements> groups(static_cast<std::size_t>(count(kept)));
  std::size_t n = 0;
  each_index(x.sizes, [&](const std::vector<int64_t>& at) {
    std::vector<int64_t> to = at;
    for (std::size_t d = 0; d < gone.size(); ++d)
      if (gone[d]) to[d] = 0;
    groups[flat_index(to, kept)].push_back(x.data[n++]);
  });
  Array out = make_array(result, sizes);
  for (std::size_t i = 0; i < groups.size(); ++i) {
    double scale = 0;
    out.data[i] = f(groups[i], scale);
    out.scale.push_back(scale);
  }
  return out;
}

void each_index(const std::vector<int64_t>& sizes, const std::function<void(const std::vector<int64_t>&)>& f) {
  std::vector<int64_t> at(sizes.size(), 0);
  for (int64_t n = count(sizes); n > 0; --n) {
    f(at);
    for (std::size_t d = sizes.size(); d-- > 0;) {
      if (++at[d] < sizes[d]) break;
      at[d] = 0;
    }
  }
}

Array pick(const Array& x, std::vector<int64_t> sizes,
           const std::function<std::vector<int64_t>(const std::vector<int64_t>&)>& f) {
  Array out = make_array(x.dtype, sizes);
  std::size_t n = 0;
  each_index(sizes, [&](const std::vector<int64_t>& at) { out.data[n++] = x.data[flat_index(f(at), x.sizes)]; });
  return out;
}

Array pointwise(const std::vector<Array>& inputs, DType compute, DType result,
                const std::function<Number(const Number*)>& f) {
  std::vector<int64_t> sizes;
  std::vector<Array> cast_inputs;
  for (const Array& a : inputs) {
    sizes = broadcast(sizes, a.sizes);
    cast_inputs.push_back(compute == DType::undefined ? a : cast(a, compute));
  }
  Array out = make_array(result, sizes);
  std::vector<Number> x(inputs.size());
  for (int64_t n = 0; n < out.numel(); ++n) {
    for (std::size_t k = 0; k < cast_inputs.size(); ++k) {
      const Array& a = cast_inputs[k];
      int64_t rest = n, index = 0, step = 1;
      for (int64_t d = 1; d <= out.dim(); ++d) {
        const int64_t at = rest % sizes[out.dim() - d];
        rest /= sizes[out.dim() - d];
        if (d > a.dim()) continue;
        const int64_t size = a.sizes[a.dim() - d];
        index += size == 1 ? 0 : at * step;
        step *= size;
      }
      x[k] = a.data[index];
    }
    const Number v = f(x.data());
    // Floats keep the reference's precision: difference() rounds. Integers wrap here.
    out.data[n] = is_integral(result, true) && compute != DType::undefined
                      ? convert(v, is_integral(compute, true) ? kInt64 : kFloat64, result)
                      : v;
  }
  return out;
}

}  // namespace tenon::testing
