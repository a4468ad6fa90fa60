// SPDX-License-Identifier: Apache-2.0
#include <tenon/data/loader.h>
#include <tenon/dispatch/thread_state.h>
#include <tenon/ops/copy.h>
#include <tenon/ops/generator.h>
#include <tenon/streams/availability.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>

namespace tenon::data {

DataLoader::DataLoader(const Dataset& dataset, const DataLoaderOptions& options, const Sampler* sampler)
    : dataset_(dataset), options_(options), sampler_(sampler) {
  TENON_CHECK(options.batch_size > 0, ValueError, "DataLoader: batch_size: expected at least 1, got ",
              options.batch_size);
  TENON_CHECK(options.workers >= 0, ValueError, "DataLoader: workers: expected 0 or more, got ", options.workers);
  TENON_CHECK(options.prefetch > 0, ValueError, "DataLoader: prefetch: expected at least 1, got ", options.prefetch);
  TENON_CHECK(!sampler || !options.shuffle, ValueError, "DataLoader: shuffle: a sampler decides the order already");
}

int64_t DataLoader::size() const {
  const int64_t samples = sampler_ ? sampler_->size() : dataset_.size(), full = samples / options_.batch_size;
  return full + (!options_.drop_last && samples % options_.batch_size != 0);
}

struct DataLoader::Iterator::Pass {
  // A batch that is ready, or what went wrong.
  struct Place {
    Batch batch;
    std::exception_ptr error;
    bool ready = false;
  };

  DataLoader& loader;
  const uint64_t epoch;
  const int64_t batches;
  std::vector<int64_t> order;
  Batch current;
  int64_t consumed = 0;  // batches handed out

  std::mutex mutex;
  std::condition_variable changed;
  std::vector<Place> places;  // batch n waits in place n % size
  int64_t taken = 0;          // batches some worker has begun
  bool stop = false;
  std::vector<std::thread> workers;

  explicit Pass(DataLoader& l) : loader(l), epoch(l.epoch_++), batches(l.size()) {
    const int64_t samples = l.dataset_.size();
    if (l.sampler_)
      order = l.sampler_->indices(l.options_.seed, epoch);
    else if (l.options_.shuffle)
      order = RandomSampler(samples).indices(l.options_.seed, epoch);
    else
      order = SequentialSampler(samples).indices(l.options_.seed, epoch);
    for (const int64_t i : order)
      TENON_CHECK(i >= 0 && i < samples, IndexError, "DataLoader: the sampler gave index ", i, "; expected 0 to ",
                  samples - 1);
    if (l.options_.workers == 0) return;
    places.resize(static_cast<std::size_t>(l.options_.workers * l.options_.prefetch));
    try {
      for (int i = 0; i < l.options_.workers; ++i) workers.emplace_back([this] { work(); });
    } catch (...) {
      end();
      throw;
    }
  }
  ~Pass() { end(); }
  void end() {
    {
      const std::lock_guard lock(mutex);
      stop = true;
    }
    changed.notify_all();
    for (std::thread& w : workers) w.join();
    workers.clear();
  }

  Batch make(int64_t number) const {
    const DataLoaderOptions& o = loader.options_;
    const int64_t begin = number * o.batch_size,
                  count = std::min(o.batch_size, static_cast<int64_t>(order.size()) - begin);
    // Each batch has its own stretch of random numbers: 2^32 blocks of the seed's.
    const Generator generator(kCPU);
    generator.manual_seed(o.seed + 0x9E3779B97F4A7C15u * (epoch + 1));
    generator.set_offset(static_cast<uint64_t>(number) << 32);
    const GeneratorGuard random(generator);
    const NoGradGuard no_grad;
    Batch batch = loader.dataset_.get_batch({order.data() + begin, static_cast<std::size_t>(count)});
    if (o.pin_memory && cuda::is_available())
      for (Tensor& t : batch)
        if (t.defined() && t.is_cpu()) t = t.pin_memory();
    return batch;
  }

  void work() {
    std::unique_lock lock(mutex);
    for (;;) {
      changed.wait(lock,
                   [&] { return stop || taken == batches || taken < consumed + static_cast<int64_t>(places.size()); });
      if (stop || taken == batches) return;
      const int64_t number = taken++;
      lock.unlock();
      Place made;
      try {
        made.batch = make(number);
      } catch (...) {
        made.error = std::current_exception();
      }
      made.ready = true;
      lock.lock();
      places[static_cast<std::size_t>(number) % places.size()] = std::move(made);
      changed.notify_all();
    }
  }

  bool done() const { return consumed == batches; }
  // Makes batch `consumed` the current one.
  void fetch() {
    if (done()) return;
    if (workers.empty()) {
      current = make(consumed);
      return;
    }
    std::unique_lock lock(mutex);
    Place& place = places[static_cast<std::size_t>(consumed) % places.size()];
    if (!place.ready) {
      const auto begin = std::chrono::steady_clock::now();
      changed.wait(lock, [&] { return place.ready; });
      loader.wait_seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    }
    Place taken_out = std::move(place);
    place = {};
    if (taken_out.error) std::rethrow_exception(taken_out.error);
    current = std::move(taken_out.batch);
  }
  void advance() {
    current.clear();  // its memory may go before the next batch is made
    {
      const std::lock_guard lock(mutex);
      ++consumed;
    }
    changed.notify_all();
    fetch();
  }
};

DataLoader::Iterator::Iterator(DataLoader& loader) : pass_(new Pass(loader)) {
  try {
    pass_->fetch();
  } catch (...) {
    delete pass_;
    throw;
  }
}
DataLoader::Iterator::~Iterator() { delete pass_; }
Batch& DataLoader::Iterator::operator*() const { return pass_->current; }
DataLoader::Iterator& DataLoader::Iterator::operator++() {
  pass_->advance();
  return *this;
}
bool DataLoader::Iterator::operator==(End) const { return pass_->done(); }

}  // namespace tenon::data
