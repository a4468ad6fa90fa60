// SPDX-License-Identifier: Apache-2.0
// PackedSave: a saved tensor that went through hooks, as a node keeps it. Internal.
#pragma once

#include <tenon/autograd/node.h>
#include <tenon/autograd/saved_hooks.h>

namespace tenon::autograd {

class PackedSave {
 public:
  PackedSave() = default;
  /// Packs `t` by the hooks of this thread; `who` is named in errors.
  PackedSave(const Tensor& t, std::string_view who);
  explicit operator bool() const { return static_cast<bool>(packed_); }
  /// The tensor, checked, without history.
  Tensor unpack(std::string_view who) const;
  int64_t bytes() const;
  const DimVector& sizes() const { return sizes_; }
  DType dtype() const { return dtype_; }

 private:
  Ref<PackedTensor> packed_;
  DimVector sizes_;
  DType dtype_ = DType::undefined;
  Device device_;
};

/// A new tensor with the data of `t` whose gradient goes to `edge` (nowhere if that is empty).
Tensor with_history(const Tensor& t, const Edge& edge);

}  // namespace tenon::autograd
