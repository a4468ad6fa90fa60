// SPDX-License-Identifier: Apache-2.0
// Operand: an argument that is a tensor or a number. A number is carried by value to the kernel, so `a + 2.0`
// makes no tensor. Borrows the tensor: for parameters only.
#pragma once

#include <tenon/core/tensor.h>

namespace tenon {

class Operand {
 public:
  Operand(const Tensor& t) : tensor_(&t) {}  // NOLINT(google-explicit-constructor)
  Operand(const Scalar& s) : number_(s) {}   // NOLINT(google-explicit-constructor)
  template <class T, class = decltype(Scalar(std::declval<T>())), class = std::enable_if_t<!std::is_same_v<T, Scalar>>>
  Operand(T v) : number_(v) {}  // NOLINT(google-explicit-constructor)

  bool is_tensor() const { return tensor_ != nullptr; }
  const Tensor& tensor() const { return *tensor_; }
  const Scalar& number() const { return number_; }
  bool requires_grad() const { return tensor_ && tensor_->defined() && tensor_->requires_grad(); }
  DType dtype() const { return tensor_ ? tensor_->dtype() : number_.dtype(); }

 private:
  const Tensor* tensor_ = nullptr;
  Scalar number_;
};

}  // namespace tenon
