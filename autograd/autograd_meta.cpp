// SPDX-License-Identifier: Apache-2.0
#include <tenon/autograd/autograd_meta.h>
#include <tenon/autograd/view_node.h>
#include <tenon/core/pool.h>

namespace tenon::autograd {

AutogradMeta::~AutogradMeta() = default;
void* AutogradMeta::operator new(std::size_t) { return detail::Pool<AutogradMeta>::take(); }
void AutogradMeta::operator delete(void* p) noexcept { detail::Pool<AutogradMeta>::give(p); }

namespace {
bool has_node(const TensorImpl& t) {
  const AutogradMeta* m = meta_if_any(t);
  return m && m->grad_fn;
}
bool follows_base(const TensorImpl& view) {
  return view.view_mode() == ViewMode::normal || view.view_mode() == ViewMode::multi_output;
}
memory::SpinLock creation_lock;
}  // namespace

AutogradMeta& meta_of(TensorImpl& t) {
  // Two threads may ask for the slot of a leaf or a view they share.
  if (AutogradSlot* slot = __atomic_load_n(&t.autograd, __ATOMIC_ACQUIRE)) return *static_cast<AutogradMeta*>(slot);
  const memory::SpinGuard guard(creation_lock);
  if (!t.autograd) __atomic_store_n(&t.autograd, static_cast<AutogradSlot*>(new AutogradMeta), __ATOMIC_RELEASE);
  return *static_cast<AutogradMeta*>(t.autograd);
}

bool takes_part(const TensorImpl& t) {
  if (!t.requires_grad()) return false;
  if (!t.base() || t.own_requires_grad()) return true;
  // A view without history of its own: only if the base got a node afterwards, by a write.
  return follows_base(t) && has_node(*t.base());
}

Edge history_of(const Tensor& t) {
  TensorImpl& impl = *t.impl();
  if (!impl.base() || !follows_base(impl) || !has_node(*impl.base())) {
    const AutogradMeta* m = meta_if_any(impl);
    TENON_CHECK(impl.view_mode() != ViewMode::custom_function || !m || !m->grad_fn || m->version == t.version(),
                AutogradError, m->grad_fn->name(),
                ": its output is a view whose data was written in place since: its history is unknown; "
                "return a clone() from forward");
    return m ? Edge{m->grad_fn, m->output} : Edge{};
  }
  AutogradMeta& m = meta_of(impl);
  const memory::SpinGuard guard(m.lock);
  const uint32_t version = t.version();
  if (!m.grad_fn || m.version != version) {
    const AutogradMeta& base = *meta_if_any(*impl.base());
    if (m.retains_grad && m.grad_fn) m.grad_fn->forget_gradient(m.holder.get());
    m.grad_fn = make_view_node(Geometry(*impl.base()), Geometry(impl), impl.device(), Edge{base.grad_fn, base.output});
    m.output = 0;
    m.version = version;
    if (m.retains_grad) m.grad_fn->retain_gradient(0, m.holder);
  }
  return {m.grad_fn, m.output};
}

Edge make_edge(const Tensor& t) {
  if (!takes_part(t)) return {};
  Edge e = history_of(t);
  if (e) return e;
  AutogradMeta& m = meta_of(*t.impl());
  if (!m.accumulator) {
    const memory::SpinGuard guard(creation_lock);
    if (!m.accumulator) {
      if (!m.holder) m.holder = Ref<GradHolder>::adopt(new GradHolder);
      m.accumulator = Ref<AccumulateGrad>::adopt(new AccumulateGrad(*t.impl(), m.holder));
    }
  }
  return {Ref<Node>::share(m.accumulator.get()), 0};
}

void set_history(const Tensor& t, Ref<Node> node, uint32_t output) {
  // Whoever changes the history has the tensor to himself.
  if (!t.impl()->autograd) t.impl()->autograd = new AutogradMeta;
  AutogradMeta& m = *meta_if_any(*t.impl());
  if (m.retains_grad && m.grad_fn)
    m.grad_fn->forget_gradient(m.holder.get());  // the retained gradient is the present value's
  if (m.retains_grad) node->retain_gradient(output, m.holder);
  m.grad_fn = static_cast<Ref<Node>&&>(node);
  m.output = output;
  m.version = t.version();
  if (m.accumulator) m.accumulator = nullptr;
  t.impl()->set_requires_grad(true);
}

}  // namespace tenon::autograd
