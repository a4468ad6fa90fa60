// SPDX-License-Identifier: Apache-2.0
// Function<R(Args...)>: a move-only callable with four words of inline storage. It exists because
// <functional> alone costs a user's file about as much as all of tenon's headers.
#pragma once

#include <cstddef>
#include <new>
#include <type_traits>
#include <utility>

namespace tenon {

template <class Signature>
class Function;

template <class R, class... Args>
class Function<R(Args...)> {
  static constexpr std::size_t kInline = 4 * sizeof(void*);
  template <class F>
  static constexpr bool kFits = sizeof(F) <= kInline &&
                                alignof(F) <= alignof(std::max_align_t) && std::is_nothrow_move_constructible_v<F>;

 public:
  Function() = default;
  Function(std::nullptr_t) {}  // NOLINT(google-explicit-constructor)
  template <class F, class = std::enable_if_t<!std::is_same_v<std::decay_t<F>, Function> &&
                                              std::is_invocable_r_v<R, std::decay_t<F>&, Args...>>>
  Function(F&& f) {  // NOLINT(google-explicit-constructor)
    using Stored = std::decay_t<F>;
    if constexpr (kFits<Stored>) {
      ::new (static_cast<void*>(buffer_)) Stored(std::forward<F>(f));
      object_ = buffer_;
    } else {
      object_ = new Stored(std::forward<F>(f));
    }
    call_ = [](void* object, Args... args) -> R {
      return (*static_cast<Stored*>(object))(std::forward<Args>(args)...);
    };
    manage_ = [](Function* to, Function* from) noexcept {
      if constexpr (kFits<Stored>) {
        auto* stored = static_cast<Stored*>(from->object_);
        if (to) {
          ::new (static_cast<void*>(to->buffer_)) Stored(std::move(*stored));
          to->object_ = to->buffer_;
        }
        stored->~Stored();
      } else if (to) {
        to->object_ = from->object_;
      } else {
        delete static_cast<Stored*>(from->object_);
      }
    };
  }
  Function(Function&& other) noexcept { take(other); }
  Function& operator=(Function&& other) noexcept {
    if (this != &other) {
      reset();
      take(other);
    }
    return *this;
  }
  Function(const Function&) = delete;
  Function& operator=(const Function&) = delete;
  ~Function() { reset(); }

  R operator()(Args... args) const { return call_(object_, std::forward<Args>(args)...); }
  explicit operator bool() const { return call_ != nullptr; }

 private:
  void take(Function& other) noexcept {
    call_ = other.call_;
    manage_ = other.manage_;
    if (manage_) manage_(this, &other);
    other.call_ = nullptr;
    other.manage_ = nullptr;
  }
  void reset() noexcept {
    if (manage_) manage_(nullptr, this);
    call_ = nullptr;
    manage_ = nullptr;
  }

  void* object_ = nullptr;
  R (*call_)(void*, Args...) = nullptr;
  void (*manage_)(Function*, Function*) noexcept = nullptr;
  alignas(std::max_align_t) unsigned char buffer_[kInline];
};

}  // namespace tenon
