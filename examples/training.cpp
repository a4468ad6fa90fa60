// SPDX-License-Identifier: Apache-2.0
// The code of docs/training.md: data, optimizers, schedules and checkpoints around a small model.
#include <tenon/data/loader.h>
#include <tenon/data/prefetcher.h>
#include <tenon/data/safetensors.h>
#include <tenon/tenon.h>

#include <cstdio>
#include <iostream>

using namespace tenon;

namespace {

// Points of two interleaved half circles, and on which of the two each lies.
struct Moons : data::Dataset {
  int64_t size() const override { return 512; }
  data::Batch get(int64_t i) const override {
    const Tensor angle = rand({}) * 3.14159265f;  // from this batch's own generator: the same for any number of workers
    const Tensor circle = stack(std::vector<Tensor>{cos(angle), sin(angle)});
    const Tensor shift = from_vector(std::vector<float>{1, 0.5});
    return {i % 2 == 0 ? circle : shift - circle, full({}, i % 2, kInt64)};
  }
};

struct Classifier : nn::Module {
  nn::Linear hidden{2, 32}, output{32, 2};
  void members(nn::Members& m) override { m("hidden", hidden)("output", output); }
  Tensor forward(const Tensor& x) override { return output(tanh(hidden(x))); }
};

double accuracy(Classifier& model, data::DataLoader& loader, Device device) {
  const NoGradGuard no_grad;
  int64_t right = 0, count = 0;
  for (const data::Batch& batch : data::DevicePrefetcher(loader, device)) {
    right += model(batch[0]).argmax(1).eq(batch[1]).sum().item<int64_t>();
    count += batch[1].size(0);
  }
  return static_cast<double>(right) / static_cast<double>(count);
}

}  // namespace

int main() {
  const Device device = cuda::is_available() ? Device(kCUDA) : Device(kCPU);
  manual_seed(1);
  Classifier model;
  model.to(device);

  Moons dataset;
  data::DataLoader loader(dataset, {.batch_size = 64, .workers = 2, .shuffle = true, .pin_memory = true, .seed = 7});

  optim::AdamW optimizer({{{model.hidden.weight, model.output.weight}, {.lr = 0.02, .weight_decay = 0.01}},
                          {{model.hidden.bias, model.output.bias}, {.lr = 0.02, .weight_decay = 0}}});
  const int64_t epochs = 60, steps = epochs * loader.size();
  optim::SequentialLR scheduler(optimizer, {10}, optim::linear(0.1, 1, 10), optim::cosine(steps - 10));
  optim::ExponentialMovingAverage average(model.parameters(), 0.98, /*warmup=*/true);

  for (int64_t epoch = 0; epoch < epochs; ++epoch)
    for (const data::Batch& batch : data::DevicePrefetcher(loader, device)) {
      const Tensor loss = cross_entropy(model(batch[0]), batch[1]);
      optimizer.zero_grad();
      loss.backward();
      nn::clip_grad_norm_(model.parameters(), 1.0);
      optimizer.step();
      scheduler.step();
      average.update();
    }
  average.swap();  // evaluate with the averages
  const double final_accuracy = accuracy(model, loader, device);
  average.swap();
  std::cout << "accuracy " << final_accuracy << ", learning rate " << scheduler.last_lr()[0] << "\n";

  data::save_safetensors("training_model.safetensors", model.state());
  data::save_safetensors("training_optimizer.safetensors", optimizer.state_dict());
  data::save_safetensors("training_scheduler.safetensors", scheduler.state_dict());

  model.load_state(data::load_safetensors("training_model.safetensors"));
  optimizer.load_state_dict(data::load_safetensors("training_optimizer.safetensors"));
  scheduler.load_state_dict(data::load_safetensors("training_scheduler.safetensors"));
  loader.set_epoch(epochs);  // go on with the order the next epoch would have had
  for (const char* name :
       {"training_model.safetensors", "training_optimizer.safetensors", "training_scheduler.safetensors"})
    std::remove(name);

  Tensor rate = zeros({}, kFloat64).requires_grad_();  // fits exp(-rate t) to measurements
  const Tensor t = linspace(0, 2, 9, kFloat64), measured = exp(t * -1.5);
  optim::LBFGS fit({rate}, {.strong_wolfe = true});
  fit.step([&] {
    fit.zero_grad();
    Tensor loss = square(exp(t * -rate) - measured).sum();
    loss.backward();
    return loss;
  });
  const double fitted = rate.item<double>();
  std::cout << "fitted rate " << fitted << "\n";
  return final_accuracy > 0.95 && fitted > 1.4999 && fitted < 1.5001 ? 0 : 1;
}
