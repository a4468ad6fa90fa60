// SPDX-License-Identifier: Apache-2.0
#include <tenon/dispatch/deterministic.h>

namespace tenon {
namespace {
bool deterministic = false;
}

void set_deterministic(bool on) { __atomic_store_n(&deterministic, on, __ATOMIC_RELAXED); }
bool is_deterministic() { return __atomic_load_n(&deterministic, __ATOMIC_RELAXED); }

}  // namespace tenon
