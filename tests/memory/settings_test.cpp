// SPDX-License-Identifier: Apache-2.0
// The text form of the allocator's settings.
#include <tenon/core/error.h>
#include <tenon/memory/settings.h>

#include "tests/support/catch.h"

using namespace tenon;
using memory::AllocatorBackend;
using memory::AllocatorSettings;
using testing::contains;
using testing::error_of;

TEST_CASE("settings: every key is read, and printed so that it reads back") {
  const AllocatorSettings s = AllocatorSettings::parse(
      " backend:direct, max_split_size_mb:128,roundup_power2_divisions:8,small_pool_limit:256,"
      "per_process_memory_fraction:0.75,poison_free:True,");
  CHECK(s.backend == AllocatorBackend::direct);
  CHECK(s.max_split_size == int64_t{128} << 20);
  CHECK(s.roundup_power2_divisions == 8);
  CHECK(s.small_pool_limit == 256 << 10);
  CHECK(s.per_process_memory_fraction == 0.75);
  CHECK(s.poison_free);
  CHECK(AllocatorSettings::parse(s.str()) == s);
  CHECK(AllocatorSettings::parse("") == AllocatorSettings{});
  CHECK(AllocatorSettings::parse("backend:native") == AllocatorSettings{});
  CHECK(AllocatorSettings{}.str() == "backend:caching");
  AllocatorSettings third;
  third.per_process_memory_fraction = 1.0 / 3;
  CHECK(AllocatorSettings::parse(third.str()) == third);
}

TEST_CASE("settings: an unknown key lists the valid ones, a future key says so") {
  const auto parse = [](const char* text) {
    return error_of<ValueError>([&] { (void)AllocatorSettings::parse(text); });
  };
  const std::string unknown = parse("max_split_size:128");
  CHECK(contains(unknown, "unknown key 'max_split_size'"));
  for (const char* key : {"backend", "max_split_size_mb", "roundup_power2_divisions", "small_pool_limit",
                          "per_process_memory_fraction", "poison_free"}) {
    CHECK(contains(unknown, key));
  }
  for (const char* key : {"expandable_segments:True", "garbage_collection_threshold:0.8", "background_trim_ms:50"}) {
    const std::string later = parse(key);
    CHECK(contains(later, "not implemented yet"));
    CHECK_FALSE(contains(later, "unknown"));
  }
  CHECK(contains(parse("roundup_power2_divisions:[256:1,512:2,>:4],poison_free:True"), "not implemented yet"));
  CHECK(contains(parse("backend"), "expected key:value"));
}

TEST_CASE("settings: bad values name the key, what was expected and what was given") {
  const char* const rows[][2] = {
      {"backend:cudaMallocAsync", "caching or direct"},
      {"max_split_size_mb:19", "at least 20"},
      {"max_split_size_mb:twenty", "at least 20"},
      {"max_split_size_mb:99999999999999999999", "at least 20"},
      {"max_split_size_mb:32k", "at least 20"},
      {"roundup_power2_divisions:3", "power of two"},
      {"roundup_power2_divisions:128", "power of two"},
      {"small_pool_limit:0", "1 to 2048"},
      {"small_pool_limit:2049", "1 to 2048"},
      {"per_process_memory_fraction:0", "above 0"},
      {"per_process_memory_fraction:1.5", "above 0"},
      {"per_process_memory_fraction:nan", "above 0"},
      {"poison_free:yes", "True or False"},
      {"poison_free:", "True or False"},
  };
  for (const auto& row : rows) {
    CAPTURE(row[0]);
    const std::string text = row[0];
    const std::string error = error_of<ValueError>([&] { (void)AllocatorSettings::parse(text); });
    CHECK(contains(error, row[1]));
    CHECK(contains(error, text.substr(0, text.find(':'))));
    CHECK(contains(error, "'" + text.substr(text.find(':') + 1) + "'"));
  }
}
