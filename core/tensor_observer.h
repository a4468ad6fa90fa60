// SPDX-License-Identifier: Apache-2.0
// The one place that hears of every tensor's birth and death; memory/live_tensors.h listens. Without an observer a
// tensor pays one load and one branch at each end.
// Internal: not for users' files.
#pragma once

#include <tenon/core/tensor_impl.h>

namespace tenon::detail {

/// Called by the thread that makes or drops the tensor; `destroyed` while all of its parts still exist. An observer
/// may hear of the death of tensors whose birth it missed. It lives as long as the process.
struct TENON_API TensorObserver {
  virtual ~TensorObserver();
  virtual void created(TensorImpl* tensor) noexcept = 0;
  virtual void destroyed(TensorImpl* tensor) noexcept = 0;
};
/// Null for none. Returns the one before.
TENON_API TensorObserver* exchange_tensor_observer(TensorObserver* observer) noexcept;

}  // namespace tenon::detail
