// SPDX-License-Identifier: Apache-2.0
// Whether GPU tests can run here.
#include "tests/support/catch.h"

#include <tenon/streams/raw_streams.h>

namespace tenon::testing {

bool cuda_available() {
  static const bool available = [] {
    RawStreams* streams = find_raw_streams(kCUDA);
    return streams != nullptr && streams->device_count() > 0;
  }();
  return available;
}

}  // namespace tenon::testing
