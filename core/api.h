// SPDX-License-Identifier: Apache-2.0
// Visibility and host/device markers. Everything not marked TENON_API stays inside its library.
#pragma once

#define TENON_API __attribute__((visibility("default")))

#if defined(__CUDACC__)
#define TENON_HOST_DEVICE __host__ __device__
#else
#define TENON_HOST_DEVICE
#endif

#define TENON_CONCAT_IMPL(a, b) a##b
#define TENON_CONCAT(a, b) TENON_CONCAT_IMPL(a, b)
/// A name unique within the translation unit, for file-scope registrars.
#define TENON_UNIQUE(prefix) TENON_CONCAT(prefix, __COUNTER__)
