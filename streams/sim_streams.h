// SPDX-License-Identifier: Apache-2.0
// Internal: the simulated device's streams and scheduler. Every call is a scheduling point: the seed chooses how many
// tasks run, and of which streams, before the call does its part. Tasks run in the calling thread, one at a time.
//
// Note [Running tasks]. The lock is dropped while a kernel, a copy or a callback runs, so that those may take any lock
// and call what does not wait; `running_` keeps other threads from running another task, and whoever needs one waits.
// Inside a task (thread_state.in_task) nothing can be waited for: DeviceError, as the wait could not end.
// Note [Simulated order]. A task is runnable when it is the first of its stream and, if it waits for a mark, the mark is
// passed; nothing else is promised, as on a real device. Waiting runs what is needed, and by chance more. Streams that
// have work are kept in the order they got it, so the choice does not depend on addresses or on earlier programs.
// Note [Simulated errors]. What a kernel throws belongs to its device and is thrown by the next wait for a stream of
// that device or for the device, as the faults kernels report on a GPU are.
#pragma once

#include <tenon/streams/raw_streams.h>
#include <tenon/streams/sim.h>

#include <condition_variable>
#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <mutex>

namespace tenon::sim {

class SimStreams final : public RawStreams {
 public:
  static SimStreams& instance();

  int device_count() override;
  int current_device() override;
  void set_device(int index) override;
  void* create_stream(int device, int priority) override;
  void destroy_stream(int device, void* stream) noexcept override;
  void synchronize_stream(int device, void* stream) override;
  bool query_stream(int device, void* stream) override;
  void synchronize_device(int device) override;
  void* create_event(int device, bool timing) override;
  void destroy_event(int device, void* event) noexcept override;
  void record_event(int device, void* event, void* stream) override;
  void wait_event(int device, void* stream, void* event) override;
  bool query_event(int device, void* event) override;
  void synchronize_event(int device, void* event) override;
  double elapsed_ms(int device, void* start, void* end) override;
  bool settle_stream(int device, void* stream) noexcept override;
  bool settle_device(int device) noexcept override;
  void host_callback(int device, void* stream, Function<void()> f) override;
  void copy(int device, void* stream, void* to, const void* from, int64_t bytes) override;
  void launch(int device, void* stream, const char* name, Function<void()> kernel) override;
  bool is_capturing(int, void*) override { return false; }

  // ---- sim.h ----
  int64_t restart(const Options& options);
  std::vector<std::string> unseen_errors();
  Options options();
  void fail(int kind, int64_t index, int64_t count);
  void clear_faults();
  Counters counters();
  std::vector<std::string> log();
  int64_t run(int64_t tasks);

  // ---- memory/sim_memory.cpp ----
  /// Counts a call and advances the device; false when it is to fail.
  bool begin(CallKind kind, int device) noexcept;
  /// All work of the device is done; what it threw stays for the next wait. As cudaFree does.
  void settle(int device) noexcept;
  /// Queues a memset; counts as no call.
  void fill(int device, void* stream, void* p, int64_t bytes, int value) noexcept;
  /// Tells copies what lies there: memory of a device, page-locked host memory, or (bytes 0) nothing any more.
  enum class Place : uint8_t { pageable, pinned, device };
  void set_place(const void* p, int64_t bytes, Place place);

  /// Around fork. In the child a task of another thread is lost with its thread.
  void lock_for_fork();
  void unlock_after_fork(bool child);

 private:
  struct VirtualStream;
  /// One record of an event; waits hold on to it, whatever the event records later.
  struct Mark {
    VirtualStream* stream;
    int64_t time = 0;
    bool passed = false;
  };
  struct VirtualEvent {
    std::shared_ptr<Mark> mark;
  };
  struct Task {
    const char* name;
    Function<void()> run;        // kernels, copies and callbacks
    std::shared_ptr<Mark> mark;  // to pass, or to wait for
    bool waits = false;
  };
  struct VirtualStream {
    int device = 0;
    int number = -1;  // by first use
    bool busy = false;
    bool running = false;  // its first task is
    std::deque<Task> queue;
  };
  struct Fault {
    int kind;  // -1: any
    int64_t index, count;
  };

  VirtualStream& find(int device, void* stream);
  void enter(CallKind kind, int device);
  bool count_call(CallKind kind);
  void push(VirtualStream& s, Task task);
  void advance();
  bool step(bool anyone);
  void execute(VirtualStream& s);
  void execute_for(VirtualStream& s);
  void reach(const std::shared_ptr<Mark>& mark);
  void drain(VirtualStream& s);
  void drain_device(int device);
  void rethrow(int device);
  void wait_idle();
  void sweep() noexcept;
  Place place_of(const void* p) const;
  uint64_t draw(uint64_t below);
  void note(const VirtualStream* s, int device, const char* what, const char* name);

  class Waiting;

  std::mutex mutex_;
  std::condition_variable_any idle_;  // running_ became false
  Options options_;
  VirtualStream defaults_[kMaxDevices];
  std::map<void*, std::unique_ptr<VirtualStream>> streams_;
  std::vector<VirtualStream*> busy_;
  std::exception_ptr errors_[kMaxDevices];
  std::vector<std::string> unseen_;  // errors that the last restart found
  std::map<const char*, std::pair<int64_t, Place>> places_;
  std::vector<Fault> faults_;
  std::vector<std::string> log_;
  Counters counters_{};
  int64_t clock_ = 0;
  uint64_t random_ = 0;
  uintptr_t handles_made_ = 0;
  std::vector<void*> free_handles_;  // reused at once, as real ones may be
  int numbers_ = 0, mood_ = 0;
  VirtualStream* starved_ = nullptr;
  bool running_ = false;                              // a task is, in any thread
  int waiting_ = 0;                                   // threads that wait for streams
  std::vector<std::unique_ptr<VirtualStream>> gone_;  // destroyed, with work left or somebody waiting
};

/// What memory/sim_memory.cpp does when the devices start anew: false when memory is in use, else it is given back.
struct MemoryHooks {
  int64_t (*in_use)(int& device);
  void (*trim)();
  void (*started)();
};
void set_memory_hooks(const MemoryHooks& hooks) noexcept;

}  // namespace tenon::sim
