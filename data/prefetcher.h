// SPDX-License-Identifier: Apache-2.0
// DevicePrefetcher: batches of a loader on a device, copied on a stream of its own while the batch before is in use. With
// pinned batches copy and computation overlap.
//
//   for (const data::Batch& batch : data::DevicePrefetcher(loader, Device(kCUDA))) train(batch[0], batch[1]);
#pragma once

#include <tenon/data/loader.h>
#include <tenon/streams/stream.h>

namespace tenon::data {

/// Refers to the loader, which must outlive it. A thread fetches and copies up to `depth` batches ahead; it ends with the
/// iterator, also when the loop is left early. On the CPU batches pass through.
class TENON_API DevicePrefetcher {
 public:
  class Iterator;
  /// ValueError for a depth below 1.
  DevicePrefetcher(DataLoader& loader, Device device, int depth = 2);
  /// Begins the loader's next pass.
  Iterator begin();
  DataLoader::End end() const { return {}; }

 private:
  friend class Iterator;
  DataLoader& loader_;
  Device device_;
  Stream stream_;
  int depth_;
};

/// A move-only input iterator. The batch it shows may be used on the stream that was current when it was reached.
class TENON_API DevicePrefetcher::Iterator {
 public:
  explicit Iterator(DevicePrefetcher& owner);
  Iterator(Iterator&& o) noexcept : pass_(o.pass_) { o.pass_ = nullptr; }
  ~Iterator();
  Iterator& operator=(Iterator&&) = delete;
  Batch& operator*() const;
  Batch* operator->() const { return &**this; }
  Iterator& operator++();
  bool operator==(DataLoader::End) const;

 private:
  struct Pass;
  Pass* pass_;
};
inline DevicePrefetcher::Iterator DevicePrefetcher::begin() { return Iterator(*this); }

}  // namespace tenon::data
