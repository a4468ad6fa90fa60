// SPDX-License-Identifier: Apache-2.0
// graph(f): a function of tensors that runs as a graph from its second call on.
//
//   GraphFunction step = graph([&](TensorList in) -> std::vector<Tensor> { ... return {loss}; });
//   Tensor loss = step({images, labels})[0];
//
// Note [Calls]. The first call with inputs of some sizes, strides and dtypes runs `f` itself: what is set up once is set
// up then. The second one captures `f` and replays it, later ones replay. Each call runs `f`'s work exactly once, on the
// current stream, with the inputs copied to memory of the graph (which costs nothing where they are that memory: see
// inputs()). Results of a replay lie in the graph's memory: the next call writes over them. Numbers that `f` computes on
// the host stay what they were at the capture (Note [Captured values] in streams/graph.h).
// Thread safety: one call at a time.
#pragma once

#include <tenon/core/tensor.h>
#include <tenon/streams/graph.h>

#include <vector>

namespace tenon {

struct GraphFunctionOptions {
  int warm_up = 1;                ///< calls that run `f` itself, for each kind of inputs
  Device device = Device(kCUDA);  ///< for functions without inputs
};

class TENON_API GraphFunction {
 public:
  using Body = Function<std::vector<Tensor>(TensorList inputs)>;
  explicit GraphFunction(Body f, const GraphFunctionOptions& options = {});
  GraphFunction(GraphFunction&&) noexcept;
  ~GraphFunction();

  /// Inputs on one device of cuda or sim; DeviceError otherwise. CaptureError when `f` cannot be captured.
  std::vector<Tensor> operator()(TensorList inputs);
  std::vector<Tensor> operator()(std::initializer_list<Tensor> inputs) {
    return (*this)(TensorList(inputs.begin(), inputs.size()));
  }
  /// The graph's own inputs of the kind of `like`, empty before its capture: whoever fills these saves a copy.
  std::vector<Tensor> inputs(TensorList like) const;
  /// Captures made so far, one for each kind of inputs.
  int64_t graphs() const;
  /// Gives everything back; the next call begins anew.
  void reset();

 private:
  struct Kind;
  Kind* find(TensorList inputs) const;
  Body f_;
  GraphFunctionOptions options_;
  MemPool pool_;
  std::vector<Kind*> kinds_;
};

inline GraphFunction graph(GraphFunction::Body f, const GraphFunctionOptions& options = {}) {
  return GraphFunction(static_cast<GraphFunction::Body&&>(f), options);
}

}  // namespace tenon
