// SPDX-License-Identifier: Apache-2.0
// Devices and backends. A device is where memory lives; a backend is which column of an operator's
// kernel table serves a tensor there (a sparse tensor on the CPU has another backend, not another device).
#pragma once

#include <tenon/core/error.h>

#include <cstdint>
#include <string_view>

namespace tenon {

enum class DeviceType : uint8_t { cpu = 0, cuda = 1, meta = 2, sim = 3 };
inline constexpr DeviceType kCPU = DeviceType::cpu;
inline constexpr DeviceType kCUDA = DeviceType::cuda;
inline constexpr DeviceType kMeta = DeviceType::meta;  ///< shapes without memory
inline constexpr DeviceType kSim = DeviceType::sim;    ///< the simulated device
inline constexpr int kDeviceTypes = 4;
inline constexpr int kMaxDevices = 16;  ///< per type

/// First index of an operator's kernel table. user1 and user2 are free for extensions.
enum class Backend : uint8_t { cpu = 0, cuda, meta, sim, sparse_cpu, sparse_cuda, user1, user2 };
inline constexpr int kBackends = 8;

namespace detail {
[[noreturn, gnu::cold]] TENON_API void bad_device(DeviceType type, int index);
}

/// A device type and an ordinal. `index` is 0 for the CPU; Device(kCUDA) means "the current one" and is
/// resolved to an ordinal when a tensor is made. DeviceError: an index the type cannot have (cpu:1, cuda:16).
class TENON_API Device {
 public:
  constexpr Device() = default;
  constexpr Device(DeviceType type, int index = -1)  // NOLINT(google-explicit-constructor)
      : type_(type), index_(static_cast<int8_t>(type == kCUDA || type == kSim ? index : 0)) {
    if (index < -1 || index >= (type == kCUDA || type == kSim ? kMaxDevices : 1)) [[unlikely]]
      detail::bad_device(type, index);
  }
  /// Parses "cpu", "cuda", "cuda:1", "meta", "sim:0"; throws DeviceError on anything else.
  explicit Device(std::string_view text);

  constexpr DeviceType type() const { return type_; }
  constexpr int index() const { return index_; }
  constexpr bool has_index() const { return index_ >= 0; }
  constexpr bool is_cpu() const { return type_ == kCPU; }
  constexpr bool is_cuda() const { return type_ == kCUDA; }
  constexpr bool is_meta() const { return type_ == kMeta; }
  constexpr bool is_sim() const { return type_ == kSim; }
  constexpr bool operator==(const Device&) const = default;
  std::string str() const;

 private:
  DeviceType type_ = kCPU;
  int8_t index_ = 0;
};

constexpr Backend backend_of(DeviceType type) { return static_cast<Backend>(type); }
TENON_API const char* name(DeviceType type);
TENON_API const char* name(Backend backend);
TENON_API Message& operator<<(Message& m, const Device& device);
TENON_API Message& operator<<(Message& m, Backend backend);

}  // namespace tenon
