// SPDX-License-Identifier: Apache-2.0
// Would the property tests notice? This program has its own copy of the allocator with bugs to choose from, and a layer
// of streams with others; each must be found, and nothing may be found without one. `memory` is another namespace here
// (tests/CMakeLists.txt), so that the copy and the library's own allocator keep apart.
#include <tenon/memory/background_trim.h>
#include <tenon/memory/planted_bugs.h>
#include <tenon/memory/size_text.h>

#include "tests/sim/allocator_program.h"
#include "tests/sim/faulty_streams.h"
#include "tests/support/catch.h"

#ifdef __SANITIZE_ADDRESS__
// Some planted bugs lose blocks and pooled events for good; that is no finding of LeakSanitizer's.
extern "C" __attribute__((visibility("default"))) const char* __asan_default_options() { return "detect_leaks=0"; }
#endif

using namespace tenon;
using namespace tenon::testing;
using memory::Bug;

namespace tenon::memory {
void ensure_background_trim() noexcept {}  // the copy has no worker
std::string size_text(int64_t bytes) { return std::to_string(bytes); }
}  // namespace tenon::memory

namespace {

constexpr int64_t kEnough = 20000;  // schedules for one bug

struct BugName {
  Bug bug;
  const char* text;
};
constexpr BugName kBugs[] = {
    {Bug::record_stream_ignored, "record_stream ignored"},
    {Bug::event_recorded_early, "event recorded when the use is announced, not at the free"},
    {Bug::first_event_suffices, "reuse on the first event of several"},
    {Bug::pool_by_handle, "pool chosen by the stream's handle instead of its id"},
    {Bug::other_streams_pool, "a free block of another stream's pool handed out"},
    {Bug::split_loses_rest, "split loses the rest"},
    {Bug::merge_across_segments, "merge across segments"},
    {Bug::merge_with_pending, "merge with a pending block"},
    {Bug::statistics_drift, "statistics not decremented for pending blocks"},
    {Bug::callbacks_skipped, "ladder skips the callbacks"},
    {Bug::segment_in_use_released, "ladder gives back a segment in use"},
    {Bug::oversize_skipped, "ladder gives up all cached memory although one segment would do"},
    {Bug::idle_kept, "ladder keeps idle segments"},
    {Bug::pending_not_awaited, "ladder does not wait for pending blocks"},
    {Bug::cross_thread_free_lost, "free from another thread loses the block"},
    {Bug::fault_leaks_block, "an event that cannot be recorded loses the block"},
    {Bug::rounded_down, "block smaller than asked for"},
};

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

}  // namespace

TEST_CASE("planted: without a bug nothing is found", "[schedules]") {
  sim::configure({.devices = 1});
  memory::planted_bug = Bug::none;
  uint64_t at = 0;
  CHECK(first_violation<AllocatorProgram>("planted_tests", 1, kEnough, &at) == "");
  const FaultyStreams none(StreamBug::none);
  CHECK(first_violation<AllocatorProgram>("planted_tests", 1, kEnough / 4, &at) == "");
}

TEST_CASE("planted: every bug of the allocator is found", "[schedules]") {
  sim::configure({.devices = 1});
  REQUIRE(memory::thread_slot() == 0);  // what cross_thread_free_lost takes for the first thread
  for (const BugName& b : kBugs) {
    memory::planted_bug = b.bug;
    uint64_t at = 0;
    const std::string found = first_violation<AllocatorProgram>("planted_tests", 1, kEnough, &at);
    memory::planted_bug = Bug::none;
    CAPTURE(b.text);
    CHECK(!found.empty());
    std::printf("%-60s %s\n", b.text, first_line(found).c_str());
  }
}

TEST_CASE("planted: every bug of the streams that an allocator can meet is found", "[schedules]") {
  sim::configure({.devices = 1});
  for (const StreamBugName& b : kStreamBugs) {
    if (!b.by_allocator) continue;
    const FaultyStreams faulty(b.bug);
    uint64_t at = 0;
    const std::string found = first_violation<AllocatorProgram>("planted_tests", 1, kEnough, &at);
    CAPTURE(b.text);
    CHECK(!found.empty());
    std::printf("%-60s %s\n", b.text, first_line(found).c_str());
  }
}
