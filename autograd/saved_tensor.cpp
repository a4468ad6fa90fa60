// SPDX-License-Identifier: Apache-2.0
#include <tenon/autograd/saved_tensor.h>

#include <tenon/dispatch/make_tensor.h>

namespace tenon::autograd {

void SavedTensor::save_alias(const Tensor& t) {
  // One reference, held by hand.
  const Tensor alias = dispatch::make_alias(t);
  alias_ = alias.impl();
  alias_->retain();
  keeps_ = Keeps::alias;
}

void SavedTensor::drop_alias() noexcept { const Tensor owner(Ref<TensorImpl>::adopt(alias_)); }

uint32_t SavedTensor::present_version() const {
  if (keeps_ == Keeps::storage) return storage_->version();
  return keeps_ == Keeps::alias && alias_->storage() ? alias_->storage()->version() : 0;
}

Tensor SavedTensor::unpack() const {
  if (keeps_ == Keeps::storage)
    return Tensor(Ref<TensorImpl>::adopt(
        TensorImpl::create(storage_, dtype(), backend_of(device().type()), device(), sizes(), {}, offset_)));
  TENON_ASSERT(keeps_ == Keeps::alias);
  return dispatch::make_alias(Tensor(Ref<TensorImpl>::share(alias_)));
}

}  // namespace tenon::autograd
