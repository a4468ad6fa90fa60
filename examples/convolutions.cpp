// SPDX-License-Identifier: Apache-2.0
// Convolutions as functions and as layers. docs/convolutions.md quotes the marked parts.
#include <tenon/tenon.h>

#include <cstdlib>
#include <iostream>

using namespace tenon;

namespace {

void expect(bool right, const char* what) {
  if (right) return;
  std::cerr << "not as said: " << what << "\n";
  std::exit(1);
}

void functions() {
  // [functions]
  Tensor x = randn({8, 3, 32, 40}), w = randn({16, 3, 3, 3}), b = randn({16});
  Tensor y = conv2d(x, w, b, 1, 1);                                        // [8, 16, 32, 40]: stride 1, one zero around
  Tensor s = conv2d(x, w, b, {2, 1}, "valid");                             // [8, 16, 15, 38]
  Tensor d = conv2d(x, w, {}, 1, "same", 2);                               // no bias, dilation 2, the size kept
  Tensor up = conv_transpose2d(y, w, {}, 2, 1, 1);                         // [8, 3, 64, 80]
  Tensor one = conv1d(randn({4, 100}), randn({4, 1, 5}), {}, 1, 0, 1, 4);  // [4, 96]: depthwise, no batch
  // [functions]
  expect(y.sizes() == IntArrayRef({8, 16, 32, 40}), "y");
  expect(s.sizes() == IntArrayRef({8, 16, 15, 38}), "s");
  expect(d.sizes() == IntArrayRef({8, 16, 32, 40}), "d");
  expect(up.sizes() == IntArrayRef({8, 3, 64, 80}), "up");
  expect(one.sizes() == IntArrayRef({4, 96}), "one");
}

void layers() {
  // [layers]
  nn::Sequential net(nn::Conv2d(1, 16, 3, {.padding = "same"}), nn::ReLU(),
                     nn::Conv2d(16, 32, 3, {.stride = {2}, .padding = 1, .padding_mode = "reflect"}), nn::ReLU(),
                     nn::ConvTranspose2d(32, 1, 4, {.stride = {2}, .padding = {1}}));
  Tensor images = randn({8, 1, 28, 28});
  Tensor loss = mse_loss(net(images), images);
  loss.backward();
  // [layers]
  expect(net(images).sizes() == images.sizes(), "net");
  for (const Tensor& p : net.parameters()) expect(p.grad().defined(), "gradients");
}

void formats() {
  // [formats]
  Tensor x = randn({2, 8, 14, 14}).contiguous(MemoryFormat::channels_last);
  bool kept = conv2d(x, randn({8, 8, 3, 3})).is_contiguous(MemoryFormat::channels_last);  // true
  // [formats]
  expect(kept, "formats");
}

}  // namespace

int main() {
  functions();
  layers();
  formats();
}
