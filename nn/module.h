// SPDX-License-Identifier: Apache-2.0
// Module: something with parameters and a forward function. Modules are values: members are members, and one function
// names them. Parameters, buffers, children, moving to a device, state and printing all walk that one list:
//
//   struct Mlp : nn::Module {
//     nn::Linear hidden{784, 512}, output{512, 10};
//     void members(nn::Members& m) override { m("hidden", hidden)("output", output); }
//     Tensor forward(const Tensor& x) override { return output(relu(hidden(x))); }
//   };
//
// Copying a module copies handles: both copies share parameters. An independent one is a new module that loads the
// state() of the first.
// Thread safety: forward in several threads is fine while nobody changes the module.
#pragma once

#include <tenon/core/tensor.h>

#include <string>
#include <utility>
#include <vector>

namespace tenon::nn {

class Module;

/// Visits the members of a module. What a walk does with them is up to the class that implements it.
class TENON_API Members {
 public:
  virtual ~Members();
  /// A parameter (trained; may be undefined, as a bias left out).
  Members& operator()(const char* name, Tensor& parameter) {
    visit_parameter(name, parameter);
    return *this;
  }
  /// A child.
  Members& operator()(const char* name, Module& child) {
    visit_child(name, child);
    return *this;
  }
  /// A tensor that belongs to the state but is not trained.
  Members& buffer(const char* name, Tensor& tensor) {
    visit_buffer(name, tensor);
    return *this;
  }

 protected:
  virtual void visit_parameter(const char* name, Tensor& parameter) = 0;
  virtual void visit_buffer(const char* name, Tensor& buffer) = 0;
  virtual void visit_child(const char* name, Module& child) = 0;
};

struct NamedTensor {
  std::string name;  ///< "hidden.weight"
  Tensor tensor;
};

class TENON_API Module {
 public:
  Module() = default;
  Module(const Module&) = default;
  Module& operator=(const Module&) = default;
  virtual ~Module();

  virtual Tensor forward(const Tensor& input) = 0;
  /// Names the members; leave it out when there are none.
  virtual void members(Members& m);
  /// The class as printed: "Linear(in_features=784, out_features=512, bias=true)".
  virtual std::string describe() const;

  Tensor operator()(const Tensor& input) { return forward(input); }

  /// Parameters of this module and its children, in the order of members(); undefined ones are left out, and
  /// one that several members share is given once.
  std::vector<Tensor> parameters();
  std::vector<NamedTensor> named_parameters();
  /// Parameters and buffers: what load_state takes.
  std::vector<NamedTensor> state();
  /// Copies values into parameters and buffers of the same name; ValueError naming what is missing, unexpected or of
  /// another shape before anything is changed.
  void load_state(const std::vector<NamedTensor>& state);
  /// The same from pairs of a name and a tensor: `model.load_state(data::load_safetensors(path))`.
  template <class Pair, class = decltype(NamedTensor{std::declval<Pair>().first, std::declval<Pair>().second})>
  void load_state(const std::vector<Pair>& pairs) {
    std::vector<NamedTensor> given;
    for (const Pair& p : pairs) given.push_back({p.first, p.second});
    load_state(given);
  }

  /// Moves parameters and buffers in place: handles to them, an optimizer's too, see the new data. Gradients are dropped.
  Module& to(Device device);
  /// Converts floating parameters and buffers.
  Module& to(DType dtype);
  Module& train(bool on = true);
  Module& eval() { return train(false); }
  bool is_training() const { return training_; }
  /// Drops every parameter's gradient.
  void zero_grad();
  int64_t parameter_count();
  /// The module and its children as an indented tree.
  std::string str();

 private:
  bool training_ = true;
};

/// std::cout << model: str().
template <class Stream, class = decltype(std::declval<Stream&>().flush())>
Stream& operator<<(Stream& stream, Module& module) {
  stream << module.str();
  return stream;
}

/// A leaf that requires grad, made from `value`.
TENON_API Tensor parameter(Tensor value);

}  // namespace tenon::nn
