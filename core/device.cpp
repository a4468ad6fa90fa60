// SPDX-License-Identifier: Apache-2.0
#include <tenon/core/device.h>

namespace tenon {

const char* name(DeviceType type) {
  static constexpr const char* kNames[] = {"cpu", "cuda", "meta", "sim"};
  return kNames[static_cast<int>(type)];
}

const char* name(Backend backend) {
  static constexpr const char* kNames[] = {"cpu", "cuda", "meta", "sim", "sparse_cpu", "sparse_cuda", "user1", "user2"};
  return kNames[static_cast<int>(backend)];
}

namespace detail {
void bad_device(DeviceType type, int index) {
  const bool several = type == kCUDA || type == kSim;
  fail<DeviceError>("device: index: expected ", several ? "-1 (the current one) or 0 to " : "0: there is one ",
                    several ? std::to_string(kMaxDevices - 1) : std::string(name(type)), ", got ", index);
}
}  // namespace detail

Device::Device(std::string_view text) {
  const std::size_t colon = text.find(':');
  const std::string_view type = text.substr(0, colon);
  bool good = false;
  for (int i = 0; i < kDeviceTypes; ++i) {
    if (type == name(static_cast<DeviceType>(i))) {
      *this = Device(static_cast<DeviceType>(i));
      good = true;
    }
  }
  if (good && colon != std::string_view::npos) {
    const std::string_view digits = text.substr(colon + 1);
    int index = 0;
    good = !digits.empty() && digits.size() <= 2;
    for (const char c : digits) {
      good = good && c >= '0' && c <= '9';
      index = index * 10 + (c - '0');
    }
    good = good && (type_ == kCUDA || type_ == kSim ? index < kMaxDevices : index == 0);
    if (good) *this = Device(type_, index);
  }
  TENON_CHECK(good, DeviceError, "device: expected cpu, cuda, cuda:N, meta or sim:N with N < ", kMaxDevices, ", got \"",
              text, "\"");
}

std::string Device::str() const {
  std::string text = name(type_);
  if ((type_ == kCUDA || type_ == kSim) && index_ >= 0) text += ":" + std::to_string(index_);
  return text;
}

Message& operator<<(Message& m, const Device& device) { return m << device.str(); }
Message& operator<<(Message& m, Backend backend) { return m << name(backend); }

}  // namespace tenon
