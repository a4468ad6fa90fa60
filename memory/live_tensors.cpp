// SPDX-License-Identifier: Apache-2.0
#include <tenon/core/stack_trace.h>
#include <tenon/core/tensor_observer.h>
#include <tenon/memory/live_tensors.h>
#include <tenon/streams/op_context.h>

#include <pthread.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <unordered_map>

namespace tenon::memory {
namespace {

// A schema or a name: the name is what stands before the parenthesis.
std::string operator_name(const char* text) {
  return text ? std::string(text, std::strcspn(text, "(")) : std::string();
}

class Recorder final : public detail::TensorObserver {
  struct Birth {
    int64_t number;
    std::string op;
    std::array<void*, kMaxStackFrames> frames;
    int depth;
  };

 public:
  void created(TensorImpl* tensor) noexcept override {
    try {
      Birth birth;
      birth.op = operator_name(current_operator);
      birth.depth = capture_stack(birth.frames.data(), kMaxStackFrames);
      std::lock_guard lock(mutex_);
      if (!on_) return;
      birth.number = next_++;
      births_.insert_or_assign(tensor, std::move(birth));
    } catch (const std::bad_alloc&) {  // an unrecorded tensor is better than one that fails for being watched
    }
  }
  void destroyed(TensorImpl* tensor) noexcept override {
    std::lock_guard lock(mutex_);
    births_.erase(tensor);
  }

  void turn(bool on) {
    static const bool once =
        pthread_atfork([] { get().mutex_.lock(); }, [] { get().mutex_.unlock(); }, [] { get().mutex_.unlock(); }) == 0;
    (void)once;
    std::lock_guard lock(mutex_);
    if (on == on_) return;
    on_ = on;
    next_ = 0;
    births_.clear();
    detail::exchange_tensor_observer(on ? this : nullptr);
  }
  bool on() {
    std::lock_guard lock(mutex_);
    return on_;
  }
  std::vector<LiveTensor> list() {
    std::vector<LiveTensor> all;
    std::lock_guard lock(mutex_);  // whoever drops a tensor waits here, so the pointers stay good
    all.reserve(births_.size());
    for (const auto& [tensor, birth] : births_) {
      const Storage& storage = tensor->storage();
      if (!storage || !storage->data()) continue;
      LiveTensor t;
      t.sizes.assign(tensor->sizes().begin(), tensor->sizes().end());
      t.dtype = tensor->dtype();
      t.device = tensor->device();
      t.bytes = storage->bytes();
      t.storage = storage.get();
      t.requires_grad = tensor->own_requires_grad();  // not its base's: another thread may be making this view just now
      t.pinned = storage->pinned();
      t.number = birth.number;
      t.op = birth.op;
      t.stack.assign(birth.frames.begin(), birth.frames.begin() + birth.depth);
      all.push_back(std::move(t));
    }
    std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.number < b.number; });
    std::set<const void*> seen;
    for (LiveTensor& t : all) t.shares_storage = !seen.insert(t.storage).second;
    return all;
  }

  static Recorder& get() {
    static auto* recorder = new Recorder;  // never destroyed: tensors may outlive every static object
    return *recorder;
  }

 private:
  std::mutex mutex_;
  bool on_ = false;
  int64_t next_ = 0;
  std::unordered_map<TensorImpl*, Birth> births_;
};

std::string sizes_text(const std::vector<int64_t>& sizes) {
  std::string text = "[";
  for (size_t i = 0; i < sizes.size(); ++i) text += (i ? ", " : "") + std::to_string(sizes[i]);
  return text + "]";
}

}  // namespace

std::string LiveTensor::site() const { return site_text(stack); }

std::string LiveTensor::str() const {
  return detail::concat(name(dtype), sizes_text(sizes), " ", bytes, " bytes on ", device, pinned ? " (pinned)" : "",
                        op.empty() ? ", made" : ", made by ", op, " at ", site());
}

void record_live_tensors(bool on) { Recorder::get().turn(on); }
bool recording_live_tensors() { return Recorder::get().on(); }
std::vector<LiveTensor> live_tensors() { return Recorder::get().list(); }

std::string live_tensors_report(int max_sites) {
  struct Group {
    int64_t bytes = 0, tensors = 0;
    const LiveTensor* example = nullptr;
  };
  const std::vector<LiveTensor> all = live_tensors();
  std::map<std::vector<void*>, Group> groups;
  int64_t bytes = 0;
  for (const LiveTensor& t : all) {
    Group& group = groups[t.stack];
    const int64_t own = t.shares_storage ? 0 : t.bytes;
    bytes += own;
    group.bytes += own;
    ++group.tensors;
    group.example = &t;
  }
  std::vector<Group> order;
  for (auto& [stack, group] : groups) order.push_back(group);
  std::stable_sort(order.begin(), order.end(), [](const Group& a, const Group& b) { return a.bytes > b.bytes; });
  std::string text = detail::concat(all.size(), " live tensors made at ", order.size(), " places, ", bytes, " bytes\n");
  const size_t shown = std::min(order.size(), static_cast<size_t>(std::max(0, max_sites)));
  for (size_t i = 0; i < shown; ++i) {
    const LiveTensor& t = *order[i].example;
    text +=
        detail::concat(order[i].bytes, " bytes in ", order[i].tensors, ": ", name(t.dtype), sizes_text(t.sizes), " on ",
                       t.device, t.pinned ? " (pinned)" : "", t.op.empty() ? "" : " by ", t.op, " at ", t.site(), "\n");
  }
  if (shown < order.size()) {
    int64_t rest = 0;
    for (size_t i = shown; i < order.size(); ++i) rest += order[i].bytes;
    text += detail::concat("... and ", order.size() - shown,
                           order.size() - shown == 1 ? " more place, " : " more places, ", rest, " bytes\n");
  }
  return text;
}

}  // namespace tenon::memory
