// SPDX-License-Identifier: Apache-2.0
#include <tenon/dispatch/declare_only.h>
#include <tenon/memory/allocator.h>
#include <tenon/ops/copy.h>
#include <tenon/ops/staged_copy.h>
#include <tenon/streams/event.h>
#include <tenon/streams/raw_streams.h>
#include <tenon/streams/safety.h>

#include <algorithm>

namespace tenon::detail {
namespace {

/// A part of a tensor that is one run of its elements in row-major order.
struct Piece {
  Tensor host;    ///< the part, as it lies in memory
  int64_t first;  ///< number of its first element
};

Tensor alias(const Storage& storage, DType dtype, IntArrayRef sizes, IntArrayRef strides, int64_t offset) {
  return Tensor(
      Ref<TensorImpl>::adopt(TensorImpl::create(storage, dtype, Backend::cpu, Device(kCPU), sizes, strides, offset)));
}

// Rows of the first dimension whose rows fit, at every index of those before it: most pieces are at least half full.
template <class F>
void for_each_piece(const Tensor& t, int64_t most, F f) {
  const IntArrayRef sizes = t.sizes(), strides = t.strides();
  const std::size_t rank = sizes.size();
  std::size_t d = 0;
  int64_t row = t.numel();
  if (rank == 0 || row <= most) return f(Piece{t, 0});
  for (row /= sizes[0]; row > most; row /= sizes[d]) ++d;
  const int64_t rows = std::max<int64_t>(1, most / row);
  int64_t outer = 1;
  for (std::size_t i = 0; i < d; ++i) outer *= sizes[i];
  for (int64_t o = 0; o < outer; ++o) {
    int64_t base = t.storage_offset();
    for (int64_t i = static_cast<int64_t>(d) - 1, rest = o; i >= 0; --i) {
      base += rest % sizes[static_cast<std::size_t>(i)] * strides[static_cast<std::size_t>(i)];
      rest /= sizes[static_cast<std::size_t>(i)];
    }
    for (int64_t r = 0; r < sizes[d]; r += rows) {
      DimVector part(IntArrayRef(sizes.data() + d, rank - d));
      part[0] = std::min(rows, sizes[d] - r);
      f(Piece{alias(t.storage(), t.dtype(), part, IntArrayRef(strides.data() + d, rank - d), base + r * strides[d]),
              (o * sizes[d] + r) * row});
    }
  }
}

// Page-locked memory that the stream uses; it goes back to its allocator behind the stream's work.
class Buffers {
 public:
  Buffers(int64_t bytes, const Stream& stream) : stream_(stream) {
    const int64_t each = std::min(bytes, kStagingBytes);
    for (int i = 0; i < (bytes > each ? 2 : 1); ++i) {
      memory_[i] = memory::make_storage(Device(kCPU), each, true);
      memory::record_stream(memory_[i], stream);
    }
  }
  /// The next buffer, when the stream has passed what was queued with it.
  int turn() {
    next_ = memory_[1] ? 1 - next_ : 0;
    landed_[next_].synchronize();
    return next_;
  }
  const Storage& memory(int i) const { return memory_[i]; }
  void queued(int i) { landed_[i].record(stream_); }
  void wait(int i) const { landed_[i].synchronize(); }

 private:
  const Stream stream_;
  Storage memory_[2];
  Event landed_[2];
  int next_ = 1;
};

char* at(const Tensor& device, int64_t element) {
  return static_cast<char*>(device.impl()->data()) + element * device.itemsize();
}

}  // namespace

void copy_staged_to_device(const Tensor& device, const Tensor& host, const Stream& stream) {
  RawStreams& raw = raw_streams(stream.device().type());
  const int64_t size = device.itemsize();
  if (device.nbytes() > 2 * kStagingBytes) note_wait("a copy from pageable memory");
  const QuietWaits noted;
  Buffers buffers(device.nbytes(), stream);
  for_each_piece(host, kStagingBytes / size, [&](const Piece& piece) {
    const int i = buffers.turn();
    copy_on_device(alias(buffers.memory(i), device.dtype(), piece.host.sizes(), {}, 0), piece.host);
    raw.copy(stream.device().index(), stream.handle(), at(device, piece.first), buffers.memory(i)->data(),
             piece.host.numel() * size);
    buffers.queued(i);
  });
}

void copy_staged_to_host(const Tensor& host, const Tensor& device, const Stream& stream) {
  RawStreams& raw = raw_streams(stream.device().type());
  const int64_t size = device.itemsize();
  note_wait("a copy to pageable memory");
  const QuietWaits noted;
  Buffers buffers(device.nbytes(), stream);
  Piece landing{Tensor(), 0};  // in the buffer before
  int landing_in = 0;
  const auto empty = [&] {
    if (!landing.host.defined()) return;
    buffers.wait(landing_in);
    copy_on_device(landing.host, alias(buffers.memory(landing_in), device.dtype(), landing.host.sizes(), {}, 0));
  };
  for_each_piece(host, kStagingBytes / size, [&](Piece piece) {
    const int i = buffers.turn();
    raw.copy(stream.device().index(), stream.handle(), buffers.memory(i)->data(), at(device, piece.first),
             piece.host.numel() * size);
    buffers.queued(i);
    empty();
    landing = std::move(piece);
    landing_in = i;
  });
  empty();
}

}  // namespace tenon::detail
