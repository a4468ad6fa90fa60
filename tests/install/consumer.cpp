// SPDX-License-Identifier: Apache-2.0
// Prints every operator, the cells of its kernel table and whether it has a gradient, one per line. Built twice: in the
// source tree, and against the installed package, shared and static. The outputs must be equal: a registrar that a
// linker dropped is a missing line. Also makes tensors through the installed headers.
#include <tenon/dispatch/gradient.h>
#include <tenon/dispatch/registry.h>
#include <tenon/tenon.h>

#include <cstdio>
#include <string>

using namespace tenon;

namespace {

constexpr const char* kBackendNames[] = {"cpu", "cuda"};

int print_registry() {
  int cells = 0;
  for (const dispatch::OpBase* op : dispatch::Registry::all()) {
    std::string line(op->name());
    for (const Backend backend : {Backend::cpu, Backend::cuda})
      for (int key = 0; key < dispatch::kKeys; ++key)
        if (op->cell(backend, static_cast<dispatch::Key>(key))) {
          ++cells;
          line += std::string(" ") + kBackendNames[backend == Backend::cuda] + ":" +
                  dispatch::key_name(static_cast<dispatch::Key>(key));
        }
    if (op->gradient()) line += op->gradient()->non_differentiable ? " non_differentiable" : " gradient";
    std::printf("%s\n", line.c_str());
  }
  return cells;
}

}  // namespace

int main() {
  const Tensor t = from_vector(std::vector<float>{1, 2, 3, 4, 5, 6}, {2, 3});
  if ((t + t * 2).sum().item<float>() != 63) return 1;
  try {
    throw OutOfMemoryError("exceptions keep their type across the library's boundary", {});
  } catch (const Error& e) {
    if (!dynamic_cast<const OutOfMemoryError*>(&e)) return 1;
  }
  const int cells = print_registry();
  std::fprintf(stderr, "tenon %s: %d cells\n", TENON_VERSION, cells);
  return 0;
}
