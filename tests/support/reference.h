// SPDX-License-Identifier: Apache-2.0
// What operators are checked against: arrays of plain numbers on the host that none of the library's operators has
// touched, conversions done in double arithmetic, and comparison within a tolerance in units of the dtype's precision.
// References of rows (op_case.h) are scalar loops over these.
#pragma once

#include <tenon/core/tensor.h>
#include <tenon/dispatch/schema.h>
#include <tenon/dispatch/value.h>

#include <complex>
#include <functional>
#include <string>
#include <vector>

namespace tenon::testing {

using Complex = std::complex<double>;

/// One element: `z` for floating and complex dtypes, `i` (with z its value) for integers and bool.
struct Number {
  Complex z;
  int64_t i = 0;
  Number() = default;
  Number(double v) : z(v) {}                              // NOLINT
  Number(Complex v) : z(v) {}                             // NOLINT
  Number(int64_t v) : z(static_cast<double>(v)), i(v) {}  // NOLINT
  Number(bool v) : z(v ? 1.0 : 0.0), i(v) {}              // NOLINT
  double re() const { return z.real(); }
};

/// Row-major elements with the dtype they have, or are expected to have.
struct Array {
  DType dtype = DType::undefined;
  std::vector<int64_t> sizes;
  std::vector<Number> data;
  /// Magnitude of what was added up per element (or one for all): rounding errors are allowed in proportion to it.
  std::vector<double> scale;
  bool number = false;  ///< stands for a number, not a 0-dim tensor

  int64_t numel() const { return static_cast<int64_t>(data.size()); }
  int64_t dim() const { return static_cast<int64_t>(sizes.size()); }
  bool defined() const { return dtype != DType::undefined; }
};
Array make_array(DType t, std::vector<int64_t> sizes);
int64_t count(const std::vector<int64_t>& sizes);

/// Elements of a tensor on any device and with any strides, decoded from their bytes.
Array read(const Tensor& t);
/// A contiguous CPU tensor of `a`'s dtype with its values, encoded by convert().
Tensor write(const Array& a);

/// `v` as a dtype's nearest value (ties to even; overflow to infinity, or NaN for float8_e4m3fn), integers truncated
/// and wrapped, bool by comparison with zero.
Number convert(const Number& v, DType from, DType to);
Array cast(const Array& a, DType to);
/// The value of a code of a small float with E exponent and M mantissa bits, and the code nearest to a value. `finite`: one NaN
/// per sign and no infinity. By definition, in double arithmetic.
double decode_small_float(uint32_t code, int exponent_bits, int mantissa_bits, bool finite);
uint32_t encode_small_float(double v, int exponent_bits, int mantissa_bits, bool finite);
/// Distance from 1 to the next larger value; 0 for integers and bool.
double epsilon(DType t);
double largest(DType t);
double smallest_normal(DType t);

/// Result type of mixed operands, written out from PyTorch's rules: dimensioned tensors, 0-dim tensors and numbers
/// outrank one another unless the lower one is of a higher kind.
DType promoted(const std::vector<Array>& operands);
DType promote_pair(DType a, DType b);
/// float32 for integers and bool.
DType floating(DType t);
DType real_part(DType t);

/// f over broadcast inputs, all cast to `compute` first (unless undefined: then nothing is converted, results neither);
/// integer results wrap to `result`.
Array pointwise(const std::vector<Array>& inputs, DType compute, DType result,
                const std::function<Number(const Number* x)>& f);
/// `sizes` of elements of x: f turns an index of the result into one of x (both as coordinates).
Array pick(const Array& x, std::vector<int64_t> sizes,
           const std::function<std::vector<int64_t>(const std::vector<int64_t>&)>& f);
/// f of the elements of each result, in row-major order, when `dims` of x (none: all) are reduced; f may set the scale of
/// what it has added up.
using Elements = std::vector<Number>;
Array reduced(const Array& x, const std::vector<int64_t>& dims, bool keepdim, DType result,
              const std::function<Number(const Elements&, double& scale)>& f);
/// Calls f with every index of `sizes` in row-major order.
void each_index(const std::vector<int64_t>& sizes, const std::function<void(const std::vector<int64_t>&)>& f);
int64_t flat_index(const std::vector<int64_t>& index, const std::vector<int64_t>& sizes);
std::vector<int64_t> broadcast(const std::vector<int64_t>& a, const std::vector<int64_t>& b);

/// Empty when `got` has the expected dtype, sizes and values: NaN for NaN, infinities alike, finite ones within `ulp`
/// units of the last place (of float32 for 16-bit floats, which are rounded once at the end) and in proportion to scale.
std::string difference(const Array& got, const Array& expected, double ulp);
/// Empty when the two tensors agree bit for bit (dtype, sizes, values; any NaN equals any NaN).
std::string bit_difference(const Array& got, const Array& expected);
std::string describe(const std::vector<int64_t>& sizes);

/// The bound arguments of a call, as a reference reads them.
class Args {
 public:
  Args(const dispatch::Schema& schema, std::vector<dispatch::Value> bound)
      : schema_(schema), bound_(std::move(bound)) {}
  std::size_t size() const { return bound_.size(); }
  const dispatch::Value& value(int i) const { return bound_[i]; }
  bool is_none(int i) const { return bound_[i].is_none() || (bound_[i].is_tensor() && !bound_[i].tensor().defined()); }
  /// A tensor or a number (then 0-dim, number set); undefined when none.
  Array array(int i) const;
  std::vector<Array> arrays(int i) const;
  int64_t integer(int i) const { return bound_[i].number().integer(); }
  double real(int i) const { return bound_[i].number().real(); }
  Number number(int i) const;
  std::vector<int64_t> ints(int i) const {
    return bound_[i].is_none() ? std::vector<int64_t>() : bound_[i].ints().vec();
  }
  std::string text(int i) const { return bound_[i].is_none() ? std::string() : bound_[i].string(); }
  /// The dtype argument, or `otherwise` when it is not given.
  DType dtype(int i, DType otherwise) const { return bound_[i].is_none() ? otherwise : bound_[i].dtype(); }
  const dispatch::Schema& schema() const { return schema_; }

 private:
  const dispatch::Schema& schema_;
  std::vector<dispatch::Value> bound_;
};

/// One array per result.
using Reference = std::function<std::vector<Array>(const Args&)>;

}  // namespace tenon::testing
