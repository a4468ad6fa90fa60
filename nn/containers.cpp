// SPDX-License-Identifier: Apache-2.0
#include <tenon/nn/containers.h>

namespace tenon::nn {

AnyModule::~AnyModule() { delete module_; }
Tensor AnyModule::operator()(const Tensor& input) const {
  TENON_CHECK(type_->call, ValueError, module_->describe(),
              ": forward: expected a module that takes a tensor and returns one; call it through as<>()");
  return type_->call(*module_, input);
}

ModuleList& ModuleList::append(AnyModule module) {
  items_.push_back(std::move(module));
  return *this;
}
ModuleList& ModuleList::insert(std::size_t position, AnyModule module) {
  TENON_CHECK(position <= items_.size(), IndexError, "ModuleList: insert: expected a position up to ", items_.size(),
              ", got ", position);
  items_.insert(items_.begin() + static_cast<std::ptrdiff_t>(position), std::move(module));
  return *this;
}
AnyModule& ModuleList::operator[](std::size_t i) {
  TENON_CHECK(i < items_.size(), IndexError, "ModuleList: expected a position below ", items_.size(), ", got ", i);
  return items_[i];
}
void ModuleList::members(Members& m) {
  for (std::size_t i = 0; i < items_.size(); ++i) m(std::to_string(i), *items_[i]);
}

Tensor Sequential::forward(const Tensor& input) {
  Tensor x = input;
  for (const AnyModule& m : list_) x = m(x);
  return x;
}

ModuleDict::ModuleDict(std::initializer_list<Item> items) {
  for (const Item& item : items) insert(item.first, item.second);
}
bool ModuleDict::contains(std::string_view name) const {
  for (const Item& item : items_)
    if (item.first == name) return true;
  return false;
}
ModuleDict& ModuleDict::insert(std::string name, AnyModule module) {
  TENON_CHECK(!contains(name), ValueError, "ModuleDict: insert: there is a module ", name);
  items_.emplace_back(std::move(name), std::move(module));
  return *this;
}
AnyModule& ModuleDict::operator[](std::string_view name) {
  std::string names;
  for (Item& item : items_) {
    if (item.first == name) return item.second;
    names += (names.empty() ? "" : ", ") + item.first;
  }
  TENON_CHECK(false, ValueError, "ModuleDict: expected one of {", names, "}, got ", name);
}
void ModuleDict::members(Members& m) {
  for (auto& [name, module] : items_) m(name, *module);
}

}  // namespace tenon::nn
