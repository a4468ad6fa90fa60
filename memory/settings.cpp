// SPDX-License-Identifier: Apache-2.0
// The text form of the settings: one table of keys, so that parsing, printing and the error's list agree.
#include <tenon/core/error.h>
#include <tenon/memory/settings.h>

#include <charconv>
#include <vector>

namespace tenon::memory {
namespace {

using std::string_view;

constexpr int64_t kMiB = 1 << 20;

[[noreturn]] void bad_value(string_view key, string_view expected, string_view got) {
  detail::fail<ValueError>("allocator settings: ", key, ": expected ", expected, ", got '", got, "'");
}

int64_t integer(string_view key, string_view text, int64_t low, int64_t high, string_view expected) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < low || value > high) {
    bad_value(key, expected, text);
  }
  return value;
}

struct Key {
  string_view name;
  string_view values;
  void (*parse)(AllocatorSettings& s, const Key& key, string_view text);
  std::string (*print)(const AllocatorSettings& s);
};

constexpr Key kKeys[] = {
    {"backend", "caching or direct",
     [](AllocatorSettings& s, const Key& key, string_view text) {
       if (text == "caching" || text == "native") {
         s.backend = AllocatorBackend::caching;
       } else if (text == "direct") {
         s.backend = AllocatorBackend::direct;
       } else {
         bad_value(key.name, key.values, text);
       }
     },
     [](const AllocatorSettings& s) -> std::string {
       return s.backend == AllocatorBackend::caching ? "caching" : "direct";
     }},
    {"max_split_size_mb", "MiB, an integer of at least 20",
     [](AllocatorSettings& s, const Key& key, string_view text) {
       s.max_split_size = kMiB * integer(key.name, text, 20, INT64_MAX / kMiB - 1, key.values);
     },
     [](const AllocatorSettings& s) { return std::to_string(s.max_split_size / kMiB); }},
    {"roundup_power2_divisions", "0 or a power of two up to 64",
     [](AllocatorSettings& s, const Key& key, string_view text) {
       TENON_CHECK(text.empty() || text[0] != '[', ValueError,
                   "allocator settings: roundup_power2_divisions: the list form is not implemented yet; ", "use ",
                   key.values);
       const int64_t n = integer(key.name, text, 0, 64, key.values);
       if ((n & (n - 1)) != 0) bad_value(key.name, key.values, text);
       s.roundup_power2_divisions = static_cast<int>(n);
     },
     [](const AllocatorSettings& s) { return std::to_string(s.roundup_power2_divisions); }},
    {"small_pool_limit", "KiB, an integer from 1 to 2048",
     [](AllocatorSettings& s, const Key& key, string_view text) {
       s.small_pool_limit = 1024 * integer(key.name, text, 1, 2048, key.values);
     },
     [](const AllocatorSettings& s) { return std::to_string(s.small_pool_limit / 1024); }},
    {"per_process_memory_fraction", "a number above 0, at most 1",
     [](AllocatorSettings& s, const Key& key, string_view text) {
       double value = 0;
       const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
       const bool whole = error == std::errc() && end == text.data() + text.size();
       if (!whole || !(value > 0) || value > 1) bad_value(key.name, key.values, text);
       s.per_process_memory_fraction = value;
     },
     [](const AllocatorSettings& s) {
       char buffer[32];  // the shortest text that reads back as the same number
       const auto [end, error] = std::to_chars(buffer, buffer + sizeof buffer, s.per_process_memory_fraction);
       return error == std::errc() ? std::string(buffer, end) : std::string("1");
     }},
    {"poison_free", "True or False",
     [](AllocatorSettings& s, const Key& key, string_view text) {
       if (text != "True" && text != "False") bad_value(key.name, key.values, text);
       s.poison_free = text == "True";
     },
     [](const AllocatorSettings& s) -> std::string { return s.poison_free ? "True" : "False"; }},
};

// Keys of PyTorch (and the last one of ours) whose feature does not exist yet.
constexpr string_view kLater[] = {"max_non_split_rounding_mb",
                                  "large_segment_size_mb",
                                  "garbage_collection_threshold",
                                  "expandable_segments",
                                  "throw_on_cudamalloc_oom",
                                  "release_lock_on_cudamalloc",
                                  "graph_capture_record_stream_reuse",
                                  "pinned_use_cuda_host_register",
                                  "pinned_num_register_threads",
                                  "pinned_use_background_threads",
                                  "pinned_reserve_segment_size_mb",
                                  "pinned_max_round_threshold_mb",
                                  "pinned_max_cached_size_mb",
                                  "pinned_max_power2_size_mb",
                                  "background_trim_ms"};

string_view trim(string_view s) {
  while (!s.empty() && (s.front() == ' ' || s.front() == '\t')) s.remove_prefix(1);
  while (!s.empty() && (s.back() == ' ' || s.back() == '\t')) s.remove_suffix(1);
  return s;
}

std::string valid_keys() {
  std::string list;
  for (const Key& key : kKeys) {
    if (!list.empty()) list += ", ";
    list += key.name;
  }
  return list;
}

// The end of an item: a comma outside brackets.
size_t item_end(string_view text) {
  int depth = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '[') ++depth;
    if (text[i] == ']') --depth;
    if (text[i] == ',' && depth <= 0) return i;
  }
  return text.size();
}

}  // namespace

AllocatorSettings AllocatorSettings::parse(string_view conf) {
  AllocatorSettings settings;
  for (string_view rest = trim(conf); !rest.empty();) {
    const size_t end = item_end(rest);
    const string_view item = trim(rest.substr(0, end));
    rest = end < rest.size() ? rest.substr(end + 1) : string_view();
    if (item.empty()) continue;
    const size_t colon = item.find(':');
    TENON_CHECK(colon != string_view::npos, ValueError, "allocator settings: expected key:value,..., got '", item,
                "'\nvalid keys: ", valid_keys());
    const string_view name = trim(item.substr(0, colon));
    const string_view text = trim(item.substr(colon + 1));
    const Key* found = nullptr;
    for (const Key& key : kKeys) {
      if (key.name == name) found = &key;
    }
    if (found) {
      found->parse(settings, *found, text);
      continue;
    }
    for (const string_view later : kLater) {
      TENON_CHECK(later != name, ValueError, "allocator settings: '", name,
                  "' is not implemented yet\nvalid keys: ", valid_keys());
    }
    detail::fail<ValueError>("allocator settings: unknown key '", name, "'\nvalid keys: ", valid_keys());
  }
  return settings;
}

std::string AllocatorSettings::str() const {
  static const AllocatorSettings defaults;
  std::string text;
  for (const Key& key : kKeys) {
    const std::string value = key.print(*this);
    if (!text.empty() && value == key.print(defaults)) continue;
    if (!text.empty()) text += ',';
    text += std::string(key.name) + ':' + value;
  }
  return text;
}

}  // namespace tenon::memory
