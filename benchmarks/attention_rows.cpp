// SPDX-License-Identifier: Apache-2.0
// Attention, causal, and a step of an LSTM (forward and backward).
#include "bench.h"

#include <tenon/tenon.h>

#include <memory>

namespace tenon::bench {
namespace {

struct Case {
  const char* name;
  DType dtype;
  int64_t batch, heads, length, width;
};

void attention_rows(const std::string& device, const Case& c, bool backward) {
  const double pairs = static_cast<double>(c.batch * c.heads * c.length) * static_cast<double>(c.length) / 2;
  const double flops = 4 * pairs * static_cast<double>(c.width) * (backward ? 3.5 : 1);
  add_row({std::string("attention ") + (backward ? "forward and backward " : "forward ") + c.name, device,
           Bound::compute, flops, [=] {
             const auto input = [&] {
               const Tensor t = randn({c.batch, c.heads, c.length, c.width}, TensorOptions(Device(device))).to(c.dtype);
               return t.detach().requires_grad_(backward);
             };
             return [q = input(), k = input(), v = input(), backward, g = input().detach()] {
               const Tensor y = scaled_dot_product_attention(q, k, v, {.is_causal = true});
               if (!backward) return;
               y.backward(g);
               for (const Tensor* t : {&q, &k, &v}) t->set_grad({});
             };
           }});
}

void lstm_row(const std::string& device, bool backward) {
  add_row({backward ? "lstm forward and backward" : "lstm forward", device, Bound::host, 0, [=] {
             struct State {
               nn::LSTM lstm{128, 256};
               Tensor x;
             };
             auto s = std::make_shared<State>();
             s->lstm.to(Device(device)).requires_grad_(backward);
             s->x = randn({32, 64, 128}, TensorOptions(Device(device)));
             return [s, backward] {
               const Tensor y = std::get<0>(s->lstm(s->x));
               if (!backward) return;
               y.sum().backward();
               s->lstm.zero_grad();
             };
           }});
}

const bool registered = [] {
  for (const char* device : {"cpu", "cuda"}) {
    const bool gpu = std::string_view(device) == "cuda";
    for (const Case& c : {gpu ? Case{"bf16", kBFloat16, 4, 32, 4096, 64} : Case{"f32", kFloat32, 2, 8, 512, 64}})
      for (const bool backward : {false, true}) attention_rows(device, c, backward);
    for (const bool backward : {false, true}) lstm_row(device, backward);
  }
  return true;
}();

}  // namespace
}  // namespace tenon::bench
