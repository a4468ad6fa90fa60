// SPDX-License-Identifier: Apache-2.0
// Datasets, samplers, loaders and the prefetcher (on the simulated device and on a GPU).
#include <tenon/data/loader.h>
#include <tenon/data/prefetcher.h>
#include <tenon/ops/binary.h>
#include <tenon/ops/copy.h>
#include <tenon/ops/factory.h>
#include <tenon/ops/random.h>
#include <tenon/ops/reduce.h>
#include <tenon/ops/view.h>
#include <tenon/streams/sim.h>

#include "tests/support/catch.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <map>
#include <stdexcept>
#include <thread>

using namespace tenon;
using tenon::testing::contains;
using tenon::testing::error_of;

namespace {

using Ints = std::vector<int64_t>;

/// Sample i is i; may fail, take its time and draw random numbers.
struct Counting : data::Dataset {
  int64_t count = 23, failing = -1;
  bool noisy = false;
  mutable std::atomic<int> calls{0};
  int64_t size() const override { return count; }
  data::Batch get(int64_t i) const override {
    ++calls;
    if (i == failing) throw std::runtime_error("sample " + std::to_string(i) + " is broken");
    std::this_thread::sleep_for(std::chrono::microseconds(i * 7919 % 300));  // finish out of order
    Tensor value = full({}, i, TensorOptions(kInt64));
    return noisy ? data::Batch{value, rand({2})} : data::Batch{value};
  }
};

Ints all_of(data::DataLoader& loader) {
  Ints seen;
  for (const data::Batch& batch : loader)
    for (const int64_t i : batch[0].to_vector<int64_t>()) seen.push_back(i);
  return seen;
}
int thread_count() {
  int n = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) ++n;
  return n;
}

}  // namespace

TEST_CASE("every sample comes once, in order, whatever the number of workers") {
  Counting dataset;
  for (const int workers : {0, 1, 3, 7})
    for (const int64_t batch : {1, 4, 23, 50}) {
      data::DataLoader loader(dataset, {.batch_size = batch, .workers = workers});
      Ints expected;
      for (int64_t i = 0; i < 23; ++i) expected.push_back(i);
      CHECK(loader.size() == (23 + batch - 1) / batch);
      CHECK(all_of(loader) == expected);
    }
}

TEST_CASE("order and random numbers depend on seed and epoch alone") {
  Counting dataset;
  dataset.noisy = true;
  const auto run = [&](int workers, uint64_t seed, uint64_t from) {
    data::DataLoader loader(dataset, {.batch_size = 5, .workers = workers, .shuffle = true, .seed = seed});
    loader.set_epoch(from);
    std::vector<float> noise;
    Ints order;
    for (int epoch = 0; epoch < 2; ++epoch)
      for (const data::Batch& batch : loader) {
        for (const int64_t i : batch[0].to_vector<int64_t>()) order.push_back(i);
        for (const float v : batch[1].to_vector<float>()) noise.push_back(v);
      }
    return std::pair(order, noise);
  };
  const auto expected = run(0, 5, 0);
  for (const int workers : {1, 2, 5}) CHECK(run(workers, 5, 0) == expected);
  CHECK(run(0, 6, 0).first != expected.first);
  CHECK(run(0, 6, 0).second != expected.second);
  const Ints first(expected.first.begin(), expected.first.begin() + 23),
      second(expected.first.begin() + 23, expected.first.end());
  CHECK(first != second);
  CHECK(std::is_permutation(first.begin(), first.end(), second.begin()));
  const Ints resumed = run(3, 5, 1).first;
  CHECK(Ints(resumed.begin(), resumed.begin() + 23) == second);
}

TEST_CASE("a broken sample's exception arrives where its batch would, and the loader can be used again") {
  Counting dataset;
  dataset.failing = 13;
  for (const int workers : {0, 1, 4}) {
    data::DataLoader loader(dataset, {.batch_size = 4, .workers = workers});
    Ints seen;
    const std::string text = error_of<std::runtime_error>([&] {
      for (const data::Batch& batch : loader)
        for (const int64_t i : batch[0].to_vector<int64_t>()) seen.push_back(i);
    });
    CHECK(text == "sample 13 is broken");
    CHECK(seen.size() == 12);
    dataset.failing = -1;
    CHECK(all_of(loader).size() == 23);
    dataset.failing = 13;
  }
}

TEST_CASE("leaving early leaves no thread and no more than the prefetched work") {
  Counting dataset;
  dataset.count = 10000;
  const int before = thread_count();
  data::DataLoader loader(dataset, {.batch_size = 2, .workers = 4, .prefetch = 2});
  for (const data::Batch& batch : loader) {
    CHECK(batch[0].size(0) == 2);
    break;
  }
  CHECK(thread_count() == before);
  CHECK(dataset.calls <= (1 + 4 * 2) * 2);
}

TEST_CASE("drop_last, tensors as a dataset, waiting time") {
  const data::TensorDataset dataset({arange(10).view({10, 1}), arange(10, 20)});
  data::DataLoader loader(dataset, {.batch_size = 4, .workers = 2, .drop_last = true});
  CHECK(loader.size() == 2);
  int64_t batches = 0;
  for (const data::Batch& batch : loader) {
    CHECK(batch[0].sizes() == IntArrayRef({4, 1}));
    CHECK(batch[1].to_vector<int64_t>()[0] == 10 + 4 * batches);
    ++batches;
  }
  CHECK(batches == 2);
  CHECK(loader.wait_seconds() >= 0);
  CHECK(dataset.get(3)[1].item<int64_t>() == 13);
  const data::TensorDataset none({zeros({0, 3})});
  data::DataLoader empty(none, {.batch_size = 4, .workers = 2});
  CHECK(empty.size() == 0);
  for (const data::Batch& batch : empty) FAIL("a batch of " << batch.size());
}

TEST_CASE("samplers: permutations, subsets, weights") {
  const data::RandomSampler random(50);
  Ints order = random.indices(1, 0);
  CHECK(order != random.indices(1, 1));
  std::sort(order.begin(), order.end());
  CHECK(order == data::SequentialSampler(50).indices(0, 0));
  CHECK(data::RandomSampler(5, true, 40).indices(1, 0).size() == 40);
  Ints subset = data::SubsetRandomSampler({7, 3, 9}).indices(2, 0);
  std::sort(subset.begin(), subset.end());
  CHECK(subset == Ints{3, 7, 9});
  // Draws in proportion to 1 : 3; the standard deviation of the count is 0.0031 of 20,000.
  const Ints drawn = data::WeightedRandomSampler({1, 0, 3}, 20000).indices(tenon::testing::seed(), 0);
  const auto ones = static_cast<double>(std::count(drawn.begin(), drawn.end(), 0)) / 20000;
  CHECK(std::fabs(ones - 0.25) < 6 * 0.0031);
  CHECK(std::count(drawn.begin(), drawn.end(), 1) == 0);
  Ints both = data::WeightedRandomSampler({1, 0, 3}, 2, false).indices(3, 0);
  std::sort(both.begin(), both.end());
  CHECK(both == Ints{0, 2});
  const data::TensorDataset dataset({arange(12)});
  const data::SubsetRandomSampler half({0, 2, 4, 6});
  data::DataLoader loader(dataset, {.batch_size = 3, .workers = 2}, &half);
  CHECK(loader.size() == 2);
  CHECK(all_of(loader).size() == 4);
}

TEST_CASE("loaders and samplers refuse what makes no sense") {
  const data::TensorDataset dataset({arange(4)});
  const data::SequentialSampler far(6);
  CHECK(contains(error_of<ValueError>([&] { data::DataLoader(dataset, {.batch_size = 0}); }), "batch_size"));
  CHECK(contains(error_of<ValueError>([&] { data::DataLoader(dataset, {.workers = -1}); }), "workers"));
  CHECK(contains(error_of<ValueError>([&] { data::DataLoader(dataset, {.shuffle = true}, &far); }), "shuffle"));
  data::DataLoader loader(dataset, {}, &far);
  CHECK(contains(error_of<IndexError>([&] { loader.begin(); }), "index 4"));
  CHECK(contains(error_of<ValueError>([&] { data::TensorDataset({arange(4), arange(5)}); }), "rows"));
  CHECK(contains(error_of<ValueError>([&] { data::RandomSampler(3, false, 4); }), "count"));
  CHECK(contains(error_of<ValueError>([&] { data::WeightedRandomSampler({0, 0}, 1); }), "weights"));
}

namespace {
void check_prefetcher(Device device) {
  Counting dataset;
  dataset.count = 40;
  data::DataLoader loader(dataset, {.batch_size = 3, .workers = 2, .pin_memory = true});
  Ints seen;
  for (const data::Batch& batch : data::DevicePrefetcher(loader, device)) {
    CHECK(batch[0].device() == resolve(device));
    const Tensor doubled = batch[0] * 2;  // on the current stream, which must not run ahead of the copy
    for (const int64_t i : doubled.to(kCPU).to_vector<int64_t>()) seen.push_back(i);
  }
  Ints expected;
  for (int64_t i = 0; i < 40; ++i) expected.push_back(2 * i);
  CHECK(seen == expected);
  dataset.failing = 10;
  const std::string text = error_of<std::runtime_error>([&] {
    for (const data::Batch& batch : data::DevicePrefetcher(loader, device)) CHECK(batch[0].size(0) == 3);
  });
  CHECK(text == "sample 10 is broken");
  dataset.failing = -1;
  const int before = thread_count();
  for (const data::Batch& batch : data::DevicePrefetcher(loader, device)) {
    CHECK(batch.size() == 1);
    break;
  }
  CHECK(thread_count() == before);
}
}  // namespace
TEST_CASE("the prefetcher passes batches through on the CPU") { check_prefetcher(kCPU); }
TEST_CASE("the prefetcher copies on a stream of its own, on the simulated device") {
  sim::configure({.devices = 1, .seed = tenon::testing::seed()});
  check_prefetcher(Device(kSim, 0));
}
TEST_CASE("the prefetcher copies on a stream of its own, on a GPU", "[cuda]") {
  TENON_REQUIRE_CUDA();
  check_prefetcher(Device(kCUDA, 0));
}
