// SPDX-License-Identifier: Apache-2.0
#include <tenon/nn/sequential.h>

namespace tenon::nn {

Sequential::Sequential(const Sequential& o) : Module(o) {
  for (const Item& item : o.items_) items_.push_back({item.copy(*item.module), item.copy, item.name});
}
Sequential::~Sequential() {
  for (const Item& item : items_) delete item.module;
}
void Sequential::members(Members& m) {
  for (Item& item : items_) m(item.name.c_str(), *item.module);
}
Tensor Sequential::forward(const Tensor& input) {
  Tensor x = input;
  for (Item& item : items_) x = item.module->forward(x);
  return x;
}

}  // namespace tenon::nn
