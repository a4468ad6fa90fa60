// SPDX-License-Identifier: Apache-2.0
// The checks a row buys. No test framework here: failures come back as text naming row, dtype, sample, layout and seed.
#include <tenon/testing/op_case.h>

#include <tenon/dispatch/make_tensor.h>
#include <tenon/ops/factory.h>
#include <tenon/ops/random.h>
#include <tenon/ops/view.h>

#include <algorithm>
#include <cstring>

namespace tenon::testing {
namespace {

using dispatch::Form;
using dispatch::Kind;
using dispatch::Results;

enum class Shape { contiguous, transposed, every_second, shifted, odd_ones, expanded };
constexpr const char* kShapeNames[] = {
    "contiguous", "transposed", "every second element", "shifted by one", "size-1 dimensions with odd strides",
    "expanded"};

struct Context {
  const OpCase& row;
  const Run& run;
  Failures failures;
  DType dtype = DType::undefined;
  std::size_t sample = 0;

  void fail(const std::string& what, const std::string& text) {
    failures.push_back(row.label + ", " + name(dtype) + ", sample " + std::to_string(sample) + ", " + what + ", " +
                       run.device.str() + ", seed " + std::to_string(run.seed) + ": " + text);
  }
  /// Runs f; an exception is a failure.
  template <class F>
  bool attempt(const std::string& what, F&& f) {
    try {
      f();
      return true;
    } catch (const std::exception& e) {
      fail(what, std::string("threw: ") + e.what());
      return false;
    }
  }
  void compare(const std::string& what, const std::string& difference) {
    if (!difference.empty()) fail(what, difference);
  }
};

// Elements between those of a strided tensor: NaN as floats, so that reading one shows.
void fill_gaps(const Tensor& flat) {
  if (flat.numel() != 0)
    std::memset(flat.data_ptr(), flat.dtype() == kBool ? 1 : 0xff, static_cast<std::size_t>(flat.nbytes()));
}

// The same values in another layout. Changes nothing but memory, except for `expanded`, which repeats the first slice.
Tensor laid_out(const Tensor& given, Shape shape, Device device) {
  if (!given.defined()) return given;
  const Tensor t = given.is_contiguous() ? given : write(read(given));
  const auto rank = static_cast<std::size_t>(t.dim());
  std::vector<int64_t> strides(rank), sizes = t.sizes().vec();
  int64_t step = shape == Shape::every_second ? 2 : 1, extent = 1, offset = shape == Shape::shifted ? 1 : 0;
  if (shape == Shape::every_second && rank == 0) step = 1, offset = 3;
  for (std::size_t k = 0; k < rank; ++k) {
    const std::size_t d = shape == Shape::transposed ? k : rank - 1 - k;
    strides[d] = step;
    if (shape == Shape::odd_ones && sizes[d] == 1) strides[d] = 977 + static_cast<int64_t>(d);
    step *= sizes[d];
  }
  if (shape == Shape::expanded)
    for (std::size_t d = 0; d < rank; ++d)
      if (sizes[d] > 1) {
        strides[d] = 0;
        break;
      }
  if (t.numel() == 0) return empty_strided(sizes, strides, TensorOptions(t.dtype()).device(device));
  for (std::size_t d = 0; d < rank; ++d) extent += (sizes[d] - 1) * strides[d];
  const Tensor flat = empty({extent + offset + (shape == Shape::shifted ? 3 : 0)}, t.dtype());
  fill_gaps(flat);
  const auto item = static_cast<std::size_t>(t.itemsize());
  const auto* from = static_cast<const char*>(t.data_ptr());
  auto* to = static_cast<char*>(flat.data_ptr());
  std::vector<int64_t> at(rank, 0);
  // Written last to first, so that the first slice is what an expanded tensor keeps.
  for (int64_t n = t.numel() - 1; n >= 0; --n) {
    int64_t rest = n, place = offset;
    for (std::size_t d = rank; d-- > 0;) {
      place += rest % sizes[d] * strides[d];
      rest /= sizes[d];
    }
    std::memcpy(to + static_cast<std::size_t>(place) * item, from + static_cast<std::size_t>(n) * item, item);
  }
  return as_strided(device == Device(kCPU) ? flat : flat.to(device), sizes, strides, offset);
}

Value laid_out(const Value& v, Shape shape, Device device) {
  if (v.is_tensor()) return laid_out(v.tensor(), shape, device);
  if (v.kind() != Value::Kind::tensor_list) return v;
  std::vector<Tensor> list;
  for (const Tensor& t : v.tensors()) list.push_back(laid_out(t, shape, device));
  return list;
}

std::vector<Value> laid_out(const std::vector<Value>& args, Shape shape, Device device) {
  std::vector<Value> r;
  for (const Value& v : args) r.push_back(laid_out(v, shape, device));
  return r;
}

Value on_meta(const Value& v) {
  const auto meta = [](const Tensor& t) {
    return t.defined() ? empty_strided(t.sizes(), t.strides(), TensorOptions(t.dtype()).device(Device(kMeta))) : t;
  };
  if (v.is_tensor()) return meta(v.tensor());
  if (v.kind() != Value::Kind::tensor_list) return v;
  std::vector<Tensor> list;
  for (const Tensor& t : v.tensors()) list.push_back(meta(t));
  return list;
}

bool has_tensor(const std::vector<Value>& args) {
  for (const Value& v : args) {
    if (v.is_tensor() && v.tensor().defined()) return true;
    if (v.kind() == Value::Kind::tensor_list && !v.tensors().empty()) return true;
  }
  return false;
}

// All arguments in schema order; factories are told the device.
std::vector<Value> bind(const OpCase& row, const Sample& s, Device device) {
  std::vector<Value> bound;
  std::string reason;
  TENON_CHECK(dispatch::bind_arguments(row.op->schema(), s.args, s.kwargs, bound, &reason), SchemaError, row.label,
              ": the row's arguments do not fit: ", reason);
  if (!has_tensor(bound))
    for (int i = 0; i < row.op->schema().count; ++i)
      if (row.op->schema().arguments[i].type == dispatch::ArgType::optional_device && bound[i].is_none())
        bound[i] = Value(device);
  return bound;
}

std::vector<Value> values_of(const Results& r) { return {r.items, r.items + r.count}; }

std::vector<Value> call_typed(const OpCase& row, const std::vector<Value>& bound, uint32_t seed) {
  if (row.is_random) manual_seed(seed);
  Results results;
  row.typed(*row.op, bound, results);
  return values_of(results);
}

std::vector<Tensor> tensors_of(const std::vector<Value>& results) {
  std::vector<Tensor> list;
  for (const Value& v : results) {
    if (v.is_tensor())
      list.push_back(v.tensor());
    else if (v.kind() == Value::Kind::tensor_list)
      list.insert(list.end(), v.tensors().begin(), v.tensors().end());
  }
  return list;
}

std::vector<Array> arrays_of(const std::vector<Value>& results) {
  std::vector<Array> list;
  for (const Value& v : results) {
    if (v.is_number()) {
      Array a = make_array(v.number().dtype(), {});
      a.data[0] = v.number().is_integral() || v.number().is_bool()
                      ? Number(v.number().integer())
                      : Number(Complex(v.number().real(), v.number().imag()));
      list.push_back(a);
    }
  }
  for (const Tensor& t : tensors_of(results)) list.push_back(t.defined() ? read(t) : Array());
  return list;
}

void compare_all(Context& c, const std::string& what, const std::vector<Array>& got, const std::vector<Array>& expected,
                 bool bits) {
  if (got.size() != expected.size())
    return c.fail(what, std::to_string(got.size()) + " results, expected " + std::to_string(expected.size()));
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (!c.row.values_defined) {
      if (got[i].dtype != expected[i].dtype || got[i].sizes != expected[i].sizes) c.fail(what, "dtype or sizes differ");
      continue;
    }
    const std::string d = bits ? bit_difference(got[i], expected[i]) : difference(got[i], expected[i], c.row.ulps);
    c.compare(what + (got.size() > 1 ? ", result " + std::to_string(i) : ""), d);
  }
}

// A row that fails everywhere need not say so a thousand times.
bool enough(const Context& c) { return c.failures.size() >= 8; }

template <class F>
Failures each_sample(const OpCase& row, const Run& run, F&& f) {
  Context c{row, run, {}};
  for (const DType t : row.dtype_list) {
    c.dtype = t;
    std::vector<Sample> samples;
    if (!c.attempt("making samples", [&] { samples = row.make_samples(t, run.seed); })) continue;
    for (c.sample = 0; c.sample < samples.size() && !enough(c); ++c.sample) f(c, samples[c.sample]);
  }
  return std::move(c.failures);
}

// What the results of other forms are compared with: those of the first. On a GPU another layout may take another kernel,
// and atomics another order, so there it is the reference, which knows how far apart sums may be.
std::vector<Array> expected_of(const OpCase& row, const Run& run, const std::vector<Value>& host,
                               const std::vector<Tensor>& direct) {
  std::vector<Array> reference;
  if (row.expected) reference = row.expected(Args(row.op->schema(), host));
  if (run.device.is_cuda() && row.expected) return reference;
  std::vector<Array> list;
  for (const Tensor& t : direct) {
    list.push_back(read(t));
    // Another layout may sum in another order: what was added up says how far the results may differ.
    const std::size_t i = list.size() - 1;
    if (i < reference.size() && reference[i].numel() == list[i].numel()) list[i].scale = std::move(reference[i].scale);
  }
  return list;
}

std::string form_name(const OpCase& row, bool inplace) {
  const dispatch::Schema& s = row.op->schema();
  return std::string(s.name) + (inplace ? "_" : "") + (s.overload.empty() ? "" : "." + std::string(s.overload));
}

}  // namespace

Failures check_forward(const OpCase& row, const Run& run) {
  return each_sample(row, run, [&](Context& c, const Sample& s) {
    c.attempt("forward", [&] {
      const std::vector<Value> host = bind(row, s, run.device);
      const std::vector<Value> bound = laid_out(host, Shape::contiguous, run.device);
      const std::vector<Array> got = arrays_of(call_typed(row, bound, run.seed));
      const auto expect = [&](const std::vector<Value>& args) {
        return row.expected ? row.expected(Args(row.op->schema(), args))
                            : arrays_of(call_typed(row, laid_out(args, Shape::contiguous, run.device), run.seed));
      };
      const std::vector<Array> expected = expect(host);
      compare_all(c, "contiguous", got, expected, false);
      if (!s.layouts || !has_tensor(host) || got.empty() || enough(c)) return;
      for (const Shape shape :
           {Shape::transposed, Shape::every_second, Shape::shifted, Shape::odd_ones, Shape::expanded}) {
        const char* what = kShapeNames[static_cast<int>(shape)];
        if (got[0].numel() > 4000 && shape != Shape::every_second && shape != Shape::transposed)
          continue;  // seen in small ones
        c.attempt(what, [&] {
          const std::vector<Value> args = laid_out(host, shape, run.device);
          compare_all(c, what, arrays_of(call_typed(row, args, run.seed)),
                      shape == Shape::expanded ? expect(laid_out(host, shape, kCPU)) : expected, false);
        });
      }
      if (got[0].numel() > 4000) return;
      // Arguments that differ in layout.
      std::vector<Value> mixed;
      for (std::size_t i = 0; i < host.size(); ++i)
        mixed.push_back(laid_out(host[i], static_cast<Shape>(i % 4), run.device));
      compare_all(c, "mixed layouts", arrays_of(call_typed(row, mixed, run.seed)), expected, false);
    });
  });
}

Failures check_same(const OpCase& row, const Run& run) {
  return each_sample(row, run, [&](Context& c, const Sample& s) {
    c.attempt("as on the CPU", [&] {
      const std::vector<Value> host = bind(row, s, kCPU), there = bind(row, s, run.device);
      for (const Shape shape : {Shape::contiguous, Shape::transposed, Shape::every_second}) {
        if (shape != Shape::contiguous && (!s.layouts || !has_tensor(host))) break;
        const std::string what = std::string("as on the CPU, ") + kShapeNames[static_cast<int>(shape)];
        const std::vector<Array> expected = arrays_of(call_typed(row, laid_out(host, shape, kCPU), run.seed));
        compare_all(c, what, arrays_of(call_typed(row, laid_out(there, shape, run.device), run.seed)), expected, true);
      }
    });
  });
}

Failures check_boxed(const OpCase& row, const Run& run) {
  return each_sample(row, run, [&](Context& c, const Sample& s) {
    c.attempt("boxed call", [&] {
      const std::vector<Value> bound = laid_out(bind(row, s, run.device), Shape::contiguous, run.device);
      const std::vector<Value> direct = call_typed(row, bound, run.seed);
      if (row.is_random) manual_seed(run.seed);
      // Arguments by keyword where the schema wants it.
      std::vector<Value> positional;
      dispatch::KeywordArguments keywords;
      for (int i = 0; i < row.op->schema().count; ++i) {
        const dispatch::Argument& a = row.op->schema().arguments[i];
        if (!a.keyword_only)
          positional.push_back(bound[i]);
        else if (!bound[i].is_none())
          keywords.emplace_back(std::string(a.name), bound[i]);
      }
      const std::vector<Value> boxed = dispatch::call(form_name(row, false), positional, keywords);
      // Sums in another order differ; what they are worth was compared with the reference.
      const bool repeatable = !row.op->has(dispatch::kNonDeterministic) || run.device == Device(kCPU);
      if (repeatable) compare_all(c, "boxed call", arrays_of(boxed), arrays_of(direct), true);
      if (!row.meta || row.op->kind() == Kind::dynamic) return;
      std::vector<Value> meta;
      for (const Value& v : bind(row, s, Device(kMeta))) meta.push_back(on_meta(v));
      const std::vector<Tensor> shapes = tensors_of(call_typed(row, meta, run.seed)), real = tensors_of(direct);
      if (shapes.size() != real.size()) return c.fail("meta", "another number of results");
      for (std::size_t i = 0; i < real.size(); ++i) {
        if (!real[i].defined() || !shapes[i].defined()) {
          if (real[i].defined() != shapes[i].defined()) c.fail("meta", "a result is undefined");
          continue;
        }
        if (!shapes[i].is_meta()) c.fail("meta", "a result is on " + shapes[i].device().str());
        if (shapes[i].dtype() != real[i].dtype() || !(shapes[i].sizes() == real[i].sizes()))
          c.fail("meta", std::string(name(shapes[i].dtype())) + describe(shapes[i].sizes().vec()) + ", expected " +
                             name(real[i].dtype()) + describe(real[i].sizes().vec()));
      }
    });
  });
}

Failures check_out(const OpCase& row, const Run& run) {
  if (!row.out || row.op->kind() == Kind::view || row.op->schema().results == 0 || row.op->schema().returns == "Scalar")
    return {};
  return each_sample(row, run, [&](Context& c, const Sample& s) {
    if (!s.destinations) return;
    c.attempt("out=", [&] {
      const std::vector<Value> host = bind(row, s, run.device);
      const std::vector<Value> bound = laid_out(host, Shape::contiguous, run.device);
      const std::vector<Tensor> direct = tensors_of(call_typed(row, bound, run.seed));
      for (const Tensor& t : direct)
        if (!t.defined()) return;
      const std::vector<Array> expected = expected_of(row, run, host, direct);
      const auto into = [&](const std::vector<Tensor>& destinations) {
        if (row.is_random) manual_seed(run.seed);
        Results results;
        row.op->run_boxed(Form::out, bound, destinations, results);
        return tensors_of(values_of(results));
      };
      const auto fresh = [&](const std::vector<int64_t>& sizes, const Tensor& like, bool strided) {
        const Array zeros = make_array(like.dtype(), sizes);
        return laid_out(write(zeros), strided ? Shape::every_second : Shape::contiguous, run.device);
      };
      for (const int form : {0, 1, 2}) {  // empty, of the right shape, of the right shape and strided
        const char* what = form == 0 ? "out= empty" : form == 1 ? "out= of the right shape" : "out= strided";
        c.attempt(what, [&] {
          std::vector<Tensor> destinations;
          for (const Tensor& t : direct)
            destinations.push_back(fresh(form == 0 ? std::vector<int64_t>{0} : t.sizes().vec(), t, form == 2));
          const std::vector<Tensor> results = into(destinations);
          for (std::size_t i = 0; i < direct.size(); ++i) {
            if (i < results.size() && !results[i].is_same(destinations[i]))
              c.fail(what, "the result is another tensor");
            if (row.values_defined) c.compare(what, difference(read(destinations[i]), expected[i], row.ulps));
          }
        });
      }
      std::vector<Tensor> wrong;
      for (const Tensor& t : direct) {
        std::vector<int64_t> sizes = t.sizes().vec();
        for (int64_t& n : sizes) n = n == 0 ? 2 : n;
        sizes.push_back(2);
        wrong.push_back(fresh(sizes, t, false));
      }
      try {
        into(wrong);
        c.fail("out= of a wrong shape", "no error");
      } catch (const ShapeError& e) {
        if (std::string(e.what()).find(row.op->schema().name) == std::string::npos)
          c.fail("out= of a wrong shape", std::string("does not name the operator: ") + e.what());
      }
    });
  });
}

// Views share memory: the elements a view of 0, 1, 2, ... shows are the ones that change when it is written.
static Failures check_aliasing(const OpCase& row, const Run& run) {
  return each_sample(row, run, [&](Context& c, const Sample& s) {
    c.attempt("aliasing", [&] {
      std::vector<Value> args = laid_out(bind(row, s, run.device), Shape::contiguous, run.device);
      const Tensor& given = args[0].tensor();
      Array count = make_array(kInt64, given.sizes().vec());
      for (int64_t i = 0; i < count.numel(); ++i) count.data[i] = i;
      const Tensor base = laid_out(write(count), Shape::contiguous, run.device);
      args[0] = Value(base);
      for (const Tensor& view : tensors_of(call_typed(row, args, run.seed))) {
        for (const Number& v : read(view).data) count.data[v.i] = int64_t{-1};
        const uint32_t version = base.version();
        Tensor writable = view;
        // An expanded view shows one element many times and may not be written; as it was made is enough to know.
        if (dispatch::overlaps_itself(view)) {
          for (const Number& v : read(view).data) count.data[v.i < 0 ? 0 : v.i] = v.i;
          continue;
        }
        writable.fill_(-1);
        if (view.numel() != 0 && base.version() == version)
          c.fail("aliasing", "writing the view does not count as a write to its base");
        c.compare("aliasing", bit_difference(read(base), count));
      }
    });
  });
}

Failures check_inplace(const OpCase& row, const Run& run) {
  const bool counts = std::find(row.dtype_list.begin(), row.dtype_list.end(), kInt64) != row.dtype_list.end();
  if (row.op->kind() == Kind::view) return counts ? check_aliasing(row, run) : Failures();
  if (!row.inplace || row.op->kind() == Kind::view || row.op->has(dispatch::kNoInplace)) return {};
  return each_sample(row, run, [&](Context& c, const Sample& s) {
    if (!s.destinations) return;
    c.attempt("in place", [&] {
      const std::vector<Value> host = bind(row, s, run.device);
      if (!host[0].is_tensor()) return;
      const std::vector<Tensor> direct =
          tensors_of(call_typed(row, laid_out(host, Shape::contiguous, run.device), run.seed));
      const Array expected = expected_of(row, run, host, direct)[0];
      const Tensor& first = host[0].tensor();
      const bool allowed = direct[0].sizes() == first.sizes() && can_cast(direct[0].dtype(), first.dtype());
      for (const Shape shape : {Shape::contiguous, Shape::transposed, Shape::every_second, Shape::shifted}) {
        if (shape != Shape::contiguous && (!s.layouts || !allowed)) break;
        const std::string what = std::string("in place, ") + kShapeNames[static_cast<int>(shape)];
        std::vector<Value> args = laid_out(host, shape, run.device);
        const Tensor self = args[0].tensor();
        if (row.is_random) manual_seed(run.seed);
        Results results;
        try {
          const uint32_t version = self.version();
          row.op->run_boxed(Form::inplace, args, {&self, 1}, results);
          if (!allowed) {
            c.fail(what, "no error although the result does not fit self");
            break;
          }
          if (!results.items[0].tensor().is_same(self)) c.fail(what, "the result is another tensor");
          if (self.numel() != 0 && self.version() == version) c.fail(what, "the version did not grow");
          c.compare(what, difference(read(self), cast(expected, self.dtype()), row.ulps));
        } catch (const Error& e) {
          if (allowed)
            c.fail(what, std::string("threw: ") + e.what());
          else if (!dynamic_cast<const ShapeError*>(&e) && !dynamic_cast<const DtypeError*>(&e))
            c.fail(what, std::string("another error: ") + e.what());
        }
      }
    });
  });
}

Failures check_errors(const OpCase& row, const Run& run) {
  Context c{row, run, {}};
  for (const ErrorInput& error : row.errors) {
    c.dtype = error.dtype;
    Inputs in(error.dtype, run.seed);
    error.make(in);
    for (c.sample = 0; c.sample < in.samples.size(); ++c.sample) {
      try {
        arrays_of(call_typed(row, laid_out(bind(row, in.samples[c.sample], run.device), Shape::contiguous, run.device),
                             run.seed));
        c.fail("error input", "no error; expected one with \"" + error.text + "\"");
      } catch (const std::exception& e) {
        const std::string text = e.what();
        if (!error.is(e)) c.fail("error input", "another type of error: " + text);
        // What a device finds out later names the operator whose kernel found it.
        const bool late = run.device != Device(kCPU) && row.op->kind() == Kind::composite &&
                          dynamic_cast<const IndexError*>(&e) != nullptr;
        if (!late && text.find(row.error_name) == std::string::npos)
          c.fail("error input", "the text does not name the operator: " + text);
        if (text.find(error.text) == std::string::npos)
          c.fail("error input", "the text lacks \"" + error.text + "\": " + text);
      }
    }
  }
  if (!row.errors.empty() && !row.dtype_list.empty()) {  // still usable
    c.dtype = row.dtype_list[0];
    c.sample = 0;
    const std::vector<Sample> samples = row.make_samples(c.dtype, run.seed);
    c.attempt("a call after the errors", [&] {
      arrays_of(call_typed(row, laid_out(bind(row, samples[0], run.device), Shape::contiguous, run.device), run.seed));
    });
  }
  return std::move(c.failures);
}

}  // namespace tenon::testing
