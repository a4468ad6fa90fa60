// SPDX-License-Identifier: Apache-2.0
// Prints which operators have kernels and gradients, as the Markdown table of README (tools/update_readme).
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
  static const std::vector<Group> all = {
      {"bool", {DType::bool_}},
      {"integers", {DType::uint8, DType::int8, DType::int16, DType::int32, DType::int64}},
      {"floats", {DType::float16, DType::bfloat16, DType::float32, DType::float64}},
      {"complex", {DType::complex64, DType::complex128}},
      {"float8", {DType::float8_e4m3fn, DType::float8_e5m2}}};
  return all;
}

void append(std::string& text, const char* word) {
  if (!text.empty()) text += ", ";
  text += word;
}

// Groups by name when complete, else their members; "by width" for kernels that only move bytes.
std::string cells(const OpBase& op, Backend backend) {
  if (op.kind() == dispatch::Kind::view) return "view";
  if (op.kind() == dispatch::Kind::composite) return "composite";
  std::string text;
  for (const Group& group : groups()) {
    size_t present = 0;
    for (const DType t : group.members) present += op.cell(backend, dispatch::key_of(t)) != nullptr;
    if (present == group.members.size()) {
      append(text, group.name);
    } else {
      for (const DType t : group.members)
        if (op.cell(backend, dispatch::key_of(t))) append(text, name(t));
    }
  }
  for (int key = kDTypes; key < dispatch::kKeys; ++key)
    if (op.cell(backend, static_cast<dispatch::Key>(key))) {
      append(text, "any, by width");
      break;
    }
  return text.empty() ? "–" : text;
}

const char* gradient(const OpBase& op) {
  const dispatch::Gradient* g = op.gradient();
  if (op.has(dispatch::kNonDifferentiable) || (g && g->non_differentiable)) return "none";
  if (g) return "yes";
  return op.kind() == dispatch::Kind::composite ? "through its parts" : "–";
}

}  // namespace

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i)
    if (!dlopen(argv[i], RTLD_NOW | RTLD_GLOBAL)) {
      std::fprintf(stderr, "operator_coverage: %s\n", dlerror());
      return 1;
    }
  const auto operators = dispatch::Registry::all();
  std::printf("<details><summary>%zu operators</summary>\n\n", operators.size());
  std::printf("| operator | CPU | CUDA | gradient |\n|---|---|---|---|\n");
  for (const OpBase* op : operators)
    std::printf("| `%s` | %s | %s | %s |\n", std::string(op->name()).c_str(), cells(*op, Backend::cpu).c_str(),
                cells(*op, Backend::cuda).c_str(), gradient(*op));
  std::printf("\n</details>\n");
}
