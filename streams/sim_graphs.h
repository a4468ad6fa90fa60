// SPDX-License-Identifier: Apache-2.0
// Internal: graphs of the simulated device. While a stream is captured its tasks become nodes of a Recording; a replay
// queues them again, the capture's stream on the stream of the replay and each stream that joined on one of its own, so
// that the scheduler orders them by their events and nothing else. Rules that a real device has are kept: what it would
// refuse, or be broken by, throws CaptureError here.
#pragma once

#include <tenon/streams/raw_graphs.h>
#include <tenon/streams/sim_streams.h>

#include <thread>

namespace tenon::sim {

RawGraphs& graphs();

struct SimStreams::Recording {
  struct Node {
    const char* name;
    std::shared_ptr<Function<void()>> run;  // null: a mark
    int lane;                               // whose work it is; 0 is the capture's own
    int mark = -1;                          // number of the mark to pass or to wait for
    bool waits = false;
  };
  uint64_t id = 0;
  CaptureMode mode = CaptureMode::thread;
  std::thread::id thread;
  std::vector<VirtualStream*> lanes;
  std::vector<Node> nodes;
  int marks = 0;
  const char* broken = nullptr;  // by which call
  bool ended = false;

  /// Every lane's work comes before the end of lane 0's, as far as events say; else the number of one that does not.
  int unjoined() const;
  int64_t work() const;
};

struct SimStreams::Executable {
  std::shared_ptr<const Recording> recording;
  std::vector<std::unique_ptr<VirtualStream>> lanes;  // 1 and on
  std::shared_ptr<Mark> last;                         // the end of the launch before
};

}  // namespace tenon::sim
