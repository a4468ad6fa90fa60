// SPDX-License-Identifier: Apache-2.0
#include <tenon/autograd/view_node.h>
#include <tenon/core/operand.h>
#include <tenon/dispatch/make_tensor.h>
#include <tenon/ops/backward.h>
#include <tenon/ops/complex.h>

namespace tenon::autograd {

Geometry Geometry::in_parts() const {
  Geometry g = *this;
  if (!is_complex(dtype)) return g;
  g.dtype = real_of(dtype);
  for (int64_t& stride : g.strides) stride *= 2;
  g.sizes.push_back(2);
  g.strides.push_back(1);
  g.offset *= 2;
  return g;
}

namespace {

// A base and a view of it. Where one is complex and the other real, geometries and tensors are taken in parts.
struct Relation {
  Geometry base, view;
  bool mixed;
  Relation(const Geometry& b, const Geometry& v) : base(b), view(v), mixed(is_complex(b.dtype) != is_complex(v.dtype)) {
    if (mixed) base = b.in_parts(), view = v.in_parts();
  }
  Tensor taken(const Tensor& t) const { return mixed && t.is_complex() ? op::view_as_real(t) : t; }
};

class ViewNode final : public Node {
 public:
  ViewNode(const Geometry& base, const Geometry& view, Device device, Edge edge) : base_(base), view_(view) {
    set_edges({&edge, 1});
    set_device(device);
  }
  std::string name() const override { return "as_strided"; }
  void apply(std::span<Tensor> grads, std::span<Tensor> results) override {
    if (!should_compute(0)) return;
    const Relation r(base_, view_);
    results[0] = op::as_strided_backward(r.taken(grads[0]), r.view.sizes, r.view.strides, r.view.offset, r.base.sizes,
                                         r.base.strides, r.base.offset);
    if (r.mixed && is_complex(base_.dtype)) results[0] = op::view_as_complex(results[0]);
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
    const Relation r(base_, view_);
    const bool pairs = r.mixed && is_complex(view_.dtype);
    Tensor part = r.taken(whole).as_strided(r.view.sizes, r.view.strides, r.view.offset - r.base.offset);
    Tensor received = pairs ? op::view_as_complex(part.clone(MemoryFormat::contiguous)) : part.clone();
    write_->apply({&received, 1}, results);
    if (!should_compute(slot_)) return;
    if (results[slot_].defined())
      part.copy_(r.taken(pairs ? results[slot_].to(view_.dtype) : results[slot_]));
    else
      part.zero_();
    results[slot_] = static_cast<Tensor&&>(whole);
  }
  void release_saved() noexcept override { write_->release_saved(); }
  void visit_saved(const SavedVisitor& f) const override { write_->visit_saved(f); }
  std::pair<IntArrayRef, DType> input_geometry(std::size_t i) const override {
    return i == slot_ ? std::pair<IntArrayRef, DType>{base_.sizes, base_.dtype} : write_->input_geometry(i);
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
