// SPDX-License-Identifier: Apache-2.0
#include <tenon/core/error.h>
#include <tenon/streams/blame.h>
#include <tenon/streams/state.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

namespace tenon {
namespace {

// A stream and its fence. Slots are claimed for good without a lock, so that a fork finds none held.
struct Track {
  uint64_t key;       // atomic; 0: free
  uint32_t* word;     // atomic; what the stream writes; null while it has none
  uint32_t launched;  // atomic; the last number given to a fence
  uint32_t first;     // atomic; what was launched before it has no fence
  uint32_t period;    // atomic; the time of blame mode that `first` is of
};
constexpr int kTracks = 512;
constinit Track tracks[kTracks]{};
constinit uint32_t* words[kDeviceTypes]{};  // atomic; kTracks of each type
using FenceMemory = void* (*)(int64_t bytes);
constinit FenceMemory fence_memory[kDeviceTypes]{};  // atomic
constinit int mode = -1;                             // atomic; -1: the environment has not been asked
constinit uint32_t periods = 0;                      // atomic; how often blame mode was switched on
constinit int ring_before = 64;                      // size of the launch ring without blame mode

template <class T>
T load(const T& from) {
  return __atomic_load_n(&from, __ATOMIC_ACQUIRE);
}
template <class T>
void store(T& to, T value) {
  __atomic_store_n(&to, value, __ATOMIC_RELEASE);
}

// Stores the newer number; returns what was there.
uint32_t raise(uint32_t& to, uint32_t number) {
  uint32_t known = load(to);
  while (static_cast<int32_t>(number - known) > 0 &&
         !__atomic_compare_exchange_n(&to, &known, number, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
  }
  return known;
}

uint64_t key_of(const Stream& s) {
  return uint64_t{1} << 63 | static_cast<uint64_t>(s.device().type()) << 40 |
         static_cast<uint64_t>(s.device().index()) << 32 | static_cast<uint32_t>(s.id());
}
Device device_of(uint64_t key) {
  return Device(static_cast<DeviceType>(key >> 40 & 0xff), static_cast<int>(key >> 32 & 0xff));
}

// Null while there are none: another thread is about to make them, or they cannot be had.
uint32_t* words_of(DeviceType type) {
  static uint32_t being_made;
  uint32_t*& slot = words[static_cast<int>(type)];
  uint32_t* known = load(slot);
  if (known) return known == &being_made ? nullptr : known;
  const auto allocate = load(fence_memory[static_cast<int>(type)]);
  if (!allocate || !__atomic_compare_exchange_n(&slot, &known, &being_made, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
    return nullptr;
  try {
    known = static_cast<uint32_t*>(allocate(kTracks * static_cast<int64_t>(sizeof(uint32_t))));
  } catch (...) {
    store(slot, static_cast<uint32_t*>(nullptr));
    throw;
  }
  store(slot, known);
  return known;
}

// The stream's; a new one unless `known`: only what is there.
Track* find(const Stream& stream, uint32_t sequence, bool known) {
  const uint64_t key = key_of(stream);
  for (int i = 0; i < kTracks; ++i) {
    Track& t = tracks[i];
    uint64_t found = load(t.key);
    if (found == key) return &t;
    if (found != 0) continue;
    if (known) return nullptr;
    uint32_t* base = words_of(stream.device().type());
    if (!base) return nullptr;
    if (!__atomic_compare_exchange_n(&t.key, &found, key, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
      if (found == key) return &t;
      continue;
    }
    store(t.period, load(periods));
    store(t.first, sequence);
    store(t.launched, sequence - 1);
    store(base[i], sequence - 1);
    store(t.word, base + i);
    return &t;
  }
  return nullptr;
}

bool first_mode() {
  const char* text = std::getenv("TENON_BLAME");
  const bool on = text && std::string_view(text) == "1";
  int unknown = -1;
  if (!__atomic_compare_exchange_n(&mode, &unknown, int{on}, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) return unknown;
  if (on) set_blame_mode(true);
  return on;
}

}  // namespace

void set_blame_mode(bool on) {
  if (on) {
    if (const int size = launch_ring_size(); size < 4096) ring_before = size;
    set_launch_ring_size(4096);
  } else if (load(mode) == 1) {
    set_launch_ring_size(ring_before);
  }
  if (on && load(mode) != 1) __atomic_add_fetch(&periods, 1u, __ATOMIC_ACQ_REL);
  store(mode, int{on});
}

bool blame_mode() noexcept {
  const int known = __atomic_load_n(&mode, __ATOMIC_RELAXED);
  if (known >= 0) [[likely]]
    return known != 0;
  try {
    return first_mode();
  } catch (...) {  // the ring's setting is wrong, which note_launch says
    return false;
  }
}

std::vector<Launch> suspects(Device device) {
  std::vector<Launch> found;
  std::vector<Launch> launches;
  for (const detail::FencedStream& s : detail::fenced_streams()) {
    if (s.device != device || static_cast<int32_t>(s.launched - s.finished) <= 0) continue;
    if (launches.empty()) launches = last_launches();
    // The list is newest first: the last match is the oldest.
    const Launch* oldest = nullptr;
    for (const Launch& l : launches) {
      const auto after = static_cast<int32_t>(static_cast<uint32_t>(l.sequence) - s.finished);
      if (l.device == device && l.stream == s.stream && after > 0) oldest = &l;
    }
    if (oldest) found.push_back(*oldest);
  }
  std::sort(found.begin(), found.end(), [](const Launch& a, const Launch& b) { return a.sequence < b.sequence; });
  return found;
}

namespace detail {

void fence_launch(const Stream& stream, uint64_t sequence) {
  RawStreams* raw = registered_raw_streams(stream.device().type());
  if (!raw || stream.id() < 0) return;
  const auto number = static_cast<uint32_t>(sequence);
  const int device = stream.device().index();
  Track* track = find(stream, number, true);
  // Before the question, which may be the first to hear of a fault: the launch is a suspect then.
  const uint32_t before = track ? raise(track->launched, number) : 0;
  if (raw->is_capturing(device, stream.handle())) {
    if (!track) return;
    store(track->launched, before);
    store(track->period, load(periods));
    store(track->first, number + 1);
    return;
  }
  if (!track) track = find(stream, number, false);  // its words must not come from the memory of a graph
  uint32_t* word = track ? load(track->word) : nullptr;
  if (!word) return;
  if (load(track->period) != load(periods)) {
    store(track->period, load(periods));
    store(track->first, number);
  }
  raise(track->launched, number);
  // Threads that share the stream may write in another order than they launched: the last write has the newest number.
  for (uint32_t written = number, newest = number;; written = newest) {
    if (!raw->write_word(device, stream.handle(), word, written)) return store(track->launched, load(*word));
    newest = load(track->launched);
    if (newest == written) return;
  }
}

void set_fence_memory(DeviceType type, FenceMemory allocate) noexcept {
  store(fence_memory[static_cast<int>(type)], allocate);
}

std::vector<FencedStream> fenced_streams() {
  std::vector<FencedStream> found;
  for (const Track& t : tracks) {
    const uint64_t key = load(t.key);
    const uint32_t* word = load(t.word);
    if (key == 0) break;
    if (!word) continue;
    const uint32_t launched = load(t.launched), before = load(t.first) - 1;
    uint32_t finished = load(*word);
    if (static_cast<int32_t>(before - finished) > 0 && launched != finished) finished = before;
    found.push_back({device_of(key), static_cast<int32_t>(key & 0xffffffffu), launched, finished});
  }
  return found;
}

void forget_fences(DeviceType type) noexcept {
  for (Track& t : tracks) {
    const uint64_t key = load(t.key);
    if (key == 0) break;
    // The slot stays the stream's; nothing is under way there.
    if (uint32_t* word = load(t.word); word && device_of(key).type() == type) store(*word, load(t.launched));
  }
}

}  // namespace detail

}  // namespace tenon
