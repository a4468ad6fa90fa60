// SPDX-License-Identifier: Apache-2.0
// Whether GPU tests can run here.
#include <tenon/testing/catch.h>

#include <tenon/streams/availability.h>

namespace tenon::testing {

bool cuda_available() { return cuda::is_available(); }

}  // namespace tenon::testing
