// SPDX-License-Identifier: Apache-2.0
// The engine: runs a graph backward in the calling thread, for all devices.
//
// Note [Backward]. One pass finds the nodes that can be reached and how many contributions each awaits; nodes whose
// contributions are complete run in the order of Note [Order] (node.h), each with its forward stream current. Where a
// gradient crosses streams, the receiving stream waits for the giving one; at the end the caller's streams wait for
// all. Nothing is written to nodes while this goes on, so graphs that share leaves, or are retained, may run in several
// threads at once, a node may run another backward (to a depth of 200), and after an exception
// everything can be used on; leaves that had received their gradient keep it.
#pragma once

#include <tenon/autograd/node.h>

#include <memory>

namespace tenon::autograd {

struct Root {
  Edge edge;
  Tensor grad;
};

/// Runs from `roots`. With `captures`, only what leads to those edges runs, and the gradients that arrive there are
/// returned (undefined where none did) instead of being accumulated; otherwise leaves accumulate.
TENON_API std::vector<Tensor> run_backward(std::vector<Root> roots, bool retain_graph, bool create_graph,
                                           std::span<const Edge> captures = {});

/// Whether the backward run in this thread wants gradients at `node`; true outside of one.
bool wanted(const Node& node);

/// What somebody keeps for the length of one backward run (a checkpoint: what it recomputed).
struct RunLocal {
  virtual ~RunLocal();
};
/// The place of `key` in the run of this thread, empty at first; destroyed with the run. Null outside of one.
std::unique_ptr<RunLocal>* run_local(uint64_t key);

}  // namespace tenon::autograd
