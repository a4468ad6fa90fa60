// SPDX-License-Identifier: Apache-2.0
#include <tenon/dispatch/kernel_call.h>
#include <tenon/dispatch/thread_state.h>
#include <tenon/streams/op_context.h>
#include <tenon/streams/raw_streams.h>
#include <tenon/streams/stream.h>

namespace tenon::dispatch {

Tensor host_alias(const Tensor& t) {
  if (!t.defined()) return t;
  const TensorImpl& from = *t.impl();
  Storage storage;
  if (from.storage()) {
    storage = Storage::adopt(
        StorageImpl::create({from.storage()->data(), nullptr, nullptr}, from.storage()->bytes(), Device(kCPU)));
  }
  return Tensor(Ref<TensorImpl>::adopt(TensorImpl::create(static_cast<Storage&&>(storage), from.dtype(), Backend::cpu,
                                                          Device(kCPU), from.sizes(), from.strides(), from.offset())));
}

void queue_kernel(Function<void()> kernel, bool wait) {
  const Stream stream = current_stream(Device(kSim));
  // It may run in the middle of anything: what it calls is below all layers there, too.
  raw_streams(kSim).launch(stream.device().index(), stream.handle(), current_operator ? current_operator : "kernel",
                           [kernel = std::move(kernel)] {
                             const BelowLayersGuard below;
                             kernel();
                           });
  if (wait) stream.synchronize();
}

}  // namespace tenon::dispatch
