// SPDX-License-Identifier: Apache-2.0
// Programs with graphs for any device: tests/sim runs them on the simulated one, tests/streams on the GPU. References are
// the same programs without a graph, or plain arithmetic. Here: captures, replays, and what is refused.
#pragma once

#include <tenon/tenon.h>

#include <string>
#include <vector>

#include "tests/support/catch.h"

namespace tenon::testing {

using FloatList = std::vector<float>;

inline FloatList values(const Tensor& t) { return t.to_vector<float>(); }
inline Tensor filled(Device d, float value, int64_t n = 4) { return full({n}, value, device(d)); }

inline std::string unjoined_text(Device d) {
  return d.is_sim() ? "joined the capture and has work" : "cudaErrorStreamCaptureUnjoined";
}

inline void replays(Device d) {
  Tensor x = filled(d, 1), y;
  synchronize(d);
  Graph g(d);
  CHECK_FALSE(g.captured());
  g.capture([&] { y = x.add(1).mul(x); });
  CHECK(g.captured());
  CHECK(g.nodes() == 2);
  for (const float v : {1.F, 2.F, 5.F}) {
    x.fill_(v);
    g.replay();
    CHECK(values(y) == FloatList(4, (v + 1) * v));
  }
  g.reset();
  CHECK_FALSE(g.captured());
  CHECK(contains(error_of<CaptureError>([&] { g.replay(); }), "nothing was captured"));
  g.capture([&] { y = x.add(2); });  // a graph can be used again
  g.replay();
  CHECK(values(y) == FloatList(4, 7));
}

inline void fork_and_join(Device d) {
  const Stream side = Stream::from_pool(0, d);
  Tensor x = filled(d, 0), y, z;
  synchronize(d);
  Graph g(d);
  g.capture([&] {
    const Stream mine = current_stream(d);
    const Tensor a = x.add(1);
    side.wait_stream(mine);
    {
      const StreamGuard guard(side);
      CHECK(side.is_capturing());
      y = a.mul(10);
      a.record_stream(side);
    }
    z = a.mul(100);
    mine.wait_stream(side);
    z = z.add(y);
    z.record_stream(mine);
  });
  CHECK_FALSE(side.is_capturing());
  for (int i = 1; i < 4; ++i) {
    x.fill_(i);
    g.replay();
    g.replay();  // replays do not overlap
    CHECK(values(z) == FloatList(4, static_cast<float>((i + 1) * 110)));
  }
}

inline void unjoined_streams(Device d) {
  const Stream side = Stream::from_pool(0, d);
  Tensor x = filled(d, 1);
  const Event before = current_stream(d).record_event();
  Event within(false, d);
  synchronize(d);
  Graph g(d);
  CHECK(contains(error_of<CaptureError>([&] {
                   g.capture([&] {
                     side.wait_stream(current_stream(d));
                     const StreamGuard guard(side);
                     x.add_(1);
                   });
                 }),
                 unjoined_text(d)));
  CHECK_FALSE(side.is_capturing());
  if (d.is_sim())
    CHECK(contains(error_of<CaptureError>([&] { g.capture([&] { current_stream(d).wait_event(before); }); }),
                   "outside of the capture"));
  CHECK(contains(error_of<CaptureError>([&] {
                   g.capture([&] {
                     const StreamGuard guard(side);  // has not joined
                     x.add_(1);
                   });
                 }),
                 "has not joined the capture"));
  CHECK_FALSE(g.captured());
  x.add_(1);
  CHECK(values(x) == FloatList(4, 2));
  g.capture([&] {
    x.add_(5);
    within.record(current_stream(d));
  });
  CHECK_THROWS_AS(within.query(), CaptureError);  // it marks a place in the graph
  CHECK_THROWS_AS(within.synchronize(), CaptureError);
  g.replay();
  CHECK(values(x) == FloatList(4, 7));
  within.record(current_stream(d));
  within.synchronize();
  CHECK(within.query());
}

inline void refusals(Device d) {
  Tensor x = filled(d, 2);
  const Tensor host = ones({4}), pinned = host.pin_memory();
  synchronize(d);
  const auto refused = [&](auto f) {
    Graph g(d);
    const std::string text = error_of<CaptureError>([&] { g.capture(f); });
    CHECK_FALSE(g.captured());
    CHECK_FALSE(current_stream(d).is_capturing());
    CHECK(values(x.add(1)) == FloatList(4, 3));
    return text;
  };
  CHECK(contains(refused([&] { (void)x.sum().item<float>(); }), "item: not while a graph is captured"));
  CHECK(contains(refused([&] { (void)nonzero(x); }), "nonzero: not while"));
  CHECK(contains(refused([&] { (void)equal(x, x); }), "equal: not while"));
  CHECK(contains(refused([&] { x.copy_(host); }), "not pinned"));
  CHECK(contains(refused([&] { (void)host.to(d); }), "not pinned"));
  CHECK(contains(refused([&] { x.copy_(pinned); }), "Stream::synchronize"));
  CHECK(contains(refused([&] { (void)host.add(1); }),
                 "add: not while a graph is captured: it has an operand on the CPU"));
  CHECK(contains(refused([&] { (void)x.mul(scalar_tensor(2)); }), "operand on the CPU"));
  CHECK(contains(refused([&] { (void)histc(x, 3); }), "histc: item: the host cannot wait"));
  CHECK(contains(refused([&] { current_stream(d).synchronize(); }), "Stream::synchronize: the host cannot wait"));
  CHECK(contains(refused([&] { (void)current_stream(d).query(); }), "Stream::query"));
  CHECK(contains(refused([&] { synchronize(d); }), "synchronize"));
  CHECK(contains(refused([&] { current_stream(d).add_callback([] {}); }), "callback"));
  if (d.is_sim()) CHECK(contains(refused([&] { (void)ones({2}, device(Device(kSim, 1))).add(1); }), "works on sim:1"));
  CHECK(contains(refused([&] { Graph(d).capture([] {}); }), "capturing another"));
}

inline void guards(Device d) {
  Tensor x = filled(d, 1);
  synchronize(d);
  Graph g(d);
  CHECK(contains(error_of<CaptureError>([&] { g.capture_begin(); }), "the default stream of " + d.str()));
  {
    const GraphCapture capture(g);
    CHECK(current_stream(d).is_capturing());
    x.add_(1);
    Graph other(d);
    const StreamGuard guard(Stream::from_pool(0, d));
    CHECK(contains(error_of<CaptureError>([&] { other.capture_begin(); }), "capturing another"));
    CHECK(contains(error_of<CaptureError>([&] { g.capture_begin(); }), "holds a capture"));
    CHECK(contains(error_of<CaptureError>([&] { lint_capture([] {}); }), "capturing"));
  }
  CHECK(current_stream(d).id() == 0);
  g.replay();
  CHECK(values(x) == FloatList(4, 2));
  CHECK(contains(error_of<CaptureError>([&] { g.capture_begin(); }), "holds a capture"));
  CHECK(contains(error_of<CaptureError>([&] { g.capture_end(); }), "not capturing"));
  Graph again(d);
  CHECK(contains(error_of<CaptureError>([&] { again.capture([&] { g.replay(); }); }), "part of another capture"));
  try {
    const GraphCapture capture(again);
    throw ValueError("passes");
  } catch (const ValueError&) {
  }
  CHECK(contains(error_of<CaptureError>([&] { again.replay(); }), "nothing was captured"));
  const Stream side = Stream::from_pool(0, d);
  {
    const GraphCapture capture(again);
    side.wait_stream(current_stream(d));
    const StreamGuard guard(side);
    x.add_(1);
  }
  CHECK(contains(error_of<CaptureError>([&] { again.replay(); }), unjoined_text(d)));
  again.reset();
  again.capture([&] { x.add_(10); });
  Graph moved = std::move(again);
  moved.replay();
  CHECK(values(x) == FloatList(4, 12));
  CHECK_THROWS_AS(Graph(kCPU).capture([] {}), DeviceError);
  {
    Graph left(d);
    const StreamGuard guard(side);
    left.capture_begin();
    x.add_(1);
  }  // destroyed in its capture
  CHECK_FALSE(side.is_capturing());
  CHECK(values(x) == FloatList(4, 12));
}

}  // namespace tenon::testing
