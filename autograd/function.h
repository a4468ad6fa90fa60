// SPDX-License-Identifier: Apache-2.0
// Function: an operation with a gradient of your own.
//
//   struct Cube : autograd::Function<Cube> {
//     Tensor forward(const Tensor& x) {
//       save(x);
//       return x * x * x;
//     }
//     Tensor backward(const Tensor& grad) { return grad * saved(0) * saved(0) * 3; }
//   };
//   Tensor y = Cube::apply(x);
//
// Every call makes an object, which lives in the graph: members keep what is not a tensor. forward takes any arguments:
// tensors, optional tensors (absent ones are undefined inputs), and vectors, arrays, spans, pairs and tuples of them are
// the inputs, in order; it returns a Tensor or any of these, and runs without recording. backward(grads) takes one gradient
// per output and returns one per input, undefined for none: Tensor(const Tensor&) where one output is differentiable, else
// std::vector<Tensor>(std::span<const Tensor>). Written in operators, it can be differentiated again. Outputs of integer
// dtype have no gradient. An output that is an input, or a view of one, cannot be written in place afterwards.
// Errors of the class (AutogradError) begin with its name.
#pragma once

#include <tenon/autograd/arguments.h>
#include <tenon/autograd/node.h>
#include <tenon/dispatch/thread_state.h>

namespace tenon::autograd {

class TENON_API FunctionNode : public Node {
 public:
  std::string name() const override;
  void apply(std::span<Tensor> grads, std::span<Tensor> results) final;
  void release_saved() noexcept final;
  void visit_saved(const SavedVisitor& f) const final;
  std::pair<IntArrayRef, DType> input_geometry(std::size_t i) const final;

 protected:
  FunctionNode();
  ~FunctionNode() override;

  /// Keeps inputs or outputs for backward, with their versions. In forward only; undefined tensors keep their place.
  template <class... T>
  void save(const T&... tensors) {
    (keep(tensors), ...);
  }
  /// The i-th tensor saved. An intermediate that is neither input nor output cannot be differentiated through.
  Tensor saved(std::size_t i) const;
  std::size_t saved_count() const;
  /// Whether the gradient of input `i` is wanted; in forward, whether it may be.
  bool needs(std::size_t i) const { return i < edges().size() && should_compute(i); }
  /// Says that forward wrote to this input, which it returns. Leaves that require grad cannot be written to; of a view,
  /// the base's history goes on through the function, which then has this one output.
  void mark_dirty(const Tensor& input);
  /// Says that this output has no gradient.
  void mark_non_differentiable(const Tensor& output);
  /// Whether backward gets zeros (default) or undefined tensors for outputs without a gradient.
  void materialize_grads(bool on) { materialize_ = on; }
  /// Says, in forward, that backward is not written in operators: it runs without recording, and differentiating its
  /// results is an error.
  void once_differentiable() { once_ = true; }

  virtual std::vector<Tensor> call_backward(std::span<const Tensor> grads) = 0;
  /// Before forward. Returns whether anything is to be recorded.
  bool begin(const char* type_name, TensorList inputs);
  /// `one_gradient`: backward takes the gradient of one output only.
  void finish(std::span<Tensor*> outputs, bool one_gradient);
  void finish_unrecorded(std::span<Tensor*> outputs) const;
  std::size_t differentiable_output() const { return differentiable_output_; }

 private:
  struct State;
  struct Call;
  void keep(const Tensor& t);
  void check_writes(std::span<Tensor*> outputs) const;
  void check_dirty(const Tensor& t, std::size_t input) const;
  void set_written(const Tensor& t, std::size_t input, std::size_t output);
  std::vector<Tensor> call_once(std::span<const Tensor> grads);
  State* state_;
  const char* type_name_ = "";
  std::size_t differentiable_output_ = 0;
  bool materialize_ = true;
  bool once_ = false;
};

namespace internal {
// A class's backward, by what it takes. Derived is complete when these are asked.
template <class D>
concept BackwardOfSpan = requires(D& d, std::span<const Tensor> grads) {
  d.backward(grads);
};
template <class D>
concept BackwardOfVector = requires(D& d, const std::vector<Tensor>& grads) {
  d.backward(grads);
};
template <class D>
concept BackwardOfOne = requires(D& d, const Tensor& grad) {
  d.backward(grad);
};
template <class D>
concept HasBackward = BackwardOfSpan<D> || BackwardOfVector<D> || BackwardOfOne<D>;
template <class D, class... Args>
concept HasForward = requires(D& d, const Args&... args) {
  d.forward(args...);
};
}  // namespace internal

template <class Derived>
class Function : public FunctionNode {
 public:
  template <class... Args>
  static auto apply(const Args&... args) {
    static_assert(std::is_convertible_v<Derived*, Function*>,
                  "tenon: derive from autograd::Function<X> publicly, X being the class itself");
    static_assert(internal::HasForward<Derived, Args...>,
                  "tenon: the class needs a public forward() that takes these arguments (by value or const&)");
    static_assert(internal::HasBackward<Derived>,
                  "tenon: the class needs a public backward(): Tensor backward(const Tensor& grad), of one output, or "
                  "std::vector<Tensor> backward(std::span<const Tensor> grads), one gradient for each output");
    Derived* derived = new Derived;
    const Ref<Node> node = Ref<Node>::adopt(derived);
    std::vector<Tensor> inputs;
    (internal::collect(inputs, args), ...);
    Function* self = derived;
    const bool recorded = self->begin(__PRETTY_FUNCTION__, inputs);
    auto result = [&] {
      const NoGradGuard guard;
      return derived->forward(args...);
    }();
    static_assert(internal::kTensorsIn<decltype(result)>,
                  "tenon: forward() returns a Tensor, or a tuple, pair, vector or array of them");
    std::vector<Tensor*> outputs;
    internal::each_tensor(result, [&](Tensor* t) {
      if (t) outputs.push_back(t);
    });
    if (recorded)
      self->finish(outputs, !internal::BackwardOfSpan<Derived> && !internal::BackwardOfVector<Derived>);
    else
      self->finish_unrecorded(outputs);
    return result;
  }

 protected:
  std::vector<Tensor> call_backward(std::span<const Tensor> grads) final {
    std::vector<Tensor> list;
    if constexpr (std::is_convertible_v<Derived*, Function*> && internal::HasBackward<Derived>) {
      auto& self = static_cast<Derived&>(*this);
      const auto take = [&](const auto& given) {
        static_assert(internal::kTensorsIn<std::decay_t<decltype(given)>>,
                      "tenon: backward() returns a Tensor, or a std::vector<Tensor> with one gradient for each input");
        internal::collect(list, given);
      };
      if constexpr (internal::BackwardOfSpan<Derived>)
        take(self.backward(grads));
      else if constexpr (internal::BackwardOfVector<Derived>)
        take(self.backward(std::vector<Tensor>(grads.begin(), grads.end())));
      else
        take(self.backward(grads[differentiable_output()]));
    }
    return list;
  }
};

}  // namespace tenon::autograd
