// SPDX-License-Identifier: Apache-2.0
// NvtxRanges: while it lives, every operator of this thread opens an NVTX range of its name, which nsys and ncu show.
#pragma once

#include <tenon/dispatch/layers.h>

namespace tenon {

/// Not movable: belongs to a scope of one thread. Threads without one pay nothing.
class TENON_API NvtxRanges {
 public:
  NvtxRanges();

 private:
  dispatch::RecordFunctionGuard guard_;
};

}  // namespace tenon
