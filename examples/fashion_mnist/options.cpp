// SPDX-License-Identifier: Apache-2.0
#include "options.h"

#include <tenon/streams/availability.h>

#include <charconv>
#include <cstdlib>
#include <cstring>
#include <iostream>

namespace example {
namespace {

constexpr const char* kUsage =
    "fashion_mnist: trains a multi-layer perceptron on Fashion-MNIST\n"
    "  --device auto|cpu|cuda   where to train (default auto)\n"
    "  --epochs N               passes over the 60,000 images (default 8)\n"
    "  --batch N                images per step (default 128)\n"
    "  --lr X                   learning rate (default 0.001)\n"
    "  --optimizer adamw|sgd    (default adamw)\n"
    "  --seed N                 initial weights and order of the images (default 1)\n"
    "  --data DIR               the four IDX files (default /usr/share/datasets/fashion-mnist)\n"
    "  --weights FILE           safetensors to write (default fashion_mnist.safetensors)\n"
    "  --curve FILE             SVG of the loss to write (default fashion_mnist_loss.svg)\n";

template <class T>
T number(const std::string& flag, const char* text, T least) {
  T value{};
  const auto [end, error] = std::from_chars(text, text + std::strlen(text), value);
  TENON_CHECK(error == std::errc() && *end == 0 && value >= least, ValueError, flag, ": expected a number of at least ",
              static_cast<double>(least), ", got ", text);
  return value;
}

}  // namespace

Options parse_options(int argc, char** argv) {
  Options o;
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    if (flag == "--help" || flag == "-h") {
      std::cout << kUsage;
      std::exit(0);
    }
    TENON_CHECK(i + 1 < argc, ValueError, flag, ": a value is missing\n", kUsage);
    const char* value = argv[++i];
    if (flag == "--device")
      o.device = value;
    else if (flag == "--optimizer")
      o.optimizer = value;
    else if (flag == "--data")
      o.data = value;
    else if (flag == "--weights")
      o.weights = value;
    else if (flag == "--curve")
      o.curve = value;
    else if (flag == "--epochs")
      o.epochs = number<int64_t>(flag, value, 1);
    else if (flag == "--batch")
      o.batch = number<int64_t>(flag, value, 1);
    else if (flag == "--lr")
      o.lr = number<double>(flag, value, 0);
    else if (flag == "--seed")
      o.seed = number<uint64_t>(flag, value, 0);
    else
      TENON_CHECK(false, ValueError, "unknown option ", flag, "\n", kUsage);
  }
  TENON_CHECK(o.optimizer == "adamw" || o.optimizer == "sgd", ValueError, "--optimizer: expected adamw or sgd, got ",
              o.optimizer);
  return o;
}

tenon::Device choose_device(const std::string& name) {
  if (name != "auto") return tenon::Device(name);
  return tenon::cuda::is_available() ? tenon::Device(tenon::kCUDA, 0) : tenon::Device(tenon::kCPU);
}

}  // namespace example
