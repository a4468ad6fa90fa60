// SPDX-License-Identifier: Apache-2.0
// Small programs with one race each, of the kinds people report: they give a wrong number when the streams run in an
// unlucky order. `right` is what they give when nothing goes wrong.
#pragma once

#include <tenon/tenon.h>

#include <vector>

namespace tenon::testing {

struct Race {
  const char* name;
  float (*program)(Device, int64_t n);
  float right;                     ///< times n
  std::vector<const char*> words;  ///< in the report
  bool pinned = false;             ///< needs page-locked memory that the device knows
};

inline Tensor filled(Device d, int64_t n, double value) { return full({n}, value, device(d)); }
inline float mean_of(const Tensor& t) { return t.mean().item<float>(); }

// A batch of the default stream is used on a side stream and dropped; its memory serves the next batch at once.
inline float forgotten_record_stream(Device d, int64_t n) {
  const Stream side = Stream::from_pool(0, d);
  Tensor batch = filled(d, n, 1);
  side.wait_stream(current_stream(d));
  Tensor result;
  {
    const StreamGuard guard(side);
    for (int i = 0; i < 4; ++i) result = result.defined() ? result + batch : batch * 2;
  }
  batch = Tensor();
  const Tensor next = filled(d, n, 100);
  current_stream(d).wait_stream(side);
  result.record_stream(current_stream(d));
  return mean_of(result);
}
// The same from two side streams of which only one is told of.
inline float one_of_two_recorded(Device d, int64_t n) {
  const Stream a = Stream::from_pool(0, d), b = Stream::from_pool(0, d);
  Tensor batch = filled(d, n, 1), x, y;
  for (const auto& [stream, result] : {std::pair(a, &x), std::pair(b, &y)}) {
    stream.wait_stream(current_stream(d));
    const StreamGuard guard(stream);
    *result = batch * 2;
    *result = *result + batch;
  }
  batch.record_stream(a);
  batch = Tensor();
  a.synchronize();  // so that only the other stream still reads
  const Tensor next = filled(d, n, 100), more = filled(d, n, 50);
  for (const Stream& s : {a, b}) current_stream(d).wait_stream(s);
  x.record_stream(current_stream(d)), y.record_stream(current_stream(d));
  return mean_of(x + y) / 2;
}
// Read on a side stream that does not wait for the writer.
inline float read_too_early(Device d, int64_t n) {
  const Stream side = Stream::from_pool(0, d);
  Tensor x = filled(d, n, 0);
  synchronize(d);
  x.add_(1).mul_(3);
  Tensor y;
  {
    const StreamGuard guard(side);
    y = x.mul(2);
  }
  current_stream(d).wait_stream(side);
  y.record_stream(current_stream(d));
  return mean_of(y);
}
// Overwritten while a side stream still reads.
inline float written_too_early(Device d, int64_t n) {
  const Stream side = Stream::from_pool(0, d);
  Tensor x = filled(d, n, 1), y;
  side.wait_stream(current_stream(d));
  {
    const StreamGuard guard(side);
    y = x.add(1).add(x);
  }
  x.fill_(50);
  current_stream(d).wait_stream(side);
  y.record_stream(current_stream(d)), x.record_stream(side);
  return mean_of(y);
}
// Two streams write one buffer.
inline float written_twice(Device d, int64_t n) {
  const Stream a = Stream::from_pool(0, d), b = Stream::from_pool(0, d);
  Tensor x = filled(d, n, 0);
  synchronize(d);
  {
    const StreamGuard guard(a);
    x.fill_(5);
  }
  {
    const StreamGuard guard(b);
    x.fill_(7);
  }
  current_stream(d).wait_stream(a), current_stream(d).wait_stream(b);
  const float seen = mean_of(x);
  x.record_stream(a), x.record_stream(b);
  return seen;
}
// The event is recorded before the last use it should stand for.
inline float event_too_early(Device d, int64_t n) {
  const Stream side = Stream::from_pool(0, d);
  Tensor x = filled(d, n, 1), y, z;
  side.wait_stream(current_stream(d));
  Event done(false, d);
  {
    const StreamGuard guard(side);
    y = x.mul(2);
    done.record(side);
    z = x.add(y);
  }
  done.wait(current_stream(d));
  x.fill_(50);
  current_stream(d).wait_stream(side);
  z.record_stream(current_stream(d)), x.record_stream(side);
  return mean_of(z);
}
// A stream made after another one was destroyed may have its handle: what was known of the old one does not hold.
inline float reused_handle(Device d, int64_t n) {
  Tensor x = filled(d, n, 1);
  synchronize(d);
  const Stream old = Stream::create_exclusive(0, d);
  current_stream(d).wait_stream(old);
  Stream::destroy_exclusive(old);
  const Stream fresh = Stream::create_exclusive(0, d);
  {
    const StreamGuard guard(fresh);
    x.add_(1).mul_(2);
  }
  Tensor y = x.mul(1);
  y.record_stream(fresh), x.record_stream(fresh);
  const float seen = mean_of(y);
  Stream::destroy_exclusive(fresh);
  return seen;
}
// Right by luck with two pooled streams that are one; here they are two.
inline float aliasing_is_no_order(Device d, int64_t n) {
  const Stream a = Stream::create_exclusive(0, d), b = Stream::create_exclusive(0, d);
  Tensor x = filled(d, n, 1), y;
  synchronize(d);
  {
    const StreamGuard guard(a);
    x.add_(1).add_(1);
  }
  {
    const StreamGuard guard(b);
    y = x.mul(1);
  }
  current_stream(d).wait_stream(b);
  y.record_stream(current_stream(d)), x.record_stream(a), x.record_stream(b);
  const float seen = mean_of(y);
  y = Tensor(), x = Tensor();
  Stream::destroy_exclusive(a), Stream::destroy_exclusive(b);
  return seen;
}
// The result of a non_blocking copy to the host is read before it is there.
inline float landed_too_early(Device d, int64_t n) {
  Tensor x = filled(d, n, 1);
  Tensor host = zeros({n}, TensorOptions(kCPU).pinned_memory(true));
  x.add_(1).mul_(2);
  host.copy_(x, true);
  const float seen = host.data_ptr<float>()[n - 1];
  synchronize(d);
  return seen;
}
inline float landed_too_early_in_an_operator(Device d, int64_t n) {
  Tensor x = filled(d, n, 1);
  Tensor host = zeros({n}, TensorOptions(kCPU).pinned_memory(true));
  x.add_(1).mul_(2);
  host.copy_(x, true);
  const Tensor sum = host.slice(0, n / 2).sum();
  synchronize(d);
  return sum.item<float>() / static_cast<float>(n - n / 2);
}
// The source of a non_blocking copy to the device is filled again before it was read.
inline float source_refilled(Device d, int64_t n) {
  Tensor host = ones({n}, TensorOptions(kCPU).pinned_memory(true));
  Tensor x = filled(d, n, 0);
  x.copy_(host, true);
  host.fill_(9);
  return mean_of(x);
}

inline const std::vector<Race>& races() {
  static const std::vector<Race> all = {
      {"missing record_stream", forgotten_record_stream, 5, {"full", "stream", "record_stream"}},
      {"record_stream for one of two streams", one_of_two_recorded, 3, {"full", "record_stream"}},
      {"read without waiting for the writer", read_too_early, 6, {"mul", "self", "read", "write", "default stream"}},
      {"written without waiting for a reader", written_too_early, 3, {"fill", "written", "read"}},
      {"written on two streams", written_twice, 7, {"fill", "written", "write"}},
      {"event recorded before the last use", event_too_early, 3, {"fill", "add", "read"}},
      {"handle of a destroyed stream", reused_handle, 4, {"mul", "read", "write"}},
      {"streams that alias elsewhere", aliasing_is_no_order, 3, {"mul", "add"}},
      {"host reads a copy too early", landed_too_early, 4, {"data_ptr", "host", "copy"}, true},
      {"operator on the host reads a copy too early",
       landed_too_early_in_an_operator,
       4,
       {"sum", "host", "copy"},
       true},
      {"source refilled during its copy", source_refilled, 1, {"fill", "host", "copy"}, true},
  };
  return all;
}

/// Stream safety for a scope.
class SafetyGuard {
 public:
  explicit SafetyGuard(StreamSafety mode, bool sites = false) { set_stream_safety(mode, sites); }
  ~SafetyGuard() { set_stream_safety(StreamSafety::off); }
  SafetyGuard(const SafetyGuard&) = delete;
  SafetyGuard& operator=(const SafetyGuard&) = delete;
};

}  // namespace tenon::testing
