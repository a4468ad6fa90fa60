// SPDX-License-Identifier: Apache-2.0
#include <tenon/streams/op_context.h>

namespace tenon {
constinit thread_local const char* current_operator TENON_INITIAL_EXEC = nullptr;
}  // namespace tenon
