// SPDX-License-Identifier: Apache-2.0
// Graphs: captures of threads, observers, replays. What a device has to do is in streams/raw_graphs.h.
#include <tenon/streams/blame.h>
#include <tenon/streams/graph.h>
#include <tenon/streams/launch_ring.h>
#include <tenon/streams/op_context.h>
#include <tenon/streams/raw_streams.h>
#include <tenon/streams/settle.h>
#include <tenon/streams/sim_graphs.h>
#include <tenon/streams/state.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <string_view>
#include <unordered_set>
#include <utility>

namespace tenon {

RawGraphs::~RawGraphs() = default;

namespace {

constinit std::atomic<RawGraphs*> registered[kDeviceTypes] = {};
constinit std::atomic<uint64_t> last_id{0};
constinit std::atomic<int> underway{0};
constinit thread_local detail::GraphState* capturing = nullptr;
constinit thread_local detail::WaitListener* listener = nullptr;
constinit thread_local const char* called = nullptr;

// Few, and all there before main; never removed.
constexpr int kMaxObservers = 8;
constinit std::atomic<detail::CaptureObserver*> observers[kMaxObservers] = {};
constinit std::atomic<int> observer_count{0};

template <class F>
void each_observer(F f) {
  for (int i = 0, n = observer_count.load(std::memory_order_acquire); i < n; ++i)
    f(*observers[i].load(std::memory_order_acquire));
}

constinit std::mutex pool_streams_mutex;  // guards PoolHandle::stream

}  // namespace

namespace detail {

struct GraphState {
  Device device;
  GraphInfo info{};
  std::optional<MemPool> pool;
  RawGraphs* raw = nullptr;
  void* graph = nullptr;
  void* executable = nullptr;
  bool open = false;  // being captured
  std::exception_ptr failure;
  std::vector<Stream> replayed_on;
  std::vector<Storage> held;
  std::unordered_set<const StorageImpl*> known;

  // Everything a finished capture left.
  void clear() noexcept {
    for (const Stream& stream : std::exchange(replayed_on, {})) settle(stream);
    if (raw && (graph || executable)) {
      try {
        const DeviceGuard guard(device);
        raw->destroy(device.index(), std::exchange(graph, nullptr), std::exchange(executable, nullptr));
      } catch (...) {  // a device that cannot even be made current: the driver is on its way out
      }
    }
    if (info.id != 0) {
      each_observer([this](CaptureObserver& o) { o.reset(info); });
    }
    info = {};
    known.clear();
    held.clear();
    pool.reset();
    failure = nullptr;
  }
};

PoolHandle::PoolHandle() : id(last_id.fetch_add(1, std::memory_order_relaxed) + 1) {}
void PoolHandle::destroy(PoolHandle* p) noexcept {
  each_observer([p](CaptureObserver& o) { o.pool_gone(p->id); });
  delete p;
}

CaptureObserver::~CaptureObserver() = default;
void CaptureObserver::begin(const GraphInfo&) {}
void CaptureObserver::end(const GraphInfo&, bool) noexcept {}
void CaptureObserver::before_replay(const GraphInfo&, const Stream&) {}
void CaptureObserver::reset(const GraphInfo&) noexcept {}
void CaptureObserver::pool_gone(uint64_t) noexcept {}

void add_capture_observer(CaptureObserver* observer) {
  const int i = observer_count.load(std::memory_order_relaxed);
  TENON_CHECK(i < kMaxObservers, RegistrationError, "add_capture_observer: there are ", kMaxObservers, " already");
  observers[i].store(observer, std::memory_order_release);
  observer_count.store(i + 1, std::memory_order_release);
}

const GraphInfo* thread_capture() noexcept { return capturing ? &capturing->info : nullptr; }
int captures_underway() noexcept { return underway.load(std::memory_order_acquire); }

bool captures(const GraphInfo& graph, const Stream& stream) {
  if (stream == graph.stream) return true;
  if (stream.device().type() != graph.stream.device().type() || !stream.handle()) return false;
  return raw_graphs(stream.device().type()).capture_id(stream.device().index(), stream.handle()) == graph.raw;
}

void hold_for_capture(const Storage& storage) {
  if (!capturing || !storage || !capturing->known.insert(storage.get()).second) return;
  capturing->held.push_back(storage);
}

WaitListener* exchange_wait_listener(WaitListener* next) noexcept { return std::exchange(listener, next); }

void set_called_operator(const char* schema) noexcept { called = schema; }
std::string called_operator() {
  const std::string_view schema = !current_operator ? "" : called ? called : current_operator;
  return std::string(schema.substr(0, schema.find('(')));
}

void check_wait(const char* what, Device device, const Stream* stream) {
  if (listener) return listener->waits(what);
  const GraphInfo* const graph = thread_capture();
  if (!graph || graph->stream.device() != device || (stream && !captures(*graph, *stream))) return;
  const std::string op = called_operator();
  fail<CaptureError>(op, op.empty() ? "" : ": ", what,
                     ": the host cannot wait for work that is only recorded, in a graph of ", device,
                     "\n  Move it behind the capture; lint_capture lists everything of the kind.");
}

}  // namespace detail

void register_raw_graphs(DeviceType type, RawGraphs* graphs) {
  RawGraphs* expected = nullptr;
  const bool won = registered[static_cast<int>(type)].compare_exchange_strong(expected, graphs);
  TENON_CHECK(won || expected == graphs, RegistrationError, "register_raw_graphs: ", name(type),
              " has another implementation already");
}

RawGraphs& raw_graphs(DeviceType type) {
  auto& slot = registered[static_cast<int>(type)];
  RawGraphs* graphs = slot.load(std::memory_order_acquire);
  if (graphs) [[likely]]
    return *graphs;
  TENON_CHECK(!detail::runs_inline(type), DeviceError, "Graph: expected a device of cuda or sim, got ", name(type),
              ", where calls run at once");
  if (type == kSim) {
    slot.compare_exchange_strong(graphs, &sim::graphs());
  } else {
    raw_streams(type);  // loads the library, or says why there is none
  }
  graphs = slot.load(std::memory_order_acquire);
  TENON_CHECK(graphs, DeviceError, "Graph: ", name(type), " has no graphs");
  return *graphs;
}

// ---- Graph ----

Graph::Graph(Device device) : state_(new detail::GraphState) { state_->device = device; }
Graph::Graph(Graph&& other) noexcept : state_(std::exchange(other.state_, nullptr)) {}
Graph& Graph::operator=(Graph&& other) noexcept {
  std::swap(state_, other.state_);
  return *this;
}
Graph::~Graph() {
  if (!state_) return;
  reset();
  delete state_;
}

void Graph::capture_begin(const MemPool& pool, CaptureMode mode) {
  detail::GraphState& s = *state_;
  TENON_CHECK(!s.graph && !s.open, CaptureError, "Graph::capture_begin: the graph holds a capture; reset() it first");
  TENON_CHECK(!capturing, CaptureError, "Graph::capture_begin: this thread is capturing another graph");
  s.clear();
  s.raw = &raw_graphs(s.device.type());
  s.device = resolve(s.device);
  const DeviceGuard guard(s.device);
  const Stream stream = current_stream(s.device);
  TENON_CHECK(stream.id() != 0, CaptureError, "Graph::capture_begin: the default stream of ", s.device,
              " cannot be captured\n  Make another one current (StreamGuard), or use Graph::capture or GraphCapture.");
  const int index = s.device.index();
  s.raw->begin_capture(index, stream.handle(), mode);
  s.open = true;
  s.pool = pool;
  underway.fetch_add(1, std::memory_order_acq_rel);
  capturing = &s;
  int begun = 0;
  try {
    s.info = {last_id.fetch_add(1, std::memory_order_relaxed) + 1, pool.id(), stream,
              s.raw->capture_id(index, stream.handle())};
    each_observer([&](detail::CaptureObserver& o) {
      o.begin(s.info);
      ++begun;
    });
  } catch (...) {
    for (int i = begun; i-- > 0;) observers[i].load()->end(s.info, false);
    capturing = nullptr;
    s.open = false;
    underway.fetch_sub(1, std::memory_order_acq_rel);
    try {
      s.graph = s.raw->end_capture(index, stream.handle());
    } catch (...) {  // the first error counts
    }
    s.clear();
    throw;
  }
}

void Graph::end(bool keep) {
  detail::GraphState& s = *state_;
  std::exception_ptr error;
  try {
    const DeviceGuard guard(s.device);
    s.graph = s.raw->end_capture(s.device.index(), s.info.stream.handle());
  } catch (...) {
    error = std::current_exception();
  }
  s.open = false;
  if (capturing == &s) capturing = nullptr;
  underway.fetch_sub(1, std::memory_order_acq_rel);
  const bool kept = keep && s.graph;
  for (int i = observer_count.load(); i-- > 0;) observers[i].load()->end(s.info, kept);
  s.known.clear();
  if (!kept) s.clear();
  if (error) std::rethrow_exception(error);
}

void Graph::capture_end() {
  TENON_CHECK(state_->open && capturing == state_, CaptureError,
              "Graph::capture_end: this thread is not capturing the graph");
  end(true);
}

void Graph::abandon() noexcept {
  if (!state_->open) return;
  try {
    end(false);
  } catch (...) {  // whoever abandons it has a better reason
  }
}

void Graph::instantiate() {
  detail::GraphState& s = *state_;
  if (s.failure) std::rethrow_exception(s.failure);
  TENON_CHECK(s.graph && !s.open, CaptureError, "Graph: nothing was captured; capture_begin and capture_end first");
  if (s.executable) return;
  const DeviceGuard guard(s.device);
  s.executable = s.raw->instantiate(s.device.index(), s.graph);
}

void Graph::replay() {
  detail::GraphState& s = *state_;
  if (!s.executable) instantiate();
  const DeviceGuard guard(s.device);
  const Stream stream = current_stream(s.device);
  TENON_CHECK(!capturing || !detail::captures(capturing->info, stream), CaptureError,
              "Graph::replay: a replay cannot be part of another capture\n  Capture what both do in one graph.");
  const OpContext context("Graph::replay");
  each_observer([&](detail::CaptureObserver& o) { o.before_replay(s.info, stream); });
  const uint64_t number = detail::note_launch(stream, "graph", detail::literal_name);
  s.raw->launch(s.device.index(), s.executable, stream.handle());
  if (number != 0) [[unlikely]]
    detail::fence_launch(stream, number);
  if (s.replayed_on.empty() || !(s.replayed_on.back() == stream)) [[unlikely]] {
    std::erase(s.replayed_on, stream);
    s.replayed_on.push_back(stream);
  }
}

void Graph::reset() noexcept {
  abandon();
  state_->clear();
}

void Graph::debug_dump(const std::string& path) const {
  const detail::GraphState& s = *state_;
  TENON_CHECK(s.graph && !s.open, CaptureError, "Graph::debug_dump: nothing was captured");
  const DeviceGuard guard(s.device);
  s.raw->dump(s.device.index(), s.graph, path);
}

Device Graph::device() const { return state_->device; }
bool Graph::captured() const { return state_->graph && !state_->open; }
int64_t Graph::nodes() const {
  if (!captured()) return 0;
  const DeviceGuard guard(state_->device);
  return state_->raw->nodes(state_->device.index(), state_->graph);
}
MemPool Graph::pool() const {
  TENON_CHECK(state_->pool, CaptureError, "Graph::pool: nothing was captured");
  return *state_->pool;
}
int64_t Graph::held_bytes() const {
  int64_t bytes = 0;
  for (const Storage& storage : state_->held) bytes += storage->bytes();
  return bytes;
}

// ---- GraphCapture ----

Stream GraphCapture::side_stream(Device device, const MemPool& pool) {
  TENON_CHECK(!detail::runs_inline(device.type()), DeviceError, "Graph: expected a device of cuda or sim, got ", device,
              ", where calls run at once");
  device = resolve(device);
  const std::lock_guard lock(pool_streams_mutex);
  Stream& stream = pool.handle_->stream;
  if (stream.device() != device || stream == current_stream(device) || stream.is_capturing()) {
    stream = Stream::from_pool(0, device);
    if (stream == current_stream(device)) stream = Stream::from_pool(0, device);
  }
  return stream;
}

GraphCapture::GraphCapture(Graph& graph, const MemPool& pool, CaptureMode mode)
    : GraphCapture(graph, side_stream(graph.device(), pool), pool, mode) {}

GraphCapture::GraphCapture(Graph& graph, const Stream& stream, const MemPool& pool, CaptureMode mode)
    : graph_(graph), stream_(stream), exceptions_(std::uncaught_exceptions()) {
  graph.capture_begin(pool, mode);
}

GraphCapture::~GraphCapture() {
  if (!open_ || !graph_.state_->open) return;
  const bool keep = std::uncaught_exceptions() == exceptions_;
  try {
    graph_.end(keep);
  } catch (...) {
    if (keep) graph_.state_->failure = std::current_exception();
  }
}

void GraphCapture::end() {
  open_ = false;
  graph_.capture_end();
}

}  // namespace tenon
