// SPDX-License-Identifier: Apache-2.0
#include <tenon/core/stack_trace.h>
#include <tenon/core/warning.h>
#include <tenon/streams/op_context.h>
#include <tenon/streams/order.h>
#include <tenon/streams/safety.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <mutex>
#include <unordered_map>

namespace tenon {

RaceError::~RaceError() = default;
SyncError::~SyncError() = default;

namespace detail {
constinit uint8_t stream_safety_mode = 0;
constinit uint32_t watch_changes = 0;
constinit thread_local uint32_t watch_seen __attribute__((tls_model("initial-exec"))) = 0;
}  // namespace detail

namespace {

constinit std::atomic<void (*)(bool)> watch_hook{nullptr};
constinit std::atomic<uint8_t> sync_mode{0};
constinit std::atomic<int64_t> waits{0}, races{0};
constinit std::atomic<bool> with_sites{false}, bad_environment{false};

struct Watched {
  std::string_view name;
  int depth;
  bool noted;
};
constinit thread_local Watched watched{};
constinit thread_local int quiet = 0;

struct Sites {
  std::mutex mutex;
  std::unordered_map<uint64_t, SyncSite> by_stack;
};
Sites& sites() {
  static auto* const instance = new Sites;
  return *instance;
}

void tell() {
  __atomic_fetch_add(&detail::watch_changes, 1u, __ATOMIC_ACQ_REL);
  detail::follow_watch();
}

void set_mode(StreamSafety mode, bool keep_sites) {
  with_sites = keep_sites;
  detail::StreamOrder::turn(mode != StreamSafety::off);
  __atomic_store_n(&detail::stream_safety_mode, static_cast<uint8_t>(mode), __ATOMIC_RELEASE);
}

bool read_environment() {
  const char* const text = std::getenv("TENON_STREAM_SAFETY");
  if (!text) return true;
  std::string_view mode(text);
  constexpr std::string_view kSites = ",sites";
  const bool keep = mode.size() > kSites.size() && mode.substr(mode.size() - kSites.size()) == kSites;
  if (keep) mode.remove_suffix(kSites.size());
  if (mode == "check")
    set_mode(StreamSafety::check, keep);
  else if (mode == "auto")
    set_mode(StreamSafety::automatic, keep);
  else
    bad_environment = mode != "off" && !mode.empty();
  return true;
}
[[maybe_unused]] const bool environment_read = read_environment();

// Adds to the count of the calling place. True the first time there.
bool count_site(std::string_view op, std::string* place) {
  void* frames[kMaxStackFrames];
  const int depth = capture_stack(frames, kMaxStackFrames);
  uint64_t key = 1;
  for (int i = 0; i < depth; ++i) key = (key ^ reinterpret_cast<uintptr_t>(frames[i])) * 0x9E3779B97F4A7C15u;
  Sites& s = sites();
  std::lock_guard lock(s.mutex);
  const auto [found, first] = s.by_stack.try_emplace(key);
  ++found->second.count;
  if (!first) return false;
  found->second = {std::string(op), site_text({frames, static_cast<std::size_t>(depth)}, 1), 1};
  *place = found->second.site;
  // Several ways may lead to one place.
  return std::none_of(s.by_stack.begin(), s.by_stack.end(), [&](const auto& other) {
    return other.first != key && other.second.op == op && other.second.site == *place;
  });
}

}  // namespace

void set_stream_safety(StreamSafety mode, bool keep_sites) {
  bad_environment = false;
  set_mode(mode, keep_sites);
  tell();
}
StreamSafety stream_safety() noexcept {
  return static_cast<StreamSafety>(__atomic_load_n(&detail::stream_safety_mode, __ATOMIC_RELAXED));
}
int64_t stream_races() noexcept { return races.load(std::memory_order_relaxed); }

void set_sync_debug_mode(SyncDebugMode mode) {
  {
    std::lock_guard lock(sites().mutex);
    sites().by_stack.clear();
  }
  sync_mode = static_cast<uint8_t>(mode);
  tell();
}
SyncDebugMode sync_debug_mode() noexcept { return static_cast<SyncDebugMode>(sync_mode.load()); }
int64_t sync_count() noexcept { return waits.load(std::memory_order_relaxed); }

std::vector<SyncSite> sync_sites() {
  std::vector<SyncSite> all;
  {
    std::lock_guard lock(sites().mutex);
    for (const auto& [key, site] : sites().by_stack) {
      const auto same = std::find_if(
          all.begin(), all.end(), [&site = site](const SyncSite& s) { return s.op == site.op && s.site == site.site; });
      if (same == all.end())
        all.push_back(site);
      else
        same->count += site.count;
    }
  }
  std::sort(all.begin(), all.end(), [](const SyncSite& a, const SyncSite& b) {
    return a.count != b.count ? a.count > b.count : a.op != b.op ? a.op < b.op : a.site < b.site;
  });
  return all;
}

namespace detail {

void set_watch_hook(void (*hook)(bool)) noexcept {
  watch_hook = hook;
  tell();
}
void follow_watch_now() {
  // Inside an operator the mask may be put back to what it was: it is set now and looked at again later.
  if (!current_operator) watch_seen = __atomic_load_n(&watch_changes, __ATOMIC_ACQUIRE);
  const bool safe = __atomic_load_n(&stream_safety_mode, __ATOMIC_RELAXED) != 0;
  if (const auto hook = watch_hook.load()) hook(safe || sync_mode.load() != 0 || bad_environment.load());
}
bool safety_sites() noexcept { return with_sites.load(std::memory_order_relaxed); }
void count_race() noexcept { races.fetch_add(1, std::memory_order_relaxed); }

void check_safety_environment() {
  if (!bad_environment.load(std::memory_order_relaxed)) [[likely]]
    return;
  fail<ValueError>("TENON_STREAM_SAFETY: expected off, check or auto, got '", std::getenv("TENON_STREAM_SAFETY"), "'");
}

void note_wait(const char* what) {
  if (quiet > 0) return;
  waits.fetch_add(1, std::memory_order_relaxed);
  const SyncDebugMode mode = sync_debug_mode();
  if (mode == SyncDebugMode::off) [[likely]]
    return;
  std::string place;
  if (watched.depth == 0) {
    count_site(what, &place);
    return;
  }
  const std::string_view op = watched.name;
  TENON_CHECK(mode != SyncDebugMode::error, SyncError, op, ": makes the host wait for the device (", what,
              "), which set_sync_debug_mode(SyncDebugMode::error) forbids");
  if (std::exchange(watched.noted, true)) return;
  if (count_site(op, &place)) warn(concat(op, ": makes the host wait for the device (", what, ")\n  at ", place));
}

WatchedOperator::WatchedOperator(std::string_view name) noexcept {
  if (watched.depth++ == 0) watched = {name, 1, false};
}
WatchedOperator::~WatchedOperator() { --watched.depth; }
QuietWaits::QuietWaits() noexcept { ++quiet; }
QuietWaits::~QuietWaits() { --quiet; }

}  // namespace detail

}  // namespace tenon
