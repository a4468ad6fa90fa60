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

/// For the few thread-local words that every call reads: one instruction instead of a call. They lie in the static TLS
/// block, of which a library that is opened late gets little, so there are to be less than 200 bytes of them.
/// nvcc's front end does not know the attribute; its objects then use the general, slower access.
#if defined(__CUDACC__)
#define TENON_INITIAL_EXEC
#else
#define TENON_INITIAL_EXEC __attribute__((tls_model("initial-exec")))
#endif

/// A name unique within the translation unit, for file-scope registrars.
#define TENON_UNIQUE(prefix) TENON_CONCAT(prefix, __COUNTER__)
