// SPDX-License-Identifier: Apache-2.0
#include <tenon/autograd/tape_bytes.h>

#include <tenon/memory/allocator.h>

#include <mutex>

namespace tenon::autograd {
namespace {

struct Tapes {
  std::mutex mutex;
  TapeBytes* first = nullptr;
};
Tapes& tapes() {
  static Tapes& all = *new Tapes;  // outlives the destructors of threads and statics that still free nodes
  return all;
}

struct Leaver {
  ~Leaver() {
    const std::lock_guard lock(tapes().mutex);
    if (thread_tape) thread_tape->in_use = false;
    thread_tape = nullptr;
  }
};

[[maybe_unused]] const bool registered = [] {
  memory::set_tape_bytes_source(&tape_bytes);
  return true;
}();

}  // namespace

constinit thread_local TapeBytes* thread_tape TENON_INITIAL_EXEC = nullptr;

TapeBytes* join_tape() {
  static thread_local Leaver leaver;
  (void)leaver;
  const std::lock_guard lock(tapes().mutex);
  for (TapeBytes* t = tapes().first; t; t = t->next) {
    if (t->in_use) continue;
    t->in_use = true;
    return thread_tape = t;
  }
  auto* t = new TapeBytes{{}, tapes().first, true};
  tapes().first = t;
  return thread_tape = t;
}

int64_t tape_bytes(Device device) {
  int64_t sum = 0;
  const std::lock_guard lock(tapes().mutex);
  for (const TapeBytes* t = tapes().first; t; t = t->next)
    sum += __atomic_load_n(&t->of[tape_slot(device)], __ATOMIC_RELAXED);
  return sum > 0 ? sum : 0;
}

}  // namespace tenon::autograd
