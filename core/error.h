// SPDX-License-Identifier: Apache-2.0
// Errors. Three macros, one form: TENON_CHECK for what the caller got wrong, TENON_ASSERT for what the
// library got wrong, TENON_CUDA and its sisters (streams/cuda_check.h, ...) for a failing vendor API.
// Text: operator, argument, expected, got, in at most three lines. The library throws; it never aborts
// and never prints to stdout. Messages are built only on failure, out of line.
#pragma once

#include <tenon/core/api.h>

#include <cstdint>
#include <exception>
#include <string>
#include <string_view>

namespace tenon {

/// Base of everything tenon throws. Copyable, safe to move between threads.
class TENON_API Error : public std::exception {
 public:
  explicit Error(std::string message);
  ~Error() override;
  const char* what() const noexcept override;
  /// The long form: what() plus everything recorded about the failure (default: what()).
  virtual std::string detail() const;

 private:
  std::string message_;
};

#define TENON_ERROR_TYPE(Name, Base)   \
  class TENON_API Name : public Base { \
   public:                             \
    using Base::Base;                  \
    ~Name() override;                  \
  }
TENON_ERROR_TYPE(ShapeError, Error);         ///< sizes, ranks, strides, dimensions
TENON_ERROR_TYPE(DtypeError, Error);         ///< dtypes and promotion
TENON_ERROR_TYPE(DeviceError, Error);        ///< devices, backends, missing kernels
TENON_ERROR_TYPE(IndexError, Error);         ///< an index or dimension out of range
TENON_ERROR_TYPE(ValueError, Error);         ///< an argument's value
TENON_ERROR_TYPE(AliasError, Error);         ///< overlapping memory, forbidden writes through views
TENON_ERROR_TYPE(AutogradError, Error);      ///< gradients: leaves, versions, missing formulas
TENON_ERROR_TYPE(SchemaError, Error);        ///< boxed calls: unknown operator, wrong argument
TENON_ERROR_TYPE(RegistrationError, Error);  ///< two different kernels for one cell
TENON_ERROR_TYPE(IoError, Error);            ///< files and their formats
TENON_ERROR_TYPE(CudaError, Error);          ///< a CUDA API or kernel failure
TENON_ERROR_TYPE(ArchError, CudaError);      ///< no machine code for this card
TENON_ERROR_TYPE(CaptureError, CudaError);   ///< not allowed while a graph is captured
TENON_ERROR_TYPE(LibraryError, Error);       ///< a vendor library is absent or failed
TENON_ERROR_TYPE(InternalError, Error);      ///< a bug in tenon
#undef TENON_ERROR_TYPE

/// Numbers an out-of-memory failure was decided on, in bytes.
struct MemoryNumbers {
  int64_t requested = 0, free = 0, total = 0, reserved = 0, allocated = 0, largest_free_block = 0;
};

/// Memory could not be had even after every cached block was given back. Free something and retry.
class TENON_API OutOfMemoryError : public Error {
 public:
  OutOfMemoryError(std::string message, const MemoryNumbers& numbers);
  ~OutOfMemoryError() override;
  const MemoryNumbers& numbers() const noexcept { return numbers_; }

 private:
  MemoryNumbers numbers_;
};

/// Builds the text of an error. Other headers add `Message& operator<<(Message&, const T&)`.
class TENON_API Message {
 public:
  Message& operator<<(const char* text);
  Message& operator<<(const std::string& text);
  Message& operator<<(std::string_view text);
  Message& operator<<(char c);
  Message& operator<<(bool v);
  Message& operator<<(double v);
  Message& operator<<(const void* v);
  Message& operator<<(long long v);
  Message& operator<<(unsigned long long v);
  Message& operator<<(int v) { return *this << static_cast<long long>(v); }
  Message& operator<<(long v) { return *this << static_cast<long long>(v); }
  Message& operator<<(unsigned v) { return *this << static_cast<unsigned long long>(v); }
  Message& operator<<(unsigned long v) { return *this << static_cast<unsigned long long>(v); }
  std::string take() { return static_cast<std::string&&>(text_); }

 private:
  std::string text_;
};

namespace detail {
template <class... Args>
[[gnu::noinline, gnu::cold]] std::string concat(const Args&... args) {
  Message message;
  (message << ... << args);
  return message.take();
}
template <class E, class... Args>
[[noreturn, gnu::noinline, gnu::cold]] void fail(const Args&... args) {
  throw E(concat(args...));
}
[[noreturn, gnu::cold]] TENON_API void fail_assert(const char* condition, const char* file, int line,
                                                   const std::string& message);
}  // namespace detail

/// TENON_CHECK(a.dim() == 2, ShapeError, "mm: self must be 2-D, got ", a.dim(), "-D");
#define TENON_CHECK(condition, ErrorType, ...)                \
  do {                                                        \
    if (!(condition)) [[unlikely]]                            \
      ::tenon::detail::fail<::tenon::ErrorType>(__VA_ARGS__); \
  } while (false)

/// An invariant of the library itself; failing it is a bug of ours, never of the caller.
#define TENON_ASSERT(condition, ...)                                                        \
  do {                                                                                      \
    if (!(condition)) [[unlikely]]                                                          \
      ::tenon::detail::fail_assert(#condition, __FILE__, __LINE__,                          \
                                   ::tenon::detail::concat("" __VA_OPT__(, ) __VA_ARGS__)); \
  } while (false)

}  // namespace tenon
