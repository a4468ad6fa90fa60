// SPDX-License-Identifier: Apache-2.0
#include <tenon/dispatch/capture.h>
#include <tenon/dispatch/layers.h>
#include <tenon/memory/private_pools.h>
#include <tenon/streams/graph.h>

#include <algorithm>
#include <utility>

namespace tenon {
namespace {

// A dry run: the rules without a capture.
class Linter final : public detail::WaitListener {
 public:
  explicit Linter(Device on) : device(on) {}
  void add(std::string where, std::string reason) {
    for (CaptureOffence& o : report.offences) {
      if (o.where != where || o.reason != reason) continue;
      ++o.count;
      return;
    }
    report.offences.push_back({std::move(where), std::move(reason), 1});
  }
  // An operator that is listed already waits as everybody knows.
  void waits(const char* what) override {
    const std::string op = detail::called_operator();
    const auto known = [&](const CaptureOffence& o) { return o.where == op; };
    if (!op.empty() && std::any_of(report.offences.begin(), report.offences.end(), known)) return;
    add(op.empty() ? what : op, "it waits for the device");
  }
  const Device device;
  CaptureReport report;
};
constinit thread_local Linter* linter = nullptr;

// What forbids the call in a capture on `device`; empty when nothing does.
std::string offence(const dispatch::LayerCall& call, Device device, const detail::GraphInfo* graph) {
  using dispatch::Kind;
  const dispatch::OpBase& op = call.op;
  if (op.kind() == Kind::dynamic || op.has(dispatch::kNotCapturable)) {
    const bool sizes = op.kind() == Kind::dynamic && op.schema().returns.find("Tensor") != std::string_view::npos;
    return sizes ? "the sizes of its results depend on data" : "it waits for the device";
  }
  if (op.kind() == Kind::view || op.kind() == Kind::composite) return {};
  const std::string_view name = op.name();
  const bool copies = name.starts_with("copy") || name.starts_with("_to_copy");
  bool works = false;
  std::string found;
  const auto look = [&](const Tensor& t) {
    if (!t.defined() || !found.empty()) return;
    if (t.device() == device) works = true;
    if (t.is_cpu() && !device.is_cpu()) {
      if (!(copies && t.is_pinned()))
        found = copies ? "it copies from or to memory of the host that is not pinned"
                       : "it has an operand on the CPU, whose value would be that of the capture in every replay";
    } else if (graph && t.device() != device && !t.is_meta() && !detail::captures(*graph, current_stream(t.device()))) {
      found = tenon::detail::concat("it works on ", t.device(), ", which the capture on ", device, " does not cover");
    }
  };
  for (const Tensor& t : call.destinations) look(t);
  for (const dispatch::Value& v : call.args) {
    if (v.is_tensor()) look(v.tensor());
    if (v.kind() == dispatch::Value::Kind::tensor_list) std::for_each(v.tensors().begin(), v.tensors().end(), look);
  }
  if (found.empty() && works && graph) {
    const Stream stream = current_stream(device);
    if (!detail::captures(*graph, stream))
      found = tenon::detail::concat("it runs on stream ", stream.id(), ", which has not joined the capture (",
                                    "wait_stream does it)");
  }
  return found;
}

void hold(const Tensor& t, const detail::GraphInfo& graph) {
  if (!t.defined() || !t.storage() || (t.is_cpu() && !t.is_pinned())) return;
  if (!memory::in_private_pool(t.storage(), graph.pool)) detail::hold_for_capture(t.storage());
}

class Rules final : public detail::CaptureObserver {
 public:
  void begin(const detail::GraphInfo&) override {
    detail::set_called_operator(nullptr);
    dispatch::thread_state.always |= dispatch::kCaptureLayer;
  }
  void end(const detail::GraphInfo&, bool) noexcept override {
    dispatch::thread_state.always &= ~dispatch::kCaptureLayer;
  }
};
[[maybe_unused]] const bool observed = [] {
  detail::add_capture_observer(new Rules);  // never destroyed
  return true;
}();

}  // namespace

void dispatch::check_capture(const LayerCall& call) {
  const tenon::detail::GraphInfo* const graph = tenon::detail::thread_capture();
  if (call.op.kind() != Kind::composite) tenon::detail::set_called_operator(call.op.schema().text.data());
  if (linter) {
    ++linter->report.operators;
    if (std::string reason = offence(call, linter->device, nullptr); !reason.empty())
      linter->add(std::string(call.op.name()), std::move(reason));
    return;
  }
  if (!graph) return;
  if (const std::string reason = offence(call, graph->stream.device(), graph); !reason.empty())
    tenon::detail::fail<CaptureError>(call.op.name(), ": not while a graph is captured: ", reason,
                                      "\n  Move it out of the capture; lint_capture lists everything of the kind.");
  for (const Tensor& t : call.destinations) hold(t, *graph);
  for (const Value& v : call.args) {
    if (v.is_tensor()) hold(v.tensor(), *graph);
    if (v.kind() == Value::Kind::tensor_list)
      for (const Tensor& t : v.tensors()) hold(t, *graph);
  }
}

std::string CaptureReport::str() const {
  if (clean()) return tenon::detail::concat("capturable: ", operators, operators == 1 ? " operator" : " operators");
  std::string text;
  for (const CaptureOffence& o : offences) {
    text += tenon::detail::concat(text.empty() ? "" : "\n", o.where, ": ", o.reason);
    if (o.count > 1) text += tenon::detail::concat(" (", o.count, " times)");
  }
  if (!stopped.empty()) text += (text.empty() ? "stopped by: " : "\nstopped by: ") + stopped;
  return text;
}

CaptureReport lint_capture(const Function<void()>& f, Device device) {
  TENON_CHECK(f, ValueError, "lint_capture: f: expected a function, got an empty one");
  TENON_CHECK(!detail::thread_capture(), CaptureError, "lint_capture: this thread is capturing a graph");
  if (device.is_cuda() || device.is_sim()) device = resolve(device);
  Linter now(device.is_meta() ? Device(kCPU) : device);
  struct Scope {
    Linter* const linter_before;
    detail::WaitListener* const listener_before;
    const uint32_t mask;
    explicit Scope(Linter& next)
        : linter_before(std::exchange(linter, &next)),
          listener_before(detail::exchange_wait_listener(&next)),
          mask(dispatch::thread_state.always) {
      detail::set_called_operator(nullptr);
      dispatch::thread_state.always |= dispatch::kCaptureLayer;
    }
    ~Scope() {
      linter = linter_before;
      detail::exchange_wait_listener(listener_before);
      dispatch::thread_state.always = mask;
    }
  };
  {
    const Scope scope(now);
    try {
      f();
    } catch (const std::exception& e) {
      now.report.stopped = e.what();
    }
  }
  return now.report;
}

}  // namespace tenon
