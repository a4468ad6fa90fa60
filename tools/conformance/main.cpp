// SPDX-License-Identifier: Apache-2.0
// tenon_conformance --cases DIR [--device cpu|cuda|sim] [--op GLOB] [--layout contiguous|strided]
//                   [--inapplicable FILE] [--json FILE] [--verbose]
// Runs every case of a folder through boxed calls, outputs and gradients, prints a line per operator and closes with
// "N passed, N failed, N skipped" (skipped: no such operator, a case for another device, or one that the file of
// inapplicable cases names: "ID [DEVICE]: reason" in each line). Exit code 1 on failures.
#include "case_reader.h"
#include "compare.h"

#include <tenon/autograd/autograd.h>
#include <tenon/ops/binary.h>
#include <tenon/ops/copy.h>
#include <tenon/ops/factory.h>
#include <tenon/ops/reduce.h>
#include <tenon/ops/unary.h>
#include <tenon/ops/view.h>

#include <fnmatch.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <set>

namespace tenon::conformance {
namespace {

constexpr const char* kBrackets = "__getitem__";  // Tensor::index, which is no operator

enum class Outcome { passed, failed, skipped };
struct Verdict {
  Outcome outcome;
  std::string reason;
};

struct Options {
  std::string cases, op = "*", json;
  std::map<std::string, std::string> inapplicable;  // id to reason
  Device device{kCPU};
  bool strided = false, verbose = false;
};

// The operator of a case and the dtype it adds: x.float() is spelled x.to(float32).
std::pair<std::string, DType> spelled(const Json& test) {
  static const std::map<std::string, DType> kCasts = {
      {"bool", kBool},     {"byte", kUInt8},     {"char", kInt8},        {"short", kInt16},
      {"int", kInt32},     {"long", kInt64},     {"half", kFloat16},     {"bfloat16", kBFloat16},
      {"float", kFloat32}, {"double", kFloat64}, {"cfloat", kComplex64}, {"cdouble", kComplex128}};
  const std::string op = test["op"].get<std::string>();
  const auto cast = kCasts.find(op);
  return cast == kCasts.end() ? std::pair(op, DType::undefined) : std::pair(std::string("to"), cast->second);
}

bool is_reports(const Json& test) { return test.contains("bug"); }

Tolerance pick(const Json& test, DType t, bool loose) {
  if (test.contains("tol")) return {test["tol"].value("rtol", 0.0), test["tol"].value("atol", 0.0)};
  return is_reports(test) ? Tolerance{} : tolerance_of(t, loose);
}

// Sums, products of matrices and whatever accumulates get the wide float32 tolerance.
bool accumulates(const std::string& op) {
  for (const char* part :
       {"sum",         "mean",      "std",   "var",    "norm",  "prod",      "mm",        "matmul",   "mv",
        "dot",         "linear",    "conv",  "einsum", "loss",  "entropy",   "attention", "trapz",    "trapezoid",
        "cov",         "coef",      "dist",  "inner",  "outer", "softmax",   "logsumexp", "bilinear", "pool",
        "interpolate", "embedding", "trace", "cross",  "kron",  "index_add", "scatter"})
    if (op.find(part) != std::string::npos) return true;
  return false;
}

std::vector<Tensor> flatten(const std::vector<dispatch::Value>& values) {
  std::vector<Tensor> out;
  for (const dispatch::Value& v : values) {
    if (v.is_tensor())
      out.push_back(v.tensor());
    else if (v.kind() == dispatch::Value::Kind::tensor_list)
      out.insert(out.end(), v.tensors().begin(), v.tensors().end());
    else if (v.is_number())
      out.push_back(scalar_tensor(v.number()));
  }
  return out;
}

// The tensor at a path of the case: [0], [0, 2] (third of a list), ["weight"].
Tensor* at_path(const Json& path, std::vector<dispatch::Value>& args, dispatch::KeywordArguments& kwargs) {
  dispatch::Value* v = nullptr;
  if (path[0].is_string()) {
    for (auto& [key, value] : kwargs)
      if (key == path[0].get<std::string>()) v = &value;
  } else if (path[0].get<std::size_t>() < args.size()) {
    v = &args[path[0].get<std::size_t>()];
  }
  if (!v) return nullptr;
  if (path.size() > 1) return &v->tensors().at(path[1].get<std::size_t>());
  return v->is_tensor() ? &v->tensor() : nullptr;
}

std::string check_outputs(const Json& test, const Json& expect, const std::vector<Tensor>& outputs,
                          const CaseReader& reader) {
  const bool loose = accumulates(test["op"].get<std::string>());
  if (expect.contains("tensors")) {
    const Json& wanted = expect["tensors"];
    if (wanted.size() > outputs.size()) return detail::concat(outputs.size(), " outputs, expected ", wanted.size());
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      if (wanted[i].is_null()) continue;
      const Tensor want = CaseReader::expected(wanted[i]);
      const std::string d =
          difference(outputs[i], want, pick(test, want.dtype(), loose), expect.value("check", "") != "shape");
      if (!d.empty()) return detail::concat("output ", i, ": ", d);
    }
  }
  if (expect.contains("at")) {
    for (const Json& entry : expect["at"]) {
      Tensor t = outputs.at(entry[0].get<std::size_t>());
      for (const Json& i : entry[1]) t = t.select(0, i.get<int64_t>());
      const double got = t.item().real(), want = number(entry[2]);
      if (!(got == want || (got != got && want != want)))
        return detail::concat("element ", entry[1].dump(), " is ", got, ", expected ", want);
    }
  }
  if (expect.contains("storages")) {
    for (const auto& [name, v] : expect["storages"].items()) {
      const Tensor want = CaseReader::expected(v);
      const std::string d = difference(reader.storages().at(name), want, pick(test, want.dtype(), loose));
      if (!d.empty()) return detail::concat("storage ", name, ": ", d);
    }
  }
  return {};
}

std::string check_gradients(const Json& test, const std::vector<Tensor>& outputs, const std::vector<Tensor>& inputs,
                            Device device) {
  const Json& grad = test["grad"];
  std::vector<Tensor> roots, seeds;
  std::vector<std::size_t> chosen;
  if (grad.contains("outputs"))
    for (const Json& i : grad["outputs"]) chosen.push_back(i.get<std::size_t>());
  else
    for (std::size_t i = 0; i < outputs.size(); ++i) chosen.push_back(i);
  for (std::size_t k = 0; k < chosen.size(); ++k) {
    if (grad["grad_outputs"][k].is_null() || !outputs.at(chosen[k]).requires_grad()) continue;
    roots.push_back(outputs.at(chosen[k]));
    seeds.push_back(CaseReader::expected(grad["grad_outputs"][k]).to(device));
  }
  const bool second = grad.contains("second");
  // Outputs that depend on no input (a matrix to the power 0) have gradients of zeros.
  std::vector<Tensor> got(inputs.size());
  if (!roots.empty()) got = autograd::grad(roots, inputs, seeds, true, second, true);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (i >= grad["expect"].size() || grad["expect"][i].is_null()) continue;
    const Json& want = grad["expect"][i];
    // The cases keep the gradient of the part that was replaced, and no other (Note [as_strided_scatter] of PyTorch).
    if (i == 0 && test["op"] == "as_strided_scatter") continue;
    const Tensor w = CaseReader::expected(want);
    // No gradient at all is a gradient of zeros.
    const Tensor g = got[i].defined() ? got[i].detach() : zeros_like(inputs[i].detach());
    const std::string d = difference(g, w, pick(test, w.dtype(), true));
    if (!d.empty()) return detail::concat("gradient ", i, ": ", d);
  }
  if (second) {
    const Json& s = grad["second"];
    const Tensor v = CaseReader::expected(s.at("v")).to(device);
    const Tensor inner = got[0].defined() ? op::sum(op::mul(got[0], v), {}, false, {}) : got[0];
    const Tensor first[] = {inputs[0]}, total[] = {inner};
    Tensor twice;  // stays undefined where the first gradient does not depend on the input
    if (inner.defined() && inner.requires_grad()) twice = autograd::grad(total, first, {}, true, false, true)[0];
    const Tensor w = CaseReader::expected(s.at("expect"));
    const std::string d =
        difference(twice.defined() ? twice : zeros_like(inputs[0].detach()), w, pick(test, w.dtype(), true));
    if (!d.empty()) return "second gradient: " + d;
  }
  return {};
}

Verdict attempt(const Json& test, const Json& expect, const Options& options, Layout layout) {
  const bool wants_error = expect.value("error", false);
  try {
    CaseReader reader(test, options.device, layout);
    std::vector<dispatch::Value> args;
    dispatch::KeywordArguments kwargs;
    const bool brackets = test["op"] == kBrackets;
    for (const Json& a : test["args"])
      if (!brackets || args.empty()) args.push_back(reader.value(a));
    const Json keywords = test.value("kwargs", Json::object());
    for (const auto& [key, v] : keywords.items()) {
      // Arguments every factory takes that do not change values; sparse gradients are dense here.
      if (key == "requires_grad" || key == "layout" || key == "pin_memory" || key == "sparse") continue;
      if (key == "dims" && v.is_array() && !v.empty() && v[0].is_array()) {  // tensordot's pair of lists
        kwargs.emplace_back("dims_self", reader.value(v[0]));
        kwargs.emplace_back("dims_other", reader.value(v[1]));
        continue;
      }
      kwargs.emplace_back(key, reader.value(v));
    }
    std::vector<Tensor> inputs;
    const bool grads = test.contains("grad") && !wants_error;
    if (grads) {
      for (const Json& path : test["grad"]["wrt"]) {
        Tensor* t = at_path(path, args, kwargs);
        TENON_CHECK(t, SchemaError, "case: no tensor at path ", path.dump());
        *t = t->detach();
        t->requires_grad_();
        inputs.push_back(*t);
      }
    }
    // Python's arithmetic takes two numbers as well.
    static const std::set<std::string> kArithmetic = {"add", "sub", "mul", "div", "true_divide", "floor_divide"};
    if (kArithmetic.contains(test["op"].get<std::string>()) && args[0].is_number() && args[1].is_number())
      args[0] = dispatch::Value(scalar_tensor(args[0].number()));
    // A leaf cannot be written in place; the value it was computed to can.
    const auto [op, dtype] = spelled(test);
    if (dtype != DType::undefined) kwargs.emplace_back("dtype", dtype);
    if (grads && op.substr(0, op.find('.')).ends_with("_") && !op.starts_with("__") && args[0].is_tensor())
      args[0] = dispatch::Value(args[0].tensor().clone());
    const std::vector<Tensor> outputs =
        brackets ? std::vector<Tensor>{args[0].tensor().index(reader.indices(test["args"][1]))}
                 : flatten(dispatch::call(op, args, kwargs));
    for (const Tensor& t : outputs)
      if (wants_error && t.defined() && t.numel() > 0)
        (void)t.detach().reshape({-1}).select(0, 0).item();  // errors that come later
    if (wants_error) return {Outcome::failed, "expected an error"};
    std::vector<Tensor> plain;
    for (const Tensor& t : outputs) plain.push_back(t.defined() ? t.detach() : t);
    std::string d = check_outputs(test, expect, plain, reader);
    if (d.empty() && grads) d = check_gradients(test, outputs, inputs, options.device);
    return {d.empty() ? Outcome::passed : Outcome::failed, d};
  } catch (const std::exception& e) {
    if (wants_error) return {Outcome::passed, e.what()};
    return {Outcome::failed, e.what()};
  }
}

Verdict run(const Json& test, const Options& options) {
  if (test.contains("device") && test["device"] != name(options.device.type()))
    return {Outcome::skipped, "another device"};
  if (const auto at = options.inapplicable.find(test["id"].get<std::string>()); at != options.inapplicable.end())
    return {Outcome::skipped, "inapplicable: " + at->second};
  std::string op = spelled(test).first;
  bool swapped = false;  // "__radd__" is found too
  if (op != kBrackets && dispatch::Registry::find(op, &swapped).empty()) {
    const std::size_t end = op.find('.') == std::string::npos ? op.size() : op.find('.');
    if (end > 0 && op[end - 1] == '_') op.erase(end - 1, 1);
    if (dispatch::Registry::find(op).empty()) return {Outcome::skipped, "no such operator"};
  }
  std::vector<Layout> layouts{Layout::as_given};
  // What these do depends on the strides of their input: other ones are another question.
  const bool geometry = op.starts_with("as_strided") || op == "view" || op == "view_as" || op == "view_as_complex";
  if (options.strided && !geometry)
    layouts = {Layout::transposed, Layout::every_second, Layout::shifted, Layout::expanded};
  for (const Layout layout : layouts) {
    Verdict v = attempt(test, test["expect"], options, layout);
    if (v.outcome == Outcome::failed && test.contains("also_ok")) {
      for (const Json& other : test["also_ok"]) {
        const Verdict again = attempt(test, other, options, layout);
        if (again.outcome == Outcome::passed) v = again;
      }
    }
    if (v.outcome != Outcome::passed) {
      if (options.strided) v.reason = detail::concat("layout ", static_cast<int>(layout), ": ", v.reason);
      return v;
    }
  }
  return {Outcome::passed, {}};
}

std::map<std::string, std::string> inapplicable_cases(const std::string& file, Device device) {
  std::ifstream in(file);
  TENON_CHECK(in.good(), IoError, "cannot read ", file);
  std::map<std::string, std::string> cases;
  for (std::string line; std::getline(in, line);) {
    const std::size_t colon = line.find(": "), space = line.find(' ');
    if (line.empty() || line[0] == '#' || colon == std::string::npos) continue;
    const bool everywhere = space > colon;
    if (everywhere || line.substr(space + 1, colon - space - 1) == name(device.type()))
      cases[line.substr(0, std::min(space, colon))] = line.substr(colon + 2);
  }
  return cases;
}

int main_(const Options& options) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(options.cases))
    if (entry.path().extension() == ".jsonl") files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  TENON_CHECK(!files.empty(), IoError, "no .jsonl file in ", options.cases);
  struct Count {
    int passed = 0, failed = 0, skipped = 0;
  };
  std::map<std::string, Count> counts;
  Json report = Json::array();
  Count all;
  for (const auto& file : files) {
    std::ifstream in(file);
    for (std::string line; std::getline(in, line);) {
      if (line.empty()) continue;
      const Json test = Json::parse(line);
      const std::string op = test["op"].get<std::string>();
      if (fnmatch(options.op.c_str(), op.c_str(), 0) != 0) continue;
      const Verdict v = run(test, options);
      Count& count = counts[op];
      (v.outcome == Outcome::passed ? count.passed : v.outcome == Outcome::failed ? count.failed : count.skipped)++;
      (v.outcome == Outcome::passed ? all.passed : v.outcome == Outcome::failed ? all.failed : all.skipped)++;
      if (v.outcome == Outcome::failed || options.verbose)
        std::cout << (v.outcome == Outcome::passed   ? "ok   "
                      : v.outcome == Outcome::failed ? "FAIL "
                                                     : "skip ")
                  << test["id"].get<std::string>() << (v.reason.empty() ? "" : ": ") << v.reason << '\n';
      if (!options.json.empty())
        report.push_back({{"id", test["id"]},
                          {"op", op},
                          {"outcome", v.outcome == Outcome::passed   ? "passed"
                                      : v.outcome == Outcome::failed ? "failed"
                                                                     : "skipped"},
                          {"reason", v.reason}});
    }
  }
  for (const auto& [op, c] : counts)
    if (c.passed + c.failed > 0)
      std::cout << op << ": " << c.passed << " passed, " << c.failed << " failed, " << c.skipped << " skipped\n";
  if (!options.json.empty()) std::ofstream(options.json) << report.dump(1) << '\n';
  std::cout << all.passed << " passed, " << all.failed << " failed, " << all.skipped << " skipped" << std::endl;
  return all.failed == 0 ? 0 : 1;
}

}  // namespace
}  // namespace tenon::conformance

int main(int argc, char** argv) {
  using namespace tenon;
  constexpr const char* kUsage =
      "usage: tenon_conformance --cases DIR [--device cpu|cuda|sim] [--op GLOB] [--layout contiguous|strided] "
      "[--inapplicable FILE] [--json FILE] [--verbose]\nDIR holds *.jsonl files, one case a line";
  conformance::Options options;
  std::string file;
  try {
    for (int i = 1; i < argc; ++i) {
      const std::string flag = argv[i];
      if (flag == "--help") {
        std::cout << kUsage << '\n';
        return 0;
      }
      if (flag == "--verbose") {
        options.verbose = true;
        continue;
      }
      TENON_CHECK(i + 1 < argc, ValueError, flag, ": expected a value after it");
      const std::string value = argv[++i];
      if (flag == "--cases")
        options.cases = value;
      else if (flag == "--op")
        options.op = value;
      else if (flag == "--json")
        options.json = value;
      else if (flag == "--inapplicable")
        file = value;
      else if (flag == "--device")
        options.device = resolve(Device(value));
      else if (flag == "--layout") {
        TENON_CHECK(value == "contiguous" || value == "strided", ValueError,
                    "--layout: expected contiguous or strided, got ", value);
        options.strided = value == "strided";
      } else
        TENON_CHECK(false, ValueError, "unknown option ", flag);
    }
    TENON_CHECK(!options.cases.empty(), ValueError, kUsage);
    if (!file.empty()) options.inapplicable = conformance::inapplicable_cases(file, options.device);
    return conformance::main_(options);
  } catch (const std::exception& e) {
    std::cerr << "tenon_conformance: " << e.what() << '\n';
    return 2;
  }
}
