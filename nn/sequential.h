// SPDX-License-Identifier: Apache-2.0
// Sequential: modules one after the other. `Sequential net(Linear(784, 512), ReLU(), Linear(512, 10));`
#pragma once

#include <tenon/nn/module.h>

namespace tenon::nn {

/// Owns its modules. Copying copies each of them, which shares their parameters.
class TENON_API Sequential : public Module {
 public:
  template <class... Modules>
  requires(std::is_base_of_v<Module, std::decay_t<Modules>>&&...) explicit Sequential(Modules&&... modules) {
    (append(std::forward<Modules>(modules)), ...);
  }
  Sequential(const Sequential& o);
  Sequential(Sequential&& o) noexcept : Module(o), items_(std::move(o.items_)) {}
  Sequential(Sequential& o) : Sequential(static_cast<const Sequential&>(o)) {}
  Sequential& operator=(Sequential o) noexcept {
    items_.swap(o.items_);
    return *this;
  }
  ~Sequential() override;

  template <class M>
  Sequential& append(M&& module) {
    using Stored = std::decay_t<M>;
    items_.push_back({new Stored(std::forward<M>(module)),
                      [](const Module& m) -> Module* { return new Stored(static_cast<const Stored&>(m)); },
                      std::to_string(items_.size())});
    return *this;
  }
  std::size_t size() const { return items_.size(); }
  /// IndexError when there is no module `i`.
  Module& operator[](std::size_t i) {
    TENON_CHECK(i < items_.size(), IndexError, "Sequential: expected a position below ", items_.size(), ", got ", i);
    return *items_[i].module;
  }

  void members(Members& m) override;
  Tensor forward(const Tensor& input) override;
  std::string describe() const override { return "Sequential"; }

 private:
  struct Item {
    Module* module;
    Module* (*copy)(const Module&);
    std::string name;
  };
  std::vector<Item> items_;
};

}  // namespace tenon::nn
