// SPDX-License-Identifier: Apache-2.0
// Trains a multi-layer perceptron on Fashion-MNIST (Xiao et al. 2017): 60,000 training and 10,000 test images of 28 x 28
// grey values in ten classes. Writes the loss curve as SVG and the weights as safetensors. The same seed on the same
// device gives the same result.
#include "options.h"
#include "report.h"

#include <tenon/data/idx.h>
#include <tenon/data/safetensors.h>
#include <tenon/tenon.h>

#include <chrono>
#include <cstdio>
#include <iostream>
#include <memory>

using namespace tenon;

namespace {

struct Mlp : nn::Module {
  nn::Sequential layers{nn::Linear(784, 512), nn::ReLU(), nn::Linear(512, 512), nn::ReLU(), nn::Linear(512, 10)};

  void members(nn::Members& m) override { m("layers", layers); }
  Tensor forward(const Tensor& images) override { return layers(images); }
  std::string describe() const override { return "Mlp"; }
};

struct Samples {
  Tensor images;  // float32 [N, 784], mean 0 and deviation 1 over the training set
  Tensor labels;  // int64 [N]
};

Samples prepare(const data::LabelledImages& set, Device device) {
  const Tensor pixels = set.images.to(device).to(kFloat32).reshape({set.images.size(0), 784});
  return {(pixels / 255 - 0.2860) / 0.3530, set.labels.to(device).to(kInt64)};
}

double accuracy(Mlp& model, const Samples& set, int64_t batch) {
  const NoGradGuard no_grad;
  model.eval();
  Tensor correct = zeros({}, TensorOptions(kInt64).device(set.labels.device()));
  for (int64_t at = 0; at < set.labels.size(0); at += batch) {
    const Tensor guess = model(set.images.slice(0, at, at + batch)).argmax(1);
    correct += guess.eq(set.labels.slice(0, at, at + batch)).sum();
  }
  model.train();
  return static_cast<double>(correct.item<int64_t>()) / static_cast<double>(set.labels.size(0));
}

std::unique_ptr<optim::Optimizer> make_optimizer(const example::Options& o, std::vector<Tensor> parameters) {
  if (o.optimizer == "sgd")
    return std::make_unique<optim::SGD>(std::move(parameters), optim::SGDOptions{.lr = o.lr, .momentum = 0.9});
  return std::make_unique<optim::AdamW>(std::move(parameters), optim::AdamWOptions{.lr = o.lr});
}

int train(const example::Options& options) {
  const Device device = example::choose_device(options.device);
  manual_seed(options.seed);
  const data::FashionMnist files = data::read_fashion_mnist(options.data);
  const Samples training = prepare(files.train, device), test = prepare(files.test, device);

  Mlp model;
  model.to(device);
  const auto optimizer = make_optimizer(options, model.parameters());
  const int64_t count = training.labels.size(0), batches = (count + options.batch - 1) / options.batch;
  std::cout << model.str() << "\n"
            << model.parameter_count() << " parameters on " << device.str() << ", " << count << " images, batches of "
            << options.batch << "\n";

  std::vector<double> curve;
  double final_accuracy = 0;
  const auto begin = std::chrono::steady_clock::now();
  for (int64_t epoch = 1; epoch <= options.epochs; ++epoch) {
    example::ProgressBar bar(epoch, options.epochs, batches);
    const Tensor order = randperm(count).to(device);
    Tensor running = zeros({}, TensorOptions(device));
    for (int64_t b = 0; b < batches; ++b) {
      const Tensor rows = order.slice(0, b * options.batch, (b + 1) * options.batch);
      const Tensor loss =
          cross_entropy(model(training.images.index_select(0, rows)), training.labels.index_select(0, rows));
      optimizer->zero_grad();
      loss.backward();
      optimizer->step();
      running += loss.detach();
      // Reading the loss waits for the device, so it is done a few times per epoch only.
      if ((b + 1) % example::kReadEvery == 0 || b + 1 == batches) {
        const int64_t since = b % example::kReadEvery + 1;
        curve.push_back(running.item<double>() / static_cast<double>(since));
        running.zero_();
        bar.update(b + 1, curve.back(), options.batch, memory::memory_allocated(device));
      }
    }
    final_accuracy = accuracy(model, test, 1000);
    bar.finish(final_accuracy);
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  std::printf("test accuracy %.2f %% after %.1f s, %.0f images/s\n", 100 * final_accuracy, seconds,
              static_cast<double>(options.epochs * count) / seconds);

  data::save_safetensors(options.weights, model.state());
  example::write_loss_curve(options.curve, curve, options.epochs);
  std::cout << "weights: " << options.weights << "\nloss curve: " << options.curve << std::endl;
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return train(example::parse_options(argc, argv));
  } catch (const std::exception& e) {
    std::cerr << "fashion_mnist: " << e.what() << '\n';
    return 1;
  }
}
