// SPDX-License-Identifier: Apache-2.0
// Which operator the calling thread is in, so that errors raised below it can say so. Setting and restoring
// are one thread-local store each.
#pragma once

#include <tenon/core/api.h>

namespace tenon {

/// The innermost operator's name, ended by the text's end or a parenthesis (a schema will do), or null outside of
/// operators. The text must live as long as the scope.
extern TENON_API constinit thread_local const char* current_operator TENON_INITIAL_EXEC;

/// Names the operator for a scope.
class OpContext {
 public:
  explicit OpContext(const char* name) noexcept : previous_(current_operator) { current_operator = name; }
  ~OpContext() { current_operator = previous_; }
  OpContext(const OpContext&) = delete;
  OpContext& operator=(const OpContext&) = delete;

 private:
  const char* previous_;
};

}  // namespace tenon
