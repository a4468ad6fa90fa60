// SPDX-License-Identifier: Apache-2.0
// Host cost per call, memory-bound and compute-bound operators, and a training step, each beside the peer.
// operators_bench [--rows GLOB] [--device cpu|cuda] [--peer LIB|none] [--json FILE] [--markdown FILE]
#include "bench.h"

int main(int argc, char** argv) { return tenon::bench::run_all(argc, argv); }
