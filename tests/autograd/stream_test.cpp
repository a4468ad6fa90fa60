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
  Step(Log& log, std::string label, std::vector<autograd::Edge> to, bool fails = false)
      : log_(log), label_(std::move(label)), fails_(fails) {
    set_edges(to);
    set_device(kSim0);
  }
  std::string name() const override { return label_; }
  void apply(std::span<Tensor> grads, std::span<Tensor> results) override {
    const Stream s = current_stream(kSim0);
    log_.current.push_back(s.id());
    (*log_.fake)->push(0, s.handle(), [this_log = &log_, label = label_] { this_log->done.push_back(label); });
    if (fails_) throw ValueError("planted");
    for (Tensor& r : results) r = grads[0];
  }

 private:
  Log& log_;
  std::string label_;
  bool fails_;
};

Ref<autograd::Node> step(Log& log, const char* label, const Stream& on, std::vector<autograd::Edge> to,
                         bool fails = false) {
  const StreamGuard guard(on);
  return Ref<autograd::Node>::adopt(new Step(log, label, std::move(to), fails));
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
