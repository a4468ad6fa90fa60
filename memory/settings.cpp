// SPDX-License-Identifier: Apache-2.0
// The text form of the settings: one table of keys, so that parsing, printing and the error's list agree.
#include <tenon/core/error.h>
#include <tenon/memory/settings.h>

#include <algorithm>
#include <charconv>
#include <utility>
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

double share(string_view key, string_view text, string_view expected) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  if (!whole || !(value > 0) || value > 1) bad_value(key, expected, text);
  return value;
}

std::string share_text(double value) {
  char buffer[32];  // the shortest text that reads back as the same number
  const auto [end, error] = std::to_chars(buffer, buffer + sizeof buffer, value);
  return error == std::errc() ? std::string(buffer, end) : std::string("1");
}

bool flag(string_view key, string_view text) {
  if (text != "True" && text != "False") bad_value(key, "True or False", text);
  return text == "True";
}

uint8_t divisions(string_view key, string_view text, string_view expected) {
  const int64_t n = integer(key, text, 0, 64, expected);
  if ((n & (n - 1)) != 0) bad_value(key, expected, text);
  return static_cast<uint8_t>(n);
}

string_view trim(string_view s) {
  while (!s.empty() && (s.front() == ' ' || s.front() == '\t')) s.remove_prefix(1);
  while (!s.empty() && (s.back() == ' ' || s.back() == '\t')) s.remove_suffix(1);
  return s;
}

// "[256:1,512:2,>:8]": below 256 MiB 1, from there below 512 MiB 2, above 8.
void divisions_list(AllocatorSettings& s, string_view key, string_view text, string_view expected) {
  if (text.size() < 2 || text.back() != ']' || trim(text.substr(1, text.size() - 2)).empty()) {
    bad_value(key, expected, text);
  }
  std::size_t done = 0;
  for (string_view rest = text.substr(1, text.size() - 2); !rest.empty();) {
    const std::size_t comma = std::min(rest.find(','), rest.size());
    const string_view item = trim(rest.substr(0, comma));
    rest = rest.substr(std::min(comma + 1, rest.size()));
    const std::size_t colon = item.find(':');
    if (colon == string_view::npos) bad_value(key, expected, text);
    const string_view border = trim(item.substr(0, colon));
    std::size_t end = s.roundup_power2_divisions.size();
    if (border != ">") {
      constexpr string_view kBorders = "sizes in MiB, powers of two from 2 to 32768, rising";
      const int64_t mib = integer(key, border, 2, 1 << 15, kBorders);
      if ((mib & (mib - 1)) != 0) bad_value(key, kBorders, border);
      end = static_cast<std::size_t>(__builtin_ctzll(static_cast<uint64_t>(mib)));
    }
    if (end <= done) bad_value(key, std::string(expected) + "; sizes must rise, and '>' comes last", text);
    const uint8_t n = divisions(key, trim(item.substr(colon + 1)), expected);
    for (; done < end; ++done) s.roundup_power2_divisions[done] = n;
  }
}

std::string divisions_text(const AllocatorSettings& s) {
  const auto& all = s.roundup_power2_divisions;
  std::string text = "[";
  for (std::size_t i = 0; i < all.size(); ++i) {
    const bool last = i + 1 == all.size();
    if (!last && all[i] == all[i + 1]) continue;
    if (last && text == "[") return std::to_string(all[i]);
    text += (last ? std::string(">") : std::to_string(1ll << (i + 1))) + ':' + std::to_string(all[i]);
    text += last ? ']' : ',';
  }
  return text;
}

struct Key {
  string_view name;
  string_view values;
  void (*parse)(AllocatorSettings& s, const Key& key, string_view text);
  std::string (*print)(const AllocatorSettings& s);
  bool (*same)(const AllocatorSettings& a, const AllocatorSettings& b);
};

template <auto Member>
constexpr bool same(const AllocatorSettings& a, const AllocatorSettings& b) {
  return a.*Member == b.*Member;
}

template <int64_t AllocatorSettings::*Member, int64_t Low, int64_t Unit>
constexpr Key size_key(string_view name, string_view values) {
  return {name, values,
          [](AllocatorSettings& s, const Key& key, string_view text) {
            s.*Member = Unit * integer(key.name, text, Low, INT64_MAX / Unit - 1, key.values);
          },
          [](const AllocatorSettings& s) { return std::to_string(s.*Member / Unit); }, same<Member>};
}

template <bool AllocatorSettings::*Member>
constexpr Key flag_key(string_view name) {
  return {name, "True or False",
          [](AllocatorSettings& s, const Key& key, string_view text) { s.*Member = flag(key.name, text); },
          [](const AllocatorSettings& s) -> std::string { return s.*Member ? "True" : "False"; }, same<Member>};
}

constexpr Key kKeys[] = {
    {"backend", "caching, native or direct",
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
     },
     same<&AllocatorSettings::backend>},
    size_key<&AllocatorSettings::max_split_size, 20, kMiB>("max_split_size_mb", "MiB, an integer of at least 20"),
    size_key<&AllocatorSettings::max_non_split_rounding, 1, kMiB>("max_non_split_rounding_mb",
                                                                  "MiB, an integer of at least 1"),
    {"roundup_power2_divisions", "0 or a power of two up to 64, or a list like [256:1,512:2,>:8]",
     [](AllocatorSettings& s, const Key& key, string_view text) {
       s.roundup_power2_divisions = {};
       if (!text.empty() && text[0] == '[') return divisions_list(s, key.name, text, key.values);
       s.roundup_power2_divisions.fill(divisions(key.name, text, key.values));
     },
     divisions_text, same<&AllocatorSettings::roundup_power2_divisions>},
    {"large_segment_size_mb", "MiB, an integer from 4 to 1024",
     [](AllocatorSettings& s, const Key& key, string_view text) {
       s.large_segment_size = kMiB * integer(key.name, text, 4, 1024, key.values);
     },
     [](const AllocatorSettings& s) { return std::to_string(s.large_segment_size / kMiB); },
     same<&AllocatorSettings::large_segment_size>},
    {"small_pool_limit", "KiB, an integer from 1 to 2048",
     [](AllocatorSettings& s, const Key& key, string_view text) {
       s.small_pool_limit = 1024 * integer(key.name, text, 1, 2048, key.values);
     },
     [](const AllocatorSettings& s) { return std::to_string(s.small_pool_limit / 1024); },
     same<&AllocatorSettings::small_pool_limit>},
    {"garbage_collection_threshold", "a number above 0, at most 1",
     [](AllocatorSettings& s, const Key& key, string_view text) {
       s.garbage_collection_threshold = share(key.name, text, key.values);
     },
     [](const AllocatorSettings& s) { return share_text(s.garbage_collection_threshold); },
     same<&AllocatorSettings::garbage_collection_threshold>},
    {"per_process_memory_fraction", "a number above 0, at most 1",
     [](AllocatorSettings& s, const Key& key, string_view text) {
       s.per_process_memory_fraction = share(key.name, text, key.values);
     },
     [](const AllocatorSettings& s) { return share_text(s.per_process_memory_fraction); },
     same<&AllocatorSettings::per_process_memory_fraction>},
    flag_key<&AllocatorSettings::expandable_segments>("expandable_segments"),
    flag_key<&AllocatorSettings::throw_on_cudamalloc_oom>("throw_on_cudamalloc_oom"),
    {"release_lock_on_cudamalloc", "True (no other thread ever waits for the device)",
     [](AllocatorSettings& s, const Key& key, string_view text) {
       s.release_lock_on_cudamalloc = flag(key.name, text);
       if (!s.release_lock_on_cudamalloc) bad_value(key.name, key.values, text);
     },
     [](const AllocatorSettings& s) -> std::string { return s.release_lock_on_cudamalloc ? "True" : "False"; },
     same<&AllocatorSettings::release_lock_on_cudamalloc>},
    flag_key<&AllocatorSettings::pinned_use_cuda_host_register>("pinned_use_cuda_host_register"),
    size_key<&AllocatorSettings::pinned_reserve_segment_size, 0, kMiB>("pinned_reserve_segment_size_mb",
                                                                       "MiB, an integer of at least 0"),
    size_key<&AllocatorSettings::pinned_max_round_threshold, 1, kMiB>("pinned_max_round_threshold_mb",
                                                                      "MiB, an integer of at least 1"),
    size_key<&AllocatorSettings::pinned_max_cached_size, 0, kMiB>("pinned_max_cached_size_mb",
                                                                  "MiB, an integer of at least 0"),
    {"background_trim_ms", "milliseconds, an integer from 0 (no worker) to 86400000",
     [](AllocatorSettings& s, const Key& key, string_view text) {
       s.background_trim_ms = integer(key.name, text, 0, 86400000, key.values);
     },
     [](const AllocatorSettings& s) { return std::to_string(s.background_trim_ms); },
     same<&AllocatorSettings::background_trim_ms>},
    flag_key<&AllocatorSettings::poison_free>("poison_free"),
};

// Keys of PyTorch that are accepted with the value that describes tenon, and refused with the reason otherwise.
struct FixedKey {
  string_view name, value, reason;
};
constexpr FixedKey kFixed[] = {
    {"graph_capture_record_stream_reuse", "False", "captured graphs have no memory pools of their own yet"},
    {"pinned_num_register_threads", "1", "pages come as huge pages, which one thread maps fast enough"},
    {"pinned_use_background_threads", "False", "events are looked at when memory is wanted; see background_trim_ms"},
    {"pinned_max_power2_size_mb", "0", "sizes are not rounded to powers of two; see pinned_max_round_threshold_mb"},
};

// As the end of an error's text, in lines of up to 100 columns.
std::string valid_keys() {
  std::string list = "\nvalid keys:";
  size_t line = 1;
  for (const string_view key : AllocatorSettings::keys()) {
    if (list.size() - line + key.size() > 98) {
      line = list.size() + 1;
      list += "\n ";
    }
    list += ' ';
    list += key;
    list += ',';
  }
  list.pop_back();
  return list;
}

size_t distance(string_view a, string_view b) {  // Levenshtein's
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t change = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({change, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row.back();
}

// "; did you mean expandable_segments?", or nothing when no key is near.
std::string suggestion(string_view name) {
  string_view nearest;
  size_t least = std::max<size_t>(2, name.size() / 3) + 1;
  for (const string_view key : AllocatorSettings::keys()) {
    const size_t d = distance(name, key);
    if (d < least) least = d, nearest = key;
  }
  return nearest.empty() ? std::string() : "; did you mean " + std::string(nearest) + "?";
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
    TENON_CHECK(colon != string_view::npos, ValueError, "allocator settings: expected key:value,..., got '", item, "'",
                valid_keys());
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
    bool known = false;
    for (const FixedKey& key : kFixed) {
      if (key.name != name) continue;
      known = true;
      TENON_CHECK(key.value == text, ValueError, "allocator settings: ", name, ": expected ", key.value, ", got '",
                  text, "': ", key.reason);
    }
    if (known) continue;
    detail::fail<ValueError>("allocator settings: unknown key '", name, "'", suggestion(name), valid_keys());
  }
  return settings;
}

std::vector<string_view> AllocatorSettings::keys() {
  std::vector<string_view> names;
  for (const Key& key : kKeys) names.push_back(key.name);
  for (const FixedKey& key : kFixed) names.push_back(key.name);
  return names;
}

void AllocatorSettings::check() const {
  static const AllocatorSettings defaults;
  for (const Key& key : kKeys) {
    if (key.same(*this, defaults)) continue;
    AllocatorSettings read = defaults;
    bool said = true;
    try {
      key.parse(read, key, key.print(*this));
    } catch (const ValueError&) {
      said = false;
    }
    TENON_CHECK(said && key.same(read, *this), ValueError, "allocator settings: ", key.name,
                ": the value cannot be said as ", key.values, "; the nearest text is '", key.print(*this), "'");
  }
}

std::string AllocatorSettings::str() const {
  static const AllocatorSettings defaults;
  check();
  std::string text;
  for (const Key& key : kKeys) {
    if (!text.empty() && key.same(*this, defaults)) continue;
    if (!text.empty()) text += ',';
    text += std::string(key.name) + ':' + key.print(*this);
  }
  return text;
}

}  // namespace tenon::memory
