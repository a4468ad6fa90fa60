// SPDX-License-Identifier: Apache-2.0
// DataLoader: batches of a dataset, made ahead of time by worker threads, in the same order and with the same random numbers
// whatever their number.
//
//   data::DataLoader loader(dataset, {.batch_size = 128, .workers = 4, .shuffle = true});
//   for (int epoch = 0; epoch < 10; ++epoch)
//     for (const data::Batch& batch : loader) train(batch[0], batch[1]);
//
// Note [Workers]. Each pass over the loader starts its workers and ends them, also when the loop is left early: no thread
// outlives the iterator. A worker takes the number of the next batch, so long as it is less than workers * prefetch ahead
// of the consumer, and leaves the batch, or the exception it met, in that batch's place; the exception is thrown where the
// batch would have come, and ends the pass. A dataset must allow calls from several threads.
// Thread safety: one pass at a time, in one thread.
#pragma once

#include <tenon/data/dataset.h>
#include <tenon/data/sampler.h>

namespace tenon::data {

struct DataLoaderOptions {
  int64_t batch_size = 1;
  int workers = 0;          ///< threads; 0: the caller makes each batch when it asks for it
  int64_t prefetch = 2;     ///< batches per worker that may wait for the caller
  bool shuffle = false;     ///< a new order each pass
  bool drop_last = false;   ///< leave out a last batch that is not full
  bool pin_memory = false;  ///< batches in page-locked memory, for copies that overlap; without a GPU it does nothing
  uint64_t seed = 0;        ///< of the order and of random operators in the dataset
};

class TENON_API DataLoader {
 public:
  class Iterator;
  struct End {};

  /// The dataset, and the sampler if one is given (instead of shuffle), must outlive the loader. ValueError for sizes below 1.
  explicit DataLoader(const Dataset& dataset, const DataLoaderOptions& options = {}, const Sampler* sampler = nullptr);
  DataLoader(const Dataset&&, const DataLoaderOptions& = {}, const Sampler* = nullptr) = delete;

  /// Batches of one pass.
  int64_t size() const;
  /// Begins the next pass.
  Iterator begin();
  End end() const { return {}; }
  /// Which order the next pass has; a resumed run sets it.
  uint64_t epoch() const { return epoch_; }
  void set_epoch(uint64_t epoch) { epoch_ = epoch; }
  /// How long all passes together have waited for workers: time in which a GPU starves.
  double wait_seconds() const { return wait_seconds_; }

 private:
  friend class Iterator;
  const Dataset& dataset_;
  DataLoaderOptions options_;
  const Sampler* sampler_;
  uint64_t epoch_ = 0;
  double wait_seconds_ = 0;
};

/// The pass under way: a move-only input iterator.
class TENON_API DataLoader::Iterator {
 public:
  explicit Iterator(DataLoader& loader);
  Iterator(Iterator&& o) noexcept : pass_(o.pass_) { o.pass_ = nullptr; }
  ~Iterator();
  Iterator& operator=(Iterator&&) = delete;
  Batch& operator*() const;
  Batch* operator->() const { return &**this; }
  Iterator& operator++();
  bool operator==(End) const;

 private:
  struct Pass;
  Pass* pass_;
};
inline DataLoader::Iterator DataLoader::begin() { return Iterator(*this); }

}  // namespace tenon::data
