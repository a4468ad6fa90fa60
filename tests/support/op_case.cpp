// SPDX-License-Identifier: Apache-2.0
// The list of rows, the making of arguments, and what references and samples share.
#include <tenon/testing/op_case.h>

#include <cmath>
#include <deque>
#include <limits>

namespace tenon::testing {

Dtypes operator+(Dtypes a, const Dtypes& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

namespace {
struct Rows {
  std::deque<OpCase> cases;
  std::vector<void (*)()> pending;
  std::vector<const OpCase*> list;
};
Rows& rows() {
  static auto* r = new Rows;
  return *r;
}
}  // namespace

CaseRegistrar::CaseRegistrar(void (*f)()) { rows().pending.push_back(f); }

OpCase& add_case(const dispatch::OpBase& op, OpCase::Typed typed, std::string what) {
  return rows().cases.emplace_back(op, typed, std::move(what));
}

const std::vector<const OpCase*>& all_cases() {
  Rows& r = rows();
  if (!r.pending.empty()) {
    for (void (*f)() : r.pending) f();
    r.pending.clear();
    r.list.clear();
    for (const OpCase& c : r.cases) r.list.push_back(&c);
  }
  return r.list;
}

std::vector<Sample> OpCase::make_samples(DType t, uint32_t seed) const {
  Inputs in(t, seed);
  for (const Maker& m : makers) m(in);
  return std::move(in.samples);
}

Tensor Inputs::tensor(const Sizes& sizes, double low, double high, DType t) {
  if (t == DType::undefined) t = dtype_;
  Array a = make_array(t, sizes);
  std::uniform_real_distribution<double> uniform(low, high);
  for (Number& v : a.data) {
    if (t == kBool) {
      v = int64_t(random_() & 1u);
    } else if (is_integral(t)) {
      const auto from = static_cast<int64_t>(std::ceil(t == kUInt8 ? std::max(low, 0.0) : low));
      v = integer(from, std::max(from, static_cast<int64_t>(std::floor(high))));
    } else {
      v = convert(is_complex(t) ? Number(Complex(uniform(random_), uniform(random_))) : Number(uniform(random_)),
                  is_complex(t) ? kComplex128 : kFloat64, t);
    }
  }
  return write(a);
}

Tensor Inputs::values(const std::vector<double>& v, Sizes sizes, DType t) {
  if (sizes == Sizes{-1}) sizes = {static_cast<int64_t>(v.size())};
  Array a = make_array(t == DType::undefined ? dtype_ : t, sizes);
  for (std::size_t i = 0; i < a.data.size(); ++i) a.data[i] = convert(v[i], kFloat64, a.dtype);
  return write(a);
}

Tensor Inputs::integers(const std::vector<int64_t>& v, Sizes sizes, DType t) {
  if (sizes == Sizes{-1}) sizes = {static_cast<int64_t>(v.size())};
  Array a = make_array(t, sizes);
  for (std::size_t i = 0; i < a.data.size(); ++i) a.data[i] = convert(v[i], kInt64, t);
  return write(a);
}

Tensor Inputs::index(const Sizes& sizes, int64_t bound, int64_t low) {
  Array a = make_array(kInt64, sizes);
  for (Number& v : a.data) v = integer(low, bound - 1);
  return write(a);
}

Tensor Inputs::boolean(const Sizes& sizes) { return tensor(sizes, 0, 1, kBool); }

Tensor Inputs::special(int repeat) {
  std::vector<Number> list;
  if (is_floating_point(dtype_) || is_complex(dtype_)) {
    const double inf = std::numeric_limits<double>::infinity();
    const DType r = real_part(dtype_);
    for (const double v : {0.0, 1.0, 0.5, inf, std::numeric_limits<double>::quiet_NaN(), largest(r), smallest_normal(r),
                           smallest_normal(r) * epsilon(r), 3.0, 100.0}) {
      if (is_complex(dtype_) && !std::isfinite(v)) continue;
      if (is_complex(dtype_) && (v > 50 || v < smallest_normal(r)))
        continue;  // overflow in one order and not in another
      list.push_back(v);
      list.push_back(-v);
    }
  } else if (dtype_ == kBool) {
    list = {int64_t{0}, int64_t{1}};
  } else {
    const int bits = static_cast<int>(item_size(dtype_)) * 8;
    const int64_t high = dtype_ == kUInt8 ? 255 : static_cast<int64_t>((~uint64_t{0} >> 1) >> (64 - bits));
    list = {int64_t{0},
            int64_t{1},
            high,
            high - 1,
            int64_t{2},
            dtype_ == kUInt8 ? int64_t{0} : -high - 1,
            dtype_ == kUInt8 ? int64_t{7} : -high,
            dtype_ == kUInt8 ? int64_t{128} : int64_t{-1}};
  }
  Array a = make_array(dtype_, {static_cast<int64_t>(list.size()) * repeat});
  for (std::size_t i = 0; i < a.data.size(); ++i) a.data[i] = list[i % list.size()];
  return write(a);
}

Sample& Inputs::add(std::vector<Value> args, dispatch::KeywordArguments kwargs) {
  Sample s;
  s.args = std::move(args);
  s.kwargs = std::move(kwargs);
  return samples.emplace_back(std::move(s));
}

Reference unary(RealFunction real, ComplexFunction complex, IntegerFunction integer) {
  return [=](const Args& args) {
    const Array x = args.array(0);
    const DType t = integer && is_integral(x.dtype, true) ? x.dtype : floating(x.dtype);
    return std::vector<Array>{pointwise({x}, t, t, [&](const Number* v) -> Number {
      if (is_complex(t)) return complex(v->z);
      return is_integral(t, true) ? Number(integer(v->i)) : Number(real(v->re()));
    })};
  };
}

Reference binary(RealFunction2 real, ComplexFunction2 complex, IntegerFunction2 integer) {
  return [=](const Args& args) {
    const Array a = args.array(0), b = args.array(1);
    const DType p = promoted({a, b}), t = integer && is_integral(p, true) ? p : floating(p);
    return std::vector<Array>{pointwise({a, b}, t, t, [&](const Number* v) -> Number {
      if (is_complex(t)) return complex(v[0].z, v[1].z);
      return is_integral(t, true) ? Number(integer(v[0].i, v[1].i)) : Number(real(v[0].re(), v[1].re()));
    })};
  };
}

Maker unary_samples(double from, double to, bool special, double complex_bound) {
  return [=](Inputs& in) {
    const bool bounded = is_complex(in.dtype());
    const double low = bounded ? std::max(from, -complex_bound) : from,
                 high = bounded ? std::min(to, complex_bound) : to;
    for (const Inputs::Sizes& s : {Inputs::Sizes{}, {0}, {2, 0, 3}, {1}, {3, 4}, {67}, {2, 1, 5}, {5, 7, 3}})
      in.add({in.tensor(s, low, high)});
    in.add({in.tensor({33000}, low, high)}).no_gradient();
    in.add({in.tensor({130, 65}, low, high)}).no_gradient();
    if (!special) return;
    in.add({in.special()}).no_gradient();
    in.add({in.special(9)}).no_gradient();  // every value in every lane
  };
}

Maker binary_samples(double low, double high, double low2, double high2) {
  return [=](Inputs& in) {
    const std::pair<Inputs::Sizes, Inputs::Sizes> shapes[] = {
        {{}, {}},     {{3}, {3}},       {{3, 4}, {4}},       {{3, 1}, {1, 5}}, {{2, 3, 4}, {}},
        {{}, {2, 3}}, {{0, 3}, {1, 3}}, {{2, 1, 4}, {3, 1}}, {{70}, {70}},     {{5, 37}, {5, 1}}};
    for (const auto& [a, b] : shapes) in.add({in.tensor(a, low, high), in.tensor(b, low2, high2)});
    in.add({in.tensor({33000}, low, high), in.tensor({33000}, low2, high2)}).no_gradient();
    in.add({in.tensor({129, 66}, low, high), in.tensor({66}, low2, high2)}).no_gradient();
    // Dtypes that differ: both orders, dimensioned and 0-dim.
    for (const DType other : {kInt32, kFloat32, kFloat64, kUInt8, kInt64}) {
      if (other == in.dtype()) continue;
      const double from = is_integral(other) ? std::ceil(low2) : low2;
      in.add({in.tensor({19}, low, high), in.tensor({19}, from, high2, other)}).no_gradient().no_layouts();
      in.add({in.tensor({19}, low, high), in.tensor({}, from, high2, other)}).no_gradient().no_layouts();
    }
  };
}

}  // namespace tenon::testing
