// SPDX-License-Identifier: Apache-2.0
// A management library with two cards: one that tells everything, one that tells its name. For nvml_test.cpp.
#include <cstdint>
#include <cstdio>
#include <cstring>

extern "C" {
#define EXPORT __attribute__((visibility("default")))

EXPORT int nvmlInit_v2() { return 0; }
EXPORT int nvmlSystemGetDriverVersion(char* text, unsigned length) {
  return std::snprintf(text, length, "580.65.06") < 0;
}
EXPORT int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = 2;
  return 0;
}
EXPORT int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  *device = reinterpret_cast<void*>(uintptr_t{index} + 1);
  return 0;
}
EXPORT int nvmlDeviceGetName(void* device, char* text, unsigned length) {
  return std::snprintf(text, length, "Card %d", static_cast<int>(reinterpret_cast<uintptr_t>(device)) - 1) < 0;
}
// 15: the card is lost. What it leaves in its arguments must not be shown.
static bool lost(void* device) { return device == reinterpret_cast<void*>(uintptr_t{2}); }
EXPORT int nvmlDeviceGetPciInfo_v3(void* device, void* info) {
  if (lost(device)) return 15;
  std::strcpy(static_cast<char*>(info) + 16 + 5 * 4, "00000000:3B:00.0");
  return 0;
}
EXPORT int nvmlDeviceGetUtilizationRates(void* device, unsigned* rates) {
  rates[0] = 62, rates[1] = 17;
  return lost(device) ? 15 : 0;
}
EXPORT int nvmlDeviceGetTemperature(void* device, int sensor, unsigned* degrees) {
  *degrees = sensor == 0 ? 41 : 99;
  return lost(device) ? 15 : 0;
}
EXPORT int nvmlDeviceGetMemoryInfo(void* device, unsigned long long* bytes) {
  bytes[0] = 81559ull << 20, bytes[1] = (81559ull - 10240ull) << 20, bytes[2] = 10240ull << 20;
  return lost(device) ? 15 : 0;
}
EXPORT int nvmlDeviceGetPowerUsage(void* device, unsigned* milliwatts) {
  *milliwatts = 312400;
  return lost(device) ? 15 : 0;
}
EXPORT int nvmlDeviceGetEnforcedPowerLimit(void* device, unsigned* milliwatts) {
  *milliwatts = 700000;
  return lost(device) ? 15 : 0;
}
EXPORT int nvmlDeviceGetClockInfo(void* device, int which, unsigned* mhz) {
  *mhz = which == 1 ? 1755 : 2619;
  return lost(device) ? 15 : 0;
}
EXPORT int nvmlDeviceGetMaxClockInfo(void* device, int, unsigned* mhz) {
  *mhz = 1980;
  return lost(device) ? 15 : 0;
}
// The older name of the question, as drivers before 535 have it.
EXPORT int nvmlDeviceGetCurrentClocksThrottleReasons(void* device, unsigned long long* reasons) {
  *reasons = 0x44;
  return lost(device) ? 15 : 0;
}
}
