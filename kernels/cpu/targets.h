// SPDX-License-Identifier: Apache-2.0
// The SIMD targets every CPU kernel file is compiled for: AVX-512, AVX2 and the baseline of the architecture. A file
//   #undef HWY_TARGET_INCLUDE
//   #define HWY_TARGET_INCLUDE "tenon/kernels/cpu/<file>.cpp"
// includes this header after all headers that have nothing to do with SIMD and is then re-included once per target.
// Not guarded on purpose. What follows goes between HWY_BEFORE_NAMESPACE() and HWY_AFTER_NAMESPACE() in
// namespace tenon::cpu::HWY_NAMESPACE.
#ifndef HWY_DISABLED_TARGETS
// Compile time buys nothing here: SSSE3/SSE4 machines run the baseline, newer AVX-512 sets change no kernel of ours.
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | (HWY_AVX3 - 1))  // the lower bits: AVX3_DL and newer
#define HWY_BROKEN_EMU128 1  // the scalar fallback everywhere: the emulated one is miscompiled by GCC below 12.3
#endif
#include <tenon/kernels/cpu/convert.h>

#include <hwy/foreach_target.h>  // NOLINT(readability-duplicate-include)
//
#include <hwy/highway.h>  // NOLINT(readability-duplicate-include)

/// Like TENON_REGISTER_KERNEL for cpu; the best target this CPU supports wins. Every target must register the same
/// cells; what needs no SIMD is registered once, under #if HWY_ONCE.
#undef TENON_REGISTER_SIMD_KERNEL
#define TENON_REGISTER_SIMD_KERNEL(handle, types, function) \
  TENON_REGISTER_KERNEL_RANKED(handle, cpu, types, function, ::tenon::cpu::target_rank(HWY_TARGET))
