// SPDX-License-Identifier: Apache-2.0
// The two nodes that in-place writes through views need: the gradient of a view taken from its base, and the rewritten
// history of a base. Internal.
#pragma once

#include <tenon/autograd/node.h>

namespace tenon::autograd {

/// Sizes, strides and offset, in elements of one storage.
struct Geometry {
  DimVector sizes, strides;
  int64_t offset = 0;
  DType dtype = DType::undefined;
  Geometry() = default;
  explicit Geometry(const TensorImpl& t)
      : sizes(t.sizes()), strides(t.strides()), offset(t.offset()), dtype(t.dtype()) {}
  /// The same elements in real numbers: of complex ones the parts, which are a last dimension of 2.
  Geometry in_parts() const;
};

/// The node of `view` derived from that of its base: backward puts the gradient into zeros of the base's geometry.
Ref<Node> make_view_node(const Geometry& base, const Geometry& view, Device device, Edge base_edge);

/// Note [Writes through views]. `view.op_(...)` changes part of the base, so the base's history becomes: everything
/// outside the view as before, the view's part through the operator. Backward copies the gradient of the base, lets
/// the operator's node (`write`, recorded for the view) treat the view's part, and writes the gradient it returns for
/// the view back there. Edge `slot`, which was the view's in `write`, leads to the base's former history, the others are
/// those of `write`.
Ref<Node> make_copy_slices(const TensorImpl& base, const TensorImpl& view, Edge base_edge, Ref<Node> write,
                           std::size_t slot = 0);

/// AutogradError, beginning with `op` and `what`, when `self` cannot be written in place while recording.
void check_inplace(std::string_view op, const char* what, const Tensor& self, bool self_takes_part);

}  // namespace tenon::autograd
