// SPDX-License-Identifier: Apache-2.0
#include <tenon/core/error.h>
#include <tenon/core/stack_trace.h>
#include <tenon/streams/blame.h>
#include <tenon/streams/failure.h>
#include <tenon/streams/launch_ring.h>
#include <tenon/streams/op_context.h>
#include <tenon/streams/state.h>

#include <cxxabi.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <string_view>

namespace tenon {
namespace {

constexpr int kLargest = 4096, kUsual = 64, kOpWords = 4, kFrames = 20;
constexpr uint64_t kBusy = ~uint64_t{0};

struct alignas(64) Entry {
  uint64_t sequence;  // kBusy while being written
  uint64_t op[kOpWords];
  const void* kernel;
  uint64_t place;  // device type, ordinal, stream
  uint64_t grid, rest;
  void* site[kFrames];
};
constinit Entry ring[kLargest]{};
constinit uint64_t launches = 0, launched = 0;  // atomic
constinit int ring_size = -1;                   // atomic; -1: the environment has not been asked
constinit bool sites = false;                   // atomic

// An acquiring load or a releasing store of each word keeps them in the order of the text.
template <class T>
T load(const T& from) {
  return __atomic_load_n(&from, __ATOMIC_ACQUIRE);
}
template <class T>
void store(T& to, T value) {
  __atomic_store_n(&to, value, __ATOMIC_RELEASE);
}

// ---- names of kernels, by address ----

struct Name {
  const void* kernel;
  const char* text;  // owned, for good
};
constinit Name names[2048]{};
constexpr uint64_t kProbes = 8;

Name& name_slot(const void* kernel, uint64_t probe) {
  const uint64_t hash = (reinterpret_cast<uintptr_t>(kernel) >> 4) * 0x9E3779B97F4A7C15u >> 32;
  return names[(hash + probe) % std::size(names)];
}

[[gnu::noinline, gnu::cold]] void add_name(const void* kernel, const char* (*name_of)(const void*)) {
  for (uint64_t i = 0; i < kProbes; ++i) {
    Name& slot = name_slot(kernel, i);
    const void* expected = nullptr;
    if (__atomic_compare_exchange_n(&slot.kernel, &expected, kernel, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
      const char* text = name_of(kernel);
      store(slot.text, static_cast<const char*>(text ? strdup(text) : nullptr));
      return;
    }
    if (expected == kernel) return;
  }
}

bool has_name(const void* kernel) {
  for (uint64_t i = 0; i < kProbes; ++i) {
    const void* known = load(name_slot(kernel, i).kernel);
    if (known == kernel) return true;
    if (!known) return false;
  }
  return true;  // the table is full there: it stays unnamed
}

// "void a::b<C>(D)" gives "b<C>", cut to what fits a line.
std::string short_name(const char* text) {
  int status = 0;
  char* demangled = abi::__cxa_demangle(text, nullptr, nullptr, &status);
  std::string plain = demangled ? demangled : text;
  std::free(demangled);
  if (status != 0) return plain;
  std::size_t begin = 0, end = plain.size();
  int depth = 0;
  for (std::size_t i = 0; i < plain.size(); ++i) {
    const char c = plain[i];
    if (plain.compare(i, 21, "(anonymous namespace)") == 0) {
      i += 20;
    } else if (c == '<') {
      ++depth;
    } else if (c == '>') {
      --depth;
    } else if (depth == 0 && (c == ' ' || (c == ':' && i + 1 < plain.size() && plain[i + 1] != ':'))) {
      begin = i + 1;
    } else if (depth == 0 && c == '(') {
      end = i;
      break;
    }
  }
  plain = plain.substr(begin, end - begin);
  return plain.size() > 60 ? plain.substr(0, 57) + "..." : plain;
}

std::string name_text(const void* kernel) {
  for (uint64_t i = 0; kernel && i < kProbes; ++i) {
    const Name& slot = name_slot(kernel, i);
    if (load(slot.kernel) != kernel) continue;
    const char* text = load(slot.text);
    return text ? short_name(text) : std::string();
  }
  return {};
}

void check_size(int size) {
  TENON_CHECK(size >= 0 && size <= kLargest, ValueError, "launch ring: expected 0 to ", kLargest, " launches, got ",
              size);
}

[[gnu::noinline, gnu::cold]] int first_size() {
  int size = kUsual;
  if (const char* text = std::getenv("TENON_LAUNCH_RING"); text && *text) {
    char* end = nullptr;
    const long given = std::strtol(text, &end, 10);
    TENON_CHECK(*end == '\0' && given >= 0 && given <= kLargest, ValueError, "TENON_LAUNCH_RING: expected 0 to ",
                kLargest, ", got '", text, "'");
    size = static_cast<int>(given);
  }
  int unknown = -1;
  __atomic_compare_exchange_n(&ring_size, &unknown, size == 0 ? 0 : static_cast<int>(std::bit_ceil(unsigned(size))),
                              false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
  return load(ring_size);
}

int size_now() {
  const int size = load(ring_size);
  return size < 0 ? first_size() : size;
}

bool read(const Entry& e, uint64_t sequence, Launch& out) {
  if (load(e.sequence) != sequence) return false;
  char op[kOpWords * 8];
  for (int i = 0; i < kOpWords; ++i) {
    const uint64_t word = load(e.op[i]);
    std::memcpy(op + 8 * i, &word, 8);
  }
  const void* const kernel = load(e.kernel);
  const uint64_t place = load(e.place), grid = load(e.grid), rest = load(e.rest);
  void* frames[kFrames];
  int count = 0;
  for (void* const& frame : e.site) {
    if (void* address = load(frame)) frames[count++] = address;
  }
  if (load(e.sequence) != sequence) return false;
  op[sizeof op - 1] = '\0';
  out.sequence = sequence;
  out.op = op;
  out.kernel = name_text(kernel);
  out.device = Device(static_cast<DeviceType>(place >> 40), static_cast<int>(place >> 32 & 0xff));
  out.stream = static_cast<int32_t>(place & 0xffffffffu);
  out.grid[0] = static_cast<uint32_t>(grid);
  out.grid[1] = static_cast<uint32_t>(grid >> 32);
  out.grid[2] = static_cast<uint32_t>(rest);
  out.threads = static_cast<uint32_t>(rest >> 32);
  if (count > 0) out.site = site_text(std::span<void* const>(frames, static_cast<std::size_t>(count)), 3);
  return true;
}

}  // namespace

std::string Launch::str() const {
  Message m;
  m << "#" << sequence << " " << (op.empty() ? "(no operator)" : op) << " on " << device.str() << " stream ";
  if (stream < 0) {
    m << "of its own";
  } else {
    m << stream;
  }
  if (!kernel.empty()) m << ": " << kernel;
  if (grid[0] > 0) {
    m << ", " << grid[0];
    if (grid[1] * grid[2] > 1) m << " x " << grid[1] << " x " << grid[2];
    m << " blocks of " << threads;
  }
  if (!site.empty()) m << ", from " << site;
  return m.take();
}

std::vector<Launch> last_launches(int count) {
  std::vector<Launch> found;
  const auto size = static_cast<uint64_t>(size_now());
  const uint64_t last = load(launches);
  for (uint64_t i = 0; i < size && i < last && static_cast<int>(found.size()) < count; ++i) {
    Launch launch;
    if (read(ring[(last - i) & (size - 1)], last - i, launch)) found.push_back(static_cast<Launch&&>(launch));
  }
  return found;
}

uint64_t launch_count() noexcept { return load(launches); }
std::vector<Device> launched_devices() {
  std::vector<Device> found;
  for (const DeviceType type : {kCUDA, kSim}) {
    for (int i = 0; i < kMaxDevices; ++i) {
      const Device device(type, i);
      if (load(launched) >> detail::slot_of(device) & 1u) found.push_back(device);
    }
  }
  return found;
}

void set_launch_ring_size(int size) {
  check_size(size);
  store(ring_size, size == 0 ? 0 : static_cast<int>(std::bit_ceil(unsigned(size))));
}
int launch_ring_size() { return size_now(); }
void record_launch_sites(bool on) noexcept { store(sites, on); }

namespace detail {

uint64_t note_launch(const Stream& stream, const void* kernel, const char* (*name_of)(const void*), uint32_t grid_x,
                     uint32_t grid_y, uint32_t grid_z, uint32_t threads) {
  const Device device = stream.device();
  const uint64_t bit = uint64_t{1} << slot_of(device);
  if (__atomic_load_n(&failed_devices, __ATOMIC_RELAXED) & bit) [[unlikely]]
    fail_broken(device, "launch");
  if (!(__atomic_load_n(&launched, __ATOMIC_RELAXED) & bit)) [[unlikely]]
    __atomic_fetch_or(&launched, bit, __ATOMIC_RELAXED);
  int size = __atomic_load_n(&ring_size, __ATOMIC_RELAXED);
  if (size <= 0) [[unlikely]]
    if ((size = size_now()) == 0) return 0;
  if (kernel && !has_name(kernel)) [[unlikely]]
    add_name(kernel, name_of);

  char op[kOpWords * 8] = {};
  if (const char* text = current_operator) {
    for (std::size_t i = 0; i < sizeof op - 1 && text[i] != '\0' && text[i] != '('; ++i) op[i] = text[i];
  }
  const uint64_t sequence = __atomic_add_fetch(&launches, uint64_t{1}, __ATOMIC_RELAXED);
  Entry& e = ring[sequence & static_cast<uint64_t>(size - 1)];
  if (__atomic_exchange_n(&e.sequence, kBusy, __ATOMIC_ACQ_REL) == kBusy) [[unlikely]]
    return blame_mode() ? sequence : 0;  // Note [Ring entries]
  for (int i = 0; i < kOpWords; ++i) {
    uint64_t word;
    std::memcpy(&word, op + 8 * i, 8);
    store(e.op[i], word);
  }
  store(e.kernel, kernel);
  store(e.place, static_cast<uint64_t>(device.type()) << 40 | static_cast<uint64_t>(device.index()) << 32 |
                     static_cast<uint32_t>(stream.id()));
  store(e.grid, static_cast<uint64_t>(grid_y) << 32 | grid_x);
  store(e.rest, static_cast<uint64_t>(threads) << 32 | grid_z);
  if (__atomic_load_n(&sites, __ATOMIC_RELAXED)) [[unlikely]] {
    void* frames[kFrames] = {};
    capture_stack(frames, kFrames);  // the library's own among them are left out when it is read
    for (int i = 0; i < kFrames; ++i) store(e.site[i], frames[i]);
  } else if (__atomic_load_n(&e.site[0], __ATOMIC_RELAXED)) {
    for (void*& frame : e.site) store(frame, static_cast<void*>(nullptr));
  }
  store(e.sequence, sequence);
  return blame_mode() ? sequence : 0;
}

uint64_t launched_mask() noexcept { return __atomic_load_n(&launched, __ATOMIC_RELAXED); }

}  // namespace detail

}  // namespace tenon
