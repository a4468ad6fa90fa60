// SPDX-License-Identifier: Apache-2.0
// Copies between a device and host memory that it cannot reach by itself (pageable, or not contiguous): through two
// page-locked buffers in turn. While one is on its way, the CPU's threads fill or empty the other.
// Internal: not for users' files.
#pragma once

#include <tenon/core/tensor.h>
#include <tenon/streams/stream.h>

namespace tenon::detail {

/// Bytes of one buffer.
inline constexpr int64_t kStagingBytes = int64_t{4} << 20;

/// `host`, of any strides and dtype, to the contiguous `device` of the same sizes, on `stream`. Returns when the host
/// memory has been read. Up to 2 * kStagingBytes nothing is waited for.
void copy_staged_to_device(const Tensor& device, const Tensor& host, const Stream& stream);
/// The contiguous `device` to `host`, of any strides; the data is there when it returns.
void copy_staged_to_host(const Tensor& host, const Tensor& device, const Stream& stream);
/// One planned loop on the device of both, dtype conversion inside.
void copy_on_device(const Tensor& to, const Tensor& from);

}  // namespace tenon::detail
