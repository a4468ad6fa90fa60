// SPDX-License-Identifier: Apache-2.0
// Rows: one operator, its argument lists and its reference. A row buys, in every dtype it names, values against the
// reference, four more memory layouts of every input, the meta backend, out= and in-place forms, boxed calls, CUDA
// against the reference, gradients, errors and a benchmark entry. In one source file of a test program:
//
//   TENON_OP_CASES(softplus) {
//     op_case(op::softplus).dtypes(kFloats).gradient().samples(unary_samples(-20, 20))
//         .reference(unary([](double x) { return std::log1p(std::exp(x)); }))
//         .error<DtypeError>("self", [](Inputs& in) { in.add({in.boolean({2})}); });
//   }
// and in another: #include <tenon/testing/op_tests.h>
#pragma once

#include <tenon/dispatch/gradient.h>
#include <tenon/dispatch/registry.h>
#include <tenon/testing/reference.h>

#include <random>

namespace tenon::testing {

using dispatch::Value;
using Dtypes = std::vector<DType>;
Dtypes operator+(Dtypes a, const Dtypes& b);
// Inline, so that they are there before the constants of any file that includes this.
inline const Dtypes kFloats = {kFloat64, kFloat32, kFloat16, kBFloat16};
inline const Dtypes kComplexes = {kComplex64, kComplex128};
inline const Dtypes kIntegers = {kUInt8, kInt8, kInt16, kInt32, kInt64};
inline const Dtypes kReals = kFloats + kIntegers;
inline const Dtypes kNumbers = kReals + kComplexes;
inline const Dtypes kAll = kNumbers + Dtypes{kBool};
inline const Dtypes kAllWithFloat8 = kAll + Dtypes{kFloat8_e4m3fn, kFloat8_e5m2};

/// One argument list. `gradient`: also used for checking gradients (float64). `layouts`: also in other memory layouts.
struct Sample {
  std::vector<Value> args;
  dispatch::KeywordArguments kwargs;
  bool gradient = true, layouts = true, destinations = true;
  Sample& no_gradient() {
    gradient = false;
    return *this;
  }
  Sample& no_layouts() {
    layouts = false;
    return *this;
  }
  Sample& no_destinations() {
    destinations = false;
    return *this;
  }  ///< neither out= nor in place
};

/// Collects argument lists. Tensors are contiguous, on the CPU, of the row's current dtype unless told otherwise; the
/// runner moves them. The same seed makes the same values.
class Inputs {
 public:
  using Sizes = std::vector<int64_t>;
  Inputs(DType t, uint32_t seed) : dtype_(t), random_(seed) {}
  DType dtype() const { return dtype_; }
  bool is_floating() const { return is_floating_point(dtype_); }
  /// Uniform in [low, high], rounded to the dtype; integers in the same range, unsigned from 0; both parts of complex.
  Tensor tensor(const Sizes& sizes, double low = -4, double high = 4, DType t = DType::undefined);
  /// The given numbers, converted to the dtype. Sizes default to one dimension.
  Tensor values(const std::vector<double>& v, Sizes sizes = {-1}, DType t = DType::undefined);
  Tensor integers(const std::vector<int64_t>& v, Sizes sizes = {-1}, DType t = kInt64);
  /// int64 in [low, bound).
  Tensor index(const Sizes& sizes, int64_t bound, int64_t low = 0);
  Tensor boolean(const Sizes& sizes);
  /// Infinities, NaN, signed zeros, subnormal and largest numbers for floats; extremes for integers; `repeat` times over.
  Tensor special(int repeat = 1);
  int64_t integer(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(random_() % static_cast<uint64_t>(high - low + 1));
  }
  Sample& add(std::vector<Value> args, dispatch::KeywordArguments kwargs = {});

  std::vector<Sample> samples;

 private:
  DType dtype_;
  std::mt19937_64 random_;
};
using Maker = std::function<void(Inputs&)>;
inline Value ints(std::vector<int64_t> v) { return Value(std::move(v)); }

struct ErrorInput {
  Maker make;
  DType dtype;
  bool (*is)(const std::exception&);
  std::string text;  ///< besides the operator's name
};

class OpCase {
 public:
  using Typed = void (*)(const dispatch::OpBase& op, std::span<const Value> args, dispatch::Results& results);
  OpCase(const dispatch::OpBase& o, Typed t, std::string what)
      : op(&o), typed(t), label(std::string(o.name()) + (what.empty() ? "" : " " + what)) {}

  OpCase& dtypes(Dtypes t) {
    dtype_list = std::move(t);
    return *this;
  }
  OpCase& samples(Maker m) {
    makers.push_back(std::move(m));
    return *this;
  }
  OpCase& reference(Reference r) {
    expected = std::move(r);
    return *this;
  }
  /// Allowed error in units of the last place (of float32 for 16-bit floats). Default 4.
  OpCase& ulp(double u) {
    ulps = u;
    return *this;
  }
  /// Check gradients in float64; `second`: also their gradients.
  OpCase& gradient(bool second = true) {
    check_gradient = true;
    check_second = second;
    return *this;
  }
  /// Only these arguments (bit i: argument i) are differentiated, only the first `n` results looked at.
  OpCase& gradient_of(uint32_t arguments, int n = 6) {
    gradient_arguments = arguments, gradient_results = n;
    return *this;
  }
  OpCase& no_out() {
    out = false;
    return *this;
  }
  OpCase& no_inplace() {
    inplace = false;
    return *this;
  }
  OpCase& no_meta() {
    meta = false;
    return *this;
  }
  /// Draws from the generator: reseeded before each call; the reference may be left out.
  OpCase& random() {
    is_random = true;
    return *this;
  }
  /// Results hold uninitialised memory: only shapes are compared.
  OpCase& uninitialised() {
    values_defined = false;
    return *this;
  }
  template <class E>
  OpCase& error(std::string text, Maker m, DType t = kFloat32) {
    errors.push_back({std::move(m), t, [](const std::exception& e) { return dynamic_cast<const E*>(&e) != nullptr; },
                      std::move(text)});
    return *this;
  }
  /// The operator errors name, when that is one this one is made of.
  OpCase& errors_name(std::string o) {
    error_name = std::move(o);
    return *this;
  }
  /// Adds the argument lists benchmarks use.
  OpCase& benchmark(Maker m) {
    benchmark_maker = std::move(m);
    return *this;
  }

  std::vector<Sample> make_samples(DType t, uint32_t seed) const;

  const dispatch::OpBase* op;
  Typed typed;
  std::string label, error_name = std::string(op->schema().name);
  Dtypes dtype_list;
  std::vector<Maker> makers;
  Maker benchmark_maker;
  Reference expected;
  double ulps = 4;
  uint32_t gradient_arguments = ~0u;
  int gradient_results = 6;
  bool check_gradient = false, check_second = false, out = true, inplace = true, meta = true, is_random = false,
       values_defined = true;
  std::vector<ErrorInput> errors;
};

/// All rows linked into the program.
const std::vector<const OpCase*>& all_cases();
OpCase& add_case(const dispatch::OpBase& op, OpCase::Typed typed, std::string what);
struct CaseRegistrar {
  explicit CaseRegistrar(void (*rows)());
};

namespace detail {
template <class R, class... As, class K, std::size_t... I>
R call_typed(const dispatch::Op<R(As...), K>& op, [[maybe_unused]] std::span<const Value> args,
             std::index_sequence<I...>) {
  std::tuple<dispatch::Unboxed<As>...> holders(args[I]...);
  return op(std::get<I>(holders).get()...);
}
}  // namespace detail

/// Begins a row. `what` tells rows of one operator apart.
template <class R, class... As, class K>
OpCase& op_case(const dispatch::Op<R(As...), K>& op, std::string what = {}) {
  return add_case(
      op,
      [](const dispatch::OpBase& base, std::span<const Value> args, dispatch::Results& results) {
        const auto& self = static_cast<const dispatch::Op<R(As...), K>&>(base);
        dispatch::detail::ResultOf<R>::put(results, detail::call_typed(self, args, std::index_sequence_for<As...>{}));
      },
      std::move(what));
}

// --- references and samples that many rows share --------------------------------------------------------------
using RealFunction = double (*)(double);
using ComplexFunction = Complex (*)(Complex);
using IntegerFunction = int64_t (*)(int64_t);
/// Elementwise with the input's dtype; without `integer`, integers and bool compute in float32.
Reference unary(RealFunction real, ComplexFunction complex = nullptr, IntegerFunction integer = nullptr);
using RealFunction2 = double (*)(double, double);
using ComplexFunction2 = Complex (*)(Complex, Complex);
using IntegerFunction2 = int64_t (*)(int64_t, int64_t);
/// Elementwise over the broadcast arguments 0 and 1, promoted.
Reference binary(RealFunction2 real, ComplexFunction2 complex = nullptr, IntegerFunction2 integer = nullptr);
/// A range of shapes (0-dim, empty, short, beyond a vector, beyond a block) with values in [low, high], complex parts
/// cut off at `complex_bound` (some functions have poles).
Maker unary_samples(double low, double high, bool special = true, double complex_bound = 1e9);
/// Two operands of broadcasting shapes and mixed dtypes, and numbers.
Maker binary_samples(double low, double high, double low2, double high2);

// --- the checks; each returns descriptions of what failed ------------------------------------------------------
struct Run {
  Device device = kCPU;
  uint32_t seed = 1;
};
using Failures = std::vector<std::string>;
Failures check_forward(const OpCase& row, const Run& run);   ///< typed calls against the reference, in every layout
Failures check_same(const OpCase& row, const Run& run);      ///< bit for bit what the CPU gives
Failures check_boxed(const OpCase& row, const Run& run);     ///< calls by name, and on the meta backend
Failures check_out(const OpCase& row, const Run& run);       ///< out=: empty, right and wrong tensors
Failures check_inplace(const OpCase& row, const Run& run);   ///< the `_` form equals the functional one
Failures check_errors(const OpCase& row, const Run& run);    ///< the right type and text, and the library stays usable
Failures check_gradient(const OpCase& row, const Run& run);  ///< against finite differences

}  // namespace tenon::testing

/// A function body that adds rows, run when rows are first asked for.
#define TENON_OP_CASES(family)                                                                       \
  static void tenon_cases_##family();                                                                \
  static const ::tenon::testing::CaseRegistrar tenon_case_registrar_##family(&tenon_cases_##family); \
  static void tenon_cases_##family()
