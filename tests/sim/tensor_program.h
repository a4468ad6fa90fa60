// SPDX-License-Identifier: Apache-2.0
// One random program over tensors on several streams of the simulated device: factories, operators, writes in place,
// views, copies, frees, events, record_stream, backward, running out of memory. The same values are computed on the CPU
// beside it; everything must be equal bit for bit, whatever order the streams ran in.
#pragma once

#include <tenon/streams/sim.h>
#include <tenon/tenon.h>

#include <cstring>
#include <random>

#include "tests/sim/violation.h"

namespace tenon::testing {

class TensorProgram {
 public:
  explicit TensorProgram(uint64_t seed) : random_(seed * 2246822519u + 3) {
    sim::reset(seed);
    for (int64_t n = pick(1, 3); n > 0; --n) streams_.push_back(Stream::from_pool(0, kDevice));
    streams_.push_back(Stream::default_stream(kDevice));
  }

  static inline bool forget_record_stream = false, forget_to_wait = false;  ///< mistakes of the program's own
  /// Throws Violation.
  void run() {
    for (int64_t n = pick(4, 20); n > 0; --n) {
      try {
        step();
      } catch (const OutOfMemoryError&) {
        require(!big_.empty(), "out of memory although little is in use");
        big_.clear();
      }
    }
    for (Pair& p : pairs_) compare(p);
    compare_landings();
    pairs_.clear();
    big_.clear();
    synchronize(kDevice);
    require(memory::memory_allocated(kDevice) == 0, "a leak: ", memory::memory_allocated(kDevice), " bytes in use");
  }

 private:
  static inline const Device kDevice{kSim, 0};
  /// A tensor on the device, the same on the CPU, and the stream that wrote it last.
  struct Pair {
    Tensor sim, cpu;
    Stream made_on, written_on;
  };
  struct Landing {
    Tensor pinned, expected;
    Event done;
    Stream stream;
  };

  int64_t pick(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(random_() % static_cast<uint64_t>(high - low + 1));
  }
  const Stream& any_stream() { return streams_[static_cast<std::size_t>(pick(0, std::ssize(streams_) - 1))]; }
  Pair& any() {
    if (pairs_.empty()) make(any_stream());
    return pairs_[static_cast<std::size_t>(pick(0, std::ssize(pairs_) - 1))];
  }

  void step() {
    switch (pick(0, 13)) {
      case 0:
      case 1:
        return make(any_stream());
      case 2:
      case 3:
      case 4:
      case 5:
        return compute(any_stream());
      case 6:
        return write(any_stream());
      case 7:
      case 8:
        if (!pairs_.empty()) pairs_.erase(pairs_.begin() + pick(0, std::ssize(pairs_) - 1));
        return;
      case 9:
        return compare(any());
      case 10:
        return land(any_stream());
      case 11:
        return backward();
      case 12:
        big_.push_back(empty({pick(1, 3) << 20}, device(kDevice)));
        return;
      default:
        if (pick(0, 4) == 0) memory::empty_cache(kDevice);
        (void)any_stream().query();
    }
  }

  void make(const Stream& s) {
    const StreamGuard guard(s);
    const int64_t n = pick(0, 4) == 0 ? pick(1, 5000) : 64;
    const double value = static_cast<double>(pick(-9, 9)) / 4;
    keep(full({n}, value, device(kDevice)), full({n}, value), s);
  }
  void keep(Tensor on_sim, Tensor on_cpu, const Stream& s) {
    if (pairs_.size() > 12) pairs_.erase(pairs_.begin());
    pairs_.push_back({std::move(on_sim), std::move(on_cpu), s, s});
  }
  // Before `s` reads what another stream wrote it waits for it, and the memory is told.
  void prepare(const Pair& p, const Stream& s) {
    if (p.written_on != s && !forget_to_wait) {
      if (pick(0, 1) == 0) {
        s.wait_stream(p.written_on);
      } else {
        Event e(false, kDevice);
        e.record(p.written_on);
        e.wait(s);
      }
    }
    if (p.made_on != s && !forget_record_stream) p.sim.record_stream(s);
  }

  void compute(const Stream& s) {
    const Pair a = any(), b = any();
    prepare(a, s);
    prepare(b, s);
    const StreamGuard guard(s);
    const auto how = pick(0, 5);
    const bool fit = a.cpu.sizes() == b.cpu.sizes();
    const auto f = [&](const Tensor& x, const Tensor& y) {
      switch (how) {
        case 0:
          return fit ? x.add(y) : x.mul(2);
        case 1:
          return fit ? x.mul(y).sub(1) : x.add(y.sum());
        case 2:
          return x.sum().add(y.amax());
        case 3:
          return x.relu().add(0.5);
        case 4:
          return fit && x.dim() > 0 ? cat({x, y}, 0).slice(0, 1) : x.neg();
        default:
          return fit ? where(x.lt(y), x, y) : x.abs();
      }
    };
    keep(f(a.sim, b.sim), f(a.cpu, b.cpu), s);
  }
  // In place: those who read before must be done, those who read later wait for the writer.
  void write(const Stream& s) {
    Pair& p = any();
    for (const Stream& reader : streams_) s.wait_stream(reader);
    if (p.made_on != s) p.sim.record_stream(s);
    const StreamGuard guard(s);
    p.sim = p.sim.clone(), p.cpu = p.cpu.clone();  // views of it keep their values
    p.made_on = p.written_on = s;
    const int64_t n = p.cpu.numel() / 2;
    for (const Tensor& t : {p.sim, p.cpu}) t.view({t.numel()}).slice(0, 0, n).mul_(3);
  }
  void compare(const Pair& p) {
    const Stream& s = any_stream();
    prepare(p, s);
    const StreamGuard guard(s);
    same(p.sim.cpu(), p.cpu, "a tensor");
  }
  static void same(const Tensor& got, const Tensor& expected, const char* what) {
    const Tensor a = got.contiguous(), b = expected.contiguous();
    require(a.sizes() == b.sizes(), what, " has other sizes");
    require(std::memcmp(a.data_ptr(), b.data_ptr(), static_cast<std::size_t>(a.nbytes())) == 0, what, " of ", a.numel(),
            " elements has other values than on the CPU");
  }

  // To pinned memory and on; looked at later.
  void land(const Stream& s) {
    const Pair& p = any();
    prepare(p, s);
    const StreamGuard guard(s);
    Landing l{p.sim.to(kCPU, true), p.cpu.clone(), Event(false, kDevice), s};
    l.done.record(s);
    landings_.push_back(std::move(l));
    if (landings_.size() > 2) compare_landings();
  }
  void compare_landings() {
    for (const Landing& l : landings_) {
      pick(0, 1) == 0 ? l.done.synchronize() : l.stream.synchronize();
      same(l.pinned, l.expected, "a copy in pinned memory");
    }
    landings_.clear();
  }

  // A small graph over two streams, run backward from a third.
  void backward() {
    const Stream first = any_stream(), second = any_stream(), caller = any_stream();
    const auto go = [&](Device d, bool on_sim) {
      const auto on = [&](const Stream& s) { return on_sim ? std::optional<StreamGuard>(s) : std::nullopt; };
      Tensor w, h, loss;
      {
        const auto guard = on(first);
        w = full({16}, 0.75, device(d)).requires_grad_();
        h = w.mul(w).add(1);
      }
      if (on_sim) second.wait_stream(first), w.record_stream(second), h.record_stream(second);
      {
        const auto guard = on(second);
        loss = h.mul(w).tanh().sum();
      }
      if (on_sim) caller.wait_stream(second), loss.record_stream(caller);
      const auto guard = on(caller);
      loss.backward();
      return w.grad();
    };
    Tensor on_sim = go(kDevice, true), on_cpu = go(kCPU, false);
    if (caller != first) on_sim.record_stream(caller);  // the leaf's stream made it
    keep(on_sim, on_cpu, caller);
    pairs_.back().made_on = Stream(kDevice, -4, nullptr);  // whoever made it, readers say so
  }

  std::mt19937_64 random_;
  std::vector<Stream> streams_;
  std::vector<Pair> pairs_;
  std::vector<Tensor> big_;
  std::vector<Landing> landings_;
};

}  // namespace tenon::testing
