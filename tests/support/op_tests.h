// SPDX-License-Identifier: Apache-2.0
// The tests of all rows of a program, for Catch2: include this in exactly one of its source files. `-c <row>` on the
// command line picks one row, `[cuda]` the GPU's part.
#pragma once

#include <tenon/streams/sim.h>
#include <tenon/testing/catch.h>
#include <tenon/testing/op_case.h>

namespace tenon::testing {

using RowCheck = Failures (*)(const OpCase&, const Run&);
inline void run_rows(std::initializer_list<RowCheck> checks, Device device) {
  for (const OpCase* row : all_cases()) {
    DYNAMIC_SECTION(row->label) {
      std::string text;
      for (const RowCheck check : checks)
        for (const std::string& line : check(*row, Run{device, seed()})) text += "\n" + line;
      INFO(text);
      CHECK(text.empty());
    }
  }
}

TEST_CASE("rows: results equal the reference in every dtype and layout", "[rows]") { run_rows({check_forward}, kCPU); }
TEST_CASE("rows: boxed calls equal typed ones, and meta tensors get the same shapes", "[rows]") {
  run_rows({check_boxed}, kCPU);
}
TEST_CASE("rows: out= resizes empty tensors, writes fitting ones and refuses others", "[rows]") {
  run_rows({check_out}, kCPU);
}
TEST_CASE("rows: the in-place form equals the functional one or is refused", "[rows]") {
  run_rows({check_inplace}, kCPU);
}
TEST_CASE("rows: errors have their type and name operator and argument", "[rows]") { run_rows({check_errors}, kCPU); }
TEST_CASE("rows: gradients equal finite differences", "[rows]") { run_rows({check_gradient}, kCPU); }
TEST_CASE("rows on the simulated device: results are the CPU's, bit for bit, in every layout", "[rows][sim]") {
  sim::configure({.devices = 1, .seed = seed()});
  run_rows({check_same}, Device(kSim, 0));
}
TEST_CASE("rows on the simulated device: boxed, out= and in-place forms, errors", "[rows][sim]") {
  sim::configure({.devices = 1, .seed = seed()});
  run_rows({check_boxed, check_out, check_inplace, check_errors}, Device(kSim, 0));
}
TEST_CASE("rows on a GPU: results equal the reference in every dtype and layout", "[rows][cuda]") {
  TENON_REQUIRE_CUDA();
  run_rows({check_forward}, Device(kCUDA, 0));
}
TEST_CASE("rows on a GPU: boxed, out= and in-place forms, errors", "[rows][cuda]") {
  TENON_REQUIRE_CUDA();
  run_rows({check_boxed, check_out, check_inplace, check_errors}, Device(kCUDA, 0));
}

}  // namespace tenon::testing
