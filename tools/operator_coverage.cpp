// SPDX-License-Identifier: Apache-2.0
// Prints what the registry knows of each operator, a line of tab-separated fields: schema, kernels on the CPU and on
// CUDA, gradient, notes. tools/update_operators makes docs/operators.md of it.
//   operator_coverage [LIBRARY...]    libraries to open first, such as libtenon_cuda.so where there is no GPU
#include <tenon/dispatch/gradient.h>
#include <tenon/dispatch/registry.h>

#include <dlfcn.h>

#include <cstdio>
#include <string>

namespace {

using namespace tenon;
using dispatch::OpBase;

struct Group {
  const char* name;
  std::vector<DType> members;
};
const std::vector<Group>& groups() {
  static const std::vector<Group> all = {{"b", {DType::bool_}},
                                         {"i", {DType::uint8, DType::int8, DType::int16, DType::int32, DType::int64}},
                                         {"f", {DType::float16, DType::bfloat16, DType::float32, DType::float64}},
                                         {"c", {DType::complex64, DType::complex128}},
                                         {"f8", {DType::float8_e4m3fn, DType::float8_e5m2}}};
  return all;
}

void append(std::string& text, const char* separator, std::string_view word) {
  if (!text.empty()) text += separator;
  text += word;
}

// Groups by their letters when complete, else their members; "bytes" for kernels that only move them.
std::string cells(const OpBase& op, Backend backend) {
  if (op.kind() == dispatch::Kind::view) return "view";
  if (op.kind() == dispatch::Kind::composite) return "parts";
  std::string text;
  for (const Group& group : groups()) {
    size_t present = 0;
    for (const DType t : group.members) present += op.cell(backend, dispatch::key_of(t)) != nullptr;
    if (present == group.members.size()) {
      append(text, " ", group.name);
    } else {
      for (const DType t : group.members)
        if (op.cell(backend, dispatch::key_of(t))) append(text, " ", name(t));
    }
  }
  for (int key = kDTypes; key < dispatch::kKeys; ++key)
    if (op.cell(backend, static_cast<dispatch::Key>(key))) {
      append(text, " ", "bytes");
      break;
    }
  return text;
}

bool has_cells(const OpBase& op) {
  for (int b = 0; b < kBackends; ++b)
    for (int key = 0; key < dispatch::kKeys; ++key)
      if (op.cell(static_cast<Backend>(b), static_cast<dispatch::Key>(key))) return true;
  return false;
}

const char* gradient(const OpBase& op) {
  const dispatch::Gradient* g = op.gradient();
  if (op.has(dispatch::kNonDifferentiable) || (g && g->non_differentiable)) return "none";
  if (g) return "yes";
  return op.kind() == dispatch::Kind::composite ? "parts" : "–";
}

std::string notes(const OpBase& op) {
  std::string text;
  if (!op.has(dispatch::kNoInplace)) append(text, ", ", "in place");
  if (op.has(dispatch::kNotCapturable)) append(text, ", ", "waits");
  if (op.has(dispatch::kNonDeterministic)) append(text, ", ", "order");
  return text;
}

}  // namespace

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i)
    if (!dlopen(argv[i], RTLD_NOW | RTLD_GLOBAL)) {
      std::fprintf(stderr, "operator_coverage: %s\n", dlerror());
      return 1;
    }
  for (const OpBase* op : dispatch::Registry::all()) {
    // What has no kernel of its own on either device runs those of others.
    const bool own = has_cells(*op);
    const std::string cpu = own ? cells(*op, Backend::cpu) : op->kind() == dispatch::Kind::view ? "view" : "parts";
    const std::string cuda = own ? cells(*op, Backend::cuda) : cpu;
    std::printf("%s\t%s\t%s\t%s\t%s\n", std::string(op->schema().text).c_str(), cpu.c_str(), cuda.c_str(),
                gradient(*op), notes(*op).c_str());
  }
}
