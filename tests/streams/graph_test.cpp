// SPDX-License-Identifier: Apache-2.0
// Graphs on a real GPU: the programs that tests/sim/graph_test.cpp runs on the simulated device.
#include "tests/streams/graph_memory_programs.h"
#include "tests/streams/graph_training_programs.h"

using namespace tenon;
using tenon::testing::contains;
using tenon::testing::error_of;

TEST_CASE("graph: the CPU has none", "[graph]") {
  CHECK(contains(error_of<DeviceError>([] { Graph(kCPU).capture([] {}); }), "cuda or sim"));
  CHECK(contains(error_of<DeviceError>([] { raw_graphs(kMeta); }), "cuda or sim"));
  CHECK_THROWS_AS(graph(nullptr), ValueError);
  CHECK_THROWS_AS(lint_capture(nullptr), ValueError);
}

TEST_CASE("graph: what was captured runs when it is replayed, on the data that is there then", "[cuda][graph]") {
  TENON_REQUIRE_CUDA();
  tenon::testing::replays(Device(kCUDA, 0));
}

TEST_CASE("graph: streams that fork and join in a capture are ordered by their events in every replay",
          "[cuda][graph]") {
  TENON_REQUIRE_CUDA();
  tenon::testing::fork_and_join(Device(kCUDA, 0));
}

TEST_CASE("graph: a stream that does not come back, and one of outside, are errors; the device stays usable",
          "[cuda][graph]") {
  TENON_REQUIRE_CUDA();
  tenon::testing::unjoined_streams(Device(kCUDA, 0));
}

TEST_CASE("graph: refused operators are named, the capture ends, work goes on", "[cuda][graph]") {
  TENON_REQUIRE_CUDA();
  tenon::testing::refusals(Device(kCUDA, 0));
}

TEST_CASE("graph: frees in a capture, after it, and of what it uses never change a replay", "[cuda][graph]") {
  TENON_REQUIRE_CUDA();
  tenon::testing::frees(Device(kCUDA, 0));
}

TEST_CASE("graph: everything goes back when the last graph of a pool is reset", "[cuda][graph]") {
  TENON_REQUIRE_CUDA();
  tenon::testing::memory_returned(Device(kCUDA, 0));
}

TEST_CASE("graph: while streams are captured the cache is kept, blocks of several streams wait, other threads go on",
          "[cuda][graph]") {
  TENON_REQUIRE_CUDA();
  tenon::testing::cache_kept(Device(kCUDA, 0));
}

TEST_CASE("graph: pinned memory that a copy reads is kept, and read by every replay", "[cuda][graph]") {
  TENON_REQUIRE_CUDA();
  tenon::testing::pinned_memory(Device(kCUDA, 0));
}

TEST_CASE("graph: every replay draws the numbers that the same calls would have drawn", "[cuda][graph]") {
  TENON_REQUIRE_CUDA();
  tenon::testing::random_numbers(Device(kCUDA, 0));
}

TEST_CASE("graph: twenty whole training steps equal the same steps without a graph, bit for bit", "[cuda][graph]") {
  TENON_REQUIRE_CUDA();
  tenon::testing::training(Device(kCUDA, 0));
}

TEST_CASE("graph: optimizers whose steps a graph would get wrong are refused", "[cuda][graph]") {
  TENON_REQUIRE_CUDA();
  tenon::testing::uncapturable_optimizers(Device(kCUDA, 0));
}

TEST_CASE("graph(f): each kind of inputs has its graph, calls run once, inputs may be written in place",
          "[cuda][graph]") {
  TENON_REQUIRE_CUDA();
  tenon::testing::function_calls(Device(kCUDA, 0));
}

TEST_CASE("graph: guards keep or drop the capture, errors wait for the replay", "[cuda][graph]") {
  TENON_REQUIRE_CUDA();
  tenon::testing::guards(Device(kCUDA, 0));
}
