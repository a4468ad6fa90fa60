// SPDX-License-Identifier: Apache-2.0
// IntArrayRef: a borrowed list of int64 (sizes, strides, dims), made from {2, 3}, a vector, an array or one
// integer, which it holds itself. DimVector: an owned one with room for the largest rank, no heap.
#pragma once

#include <tenon/core/error.h>

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <vector>

namespace tenon {

inline constexpr int kMaxDims = 16;    ///< largest rank of a tensor
inline constexpr int kInlineDims = 6;  ///< ranks up to this one cost no heap block

/// Does not own: valid while what it was made from lives. As a parameter this is always enough; std::optional of it may
/// be made from one integer (`op::sum(x, 1)`), because that is kept by value.
class IntArrayRef {
 public:
  constexpr IntArrayRef() : data_(nullptr) {}
  constexpr IntArrayRef(const int64_t* data, std::size_t size) : data_(data), size_(static_cast<uint32_t>(size)) {}
  constexpr IntArrayRef(std::initializer_list<int64_t> list) : IntArrayRef(list.begin(), list.size()) {}  // NOLINT
  IntArrayRef(const std::vector<int64_t>& v) : IntArrayRef(v.data(), v.size()) {}                         // NOLINT
  constexpr IntArrayRef(std::span<const int64_t> s) : IntArrayRef(s.data(), s.size()) {}                  // NOLINT
  template <std::size_t N>
  constexpr IntArrayRef(const std::array<int64_t, N>& a) : IntArrayRef(a.data(), N) {}  // NOLINT
  constexpr IntArrayRef(int64_t one) : one_(one), size_(1), holds_(true) {}             // NOLINT

  constexpr const int64_t* data() const { return holds_ ? &one_ : data_; }
  constexpr std::size_t size() const { return size_; }
  constexpr bool empty() const { return size_ == 0; }
  constexpr const int64_t* begin() const { return data(); }
  constexpr const int64_t* end() const { return data() + size_; }
  constexpr int64_t operator[](std::size_t i) const { return data()[i]; }
  constexpr int64_t back() const { return data()[size_ - 1]; }
  constexpr IntArrayRef slice(std::size_t from, std::size_t count) const {
    return !holds_ ? IntArrayRef(data_ + from, count) : count == 1 ? *this : IntArrayRef();
  }
  std::vector<int64_t> vec() const { return {begin(), end()}; }
  friend constexpr bool operator==(IntArrayRef a, IntArrayRef b) {
    if (a.size_ != b.size_) return false;
    for (std::size_t i = 0; i < a.size_; ++i)
      if (a[i] != b[i]) return false;
    return true;
  }

 private:
  union {
    const int64_t* data_;
    int64_t one_;
  };
  uint32_t size_ = 0;
  bool holds_ = false;
};
static_assert(sizeof(IntArrayRef) == 16, "passed in two registers");

/// Up to kMaxDims integers by value. push_back beyond that throws ShapeError.
class DimVector {
 public:
  DimVector() : size_(0) {}
  explicit DimVector(std::size_t n, int64_t fill = 0) : size_(0) { resize(n, fill); }
  DimVector(IntArrayRef a) : size_(0) {  // NOLINT(google-explicit-constructor)
    check(a.size());
    for (int64_t v : a) items_[size_++] = v;
  }
  DimVector(std::initializer_list<int64_t> l) : DimVector(IntArrayRef(l)) {}
  DimVector(const DimVector& o) : DimVector(IntArrayRef(o)) {}
  DimVector& operator=(const DimVector& o) {
    size_ = o.size_;
    for (std::size_t i = 0; i < size_; ++i) items_[i] = o.items_[i];
    return *this;
  }
  operator IntArrayRef() const { return {items_, size_}; }  // NOLINT(google-explicit-constructor)
  int64_t* data() { return items_; }
  const int64_t* data() const { return items_; }
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  int64_t& operator[](std::size_t i) { return items_[i]; }
  int64_t operator[](std::size_t i) const { return items_[i]; }
  int64_t* begin() { return items_; }
  int64_t* end() { return items_ + size_; }
  const int64_t* begin() const { return items_; }
  const int64_t* end() const { return items_ + size_; }
  int64_t back() const { return items_[size_ - 1]; }
  void push_back(int64_t v) {
    check(size_ + 1);
    items_[size_++] = v;
  }
  void pop_back() { --size_; }
  void clear() { size_ = 0; }
  void resize(std::size_t n, int64_t fill = 0) {
    check(n);
    for (; size_ < n; ++size_) items_[size_] = fill;
    size_ = n;
  }
  void insert(std::size_t at, int64_t v) {
    push_back(v);
    for (std::size_t i = size_ - 1; i > at; --i) items_[i] = items_[i - 1];
    items_[at] = v;
  }
  void erase(std::size_t at) {
    for (std::size_t i = at; i + 1 < size_; ++i) items_[i] = items_[i + 1];
    --size_;
  }

 private:
  static void check(std::size_t n) {
    TENON_CHECK(n <= kMaxDims, ShapeError, "a tensor has at most ", kMaxDims, " dimensions, got ", n);
  }
  int64_t items_[kMaxDims];
  std::size_t size_;
};

TENON_API Message& operator<<(Message& m, IntArrayRef a);
inline Message& operator<<(Message& m, const DimVector& v) { return m << IntArrayRef(v); }

}  // namespace tenon
