// SPDX-License-Identifier: Apache-2.0
// The thread pool behind parallel_for.
//
// Note [Claiming chunks]. A call takes one of the pool's slots, writes its job there and publishes one 64-bit word:
// generation, chunks, next chunk. Whoever wants a chunk reads the word, then the job, then advances the word by
// compare-and-swap. Success proves that the job read belongs to that generation, because a slot is written again
// only after all of its chunks are done. So nobody registers with a job, and the caller waits for claimed chunks
// only: a worker that wakes up late finds the word exhausted and leaves.
// Note [Sleeping]. Idle workers watch `signal` for 20 microseconds and then sleep on it (futex). The caller raises
// it and then looks at `sleepers`, a worker raises `sleepers` and then looks at `signal`: one of them sees the other.
#include <tenon/core/error.h>
#include <tenon/kernels/cpu/parallel.h>

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <climits>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

namespace tenon {
namespace {

constexpr int kSlots = 32;  // calls at once that share the workers; further ones run inline
constexpr int kMaxThreads = 1024;
constexpr int64_t kMaxChunks = 0xffff;
constexpr auto kSpin = std::chrono::microseconds(20);

using Body = void (*)(void*, int64_t);

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

void futex_wait(std::atomic<uint32_t>& word, uint32_t expected) {
  syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, expected, nullptr, nullptr, 0);
}
void futex_wake(std::atomic<uint32_t>& word, int count) {
  syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, count, nullptr, nullptr, 0);
}

// Spins until ready() or until kSpin has passed; returns whether it was ready.
template <class Ready>
bool spin(Ready&& ready) {
  for (int i = 0; i < 64; ++i) {
    if (ready()) return true;
    relax();
  }
  const auto end = std::chrono::steady_clock::now() + kSpin;
  do {
    for (int i = 0; i < 32; ++i) {
      if (ready()) return true;
      relax();
    }
  } while (std::chrono::steady_clock::now() < end);
  return false;
}

struct alignas(128) Slot {
  std::atomic<uint64_t> word{0};  // generation << 32 | chunks << 16 | next chunk
  std::atomic<Body> body{nullptr};
  std::atomic<void*> context{nullptr};
  std::atomic<bool> failed{false};
  std::exception_ptr error;  // written by the one that sets `failed`, read when all chunks are done
  alignas(128) std::atomic<uint32_t> done{0};
  std::atomic<bool> waiting{false};
};

std::atomic<int> thread_limit{0};  // 0: not decided yet
thread_local int depth = 0;        // > 0 while this thread runs a chunk

struct Pool {
  Slot slots[kSlots];
  alignas(128) std::atomic<uint32_t> used{0};  // bit i: slot i belongs to a call
  alignas(128) std::atomic<uint32_t> signal{0};
  alignas(128) std::atomic<uint32_t> sleepers{0};
  std::atomic<int> workers{0};
  std::mutex grow;

  void start_workers(int wanted);
  void work(int id);
};

// Runs chunks of the slot until none is left to claim; returns whether it ran any.
bool help(Slot& slot) {
  bool any = false;
  for (uint64_t word = slot.word.load(std::memory_order_acquire);;) {
    const uint32_t next = word & 0xffff, chunks = (word >> 16) & 0xffff;
    if (next >= chunks) return any;
    const Body body = slot.body.load(std::memory_order_relaxed);
    void* const context = slot.context.load(std::memory_order_relaxed);
    if (!slot.word.compare_exchange_weak(word, word + 1, std::memory_order_acq_rel, std::memory_order_acquire))
      continue;
    any = true;
    if (!slot.failed.load(std::memory_order_relaxed)) {
      ++depth;
      try {
        body(context, next);
      } catch (...) {
        if (!slot.failed.exchange(true)) slot.error = std::current_exception();
      }
      --depth;
    }
    if (slot.done.fetch_add(1) + 1 == chunks) {
      if (slot.waiting.load()) futex_wake(slot.done, INT_MAX);
      return any;
    }
    word = slot.word.load(std::memory_order_acquire);
  }
}

void Pool::work(int id) {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);  // signals go to the program's own threads
  uint32_t seen = signal.load();
  for (;;) {
    if (id < thread_limit.load(std::memory_order_relaxed) - 1) {
      bool any = true;
      while (any) {
        any = false;
        for (uint32_t left = used.load(std::memory_order_acquire); left; left &= left - 1)
          any = help(slots[__builtin_ctz(left)]) || any;
      }
    }
    if (!spin([&] { return signal.load(std::memory_order_acquire) != seen; })) {
      sleepers.fetch_add(1);
      while (signal.load() == seen) futex_wait(signal, seen);
      sleepers.fetch_sub(1);
    }
    seen = signal.load();
  }
}

void Pool::start_workers(int wanted) {
  const std::lock_guard<std::mutex> lock(grow);
  for (int id = workers.load(); id < wanted; ++id) {
    try {
      std::thread([this, id] { work(id); }).detach();
    } catch (const std::system_error&) {
      return;  // no more threads to be had: the caller does the work
    }
    workers.store(id + 1);
  }
}

std::atomic<Pool*> current_pool{nullptr};

// Leaked: its threads may still look at it while the process exits. In the child of a fork the threads do not
// exist, so the child forgets the pool and starts over.
Pool& pool() {
  Pool* p = current_pool.load(std::memory_order_acquire);
  if (p) [[likely]]
    return *p;
  static const int registered = pthread_atfork(nullptr, nullptr, [] { current_pool.store(nullptr); });
  static_cast<void>(registered);
  Pool* fresh = new Pool;
  if (current_pool.compare_exchange_strong(p, fresh)) return *fresh;
  delete fresh;
  return *p;
}

int default_threads() {
  if (const char* text = std::getenv("TENON_NUM_THREADS"); text && *text) {
    char* end = nullptr;
    const long value = std::strtol(text, &end, 10);
    TENON_CHECK(end != text && *end == '\0' && value >= 1, ValueError,
                "TENON_NUM_THREADS: expected a number of threads from 1 on, got \"", text, "\"");
    return static_cast<int>(value < kMaxThreads ? value : kMaxThreads);
  }
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0) return CPU_COUNT(&set);
  const unsigned cores = std::thread::hardware_concurrency();
  return cores ? static_cast<int>(cores) : 1;
}

void run_inline(int64_t first, int64_t chunks, Body body, void* context) {
  for (int64_t i = first; i < chunks; ++i) body(context, i);
}

}  // namespace

int num_threads() {
  const int limit = thread_limit.load(std::memory_order_relaxed);
  if (limit > 0) [[likely]]
    return limit;
  int none = 0;
  thread_limit.compare_exchange_strong(none, default_threads());
  return thread_limit.load();
}

void set_num_threads(int threads) {
  TENON_CHECK(threads >= 1 && threads <= kMaxThreads, ValueError, "set_num_threads: threads: expected 1 to ",
              kMaxThreads, ", got ", threads);
  thread_limit.store(threads);
}

bool in_parallel_region() { return depth > 0; }

namespace detail {

int64_t chunk_size(int64_t count, int64_t grain) {
  const int threads = num_threads();
  if (threads == 1 || depth > 0) return count;
  const int64_t wanted = 4 * static_cast<int64_t>(threads);
  const int64_t even = (count + wanted - 1) / wanted;
  return even > grain ? even : grain > 0 ? grain : 1;
}

void run_chunks(int64_t chunks, Body body, void* context) {
  const int threads = num_threads();
  if (threads == 1 || depth > 0 || chunks <= 1) return run_inline(0, chunks, body, context);
  if (chunks > kMaxChunks) {  // more than a word counts: chunks of chunks
    struct Group {
      Body body;
      void* context;
      int64_t chunks, size;
    } group{body, context, chunks, (chunks + kMaxChunks - 1) / kMaxChunks};
    return run_chunks((chunks + group.size - 1) / group.size,
                      [](void* p, int64_t i) {
                        const Group& g = *static_cast<Group*>(p);
                        const int64_t end = (i + 1) * g.size;
                        run_inline(i * g.size, end < g.chunks ? end : g.chunks, g.body, g.context);
                      },
                      &group);
  }

  Pool& p = pool();
  uint32_t free = ~p.used.load(std::memory_order_relaxed), bit = 0;
  while (free) {
    bit = free & (0u - free);
    if (!(p.used.fetch_or(bit, std::memory_order_acq_rel) & bit)) break;
    free = ~p.used.load(std::memory_order_relaxed);
  }
  if (!free) return run_inline(0, chunks, body, context);
  if (p.workers.load(std::memory_order_relaxed) < threads - 1) p.start_workers(threads - 1);

  Slot& slot = p.slots[__builtin_ctz(bit)];
  slot.body.store(body, std::memory_order_relaxed);
  slot.context.store(context, std::memory_order_relaxed);
  slot.failed.store(false, std::memory_order_relaxed);
  slot.waiting.store(false, std::memory_order_relaxed);
  slot.done.store(0, std::memory_order_relaxed);
  const uint64_t generation = (slot.word.load(std::memory_order_relaxed) >> 32) + 1;
  slot.word.store(generation << 32 | static_cast<uint64_t>(chunks) << 16, std::memory_order_release);
  p.signal.fetch_add(1);
  if (p.sleepers.load() > 0) {
    const bool all_eligible = p.workers.load(std::memory_order_relaxed) <= threads - 1;
    futex_wake(p.signal, all_eligible && chunks - 1 < threads - 1 ? static_cast<int>(chunks - 1) : INT_MAX);
  }

  help(slot);
  const uint32_t all = static_cast<uint32_t>(chunks);
  if (slot.done.load(std::memory_order_acquire) != all &&
      !spin([&] { return slot.done.load(std::memory_order_acquire) == all; })) {
    slot.waiting.store(true);
    for (uint32_t done = slot.done.load(); done != all; done = slot.done.load()) futex_wait(slot.done, done);
  }
  std::exception_ptr error;
  if (slot.failed.load(std::memory_order_relaxed)) error = std::exchange(slot.error, nullptr);
  p.used.fetch_and(~bit, std::memory_order_acq_rel);
  if (error) std::rethrow_exception(error);
}

}  // namespace detail
}  // namespace tenon
