// SPDX-License-Identifier: Apache-2.0
#include <tenon/core/error.h>

#include <cstdio>

namespace tenon {

Error::Error(std::string message) : message_(static_cast<std::string&&>(message)) {}
Error::~Error() = default;
const char* Error::what() const noexcept { return message_.c_str(); }
std::string Error::detail() const { return message_; }

// The destructors anchor each class's type information in this library, so that exceptions cross the
// boundary of shared objects.
ShapeError::~ShapeError() = default;
DtypeError::~DtypeError() = default;
DeviceError::~DeviceError() = default;
IndexError::~IndexError() = default;
ValueError::~ValueError() = default;
AliasError::~AliasError() = default;
AutogradError::~AutogradError() = default;
SchemaError::~SchemaError() = default;
RegistrationError::~RegistrationError() = default;
IoError::~IoError() = default;
CudaError::~CudaError() = default;
ArchError::~ArchError() = default;
CaptureError::~CaptureError() = default;
LibraryError::~LibraryError() = default;
InternalError::~InternalError() = default;

OutOfMemoryError::OutOfMemoryError(std::string message, const MemoryNumbers& numbers)
    : Error(static_cast<std::string&&>(message)), numbers_(numbers) {}
OutOfMemoryError::~OutOfMemoryError() = default;

Message& Message::operator<<(const char* text) {
  text_ += text ? text : "(null)";
  return *this;
}
Message& Message::operator<<(const std::string& text) {
  text_ += text;
  return *this;
}
Message& Message::operator<<(std::string_view text) {
  text_ += text;
  return *this;
}
Message& Message::operator<<(char c) {
  text_ += c;
  return *this;
}
Message& Message::operator<<(bool v) { return *this << (v ? "true" : "false"); }
Message& Message::operator<<(double v) {
  char buffer[40];
  std::snprintf(buffer, sizeof buffer, "%.9g", v);
  return *this << buffer;
}
Message& Message::operator<<(const void* v) {
  char buffer[24];
  std::snprintf(buffer, sizeof buffer, "%p", v);
  return *this << buffer;
}
Message& Message::operator<<(long long v) { return *this << std::to_string(v); }
Message& Message::operator<<(unsigned long long v) { return *this << std::to_string(v); }

namespace detail {
void fail_assert(const char* condition, const char* file, int line, const std::string& message) {
  throw InternalError(
      concat("tenon bug: ", condition, " failed at ", file, ":", line, message.empty() ? "" : ": ", message));
}
}  // namespace detail

}  // namespace tenon
