// SPDX-License-Identifier: Apache-2.0
// Streams in backward, on a fake device whose work waits until somebody synchronises: each node runs on its forward
// stream, receiving streams wait for giving ones, the caller's stream waits for the end.
#include <tenon/autograd/engine.h>
#include <tenon/streams/guard.h>

#include "tests/streams/fake_streams.h"

using namespace tenon;
using tenon::testing::FakeDevice;

namespace {
const Device kSim0(kSim, 0);

struct Log {
  FakeDevice* fake;
  std::vector<std::string> done;  // in the order the device did it
  std::vector<int32_t> current;   // streams as the nodes saw them
};

// Queues its name as work on the current stream and hands the gradient on.
class Step final : public autograd::Node {
 public:
  Step(Log& log, std::string label, std::vector<autograd::Edge> to, bool fails = false, Device device = kSim0)
      : log_(log), label_(std::move(label)), fails_(fails), device_(device) {
    set_edges(to);
    set_device(device);
  }
  std::string name() const override { return label_; }
  void apply(std::span<Tensor> grads, std::span<Tensor> results) override {
    const Stream s = current_stream(device_);
    log_.current.push_back(s.id());
    (*log_.fake)->push(device_.index(), s.handle(), [this_log = &log_, label = label_] {
      this_log->done.push_back(label);
    });
    if (fails_) throw ValueError("planted");
    for (Tensor& r : results) r = grads[0];
  }

 private:
  Log& log_;
  std::string label_;
  bool fails_;
  Device device_;
};

Ref<autograd::Node> step(Log& log, const char* label, const Stream& on, std::vector<autograd::Edge> to,
                         bool fails = false) {
  const StreamGuard guard(on);
  return Ref<autograd::Node>::adopt(new Step(log, label, std::move(to), fails, on.device()));
}
}  // namespace

TEST_CASE("backward follows the forward streams and joins them at the end", "[stream]") {
  FakeDevice fake;
  Log log{&fake, {}, {}};
  const Stream first = Stream::from_pool(0, kSim0), second = Stream::from_pool(0, kSim0),
               caller = Stream::from_pool(0, kSim0);
  const auto end = step(log, "end", second, {});
  const auto middle = step(log, "middle", first, {{end, 0}});
  const auto start = step(log, "start", second, {{middle, 0}});
  const Tensor one = from_vector(std::vector<float>{1});
  const StreamGuard guard(caller);
  autograd::run_backward({{{start, 0}, one}}, false, false);
  CHECK(log.current == std::vector<int32_t>{second.id(), first.id(), second.id()});
  CHECK(current_stream(kSim0) == caller);
  CHECK(log.done.empty());  // nothing was waited for on the host
  caller.synchronize();     // the caller's stream alone brings everything about, in order
  CHECK(log.done == std::vector<std::string>{"start", "middle", "end"});
}

TEST_CASE("the roots wait for what the caller queued before", "[stream]") {
  FakeDevice fake;
  Log log{&fake, {}, {}};
  const Stream forward = Stream::from_pool(0, kSim0), caller = Stream::from_pool(0, kSim0);
  const auto end = step(log, "end", forward, {});
  const StreamGuard guard(caller);
  fake->push(0, caller.handle(), [&] { log.done.push_back("gradient"); });
  autograd::run_backward({{{end, 0}, from_vector(std::vector<float>{1})}}, false, false);
  forward.synchronize();
  CHECK(log.done == std::vector<std::string>{"gradient", "end"});
}

TEST_CASE("an exception restores the caller's stream", "[stream]") {
  FakeDevice fake;
  Log log{&fake, {}, {}};
  const Stream forward = Stream::from_pool(0, kSim0), caller = Stream::from_pool(0, kSim0);
  const auto bad = step(log, "bad", forward, {}, true);
  const StreamGuard guard(caller);
  CHECK_THROWS_AS(autograd::run_backward({{{bad, 0}, from_vector(std::vector<float>{1})}}, false, false), ValueError);
  CHECK(current_stream(kSim0) == caller);
}

TEST_CASE("after an error, too, the caller's stream has what was done before") {
  FakeDevice fake;
  Log log{&fake, {}, {}};
  const Stream forward = Stream::from_pool(0, kSim0), other = Stream::from_pool(0, kSim0),
               caller = Stream::from_pool(0, kSim0);
  const auto bad = step(log, "bad", other, {}, true);
  const auto start = step(log, "start", forward, {{bad, 0}});
  const StreamGuard guard(caller);
  CHECK_THROWS_AS(autograd::run_backward({{{start, 0}, from_vector(std::vector<float>{1})}}, false, false), ValueError);
  caller.synchronize();
  CHECK(log.done == std::vector<std::string>{"start", "bad"});
}

TEST_CASE("a captured gradient is ready on the caller's stream") {
  FakeDevice fake;
  Log log{&fake, {}, {}};
  const Stream forward = Stream::from_pool(0, kSim0), caller = Stream::from_pool(0, kSim0);
  const auto end = step(log, "end", forward, {});
  const auto start = step(log, "start", forward, {{end, 0}});
  const StreamGuard guard(caller);
  const autograd::Edge wanted{end, 0};
  const auto grads =
      autograd::run_backward({{{start, 0}, from_vector(std::vector<float>{1})}}, false, false, {&wanted, 1});
  REQUIRE(grads.size() == 1);
  CHECK(grads[0].defined());
  CHECK(log.done.empty());
  caller.synchronize();
  CHECK(log.done == std::vector<std::string>{"start"});  // the node that was asked about does not run
}

TEST_CASE("a root on one device and a leaf on another, both joined with the caller's streams") {
  FakeDevice fake;
  Log log{&fake, {}, {}};
  const Device sim1(kSim, 1);
  const Stream here = Stream::from_pool(0, kSim0), there = Stream::from_pool(0, sim1),
               caller0 = Stream::from_pool(0, kSim0), caller1 = Stream::from_pool(0, sim1);
  const auto leaf = step(log, "leaf", here, {});
  const auto root = step(log, "root", there, {{leaf, 0}});
  const StreamGuard guard1(caller1), guard0(caller0);
  // The gradient is the work of the caller's stream of its own device.
  fake->push(1, caller1.handle(), [&] { log.done.push_back("gradient"); });
  // A copy between the devices may have been queued on the caller's stream of either.
  fake->push(0, caller0.handle(), [&] { log.done.push_back("copy"); });
  autograd::run_backward({{{root, 0}, from_vector(std::vector<float>{1})}}, false, false);
  CHECK(current_stream(kSim0) == caller0);
  CHECK(current_stream(sim1) == caller1);
  caller0.synchronize();
  REQUIRE(log.done.size() == 4);
  CHECK(log.done.back() == "leaf");
  CHECK(std::find(log.done.begin(), log.done.end(), "gradient") < std::find(log.done.begin(), log.done.end(), "root"));
}

TEST_CASE("contributions from two streams meet on the stream of the node they are for") {
  FakeDevice fake;
  Log log{&fake, {}, {}};
  const Stream one = Stream::from_pool(0, kSim0), two = Stream::from_pool(0, kSim0), leaf = Stream::from_pool(0, kSim0),
               caller = Stream::from_pool(0, kSim0);
  const auto end = step(log, "leaf", leaf, {});
  const auto a = step(log, "a", one, {{end, 0}}), b = step(log, "b", two, {{end, 0}});
  const StreamGuard guard(caller);
  const Tensor g = from_vector(std::vector<float>{1});
  autograd::run_backward({{{a, 0}, g}, {{b, 0}, g}}, false, false);
  caller.synchronize();
  REQUIRE(log.done.size() == 3);
  CHECK(log.done[2] == "leaf");
  CHECK(log.current == std::vector<int32_t>{two.id(), one.id(), leaf.id()});
}
