// SPDX-License-Identifier: Apache-2.0
// Convolutions and their gradients, layer by layer: benchmarks/peer/convolutions.h.
#include "bench.h"
#include "peer/convolutions.h"

#include <tenon/tenon.h>

namespace tenon::bench {
namespace {

std::function<void()> prepare(const ConvolutionLayer& l, int step, const std::string& device) {
  const bool cuda = device == "cuda";
  const auto made = [&](IntArrayRef sizes) {
    const Tensor t = randn(sizes, TensorOptions(Device(device))).to(l.dtype == 1 ? kFloat16 : kFloat32);
    return l.channels_last ? t.contiguous(MemoryFormat::channels_last) : t;
  };
  const int64_t n = l.batch(cuda), side = l.result_size();
  const Tensor x = made({n, l.in, l.size, l.size}), grad = made({n, l.out, side, side});
  const Tensor w = made({l.transposed ? l.in : l.out, (l.transposed ? l.out : l.in) / l.groups, l.kernel, l.kernel});
  return [=, kept = Tensor()]() mutable {
    kept.reset();
    if (step == 0)
      kept = op::convolution(x, w, {}, l.stride, l.padding, 1, l.transposed, int64_t{0}, l.groups);
    else if (step == 1)
      kept = std::get<0>(
          op::convolution_backward(grad, x, w, l.stride, l.padding, 1, l.transposed, int64_t{0}, l.groups, 1));
    else
      kept = std::get<1>(
          op::convolution_backward(grad, x, w, l.stride, l.padding, 1, l.transposed, int64_t{0}, l.groups, 2));
  };
}

const bool registered = [] {
  for (const char* device : {"cpu", "cuda"})
    for (const ConvolutionLayer& l : kConvolutionLayers)
      for (int step = 0; step < 3; ++step) {
        const bool cuda = std::string_view(device) == "cuda";
        if (l.dtype == 1 && !cuda) continue;
        add_row({std::string(l.name) + kConvolutionSteps[step], device, Bound::compute, l.flops(cuda),
                 [=] { return prepare(l, step, device); }});
      }
  return true;
}();

}  // namespace
}  // namespace tenon::bench
