// SPDX-License-Identifier: Apache-2.0
// Command line of the Fashion-MNIST example.
#pragma once

#include <tenon/core/device.h>

#include <cstdint>
#include <string>

namespace example {

struct Options {
  std::string device = "auto", optimizer = "adamw";
  std::string data = "/usr/share/datasets/fashion-mnist";
  std::string weights = "fashion_mnist.safetensors", curve = "fashion_mnist_loss.svg";
  int64_t epochs = 8, batch = 128;
  double lr = 1e-3;
  uint64_t seed = 1;
};

/// Exits with the usage text on --help; ValueError on anything it does not understand.
Options parse_options(int argc, char** argv);
/// "auto" is the GPU where one can be used.
tenon::Device choose_device(const std::string& name);

}  // namespace example
