// SPDX-License-Identifier: Apache-2.0
#include <tenon/dispatch/graph_function.h>
#include <tenon/dispatch/thread_state.h>

#include <algorithm>
#include <memory>
#include <utility>

namespace tenon {

// Inputs of equal device, dtype, sizes and strides, and the graph for them.
struct GraphFunction::Kind {
  explicit Kind(Device device) : graph(device) {}
  int calls = 0;
  std::vector<Tensor> inputs, results;
  Graph graph;
};

namespace {

bool alike(const Tensor& a, const Tensor& b) {
  return a.device() == b.device() && a.dtype() == b.dtype() && a.sizes() == b.sizes() && a.strides() == b.strides();
}

// Memory for what an input holds, outside of any pool of a graph.
Tensor own_copy(const Tensor& t) {
  const NoGradGuard no_grad;
  return t.detach().clone();
}

}  // namespace

GraphFunction::GraphFunction(Body f, const GraphFunctionOptions& options)
    : f_(static_cast<Body&&>(f)), options_(options) {
  TENON_CHECK(f_, ValueError, "graph: f: expected a function, got an empty one");
}
GraphFunction::GraphFunction(GraphFunction&& other) noexcept
    : f_(std::move(other.f_)), options_(other.options_), pool_(other.pool_), kinds_(std::exchange(other.kinds_, {})) {}
GraphFunction::~GraphFunction() { reset(); }

void GraphFunction::reset() {
  for (Kind* kind : std::exchange(kinds_, {})) delete kind;
  pool_ = MemPool();
}

GraphFunction::Kind* GraphFunction::find(TensorList inputs) const {
  for (Kind* kind : kinds_)
    if (std::equal(inputs.begin(), inputs.end(), kind->inputs.begin(), kind->inputs.end(), alike)) return kind;
  return nullptr;
}

std::vector<Tensor> GraphFunction::inputs(TensorList like) const {
  const Kind* kind = find(like);
  return kind && kind->graph.captured() ? kind->inputs : std::vector<Tensor>();
}

int64_t GraphFunction::graphs() const {
  return std::count_if(kinds_.begin(), kinds_.end(), [](const Kind* k) { return k->graph.captured(); });
}

std::vector<Tensor> GraphFunction::operator()(TensorList inputs) {
  const Device device = inputs.empty() ? resolve(options_.device) : inputs[0].device();
  for (std::size_t i = 0; i < inputs.size(); ++i)
    TENON_CHECK(inputs[i].defined() && inputs[i].device() == device && (device.is_cuda() || device.is_sim()),
                DeviceError, "graph: input ", i, ": expected a tensor on one device of cuda or sim, got ",
                inputs[i].defined() ? inputs[i].device().str() : std::string("an undefined one"));
  const DeviceGuard guard(device);
  Kind* kind = find(inputs);
  if (!kind) {
    auto made = std::make_unique<Kind>(device);
    for (const Tensor& t : inputs) made->inputs.push_back(own_copy(t));
    kinds_.push_back(made.get());
    kind = made.release();
  } else {
    const NoGradGuard no_grad;
    for (std::size_t i = 0; i < inputs.size(); ++i)
      if (!inputs[i].is_same(kind->inputs[i])) kind->inputs[i].copy_(inputs[i], /*non_blocking=*/true);
  }
  if (kind->calls < options_.warm_up) {
    std::vector<Tensor> results = f_(kind->inputs);
    ++kind->calls;
    return results;
  }
  if (!kind->graph.captured()) {
    kind->graph.capture([&] { kind->results = f_(kind->inputs); }, pool_);
    for (Tensor& t : kind->results)
      if (t.defined()) t = t.detach();
    kind->graph.instantiate();
  }
  kind->graph.replay();
  return kind->results;
}

}  // namespace tenon
