// SPDX-License-Identifier: Apache-2.0
#include <tenon/dispatch/ordered_call.h>
#include <tenon/memory/accesses.h>
#include <tenon/streams/settle.h>

#include <new>
#include <type_traits>

namespace tenon::dispatch {
namespace {

using memory::Touch;

struct Seen {
  const StorageImpl* storage;
  uint32_t version;
};
/// A list that seldom needs the heap.
template <class T>
class Few {
  static constexpr std::size_t kInline = 8;
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  void push_back(const T& t) {
    if (more_.empty() && count_ < kInline) {
      ::new (static_cast<void*>(bytes_ + sizeof(T) * count_++)) T(t);
      return;
    }
    if (more_.empty()) more_.assign(begin(), end());
    more_.push_back(t);
    ++count_;
  }
  bool empty() const { return count_ == 0; }
  T* begin() { return more_.empty() ? std::launder(reinterpret_cast<T*>(bytes_)) : more_.data(); }
  T* end() { return begin() + count_; }
  std::span<const T> span() { return {begin(), count_}; }

 private:
  alignas(T) unsigned char bytes_[kInline * sizeof(T)];
  std::size_t count_ = 0;
  std::vector<T> more_;
};
struct Gathered {
  Few<Touch> touches;  // of devices
  Few<Touch> pinned;   // host memory that devices know
  Few<Seen> arguments;
};
constinit thread_local bool busy = false;

void add(Gathered& g, const Tensor& t, bool write, std::string_view argument) {
  if (!t.defined()) return;
  const TensorImpl& impl = *t.impl();
  StorageImpl* const storage = impl.storage().get();
  if (!storage || (impl.device().is_cpu() && !storage->pinned()) || !memory::is_tracked(storage)) return;
  g.arguments.push_back({storage, storage->version()});
  if (impl.numel() == 0) return;
  int64_t first = impl.offset(), count = impl.numel();
  if (!impl.is_contiguous()) {
    count = 1;
    for (int d = 0; d < impl.dim(); ++d) count += (impl.sizes()[d] - 1) * impl.strides()[d];
  }
  const int64_t size = item_size(impl.dtype());
  const bool host = impl.device().is_cpu();
  (host ? g.pinned : g.touches)
      .push_back({storage, host ? Stream() : current_stream(impl.device()), first * size, (first + count) * size, write,
                  argument});
}

void add(Gathered& g, const Value& v, std::string_view argument) {
  if (v.is_tensor()) return add(g, v.tensor(), false, argument);
  if (v.kind() != Value::Kind::tensor_list) return;
  for (const Tensor& t : v.tensors()) add(g, t, false, argument);
}

}  // namespace

void run_ordered(const LayerCall& c) {
  // Views touch no memory; what a callback or a queued kernel calls is ordered by its stream.
  if (c.op.kind() == Kind::view || tenon::detail::in_device_work()) {
    c.op.run_boxed(c.form, c.args, c.destinations, c.results);
    return;
  }
  const char* const op = c.op.schema().text.data();
  if (busy) {  // part of another operator, which accounts for its arguments; a write to one of them shows only here
    for (const Tensor& t : c.destinations) {
      Gathered own;
      add(own, t, true, "self");
      if (!own.touches.empty()) memory::touch(own.touches.span(), op);
    }
    c.op.run_boxed(c.form, c.args, c.destinations, c.results);
    return;
  }
  Gathered g;
  const Argument* name = c.op.schema().arguments;
  for (const Value& v : c.args) {
    const std::string_view argument = (name++)->name;
    const bool written = v.is_tensor() && c.form != Form::functional && v.tensor().is_same(c.destinations[0]);
    if (!written) add(g, v, argument);
  }
  for (const Tensor& t : c.destinations) add(g, t, true, c.form == Form::inplace ? "self" : "out");
  struct Busy {
    Busy() { busy = true; }
    ~Busy() { busy = false; }
  } scope;
  // Copies between host and device account for host memory themselves (ops/copy.cpp).
  if (!g.touches.empty())
    memory::touch(g.touches.span(), op);
  else if (!g.pinned.empty())
    memory::touch(g.pinned.span(), op);
  c.op.run_boxed(c.form, c.args, c.destinations, c.results);
  // What an operator wrote beside its results.
  for (const Seen& seen : g.arguments) {
    if (seen.storage->version() == seen.version) continue;
    Touch* read = nullptr;
    for (Touch& t : g.touches) {
      if (t.storage != seen.storage) continue;
      read = &t;
      if (t.write) break;
    }
    if (!read || read->write) continue;
    read->write = true;
    memory::touch({read, 1}, op);
  }
}

}  // namespace tenon::dispatch
