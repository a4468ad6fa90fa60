// SPDX-License-Identifier: Apache-2.0
// Nothing is left out: every operator has a row, every dtype of a row its kernel on every device, every operator that
// can be differentiated a gradient.
#include <tenon/dispatch/gradient.h>
#include <tenon/dispatch/registry.h>
#include <tenon/streams/availability.h>

#include <map>
#include <string>

#include "tests/support/catch.h"
#include "tests/support/op_case.h"

using namespace tenon;
using namespace tenon::testing;
using dispatch::Kind;

namespace {

/// Operators without a row, and why.
const std::map<std::string, std::string, std::less<>> kWithoutRow = {};

/// Operators without a gradient that ought to have one, and why.
const std::map<std::string, std::string, std::less<>> kWithoutGradient = {};

// Of several rows of an operator the one that checks most.
std::map<std::string, const OpCase*> rows_by_name() {
  std::map<std::string, const OpCase*> rows;
  for (const OpCase* row : all_cases()) {
    const OpCase*& known = rows[std::string(row->op->name())];
    if (!known || (row->check_gradient && (row->check_second || !known->check_gradient))) known = row;
  }
  return rows;
}

}  // namespace

TEST_CASE("every operator has a row") {
  const auto rows = rows_by_name();
  std::string missing, superfluous;
  for (const dispatch::OpBase* op : dispatch::Registry::all()) {
    const bool row = rows.count(std::string(op->name())) != 0, named = kWithoutRow.count(op->name()) != 0;
    if (!row && !named) missing += " " + std::string(op->name());
    if (row && named) superfluous += " " + std::string(op->name());
  }
  INFO("without a row:" << missing << "\nwith a row and a reason for none:" << superfluous);
  CHECK(missing.empty());
  CHECK(superfluous.empty());
}

TEST_CASE("rows check what they say") {
  for (const OpCase* row : all_cases()) {
    INFO(row->label);
    CHECK_FALSE(row->dtype_list.empty());
    CHECK((row->expected || row->is_random));
    for (const DType t : row->dtype_list) CHECK_FALSE(row->make_samples(t, 1).empty());
  }
}

TEST_CASE("every operator that can be differentiated has a gradient, and its row checks it, twice") {
  const auto rows = rows_by_name();
  std::string missing, unchecked;
  for (const dispatch::OpBase* op : dispatch::Registry::all()) {
    if (op->kind() == Kind::composite || op->has(dispatch::kNonDifferentiable)) continue;
    if (!op->gradient()) {
      if (kWithoutGradient.count(op->name()) == 0) missing += " " + std::string(op->name());
      continue;
    }
    const auto row = rows.find(std::string(op->name()));
    if (!op->gradient()->non_differentiable && row != rows.end() &&
        !(row->second->check_gradient && row->second->check_second))
      unchecked += " " + std::string(op->name());
  }
  INFO("without a gradient:" << missing << "\nnot checked:" << unchecked);
  CHECK(missing.empty());
  CHECK(unchecked.empty());
}

TEST_CASE("every cell on the CPU has its counterpart on CUDA", "[cuda]") {
  TENON_REQUIRE_CUDA();
  std::string missing;
  for (const dispatch::OpBase* op : dispatch::Registry::all())
    for (int k = 0; k < dispatch::kKeys; ++k) {
      const bool cpu = op->cell(Backend::cpu, static_cast<dispatch::Key>(k)),
                 cuda = op->cell(Backend::cuda, static_cast<dispatch::Key>(k));
      if (cpu != cuda)
        missing += " " + std::string(op->name()) + "[" + dispatch::key_name(static_cast<dispatch::Key>(k)) +
                   (cpu ? "] has no CUDA kernel;" : "] has no CPU kernel;");
    }
  INFO(missing);
  CHECK(missing.empty());
}

TEST_CASE("every operator with kernels has some on the CPU") {
  std::string missing;
  for (const dispatch::OpBase* op : dispatch::Registry::all()) {
    if (op->kind() != Kind::kernel) continue;
    bool cpu = false, other = false;
    for (int k = 0; k < dispatch::kKeys; ++k) {
      cpu = cpu || op->cell(Backend::cpu, static_cast<dispatch::Key>(k));
      other = other || op->cell(Backend::cuda, static_cast<dispatch::Key>(k));
    }
    if (other && !cpu) missing += " " + std::string(op->name());
  }
  INFO("without a kernel on the CPU:" << missing);
  CHECK(missing.empty());
}
