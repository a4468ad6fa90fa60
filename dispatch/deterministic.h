// SPDX-License-Identifier: Apache-2.0
// Whether results must be the same bits in every run. On the CPU they always are. On CUDA some operators add in the order in
// which threads come (kNonDeterministic in their declaration: index_add, scatter, scatter_add, scatter_reduce, index_copy,
// bincount, and what is made of them); when this is on they sort the indices first and work in that order, which takes more
// time and memory. The gradients of embedding, scans, reductions and products of matrices need no such choice.
#pragma once

#include <tenon/core/api.h>

namespace tenon {

/// Switches it for the whole process, from the next operator on. Thread safety: any thread.
TENON_API void set_deterministic(bool on);
TENON_API bool is_deterministic();

}  // namespace tenon
