// SPDX-License-Identifier: Apache-2.0
// AutogradMeta: what autograd hangs on a tensor, and the questions asked of it.
//
// Note [History of views]. A view's base is never itself a view. A view made from something that has history gets the
// node of its view operator, stamped with the storage's version. When the version has moved on, somebody wrote in
// place; if the base has a node, the view's node is made anew from the base's (the gradient of the view's geometry),
// lazily, when it is next asked for. So a write changes one node, however many views there are.
// Note [Leaves]. A leaf owns its accumulator, and graphs refer to it; the accumulator does not know the tensor. So
// nothing is cyclic and nothing weak, and a graph may outlive its leaves.
#pragma once

#include <tenon/autograd/accumulate_grad.h>

namespace tenon::autograd {

struct AutogradMeta final : AutogradSlot {
  ~AutogradMeta() override;
  static void* operator new(std::size_t size);
  static void operator delete(void* p) noexcept;

  Ref<Node> grad_fn;                ///< null for leaves, and for views before they are asked
  uint32_t output = 0;              ///< which output of grad_fn
  uint32_t version = 0;             ///< storage version when a view's grad_fn was right
  Ref<AccumulateGrad> accumulator;  ///< leaves only
  Ref<GradHolder> holder;           ///< the gradient of a leaf, or of a tensor that retains it
  memory::SpinLock lock;            ///< views: grad_fn may be remade by readers
  bool retains_grad = false;
};

/// The tensor's slot, made when absent.
AutogradMeta& meta_of(TensorImpl& t);
inline AutogradMeta* meta_if_any(const TensorImpl& t) { return static_cast<AutogradMeta*>(t.autograd); }

/// Whether the tensor takes part in a graph. TensorImpl::requires_grad() is the cheap test that may say yes of a view
/// that was made without recording.
bool takes_part(const TensorImpl& t);
inline bool takes_part(const Tensor& t) {
  return t.defined() && t.impl()->requires_grad() && (!t.impl()->base() || takes_part(*t.impl()));
}
/// The node the tensor came from and which output of it; null for leaves. Brings a view up to date.
Edge history_of(const Tensor& t);
/// Where the tensor's gradient goes: its node, or its accumulator; nowhere when it takes no part.
Edge make_edge(const Tensor& t);
inline Edge edge_of(const Tensor& t) {
  const TensorImpl& impl = *t.impl();
  if (!impl.requires_grad()) return {};
  if (const AutogradMeta* m = meta_if_any(impl); m && !impl.base()) {
    if (m->grad_fn) return {m->grad_fn, m->output};
    if (m->accumulator) return {Ref<Node>::share(m->accumulator.get()), 0};
  }
  return make_edge(t);
}
/// Makes `t` output `output` of `node`. Moves a retained gradient along.
void set_history(const Tensor& t, Ref<Node> node, uint32_t output);

}  // namespace tenon::autograd
