// SPDX-License-Identifier: Apache-2.0
#include <tenon/data/prefetcher.h>
#include <tenon/dispatch/thread_state.h>
#include <tenon/ops/copy.h>
#include <tenon/streams/event.h>
#include <tenon/streams/guard.h>

#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>

namespace tenon::data {

DevicePrefetcher::DevicePrefetcher(DataLoader& loader, Device device, int depth)
    : loader_(loader),
      device_(resolve(device)),
      stream_(device_.is_cpu() ? Stream() : Stream::from_pool(0, device_)),
      depth_(depth) {
  TENON_CHECK(depth > 0, ValueError, "DevicePrefetcher: depth: expected at least 1, got ", depth);
}

struct DevicePrefetcher::Iterator::Pass {
  // A batch whose copies are queued, the end, or what went wrong.
  struct Item {
    Batch batch;
    std::optional<Event> copied;
    std::exception_ptr error;
    bool last = false;
  };

  DevicePrefetcher& owner;
  std::optional<DataLoader::Iterator> source;
  Item current;
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Item> ready;
  bool stop = false;
  std::thread thread;

  explicit Pass(DevicePrefetcher& o) : owner(o) {
    if (!o.device_.is_cpu()) thread = std::thread([this] { run(); });
  }
  ~Pass() {
    {
      const std::lock_guard lock(mutex);
      stop = true;
    }
    changed.notify_all();
    if (thread.joinable()) thread.join();
  }

  Item fetch() {
    Item item;
    try {
      if (source)
        ++*source;
      else
        source.emplace(owner.loader_);
      item.last = *source == DataLoader::End{};
      if (item.last) return item;
      Batch host = std::move(**source);
      if (owner.device_.is_cpu()) {
        item.batch = std::move(host);
        return item;
      }
      const NoGradGuard no_grad;
      for (const Tensor& t : host)
        item.batch.push_back(t.defined() ? t.to(owner.device_, t.dtype(), /*non_blocking=*/true) : Tensor());
      item.copied.emplace(false, owner.device_);
      item.copied->record(owner.stream_);
    } catch (...) {
      item.error = std::current_exception();
    }
    return item;
  }

  void run() {
    const StreamGuard guard(owner.stream_);
    for (bool more = true; more;) {
      {
        std::unique_lock lock(mutex);
        changed.wait(lock, [&] { return stop || ready.size() < static_cast<std::size_t>(owner.depth_); });
        if (stop) break;
      }
      Item item = fetch();
      more = !item.last && !item.error;
      {
        const std::lock_guard lock(mutex);
        ready.push_back(std::move(item));
      }
      changed.notify_all();
    }
    source.reset();  // its workers end here
  }

  void next() {
    current = {};
    if (!thread.joinable()) {
      current = fetch();
    } else {
      std::unique_lock lock(mutex);
      changed.wait(lock, [&] { return !ready.empty(); });
      current = std::move(ready.front());
      ready.pop_front();
      lock.unlock();
      changed.notify_all();
    }
    if (current.error) std::rethrow_exception(current.error);
    if (!current.copied) return;
    const Stream user = current_stream(owner.device_);
    user.wait_event(*current.copied);
    for (const Tensor& t : current.batch)
      if (t.defined()) t.record_stream(user);  // its memory belongs to the stream of the copies
  }
};

DevicePrefetcher::Iterator::Iterator(DevicePrefetcher& owner) : pass_(new Pass(owner)) {
  try {
    pass_->next();
  } catch (...) {
    delete pass_;
    throw;
  }
}
DevicePrefetcher::Iterator::~Iterator() { delete pass_; }
Batch& DevicePrefetcher::Iterator::operator*() const { return pass_->current.batch; }
DevicePrefetcher::Iterator& DevicePrefetcher::Iterator::operator++() {
  pass_->next();
  return *this;
}
bool DevicePrefetcher::Iterator::operator==(DataLoader::End) const { return pass_->current.last; }

}  // namespace tenon::data
