// SPDX-License-Identifier: Apache-2.0
// What a node keeps of the tensors it saw: their geometry, and of those its formula reads the data too. Internal.
//
// Note [Saved tensors]. The data is kept, not the tensor: a node that held the tensor itself would be part of a cycle as
// soon as something computed from it is written into it (h.add_(h * w): h's new history leads to the node that saved h).
// What backward sees is a new tensor over the same memory; under create_graph its history is the node's own edge, which
// is what the input's history was when the call was recorded, whatever has been written since. The version tells whether
// the memory still holds what was saved.
#pragma once

#include <tenon/autograd/node.h>
#include <tenon/autograd/tape_bytes.h>
#include <tenon/dispatch/gradient.h>

namespace tenon::autograd {

/// Sizes, dtype and device.
class CompactMeta {
 public:
  CompactMeta() = default;
  ~CompactMeta() {
    if (dim_ > kInline) delete[] sizes_.heap;
  }
  CompactMeta(const CompactMeta&) = delete;
  CompactMeta& operator=(const CompactMeta&) = delete;
  void set(const Tensor& t) {
    const IntArrayRef s = t.sizes();
    dtype_ = t.dtype();
    device_ = t.device();
    dim_ = static_cast<uint8_t>(s.size());
    int64_t* to = sizes_.items;
    if (s.size() > kInline) to = sizes_.heap = new int64_t[s.size()];
    for (std::size_t i = 0; i < s.size(); ++i) to[i] = s[i];
  }
  IntArrayRef sizes() const { return {dim_ > kInline ? sizes_.heap : sizes_.items, dim_}; }
  DType dtype() const { return dtype_; }
  Device device() const { return device_; }
  dispatch::TensorMeta expanded() const { return {DimVector(sizes()), dtype_, device_}; }

 private:
  static constexpr std::size_t kInline = 4;
  union {
    int64_t items[kInline];
    int64_t* heap;
  } sizes_;

 protected:
  // Here so that SavedTensor is one cache line.
  enum class Keeps : uint8_t { geometry, storage, alias };
  uint32_t version_ = 0;
  DType dtype_ = DType::undefined;
  uint8_t dim_ = 0;
  Device device_;
  Keeps keeps_ = Keeps::geometry;
  bool was_saved_ = false;
};

/// Geometry, and the data if it was saved. set() first.
class SavedTensor : public CompactMeta {
 public:
  SavedTensor() = default;
  ~SavedTensor() { drop(); }

  void save(const Tensor& t) {
    version_ = t.version();
    was_saved_ = true;
    if (t.impl()->is_contiguous() && t.storage() && t.backend() == backend_of(t.device().type())) {
      keeps_ = Keeps::storage;  // the rest is in the geometry
      storage_ = t.storage();
      offset_ = t.storage_offset();
    } else {
      save_alias(t);
    }
    count_tape(device_, bytes());
  }
  bool saved() const { return was_saved_; }
  bool holds() const { return keeps_ != Keeps::geometry; }
  /// As if it had not been saved.
  void forget() noexcept {
    drop();
    was_saved_ = false;
  }
  /// Gives the data back.
  void drop() noexcept {
    if (keeps_ == Keeps::geometry) return;
    count_tape(device_, -bytes());
    if (keeps_ == Keeps::storage) storage_ = nullptr;
    if (keeps_ == Keeps::alias) drop_alias();
    keeps_ = Keeps::geometry;
  }
  /// Storage version at the time, and now.
  uint32_t version() const { return version_; }
  uint32_t present_version() const;
  /// A new tensor over the data, without history. Any number of threads may ask.
  Tensor unpack() const;

 private:
  int64_t bytes() const {
    int64_t n = item_size(dtype_);
    for (const int64_t size : sizes()) n *= size;
    return n;
  }
  void save_alias(const Tensor& t);
  void drop_alias() noexcept;

  Storage storage_;
  union {
    int64_t offset_ = 0;
    TensorImpl* alias_;
  };
};

}  // namespace tenon::autograd
