// SPDX-License-Identifier: Apache-2.0
// Modules that hold modules of any type: Sequential calls them one after the other, ModuleList and ModuleDict only keep
// them. Where all are of one type, a std::vector of it is a list of modules, and one of tensors a list of parameters.
#pragma once

#include <tenon/nn/module.h>

namespace tenon::nn {

using ParameterList = std::vector<Tensor>;

/// Owns a module of any type. Copying copies the module, which shares its parameters.
class TENON_API AnyModule {
 public:
  template <class M>
  requires(std::is_base_of_v<ModuleBase, std::decay_t<M>>) AnyModule(M&& module)  // NOLINT(google-explicit-constructor)
      : module_(new std::decay_t<M>(std::forward<M>(module))), type_(&kType<std::decay_t<M>>) {}
  AnyModule(const AnyModule& o) : module_(o.module_ ? o.type_->copy(*o.module_) : nullptr), type_(o.type_) {}
  AnyModule(AnyModule&& o) noexcept : module_(std::exchange(o.module_, nullptr)), type_(o.type_) {}
  AnyModule& operator=(AnyModule o) noexcept {
    std::swap(module_, o.module_);
    std::swap(type_, o.type_);
    return *this;
  }
  ~AnyModule();

  ModuleBase& operator*() const { return *module_; }
  ModuleBase* operator->() const { return module_; }
  template <class M>
  M* as() const {
    return module_->as<M>();
  }
  /// ValueError when the module does not take one tensor and return one.
  Tensor operator()(const Tensor& input) const;

 private:
  struct Type {
    ModuleBase* (*copy)(const ModuleBase&);
    Tensor (*call)(ModuleBase&, const Tensor&);
  };
  template <class M>
  static ModuleBase* copy(const ModuleBase& m) {
    return new M(static_cast<const M&>(m));
  }
  template <class M>
  static Tensor call(ModuleBase& m, const Tensor& input) {
    return static_cast<M&>(m)(input);
  }
  template <class M>
  static constexpr Type make_type() {
    if constexpr (requires(M & m, const Tensor& t) { requires std::is_same_v<decltype(m.forward(t)), Tensor>; })
      return {&copy<M>, &call<M>};
    else
      return {&copy<M>, nullptr};
  }
  template <class M>
  static constexpr Type kType = make_type<M>();
  ModuleBase* module_;
  const Type* type_;
};

/// Modules by position: "0", "1", ...
class TENON_API ModuleList : public ModuleBase {
 public:
  ModuleList() = default;
  explicit ModuleList(std::vector<AnyModule> modules) : items_(std::move(modules)) {}
  template <class First, class... Modules>
  requires(std::is_base_of_v<ModuleBase, std::decay_t<First>> &&
           (sizeof...(Modules) > 0 || !std::is_same_v<std::decay_t<First>, ModuleList>))
      ModuleList(First&& first, Modules&&... modules) {
    items_.reserve(1 + sizeof...(modules));
    items_.emplace_back(std::forward<First>(first));
    (items_.emplace_back(std::forward<Modules>(modules)), ...);
  }
  ModuleList& append(AnyModule module);
  ModuleList& insert(std::size_t position, AnyModule module);
  std::size_t size() const { return items_.size(); }
  /// IndexError when there is no module `i`.
  AnyModule& operator[](std::size_t i);
  /// Module `i` as an M; ValueError when it is of another type.
  template <class M>
  M& at(std::size_t i) {
    M* const m = (*this)[i].as<M>();
    TENON_CHECK(m, ValueError, "ModuleList: module ", i, " is of another type: ", (*this)[i]->describe());
    return *m;
  }
  auto begin() { return items_.begin(); }
  auto end() { return items_.end(); }
  void members(Members& m) override;
  std::string describe() const override { return "ModuleList"; }

 protected:
  std::vector<AnyModule> items_;
};

/// Modules one after the other: `Sequential net(Linear(784, 512), ReLU(), Linear(512, 10));` Any type that takes a tensor and
/// returns one will do.
class TENON_API Sequential : public Module {
 public:
  Sequential() = default;
  explicit Sequential(std::vector<AnyModule> modules) : list_(std::move(modules)) {}
  template <class First, class... Modules>
  requires(std::is_base_of_v<ModuleBase, std::decay_t<First>> &&
           (sizeof...(Modules) > 0 ||
            !std::is_same_v<std::decay_t<First>, Sequential>)) explicit Sequential(First&& first, Modules&&... modules)
      : list_(std::forward<First>(first), std::forward<Modules>(modules)...) {}
  template <class M>
  Sequential& append(M&& module) {
    list_.append(std::forward<M>(module));
    return *this;
  }
  std::size_t size() const { return list_.size(); }
  AnyModule& operator[](std::size_t i) { return list_[i]; }
  template <class M>
  M& at(std::size_t i) {
    return list_.at<M>(i);
  }
  auto begin() { return list_.begin(); }
  auto end() { return list_.end(); }
  void members(Members& m) override { list_.members(m); }
  Tensor forward(const Tensor& input) override;
  std::string describe() const override { return "Sequential"; }

 private:
  ModuleList list_;
};

/// Modules by name, in the order they came: `ModuleDict heads{{"class", Linear(8, 10)}, {"box", Linear(8, 4)}};`
class TENON_API ModuleDict : public ModuleBase {
 public:
  using Item = std::pair<std::string, AnyModule>;
  ModuleDict() = default;
  ModuleDict(std::initializer_list<Item> items);
  /// ValueError when there is a module of that name.
  ModuleDict& insert(std::string name, AnyModule module);
  bool contains(std::string_view name) const;
  std::size_t size() const { return items_.size(); }
  /// ValueError, naming those there are, when there is none of that name.
  AnyModule& operator[](std::string_view name);
  auto begin() { return items_.begin(); }
  auto end() { return items_.end(); }
  void members(Members& m) override;
  std::string describe() const override { return "ModuleDict"; }

 private:
  std::vector<Item> items_;
};

}  // namespace tenon::nn
