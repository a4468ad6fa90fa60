// SPDX-License-Identifier: Apache-2.0
#include <tenon/autograd/view_node.h>
#include <tenon/core/operand.h>
#include <tenon/dispatch/make_tensor.h>
#include <tenon/ops/backward.h>

namespace tenon::autograd {
namespace {

class ViewNode final : public Node {
 public:
  ViewNode(const Geometry& base, const Geometry& view, Device device, Edge edge) : base_(base), view_(view) {
    set_edges({&edge, 1});
    set_device(device);
  }
  std::string name() const override { return "as_strided"; }
  void apply(std::span<Tensor> grads, std::span<Tensor> results) override {
    if (!should_compute(0)) return;
    results[0] = op::as_strided_backward(grads[0], view_.sizes, view_.strides, view_.offset, base_.sizes, base_.strides,
                                         base_.offset);
  }

 private:
  Geometry base_, view_;
};

class CopySlices final : public Node {
 public:
  CopySlices(const TensorImpl& base, const TensorImpl& view, Edge edge, Ref<Node> write, std::size_t slot)
      : base_(base), view_(view), write_(static_cast<Ref<Node>&&>(write)), slot_(slot) {
    const std::span<const Edge> inner = write_->edges();
    std::vector<Edge> edges(inner.begin(), inner.end());
    if (edges.empty()) edges.emplace_back();
    edges[slot] = edge;
    set_edges(edges);
    if (!inner.empty()) write_->replace_edge(slot, static_cast<Edge&&>(edge));  // what it is asked for is wanted there
    set_device(view.device());
  }
  std::string name() const override { return write_->name() + "_ (through a view)"; }

  void apply(std::span<Tensor> grads, std::span<Tensor> results) override {
    // A copy with the base's own strides, so that the view's geometry fits it.
    Tensor whole = dispatch::make_tensor(base_.sizes, grads[0].dtype(), grads[0].device(), base_.strides);
    whole.copy_(grads[0]);
    grads[0].reset();
    Tensor part = whole.as_strided(view_.sizes, view_.strides, view_.offset - base_.offset);
    Tensor received = part.clone();
    write_->apply({&received, 1}, results);
    if (!should_compute(slot_)) return;
    if (results[slot_].defined())
      part.copy_(results[slot_]);
    else
      part.zero_();
    results[slot_] = static_cast<Tensor&&>(whole);
  }
  void release_saved() noexcept override { write_->release_saved(); }
  void visit_saved(const SavedVisitor& f) const override { write_->visit_saved(f); }
  std::pair<IntArrayRef, DType> input_geometry(std::size_t i) const override {
    const std::pair<IntArrayRef, DType> part = write_->input_geometry(i);
    return i == slot_ ? std::pair<IntArrayRef, DType>{base_.sizes, part.second} : part;
  }

 private:
  Geometry base_, view_;
  Ref<Node> write_;
  std::size_t slot_;
};

}  // namespace

Ref<Node> make_view_node(const Geometry& base, const Geometry& view, Device device, Edge base_edge) {
  return Ref<Node>::adopt(new ViewNode(base, view, device, static_cast<Edge&&>(base_edge)));
}

Ref<Node> make_copy_slices(const TensorImpl& base, const TensorImpl& view, Edge base_edge, Ref<Node> write,
                           std::size_t slot) {
  return Ref<Node>::adopt(
      new CopySlices(base, view, static_cast<Edge&&>(base_edge), static_cast<Ref<Node>&&>(write), slot));
}

}  // namespace tenon::autograd
