// SPDX-License-Identifier: Apache-2.0
// Captures and replays of the simulated device.
#include <tenon/streams/op_context.h>
#include <tenon/streams/sim_graphs.h>

#include <algorithm>
#include <cstdio>
#include <set>
#include <string_view>
#include <utility>

namespace tenon::sim {

using Recording = SimStreams::Recording;

namespace {

std::string_view short_name(const char* text) {
  const std::string_view name(text);
  return name.substr(0, name.find('('));
}
std::string who() { return current_operator ? std::string(short_name(current_operator)) + ": " : std::string(); }

}  // namespace

// By vector clocks: what each lane knows of every lane's work, which marks carry and waits take over.
int Recording::unjoined() const {
  const std::size_t n = lanes.size();
  std::vector<std::vector<int>> known(n, std::vector<int>(n, 0)), carried(static_cast<std::size_t>(marks));
  for (const Node& node : nodes) {
    const auto lane = static_cast<std::size_t>(node.lane);
    if (node.run) {
      ++known[lane][lane];
    } else if (!node.waits) {
      carried[static_cast<std::size_t>(node.mark)] = known[lane];
    } else {
      const auto& from = carried[static_cast<std::size_t>(node.mark)];
      for (std::size_t i = 0; i < from.size(); ++i) known[lane][i] = std::max(known[lane][i], from[i]);
    }
  }
  for (std::size_t lane = 1; lane < n; ++lane)
    if (known[0][lane] < known[lane][lane]) return static_cast<int>(lane);
  return 0;
}

int64_t Recording::work() const {
  return std::count_if(nodes.begin(), nodes.end(), [](const Node& n) { return n.run != nullptr; });
}

// ---- recording ----

void SimStreams::record(VirtualStream& s, Task task) {
  Recording& r = *s.recording;
  const auto lane = static_cast<int>(std::find(r.lanes.begin(), r.lanes.end(), &s) - r.lanes.begin());
  note(&s, s.device, "record", task.name);
  if (task.run) {
    r.nodes.push_back({task.name, std::make_shared<Function<void()>>(std::move(task.run)), lane});
    return;
  }
  if (!task.waits) {
    task.mark->recording = s.recording;
    task.mark->number = r.marks++;
  }
  r.nodes.push_back({task.name, nullptr, lane, task.mark->number, task.waits});
}

// `s` is about to wait for the mark, one of them is in a capture.
void SimStreams::join_capture(VirtualStream& s, const Mark& mark) {
  if (mark.number < 0) {
    s.recording->broken = "a wait for an event from outside of it";
    tenon::detail::fail<CaptureError>(
        who(), "sim: a captured stream cannot wait for an event that was recorded outside of the capture");
  }
  const auto recording = mark.recording.lock();
  TENON_CHECK(recording && !recording->ended, CaptureError, who(),
              "sim: a stream cannot wait for an event of a capture that has ended");
  if (s.recording == recording) return;
  if (s.recording) {
    s.recording->broken = recording->broken = "an event of another capture";
    tenon::detail::fail<CaptureError>(who(), "sim: a captured stream cannot wait for an event of another capture");
  }
  s.recording = recording;
  recording->lanes.push_back(&s);
}

void SimStreams::refuse_in_capture(const VirtualStream& s, const char* what) {
  if (!s.recording) return;
  s.recording->broken = what;
  tenon::detail::fail<CaptureError>(who(), "sim: ", what, " is not allowed while the stream is captured");
}

void SimStreams::refuse_in_captures(int device, const char* what) {
  for (const auto& r : recordings_) {
    if (!r->lanes[0] || r->lanes[0]->device != device || r->mode == CaptureMode::relaxed) continue;
    if (r->mode == CaptureMode::thread && r->thread != std::this_thread::get_id()) continue;
    r->broken = what;
    tenon::detail::fail<CaptureError>(who(), "sim: ", what, " is not allowed while one of its streams is captured");
  }
}

bool SimStreams::is_capturing(int device, void* stream) { return capture_id(device, stream) != 0; }

uint64_t SimStreams::capture_id(int device, void* stream) {
  std::lock_guard lock(mutex_);
  const auto& recording = find(device, stream).recording;
  return recording ? recording->id : 0;
}

void SimStreams::begin_capture(int device, void* stream, CaptureMode mode) {
  std::lock_guard lock(mutex_);
  enter(CallKind::capture, device);
  VirtualStream& s = find(device, stream);
  TENON_CHECK(stream, CaptureError, "sim: the default stream cannot be captured");
  TENON_CHECK(!s.recording, CaptureError, "sim: the stream is captured already");
  auto r = std::make_shared<Recording>();
  r->id = ++recordings_made_;
  r->mode = mode;
  r->thread = std::this_thread::get_id();
  r->lanes.push_back(&s);
  recordings_.push_back(r);
  s.recording = std::move(r);
}

std::shared_ptr<Recording> SimStreams::end_capture(int device, void* stream) {
  std::lock_guard lock(mutex_);
  VirtualStream& s = find(device, stream);
  const std::shared_ptr<Recording> r = s.recording;
  TENON_CHECK(r && r->lanes[0] == &s, CaptureError, "sim: no capture began on this stream, or it has ended");
  const int unjoined = r->broken ? 0 : r->unjoined();
  const int number = unjoined ? r->lanes[static_cast<std::size_t>(unjoined)]->number : 0;
  r->ended = true;
  for (VirtualStream* lane : r->lanes)
    if (lane) lane->recording = nullptr;
  std::erase(recordings_, r);
  enter(CallKind::capture, device);
  TENON_CHECK(!r->broken, CaptureError, "sim: the capture was broken by ", r->broken);
  TENON_CHECK(unjoined == 0, CaptureError, "sim: stream ", number,
              " joined the capture and has work that its own stream does not wait for\n",
              "  Let the captured stream wait for it (wait_stream) before the end.");
  return r;
}

// ---- replaying ----

SimStreams::Executable* SimStreams::instantiate(int device, std::shared_ptr<const Recording> recording) {
  std::lock_guard lock(mutex_);
  enter(CallKind::capture, device);
  auto made = std::make_unique<Executable>();
  for (std::size_t i = 1; i < recording->lanes.size(); ++i) {
    made->lanes.push_back(std::make_unique<VirtualStream>());
    made->lanes.back()->device = device;
  }
  made->recording = std::move(recording);
  gone_.reserve(gone_.size() + made->lanes.size() + streams_.size() + 1);  // destroying must not throw
  return made.release();
}

void SimStreams::launch_graph(int device, Executable& e, void* stream) {
  std::lock_guard lock(mutex_);
  enter(CallKind::replay, device);
  VirtualStream& s = find(device, stream);
  TENON_CHECK(!s.recording, CaptureError, "sim: a replay cannot be captured");
  const auto recording = e.recording;  // an eager schedule lets the lock go
  std::vector<std::shared_ptr<Mark>> marks(static_cast<std::size_t>(recording->marks));
  if (e.last && !e.last->passed) push(s, {"wait", nullptr, e.last, true});  // replays of a graph do not overlap
  for (const Recording::Node& node : recording->nodes) {
    VirtualStream& lane = node.lane == 0 ? s : *e.lanes[static_cast<std::size_t>(node.lane) - 1];
    if (node.run) {
      push(lane, {node.name, [run = node.run] { (*run)(); }, nullptr, false});
      continue;
    }
    auto& mark = marks[static_cast<std::size_t>(node.mark)];
    if (!node.waits) mark = std::make_shared<Mark>(Mark{&lane, 0, false, {}, -1});
    if (!node.waits || !mark->passed) push(lane, {node.name, nullptr, mark, node.waits});
  }
  e.last = std::make_shared<Mark>(Mark{&s, 0, false, {}, -1});
  push(s, {"mark", nullptr, e.last, false});
}

void SimStreams::destroy_graph(Executable* executable) noexcept {
  if (!executable) return;
  std::lock_guard lock(mutex_);
  const std::unique_ptr<Executable> e(executable);
  for (auto& lane : e->lanes) {
    if (starved_ == lane.get()) starved_ = nullptr;
    gone_.push_back(std::move(lane));
  }
  sweep();
}

// ---- RawGraphs ----

namespace {

class SimGraphs final : public RawGraphs {
  using Held = std::shared_ptr<Recording>;
  static SimStreams& streams() { return SimStreams::instance(); }
  static const Recording& recording(void* graph) { return **static_cast<Held*>(graph); }

 public:
  void begin_capture(int device, void* stream, CaptureMode mode) override {
    streams().begin_capture(device, stream, mode);
  }
  void* end_capture(int device, void* stream) override { return new Held(streams().end_capture(device, stream)); }
  uint64_t capture_id(int device, void* stream) override { return streams().capture_id(device, stream); }
  void* instantiate(int device, void* graph) override {
    return streams().instantiate(device, *static_cast<Held*>(graph));
  }
  void launch(int device, void* executable, void* stream) override {
    streams().launch_graph(device, *static_cast<SimStreams::Executable*>(executable), stream);
  }
  void destroy(int, void* graph, void* executable) noexcept override {
    streams().destroy_graph(static_cast<SimStreams::Executable*>(executable));
    delete static_cast<Held*>(graph);
  }
  int64_t nodes(int, void* graph) override { return recording(graph).work(); }

  // An edge for what follows on a lane, and for every wait.
  void dump(int, void* graph, const std::string& path) override {
    const Recording& r = recording(graph);
    std::string text = "digraph tenon {\n  node [shape=box];\n";
    std::vector<std::set<std::size_t>> before(r.lanes.size()), carried(static_cast<std::size_t>(r.marks));
    for (std::size_t i = 0; i < r.nodes.size(); ++i) {
      const Recording::Node& n = r.nodes[i];
      auto& last = before[static_cast<std::size_t>(n.lane)];
      if (!n.run) {
        auto& mark = carried[static_cast<std::size_t>(n.mark)];
        if (n.waits)
          last.insert(mark.begin(), mark.end());
        else
          mark = last;
        continue;
      }
      text += "  n" + std::to_string(i) + " [label=\"" + std::string(short_name(n.name)) + "\"];\n";
      for (const std::size_t from : last) text += "  n" + std::to_string(from) + " -> n" + std::to_string(i) + ";\n";
      last = {i};
    }
    text += "}\n";
    std::FILE* const file = std::fopen(path.c_str(), "w");
    TENON_CHECK(file, IoError, "Graph::debug_dump: path: cannot write ", path);
    const bool whole = std::fwrite(text.data(), 1, text.size(), file) == text.size();
    const bool closed = std::fclose(file) == 0;
    TENON_CHECK(whole && closed, IoError, "Graph::debug_dump: path: writing ", path, " failed");
  }
};

}  // namespace

RawGraphs& graphs() {
  static auto* const made = new SimGraphs;
  return *made;
}

}  // namespace tenon::sim
