// SPDX-License-Identifier: Apache-2.0
// Graph: work that was queued once and recorded, to be replayed with one call of the driver.
//
//   Graph g;
//   g.capture([&] { y = model(x); });  // nothing runs
//   x.copy_(next);
//   g.replay();                        // y is there, on the current stream
//
// Note [Captured addresses]. A graph works on the memory its operators saw. Memory allocated while it is captured comes
// from a private pool that serves nobody else before the last graph of that pool is reset, so what was freed early is
// still the graph's own; tensors made earlier are held by the graph. Graphs may share a pool when they are replayed one
// at a time, in the order of their captures, and no result is needed after the next one ran.
// Note [Captured values]. Numbers, sizes and what the host does are as they were at the capture. Random operators go on:
// every replay draws the numbers that the same calls would have drawn. What waits for the device, or reads or writes
// memory of the host that is not pinned, cannot be captured: CaptureError, naming the operator, before the driver has
// seen it (lint_capture in dispatch/capture.h lists all such calls).
// Note [Observers]. Memory, random numbers and the operators' checks take part in every capture as CaptureObservers.
// Thread safety: a Graph is used by one thread at a time; captures in several threads are independent.
#pragma once

#include <tenon/core/intrusive.h>
#include <tenon/core/storage.h>
#include <tenon/streams/guard.h>
#include <tenon/streams/raw_graphs.h>
#include <tenon/streams/stream.h>

#include <optional>
#include <string>
#include <vector>

namespace tenon {

namespace detail {
struct GraphState;
/// A number that stands for a pool; observers are told when its last handle goes.
struct TENON_API PoolHandle : Counted {
  PoolHandle();
  static void destroy(PoolHandle* p) noexcept;
  const uint64_t id;
  Stream stream;  ///< of its captures; the CPU's before the first
};
}  // namespace detail

/// A private pool of memory; a counted handle. Graphs keep theirs.
class TENON_API MemPool {
 public:
  MemPool() : handle_(Ref<detail::PoolHandle>::adopt(new detail::PoolHandle)) {}
  uint64_t id() const { return handle_->id; }

 private:
  friend class GraphCapture;
  Ref<detail::PoolHandle> handle_;
};

class TENON_API Graph {
 public:
  /// An empty graph for the current device of a type, or the device.
  explicit Graph(Device device = Device(kCUDA));
  Graph(Graph&& other) noexcept;
  Graph& operator=(Graph&& other) noexcept;
  /// As reset().
  ~Graph();

  /// Records what this thread queues on its current stream, which must not be the default one, until capture_end().
  /// CaptureError when the graph has one already, or this thread captures another.
  void capture_begin(const MemPool& pool = MemPool(), CaptureMode mode = CaptureMode::thread);
  /// CaptureError when the capture was broken: nothing is kept then, and the stream is as usable as before.
  void capture_end();
  /// Runs `f` between the two, a side stream being current. What `f` throws ends the capture and is thrown on.
  template <class F>
  void capture(F&& f, const MemPool& pool = MemPool(), CaptureMode mode = CaptureMode::thread);
  /// Prepares the first replay, which does it otherwise.
  void instantiate();
  /// Queues all of it on the current stream of the graph's device.
  void replay();
  /// Waits for replays, and gives back what the graph holds. It can capture again.
  void reset() noexcept;
  /// Writes the recorded work as a Graphviz file.
  void debug_dump(const std::string& path) const;

  Device device() const;
  bool captured() const;
  /// Kernels, copies and memory sets that a replay queues (on CUDA: nodes as the driver counts them).
  int64_t nodes() const;
  MemPool pool() const;
  /// Bytes of tensors older than the capture that the graph keeps alive, because it uses them.
  int64_t held_bytes() const;

 private:
  friend class GraphCapture;
  void abandon() noexcept;
  void end(bool keep);
  detail::GraphState* state_;
};

/// Captures for a scope, a side stream being current: the same for all captures of a pool, since freed memory is found
/// again by its stream. end() reports errors; without it the scope's end keeps the capture, or drops it when an exception
/// passes, and what was wrong with it is thrown by the graph's replay().
class TENON_API GraphCapture {
 public:
  explicit GraphCapture(Graph& graph, const MemPool& pool = MemPool(), CaptureMode mode = CaptureMode::thread);
  GraphCapture(Graph& graph, const Stream& stream, const MemPool& pool = MemPool(),
               CaptureMode mode = CaptureMode::thread);
  ~GraphCapture();
  GraphCapture(const GraphCapture&) = delete;
  GraphCapture& operator=(const GraphCapture&) = delete;
  void end();

 private:
  static Stream side_stream(Device device, const MemPool& pool);
  Graph& graph_;
  StreamGuard stream_;
  int exceptions_;
  bool open_ = true;
};

template <class F>
void Graph::capture(F&& f, const MemPool& pool, CaptureMode mode) {
  GraphCapture capture(*this, pool, mode);
  f();
  capture.end();
}

namespace detail {

/// What observers know of a graph.
struct GraphInfo {
  uint64_t id;    ///< of the graph's capture, unique in the process
  uint64_t pool;  ///< MemPool::id
  Stream stream;  ///< where the capture began
  uint64_t raw;   ///< RawGraphs::capture_id
};
class TENON_API CaptureObserver {
 public:
  virtual ~CaptureObserver();
  /// In the capturing thread. When it throws the capture does not begin.
  virtual void begin(const GraphInfo& graph);
  /// For everybody who began. `kept`: the graph will be replayed.
  virtual void end(const GraphInfo& graph, bool kept) noexcept;
  virtual void before_replay(const GraphInfo& graph, const Stream& stream);
  /// The graph is gone, its replays are done.
  virtual void reset(const GraphInfo& graph) noexcept;
  virtual void pool_gone(uint64_t pool) noexcept;
};
/// From static initialisers only; never removed.
TENON_API void add_capture_observer(CaptureObserver* observer);

/// The capture of the calling thread, or null.
TENON_API const GraphInfo* thread_capture() noexcept;
/// Captures of all threads.
TENON_API int captures_underway() noexcept;
/// Whether the capture records what is queued on the stream.
TENON_API bool captures(const GraphInfo& graph, const Stream& stream);
/// The thread's capture holds `storage` until it is reset; without one nothing happens.
TENON_API void hold_for_capture(const Storage& storage);

/// Hears of waits where capture rules hold without a capture (lint_capture).
class TENON_API WaitListener {
 public:
  virtual void waits(const char* what) = 0;

 protected:
  ~WaitListener() = default;
};
/// The thread's listener, or null; returns the one before.
TENON_API WaitListener* exchange_wait_listener(WaitListener* listener) noexcept;
/// The operator that the program called: what waits may be one of those that it calls itself. Given by its schema, for as
/// long as operators run; the name is empty outside of operators.
TENON_API void set_called_operator(const char* schema) noexcept;
TENON_API std::string called_operator();
/// To be called before the host waits for, or asks, `stream` (null: the whole device): CaptureError with the operator's
/// name when the thread's capture forbids it.
TENON_API void check_wait(const char* what, Device device, const Stream* stream);

}  // namespace detail

}  // namespace tenon
