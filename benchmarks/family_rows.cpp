// SPDX-License-Identifier: Apache-2.0
// A row or more per family of operators, float32 unless the name says otherwise: benchmarks/peer/families.h.
#include "bench.h"
#include "peer/families.h"

#include <tenon/tenon.h>

namespace tenon::bench {
namespace {

using Inputs = FamilyInputs<Tensor>;

Tensor values_of_unique(const Tensor& x) { return unique(x).values; }
Tensor values_of_unique_consecutive(const Tensor& x) { return unique_consecutive(x).values; }

struct Family {
  const char* name;
  double bytes;
  Tensor (*step)(const Inputs&);
};
#define TENON_FAMILY_ROW(name, bytes, expression) {name, bytes, [](const Inputs& in) -> Tensor { return expression; }},
const Family kFamilies[] = {TENON_FAMILY_ROWS(TENON_FAMILY_ROW)};
#undef TENON_FAMILY_ROW

const bool registered = [] {
  for (const char* device : {"cpu", "cuda"}) {
    const bool gpu = std::string_view(device) == "cuda";
    const int64_t side = gpu ? 16384 : 2048, n = side * side;
    for (const Family& family : kFamilies)
      add_row({family.name, device, Bound::memory, family.bytes * static_cast<double>(n), [=] {
                 const TensorOptions on{Device(device)};
                 const auto flat = [&] { return randn({n}, on); };
                 const Tensor p = clamp(rand({n}, on), 1e-6, 1 - 1e-6);
                 Inputs in{flat(), flat(), flat(), p, randint(1000, {n}, on), flat().view({side, side}), {}};
                 in.e = linspace(0, 1, 1000, on);
                 return [in, step = family.step, kept = Tensor()]() mutable {
                   kept.reset();  // the result's memory is reused, as in a loop
                   kept = step(in);
                 };
               }});
  }
  return true;
}();

}  // namespace
}  // namespace tenon::bench
