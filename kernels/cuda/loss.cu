// SPDX-License-Identifier: Apache-2.0
// Negative log likelihood, forward and backward. The reduced forms sum in float (double for double) in a fixed order:
// up to kBlocks blocks leave partial sums, one block adds them.
#include <tenon/kernels/cuda/device_error.h>
#include <tenon/kernels/cuda/workspace.h>
#include <tenon/ops/loss.h>
#include <tenon/streams/guard.h>
#include <tenon/kernels/cuda/rows.cuh>

#include <algorithm>

namespace tenon {
namespace {

using cuda::compute_t;
constexpr int kThreadsLog2 = 8, kThreads = 256;
constexpr int64_t kBlocks = 256;

template <class T>
struct Losses {
  const int64_t* target;
  const T* weight;  // or null
  int64_t count, classes, inner, ignore;
  cuda::IndexCheck check;

  // Whether element i counts; then its class.
  __device__ bool find(int64_t i, int64_t& target_class) const {
    target_class = target[i];
    return target_class != ignore && check(target_class, i);
  }
  // Of the class's score for element i.
  __device__ int64_t place(int64_t i, int64_t target_class) const {
    const int64_t row = i / inner;
    return (row * classes + target_class) * inner + (i - row * inner);
  }
  __device__ compute_t<T> weight_of(int64_t target_class) const {
    return weight ? static_cast<compute_t<T>>(weight[target_class]) : compute_t<T>(1);
  }
};

template <class T>
__global__ void __launch_bounds__(kThreads) each_loss(const Losses<T> l, const T* x, T* out) {
  const int64_t i = int64_t(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= l.count) return;
  int64_t c;
  compute_t<T> loss = 0;
  if (l.find(i, c)) loss = -static_cast<compute_t<T>>(x[l.place(i, c)]) * l.weight_of(c);
  out[i] = static_cast<T>(loss);
}

template <class T>
__device__ void finish(compute_t<T> loss, compute_t<T> weight, bool mean, T* out, T* total) {
  *out = static_cast<T>(mean ? loss / weight : loss);
  *total = static_cast<T>(weight);
}

// partial: [gridDim.x][2], or null when there is one block.
template <class T>
__global__ void __launch_bounds__(kThreads)
    sum_losses(const Losses<T> l, const T* x, bool mean, compute_t<T>* partial, T* out, T* total) {
  using C = compute_t<T>;
  C sums[2] = {C(0), C(0)};
  for (int64_t i = int64_t(blockIdx.x) * kThreads + threadIdx.x; i < l.count; i += int64_t(gridDim.x) * kThreads) {
    int64_t c;
    if (!l.find(i, c)) continue;
    const C w = l.weight_of(c);
    sums[0] -= static_cast<C>(x[l.place(i, c)]) * w;
    sums[1] += w;
  }
  cuda::fold_row(sums, kThreadsLog2, C(0), 0, cuda::Plus{});
  if (threadIdx.x != 0) return;
  if (partial)
    partial[blockIdx.x * 2] = sums[0], partial[blockIdx.x * 2 + 1] = sums[1];
  else
    finish<T>(sums[0], sums[1], mean, out, total);
}
template <class T>
__global__ void __launch_bounds__(kThreads)
    join_losses(const compute_t<T>* partial, int blocks, bool mean, T* out, T* total) {
  using C = compute_t<T>;
  C sums[2] = {C(0), C(0)};
  for (int b = threadIdx.x; b < blocks; b += kThreads) sums[0] += partial[b * 2], sums[1] += partial[b * 2 + 1];
  cuda::fold_row(sums, kThreadsLog2, C(0), 0, cuda::Plus{});
  if (threadIdx.x == 0) finish<T>(sums[0], sums[1], mean, out, total);
}

// The gradient is zero but at the targets; it was zeroed before.
template <class T>
__global__ void __launch_bounds__(kThreads)
    backward_kernel(const Losses<T> l, const T* grad, const T* total, int64_t reduction, T* out) {
  using C = compute_t<T>;
  const int64_t i = int64_t(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= l.count) return;
  int64_t c;
  if (!l.find(i, c)) return;
  C g = -l.weight_of(c) * static_cast<C>(grad[reduction == kReductionNone ? i : 0]);
  if (reduction == kReductionMean) g /= static_cast<C>(*total);
  out[l.place(i, c)] = static_cast<T>(g);
}

template <class T>
Losses<T> losses(const char* op, const Tensor& scores, const Tensor& target, const Tensor& weight, int64_t ignore) {
  const int64_t classes = scores.size(1);
  return {static_cast<const int64_t*>(target.data_ptr()),
          weight.defined() ? static_cast<const T*>(weight.data_ptr()) : nullptr,
          target.numel(),
          classes,
          scores.size(2),
          ignore,
          cuda::index_check(op, "target", classes, 1)};
}
unsigned blocks_for(int64_t count) { return static_cast<unsigned>(cuda::ceil_div(count, kThreads)); }

template <class T>
void nll_loss_forward_cuda(const Tensor& output, const Tensor& total_weight, const Tensor& self, const Tensor& target,
                           const Tensor& weight, int64_t reduction, int64_t ignore_index) {
  using C = compute_t<T>;
  const DeviceGuard guard(self.device());
  const auto l = losses<T>("nll_loss", self, target, weight, ignore_index);
  const auto* x = static_cast<const T*>(self.data_ptr());
  auto *out = static_cast<T*>(output.data_ptr()), *total = static_cast<T*>(total_weight.data_ptr());
  if (reduction == kReductionNone) return cuda::launch(each_loss<T>, blocks_for(l.count), kThreads, 0, l, x, out);
  const bool mean = reduction == kReductionMean;
  const int64_t blocks = std::min(cuda::ceil_div(l.count, 4 * kThreads), kBlocks);
  cuda::Workspace workspace;
  C* partial = blocks > 1 ? reinterpret_cast<C*>(workspace.allocate(blocks * 2 * int64_t(sizeof(C)))) : nullptr;
  cuda::launch(sum_losses<T>, static_cast<unsigned>(blocks), kThreads, 0, l, x, mean, partial, out, total);
  if (partial) cuda::launch(join_losses<T>, 1, kThreads, 0, partial, static_cast<int>(blocks), mean, out, total);
}

template <class T>
void nll_loss_backward_cuda(const Tensor& grad_input, const Tensor& grad_output, const Tensor& target,
                            const Tensor& weight, int64_t reduction, int64_t ignore_index, const Tensor& total_weight) {
  const DeviceGuard guard(grad_input.device());
  const auto l = losses<T>("nll_loss_backward", grad_input, target, weight, ignore_index);
  cuda::launch(backward_kernel<T>, blocks_for(l.count), kThreads, 0, l, static_cast<const T*>(grad_output.data_ptr()),
               static_cast<const T*>(total_weight.data_ptr()), reduction, static_cast<T*>(grad_input.data_ptr()));
}

TENON_REGISTER_KERNEL(op::nll_loss_forward, cuda, FloatsAndHalves, nll_loss_forward_cuda);
TENON_REGISTER_KERNEL(op::nll_loss_backward, cuda, FloatsAndHalves, nll_loss_backward_cuda);

}  // namespace
}  // namespace tenon
