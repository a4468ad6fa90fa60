// SPDX-License-Identifier: Apache-2.0
#include <tenon/autograd/autograd_meta.h>
#include <tenon/core/operand.h>
#include <tenon/dispatch/make_tensor.h>
#include <tenon/dispatch/thread_state.h>

namespace tenon::autograd {

AccumulateGrad::AccumulateGrad(const TensorImpl& leaf, Ref<GradHolder> holder)
    : sizes_(leaf.sizes()), strides_(leaf.strides()), holder_(static_cast<Ref<GradHolder>&&>(holder)) {
  set_sequence(UINT64_MAX);  // first of all that is ready: frees the buffer, and lets hooks start their work early
  set_device(leaf.device());
}

void GradHolder::add(const Tensor& g) {
  const memory::SpinGuard guard(lock);
  if (grad.defined())
    grad = grad.add(g);
  else
    grad = g.clone(MemoryFormat::contiguous);
}

void AccumulateGrad::apply(std::span<Tensor> grads, std::span<Tensor>) {
  Tensor g = static_cast<Tensor&&>(grads[0]);
  if (!g.defined()) return;
  TENON_CHECK(g.sizes() == IntArrayRef(sizes_), ShapeError, "backward: a leaf of sizes ", sizes_,
              " received a gradient of sizes ", g.sizes());
  {
    const memory::SpinGuard guard(holder_->lock);
    Tensor& grad = holder_->grad;
    if (grad.defined()) {
      if (grad_enabled())
        grad = grad.add(g);
      else
        grad.add_(g);
    } else if (!grad_enabled() && g.use_count() == 1 && g.storage() && g.storage()->use_count() == 1 &&
               !g.impl()->base() && (g.strides() == IntArrayRef(strides_) || g.is_contiguous())) {
      grad = static_cast<Tensor&&>(g);  // nobody else can see it: no copy
    } else {
      grad = g.clone(MemoryFormat::contiguous);
    }
  }
  if (const NodeHooks* h = hooks(); h && !h->accumulated.empty()) {
    // The hook's handle: the leaf's data and gradient, without keeping the leaf's own block alive.
    const Tensor leaf = dispatch::make_alias(h->leaf);
    AutogradMeta& meta = meta_of(*leaf.impl());
    meta.holder = holder_;
    meta.accumulator = Ref<AccumulateGrad>::share(this);
    leaf.impl()->set_requires_grad(true);
    h->each(h->accumulated, [&](const NodeHooks::Accumulated& entry) {
      Tensor handle = leaf;  // the hook may assign to it
      entry.hook(handle);
    });
  }
}

HookHandle AccumulateGrad::add_accumulated_hook(AccumulatedHook hook, Tensor leaf) {
  NodeHooks& h = make_hooks();
  h.leaf = static_cast<Tensor&&>(leaf);
  h.accumulated.push_back({h.next_id, static_cast<AccumulatedHook&&>(hook)});
  return {Ref<Node>::share(this), h.next_id++};
}

}  // namespace tenon::autograd
