// SPDX-License-Identifier: Apache-2.0
// What one launch of a kernel that does nothing costs the host: the floor of every CUDA operator.
#include "bench.h"

#include <tenon/streams/cuda_check.h>

#include <cuda_runtime.h>

namespace {

__global__ void nothing() {}

const tenon::bench::RowRegistrar row({"host raw launch", "cuda", tenon::bench::Bound::host, 0, [] {
                                        return [] {
                                          TENON_CUDA(cudaLaunchKernel(reinterpret_cast<const void*>(&nothing), dim3(1),
                                                                      dim3(32), nullptr, 0, nullptr));
                                        };
                                      }});

}  // namespace
