// SPDX-License-Identifier: Apache-2.0
// Convolutions by cuDNN 9 through its backend (graph) interface, opened on first use as cuBLASLt is: by the loader's rules,
// then in the usual CUDA folders; TENON_CUDNN names a file instead. Where it is absent, was not there when the library was
// built, is switched off (backends::cudnn in ops/convolution.h) or has no engine, the caller has kernels of its own.
//
// Note [cuDNN plans]. A convolution is one graph node. What was built for it is kept per thread in a table with one slot per
// hash of its descriptors' bytes; that nothing could be built is kept too.
#pragma once

#include <tenon/ops/convolution.h>

namespace tenon::cuda {

/// Queues the convolution (arguments as of ConvolutionKernel, without bias) on the current stream of out's device; false
/// when cuDNN does not take part.
bool convolve_by_cudnn(const Tensor& out, const Tensor& a, const Tensor& b, const ConvolutionGeometry& geometry);

}  // namespace tenon::cuda
