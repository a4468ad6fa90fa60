// SPDX-License-Identifier: Apache-2.0
// Counted objects without <atomic> or <memory>: a 32-bit count beside the data, and the pointer that keeps it.
// The count is atomic, so handles may be copied and dropped on any thread; one handle object is not to be
// written by two threads at once (the contract of std::shared_ptr).
#pragma once

#include <cstdint>
#include <utility>

namespace tenon {

/// Base of counted objects. T provides `static void destroy(T*) noexcept`.
class Counted {
 public:
  void retain() const noexcept { __atomic_fetch_add(&count_, 1u, __ATOMIC_RELAXED); }
  /// True when the caller held the last reference and must destroy the object.
  bool release() const noexcept {
    // A sole owner needs no locked instruction: nobody else can hold or make a reference.
    if (__atomic_load_n(&count_, __ATOMIC_ACQUIRE) == 1u) return true;
    return __atomic_fetch_sub(&count_, 1u, __ATOMIC_ACQ_REL) == 1u;
  }
  uint32_t use_count() const noexcept { return __atomic_load_n(&count_, __ATOMIC_RELAXED); }

 private:
  mutable uint32_t count_ = 1;
};

/// Owning pointer to a Counted T.
template <class T>
class Ref {
 public:
  constexpr Ref() = default;
  constexpr Ref(std::nullptr_t) {}  // NOLINT(google-explicit-constructor)
  /// Takes over the reference that `p` was born with.
  static Ref adopt(T* p) {
    Ref r;
    r.p_ = p;
    return r;
  }
  /// Adds a reference.
  static Ref share(T* p) {
    if (p) p->retain();
    return adopt(p);
  }
  Ref(const Ref& o) : p_(o.p_) {
    if (p_) p_->retain();
  }
  Ref(Ref&& o) noexcept : p_(o.p_) { o.p_ = nullptr; }
  Ref& operator=(const Ref& o) {
    Ref copy(o);
    std::swap(p_, copy.p_);
    return *this;
  }
  Ref& operator=(Ref&& o) noexcept {
    std::swap(p_, o.p_);
    return *this;
  }
  ~Ref() {
    if (p_ && p_->release()) T::destroy(p_);
  }
  T* get() const { return p_; }
  T* operator->() const { return p_; }
  T& operator*() const { return *p_; }
  explicit operator bool() const { return p_ != nullptr; }
  bool operator==(const Ref& o) const { return p_ == o.p_; }
  /// Gives the reference away.
  T* leak() { return std::exchange(p_, nullptr); }

 private:
  T* p_ = nullptr;
};

}  // namespace tenon
