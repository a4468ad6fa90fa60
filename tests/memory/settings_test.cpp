// SPDX-License-Identifier: Apache-2.0
// The text form of the allocator's settings.
#include <tenon/core/error.h>
#include <tenon/memory/settings.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

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
  for (const uint8_t n : s.roundup_power2_divisions) CHECK(n == 8);
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

TEST_CASE("settings: every key has values that are not the default and read back") {
  const char* const rows[] = {
      "backend:direct",
      "max_split_size_mb:64",
      "max_non_split_rounding_mb:40",
      "roundup_power2_divisions:[256:1,512:2,1024:4,>:8]",
      "large_segment_size_mb:40",
      "small_pool_limit:512",
      "garbage_collection_threshold:0.8",
      "per_process_memory_fraction:0.5",
      "expandable_segments:True",
      "throw_on_cudamalloc_oom:True",
      "pinned_use_cuda_host_register:True",
      "pinned_reserve_segment_size_mb:128",
      "pinned_max_round_threshold_mb:32",
      "pinned_max_cached_size_mb:256",
      "background_trim_ms:100",
      "poison_free:True",
  };
  std::string all;
  for (const char* row : rows) {
    CAPTURE(row);
    const AllocatorSettings s = AllocatorSettings::parse(row);
    CHECK_FALSE(s == AllocatorSettings{});
    CHECK(AllocatorSettings::parse(s.str()) == s);
    CHECK(contains(s.str(), row));
    all += std::string(row) + ",";
  }
  const AllocatorSettings s = AllocatorSettings::parse(all);
  CHECK(AllocatorSettings::parse(s.str()) == s);
  CHECK(s.str() + "," == all);
  // What can only have one value is accepted with it, and explained otherwise.
  const char* const fixed[][2] = {
      {"release_lock_on_cudamalloc:True", "False"}, {"graph_capture_record_stream_reuse:False", "True"},
      {"pinned_num_register_threads:1", "8"},       {"pinned_use_background_threads:False", "True"},
      {"pinned_max_power2_size_mb:0", "64"},
  };
  for (const auto& row : fixed) {
    CAPTURE(row[0]);
    CHECK(AllocatorSettings::parse(row[0]) == AllocatorSettings{});
    const std::string key = std::string(row[0]).substr(0, std::string(row[0]).find(':'));
    const std::string error = error_of<ValueError>([&] { (void)AllocatorSettings::parse(key + ":" + row[1]); });
    CHECK(contains(error, key));
    CHECK(error.size() > key.size() + 50);  // with a reason
  }
  CHECK(AllocatorSettings::keys().size() == std::size(rows) + std::size(fixed));
}

TEST_CASE("settings: the text says all of a struct, or refuses") {
  AllocatorSettings s;
  s.max_split_size = (int64_t{64} << 20) + 1;
  CHECK(contains(error_of<ValueError>([&] { (void)s.str(); }), "max_split_size_mb"));
  s = {};
  s.small_pool_limit = 700;
  CHECK(contains(error_of<ValueError>([&] { s.check(); }), "small_pool_limit"));
  s = {};
  s.max_split_size = INT64_MAX - 1;  // prints as the default would
  CHECK_THROWS_AS(s.str(), ValueError);
  s = {};
  s.per_process_memory_fraction = 2;
  CHECK_THROWS_AS(s.str(), ValueError);
  s = {};
  s.garbage_collection_threshold = 0.123456789012345678;
  CHECK(AllocatorSettings::parse(s.str()) == s);
  s.roundup_power2_divisions[3] = 5;
  CHECK(contains(error_of<ValueError>([&] { (void)s.str(); }), "roundup_power2_divisions"));
}

TEST_CASE("settings: divisions by size") {
  const AllocatorSettings s = AllocatorSettings::parse("roundup_power2_divisions:[2:1, 8:4,>:16]");
  CHECK(s.roundup_power2_divisions[0] == 1);  // below 2 MiB
  CHECK(s.roundup_power2_divisions[1] == 4);
  CHECK(s.roundup_power2_divisions[2] == 4);
  CHECK(s.roundup_power2_divisions[3] == 16);  // from 8 MiB
  CHECK(s.roundup_power2_divisions[15] == 16);
  CHECK(contains(s.str(), "[2:1,8:4,>:16]"));
  CHECK(AllocatorSettings::parse("roundup_power2_divisions:[256:8]").roundup_power2_divisions[8] == 0);
}

TEST_CASE("settings: an unknown key lists the valid ones") {
  const auto parse = [](const char* text) {
    return error_of<ValueError>([&] { (void)AllocatorSettings::parse(text); });
  };
  const std::string unknown = parse("max_split_size:128");
  CHECK(contains(unknown, "unknown key 'max_split_size'"));
  for (const std::string_view key : AllocatorSettings::keys()) CHECK(contains(unknown, std::string(key)));
  CHECK(contains(parse("backend"), "expected key:value"));
  CHECK(contains(unknown, "; did you mean max_split_size_mb?\n"));
  CHECK(contains(parse("expandable_segment:True"), "; did you mean expandable_segments?\n"));
  CHECK_FALSE(contains(parse("zzzz:1"), "did you mean"));
  size_t begin = 0;
  for (size_t end = unknown.find('\n'); end != std::string::npos; end = unknown.find('\n', begin)) {
    CHECK(end - begin <= 100);
    begin = end + 1;
  }
}

TEST_CASE("settings: bad values name the key, what was expected and what was given") {
  const char* const rows[][2] = {
      {"backend:cudaMallocAsync", "caching, native or direct"},
      {"max_split_size_mb:19", "at least 20"},
      {"max_split_size_mb:twenty", "at least 20"},
      {"max_split_size_mb:99999999999999999999", "at least 20"},
      {"max_split_size_mb:32k", "at least 20"},
      {"roundup_power2_divisions:3", "power of two"},
      {"roundup_power2_divisions:128", "power of two"},
      {"roundup_power2_divisions:[3:1]", "powers of two"},
      {"roundup_power2_divisions:[8:1,4:2]", "list"},
      {"roundup_power2_divisions:[8]", "list"},
      {"roundup_power2_divisions:[]", "list"},
      {"roundup_power2_divisions:[1:64,>:2]", "from 2 to 32768"},
      {"roundup_power2_divisions:[512:1,256:2]", "sizes must rise, and '>' comes last"},
      {"roundup_power2_divisions:[512:1,512:2]", "sizes must rise"},
      {"roundup_power2_divisions:[>:1,512:2]", "'>' comes last"},
      {"roundup_power2_divisions:[8:1", "list"},
      {"large_segment_size_mb:3", "from 4"},
      {"garbage_collection_threshold:0", "above 0"},
      {"garbage_collection_threshold:80", "at most 1"},
      {"expandable_segments:true", "True or False"},
      {"background_trim_ms:-1", "from 0"},
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
    if (text.find(":[") == std::string::npos) CHECK(contains(error, "'" + text.substr(text.find(':') + 1) + "'"));
  }
}

TEST_CASE("settings: the table in docs/memory.md has every key and no other") {
  const std::string here = __FILE__;
  std::ifstream file(here.substr(0, here.rfind("tests/memory/")) + "docs/memory.md");
  if (!file) TENON_SKIP("the source tree is not here");
  std::vector<std::string> rows;
  bool inside = false;
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("## ", 0) == 0) inside = line == "## Settings";
    if (inside && line.rfind("| `", 0) == 0) rows.push_back(line.substr(3, line.find('`', 3) - 3));
  }
  std::vector<std::string> keys;
  for (const std::string_view key : AllocatorSettings::keys()) keys.emplace_back(key);
  std::sort(rows.begin(), rows.end());
  std::sort(keys.begin(), keys.end());
  CHECK(rows == keys);
}
