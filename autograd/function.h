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
// tensors, optional tensors and lists of them are the inputs, in order; it returns a Tensor, a std::tuple or a
// std::vector<Tensor>, and runs without recording. backward(grads) takes one gradient per output and returns one per
// input, undefined for none: Tensor(const Tensor&) where there is one of each, else
// std::vector<Tensor>(std::span<const Tensor>). Written in operators, it can be differentiated again. Outputs of integer
// dtype have no gradient. An output that is an input, or a view of one, cannot be written in place afterwards.
// Errors of the class (AutogradError) begin with its name.
#pragma once

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
  void finish(std::span<Tensor*> outputs);

 private:
  struct State;
  struct Call;
  void keep(const Tensor& t);
  void check_writes(std::span<Tensor*> outputs) const;
  void set_written(const Tensor& t, std::size_t input, std::size_t output);
  std::vector<Tensor> call_once(std::span<const Tensor> grads);
  State* state_;
  const char* type_name_ = "";
  bool materialize_ = true;
  bool once_ = false;
};

namespace detail {
inline void collect(std::vector<Tensor>& list, const Tensor& t) { list.push_back(t); }
inline void collect(std::vector<Tensor>& list, const std::optional<Tensor>& t) { list.push_back(t ? *t : Tensor()); }
inline void collect(std::vector<Tensor>& list, TensorList t) { list.insert(list.end(), t.begin(), t.end()); }
inline void collect(std::vector<Tensor>& list, const std::vector<Tensor>& t) { collect(list, TensorList(t)); }
template <class T>
void collect(std::vector<Tensor>&, const T&) {}

inline void append(std::vector<Tensor*>& list, Tensor& t) { list.push_back(&t); }
inline void append(std::vector<Tensor*>& list, std::vector<Tensor>& t) {
  for (Tensor& each : t) list.push_back(&each);
}
template <class... T>
void append(std::vector<Tensor*>& list, std::tuple<T...>& t) {
  std::apply([&](auto&... each) { (append(list, each), ...); }, t);
}
}  // namespace detail

template <class Derived>
class Function : public FunctionNode {
 public:
  template <class... Args>
  static auto apply(const Args&... args) {
    Derived* derived = new Derived;
    const Ref<Node> node = Ref<Node>::adopt(derived);
    std::vector<Tensor> inputs;
    (detail::collect(inputs, args), ...);
    Function* self = derived;
    const bool recorded = self->begin(__PRETTY_FUNCTION__, inputs);
    auto result = [&] {
      const NoGradGuard guard;
      return derived->forward(args...);
    }();
    if (recorded) {
      std::vector<Tensor*> outputs;
      detail::append(outputs, result);
      self->finish(outputs);
    }
    return result;
  }

 protected:
  std::vector<Tensor> call_backward(std::span<const Tensor> grads) final {
    auto& self = static_cast<Derived&>(*this);
    if constexpr (requires { self.backward(grads); })
      return self.backward(grads);
    else
      return {self.backward(grads[0])};
  }
};

}  // namespace tenon::autograd
