// SPDX-License-Identifier: Apache-2.0
// A step of an optimizer over many tensors: their addresses travel as arguments of the kernel, hundreds a launch; each
// block finds the tensor its piece belongs to.
#include <tenon/kernels/cuda/launch.h>
#include <tenon/kernels/math.h>
#include <tenon/kernels/optimizer_numbers.h>
#include <tenon/ops/optimizer_step.h>
#include <tenon/streams/guard.h>
#include <tenon/kernels/cuda/scalar.cuh>

#include <algorithm>

namespace tenon {
namespace {

#define TENON_RULE __device__ __forceinline__
#define TENON_RULE_SQRT math::sqrt
#define TENON_RULE_MAX larger
// NaN stays.
template <class C>
__device__ __forceinline__ C larger(C a, C b) {
  return a > b || a != a ? a : b;
}
#include <tenon/kernels/optimizer_rules.h>

using cuda::compute_t;
constexpr int kThreads = 256, kEach = 8;
constexpr int64_t kPiece = kThreads * kEach;

template <class T>
struct Arrays {
  T* parameter;
  const T* gradient;
  compute_t<T>* master;  // or null, as each state
  compute_t<T>* state[3];
  int64_t count, first;  // first: the first piece of it in this launch
};
template <class T, int kTensors>
struct Arguments {
  OptimizerNumbers numbers;
  OptimizerFactors factors;
  const double* clock;
  int64_t flags;
  int tensors;
  Arrays<T> arrays[kTensors];
};

template <class T, OptimizerRule kRule, int kTensors>
__global__ void __launch_bounds__(kThreads) step_kernel(const __grid_constant__ Arguments<T, kTensors> p) {
  using C = compute_t<T>;
  __shared__ OptimizerFactors late;
  if (p.clock) {  // a replayed graph: learning rate and step lie on the device
    if (threadIdx.x == 0) {
      OptimizerNumbers n = p.numbers;
      n.lr = p.clock[0], n.step = p.clock[1];
      late = optimizer_factors(kRule, p.flags, n);
    }
    __syncthreads();
  }
  const OptimizerFactors& factors = p.clock ? late : p.factors;
  int low = 0, high = p.tensors;  // the last tensor that begins at or before this piece
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    if (p.arrays[middle].first <= int64_t(blockIdx.x))
      low = middle;
    else
      high = middle;
  }
  const Arrays<T>& x = p.arrays[low];
  const C decay = static_cast<C>(factors.decay), shrink = static_cast<C>(factors.shrink);
  C k[7];
#pragma unroll
  for (int i = 0; i < 7; ++i) k[i] = static_cast<C>(factors.k[i]);
  const int64_t begin = (int64_t(blockIdx.x) - x.first) * kPiece + threadIdx.x;
#pragma unroll 4
  for (int j = 0; j < kEach; ++j) {
    const int64_t i = begin + j * kThreads;
    if (i >= x.count) return;
    C w = x.master ? x.master[i] : static_cast<C>(x.parameter[i]);
    C s[3] = {0, 0, 0};
#pragma unroll
    for (int m = 0; m < 3; ++m)
      if (x.state[m]) s[m] = x.state[m][i];
    optimizer_rule<kRule>(p.flags, factors.decay != 0, decay, shrink, k, C(0), w, static_cast<C>(x.gradient[i]), s[0],
                          s[1], s[2]);
    if (x.master) x.master[i] = w;
    x.parameter[i] = static_cast<T>(w);
#pragma unroll
    for (int m = 0; m < 3; ++m)
      if (x.state[m]) x.state[m][i] = s[m];
  }
}

template <class T, int kTensors>
void launch_step(OptimizerRule rule, const Arguments<T, kTensors>& p, int64_t pieces) {
  const auto go = [&](auto kernel) { cuda::launch(kernel, dim3(static_cast<unsigned>(pieces)), kThreads, 0, p); };
  switch (rule) {
    case OptimizerRule::sgd:
      return go(step_kernel<T, OptimizerRule::sgd, kTensors>);
    case OptimizerRule::adam:
      return go(step_kernel<T, OptimizerRule::adam, kTensors>);
    case OptimizerRule::nadam:
      return go(step_kernel<T, OptimizerRule::nadam, kTensors>);
    case OptimizerRule::rmsprop:
      return go(step_kernel<T, OptimizerRule::rmsprop, kTensors>);
    case OptimizerRule::adagrad:
      return go(step_kernel<T, OptimizerRule::adagrad, kTensors>);
    case OptimizerRule::adadelta:
      return go(step_kernel<T, OptimizerRule::adadelta, kTensors>);
  }
}

template <class T>
void optimizer_step_cuda(TensorList parameters, TensorList gradients, TensorList states, const Tensor& clock,
                         int64_t rule, int64_t flags, double lr, double step, double a, double b, double c, double d,
                         double e, double f) {
  using C = compute_t<T>;
  constexpr int kTensors = 384;  // 24 KiB of the 32 KiB that arguments may take
  constexpr int64_t kMostPieces = int64_t(1) << 30;
  const DeviceGuard guard(parameters[0].device());
  const auto which = static_cast<OptimizerRule>(rule);
  const std::size_t n = parameters.size();
  Arguments<T, kTensors> p;
  p.numbers = {lr, step, a, b, c, d, e, f};
  p.factors = optimizer_factors(which, flags, p.numbers);
  p.clock = clock.defined() ? static_cast<const double*>(clock.data_ptr()) : nullptr;
  p.flags = flags, p.tensors = 0;
  int64_t pieces = 0;
  const auto flush = [&] {
    if (p.tensors == 0) return;
    constexpr int kFew = 16;
    if (p.tensors <= kFew) {  // most models: fewer bytes to hand over
      Arguments<T, kFew> few{p.numbers, p.factors, p.clock, p.flags, p.tensors, {}};
      std::copy(p.arrays, p.arrays + p.tensors, few.arrays);
      launch_step(which, few, pieces);
    } else {
      launch_step(which, p, pieces);
    }
    p.tensors = 0, pieces = 0;
  };
  for (std::size_t i = 0; i < n; ++i) {
    if (parameters[i].numel() == 0) continue;
    const int64_t more = cuda::ceil_div(parameters[i].numel(), kPiece);
    if (p.tensors == kTensors || pieces + more > kMostPieces) flush();
    std::size_t kind = 0;
    const auto next = [&](int64_t flag) {
      return flags & flag ? static_cast<C*>(states[kind++ * n + i].data_ptr()) : nullptr;
    };
    Arrays<T>& x = p.arrays[p.tensors++];
    x.parameter = static_cast<T*>(parameters[i].data_ptr());
    x.gradient = static_cast<const T*>(gradients[i].data_ptr());
    x.master = next(kMasterWeights);
    x.state[0] = next(kFirstState), x.state[1] = next(kSecondState), x.state[2] = next(kThirdState);
    x.count = parameters[i].numel(), x.first = pieces;
    pieces += more;
  }
  flush();
}
TENON_REGISTER_KERNEL(op::optimizer_step, cuda, FloatsAndHalves, optimizer_step_cuda);

}  // namespace
}  // namespace tenon
