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
// Every call makes an object, which lives in the graph: members keep what is not a tensor. forward takes any arguments
// (tensors and vectors of tensors among them are the inputs, in order) and returns a Tensor, a std::tuple of them or a
// std::vector<Tensor>; it runs without recording. backward(grads) takes one gradient per output and returns one per
// input, undefined for none: Tensor(const Tensor&) where there is one of each, else
// std::vector<Tensor>(std::span<const Tensor>). Written in operators, it can be differentiated again.
#pragma once

#include <tenon/autograd/node.h>
#include <tenon/dispatch/thread_state.h>

namespace tenon::autograd {

class TENON_API FunctionNode : public Node {
 public:
  std::string name() const override { return name_; }
  void apply(std::span<Tensor> grads, std::span<Tensor> results) final;
  void release_saved() noexcept final;

 protected:
  FunctionNode();
  ~FunctionNode() override;

  /// Keeps inputs or outputs for backward, with their versions. In forward only.
  template <class... T>
  void save(const T&... tensors) {
    (keep(tensors), ...);
  }
  /// The i-th tensor saved. An intermediate that is neither input nor output cannot be differentiated through.
  Tensor saved(std::size_t i) const;
  /// Whether the gradient of input `i` is wanted.
  bool needs(std::size_t i) const { return should_compute(i); }
  /// Says that forward wrote to this input, which it returns.
  void mark_dirty(const Tensor& input);
  /// Says that this output has no gradient.
  void mark_non_differentiable(const Tensor& output);
  /// Whether backward gets zeros (default) or undefined tensors for outputs without a gradient.
  void materialize_grads(bool on) { materialize_ = on; }

  virtual std::vector<Tensor> call_backward(std::span<const Tensor> grads) = 0;
  /// Before forward. Returns whether anything is to be recorded.
  bool begin(const char* type_name, TensorList inputs);
  void finish(std::span<Tensor*> outputs);

 private:
  struct State;
  void keep(const Tensor& t);
  State* state_;
  std::string name_;
  bool materialize_ = true;
};

namespace detail {
inline void collect(std::vector<Tensor>& list, const Tensor& t) { list.push_back(t); }
inline void collect(std::vector<Tensor>& list, const std::vector<Tensor>& t) {
  list.insert(list.end(), t.begin(), t.end());
}
template <class T>
void collect(std::vector<Tensor>&, const T&) {}

inline std::vector<Tensor*> outputs_of(Tensor& t) { return {&t}; }
inline std::vector<Tensor*> outputs_of(std::vector<Tensor>& list) {
  std::vector<Tensor*> out;
  for (Tensor& t : list) out.push_back(&t);
  return out;
}
template <class... T>
std::vector<Tensor*> outputs_of(std::tuple<T...>& t) {
  return std::apply([](auto&... each) { return std::vector<Tensor*>{&each...}; }, t);
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
      std::vector<Tensor*> outputs = detail::outputs_of(result);
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
