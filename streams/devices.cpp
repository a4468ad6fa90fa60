// SPDX-License-Identifier: Apache-2.0
#include <tenon/streams/devices.h>
#include <tenon/streams/guard.h>
#include <tenon/streams/raw_streams.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <string>
#include <string_view>

namespace tenon::cuda {

namespace {

int checked_index(const char* what, int index) {
  const int count = tenon::device_count(kCUDA);
  if (count == 0) raw_streams(kCUDA);  // throws the reason
  if (index == -1) index = current_device(kCUDA);
  TENON_CHECK(index >= 0 && index < count, DeviceError, "cuda::", what, ": index: expected an ordinal below ", count,
              ", got ", index);
  return index;
}

// One entry of an architecture list: "90" is machine code and PTX, "-real" only the first, "-virtual" only
// the second; a letter ("90a") ties both to exactly that architecture.
struct Arch {
  int number = 0;  // 10 * major + minor
  bool code = true, ptx = true, exact = false;
};
Arch parse_arch(std::string_view text) {
  Arch arch;
  size_t i = 0;
  for (; i < text.size() && text[i] >= '0' && text[i] <= '9'; ++i) arch.number = arch.number * 10 + (text[i] - '0');
  text.remove_prefix(i);
  if (!text.empty() && text[0] != '-') {
    arch.exact = true;
    text.remove_prefix(1);
  }
  if (text == "-real") arch.ptx = false;
  if (text == "-virtual") arch.code = false;
  return arch;
}

constinit std::atomic<int> blocking{-1};  // -1: the environment has not been asked

}  // namespace

int device_count() noexcept { return tenon::device_count(kCUDA); }

DeviceProperties device_properties(int index) {
  index = checked_index("device_properties", index);
  DeviceProperties properties;
  raw_streams(kCUDA).device_properties(index, properties);
  return properties;
}

std::string device_name(int index) { return device_properties(index).name; }

std::pair<int, int> compute_capability(int index) {
  const DeviceProperties properties = device_properties(index);
  return {properties.major, properties.minor};
}

std::pair<int64_t, int64_t> mem_get_info(int index) {
  const Device device(kCUDA, checked_index("mem_get_info", index));
  DeviceGuard guard(device);
  std::pair<int64_t, int64_t> info;
  raw_streams(kCUDA).memory_info(device.index(), info.first, info.second);
  return info;
}

std::string arch_list() {
  RawStreams* streams = find_raw_streams(kCUDA);
  return streams ? streams->arch_list() : "";
}

int runtime_version() {
  RawStreams* streams = find_raw_streams(kCUDA);
  return streams ? streams->runtime_version() : 0;
}

int driver_version() {
  RawStreams* streams = find_raw_streams(kCUDA);
  return streams ? streams->driver_version() : 0;
}

bool arch_list_covers(const std::string& arch_list, int major, int minor) {
  const int card = major * 10 + minor;
  for (size_t begin = 0; begin < arch_list.size();) {
    const size_t end = std::min(arch_list.find_first_of(";, ", begin), arch_list.size());
    const Arch arch = parse_arch(std::string_view(arch_list).substr(begin, end - begin));
    begin = end + 1;
    if (arch.number == 0) continue;
    if (arch.number == card) return true;
    if (arch.exact || arch.number > card) continue;
    // Machine code runs on later minor versions of its major one, PTX on everything later.
    if (arch.ptx || (arch.code && arch.number / 10 == major)) return true;
  }
  return false;
}

std::string arch_message(const std::string& arch_list, int index, const std::string& name, int major, int minor) {
  return detail::concat("cuda:", index, name.empty() ? "" : " (" + name + ")", " has compute capability ", major, ".",
                        minor, "; tenon was compiled for ", arch_list.empty() ? "none" : arch_list,
                        "\n  Rebuild with -DTENON_CUDA_ARCHITECTURES=", major, minor, ".");
}

bool launch_blocking() noexcept {
  int known = blocking.load(std::memory_order_relaxed);
  if (known < 0) [[unlikely]] {
    const char* text = std::getenv("CUDA_LAUNCH_BLOCKING");
    known = text && std::string_view(text) == "1";
    int unknown = -1;
    if (!blocking.compare_exchange_strong(unknown, known, std::memory_order_relaxed)) known = unknown;
  }
  return known != 0;
}

void set_launch_blocking(bool on) noexcept { blocking.store(on, std::memory_order_relaxed); }

}  // namespace tenon::cuda
