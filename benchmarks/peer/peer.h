// SPDX-License-Identifier: Apache-2.0
// The C interface between a benchmark and a library it is compared with. The peer is a shared object of its own,
// opened at run time, so that the same benchmark binary runs with and without it and the two never share headers.
#pragma once

#include <cstdint>

extern "C" {

struct TenonPeer {
  const char* name;  ///< "PyTorch 2.11.0"
  /// Sets up the work of a row on a device ("cpu" or "cuda"); null when the peer has none of that name.
  void* (*prepare)(const char* row, const char* device);
  void (*run)(void* work, int64_t iterations);
  void (*synchronize)();
  void (*destroy)(void* work);
};

/// The one exported symbol of a peer.
const TenonPeer* tenon_peer();
}
