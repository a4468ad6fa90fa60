// SPDX-License-Identifier: Apache-2.0
// Runs against the installed package: it links, throws across the library's boundary and reports what is there.
#include <tenon/core/error.h>
#include <tenon/version.h>

#include <cstdio>

int main() {
  try {
    throw tenon::OutOfMemoryError("expected", {});
  } catch (const tenon::Error& e) {
    std::printf("tenon %s: %s\n", TENON_VERSION, e.what());
  }
  return 0;
}
