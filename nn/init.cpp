// SPDX-License-Identifier: Apache-2.0
#include <tenon/dispatch/thread_state.h>
#include <tenon/nn/init.h>
#include <tenon/ops/factory.h>
#include <tenon/ops/random.h>
#include <tenon/ops/special.h>

#include <cmath>
#include <numbers>

namespace tenon::nn::init {
namespace {

int64_t fan(const Tensor& weight, std::size_t dim) {
  TENON_CHECK(weight.dim() >= 2, ShapeError, "init: weight: expected at least 2 dimensions, got sizes ",
              weight.sizes());
  int64_t n = weight.sizes()[dim];
  for (std::size_t d = 2; d < weight.sizes().size(); ++d) n *= weight.sizes()[d];
  return n;
}
double fan(const Tensor& weight, std::string_view mode) {
  TENON_CHECK(mode == "fan_in" || mode == "fan_out", ValueError, "init: mode: expected 'fan_in' or 'fan_out', got '",
              mode, "'");
  return static_cast<double>(mode == "fan_in" ? fan_in(weight) : fan_out(weight));
}
void check_matrix(const char* name, const Tensor& t) {
  TENON_CHECK(t.dim() == 2, ShapeError, "init::", name, ": expected a matrix, got sizes ", t.sizes());
}
void copy_to(const Tensor& t, const Tensor& values) {
  const NoGradGuard no_grad;
  Tensor target = t;
  target.copy_(values.view(t.sizes()));
}
double normal_cdf(double x) { return 0.5 * std::erfc(-x / std::numbers::sqrt2); }

// Rows of q [rows, columns], rows <= columns, become orthonormal: modified Gram-Schmidt, twice, which suffices for full
// precision (Giraud, Langou and Rozloznik 2005).
void orthonormalise(double* q, int64_t rows, int64_t columns) {
  const auto dot = [&](const double* a, const double* b) {
    double sum = 0;
    for (int64_t j = 0; j < columns; ++j) sum += a[j] * b[j];
    return sum;
  };
  for (int64_t i = 0; i < rows; ++i) {
    double* const row = q + i * columns;
    for (int64_t k = 0; k < 2 * i; ++k) {
      const double* const other = q + k % i * columns;
      const double part = dot(row, other);
      for (int64_t j = 0; j < columns; ++j) row[j] -= part * other[j];
    }
    const double length = std::sqrt(dot(row, row));
    for (int64_t j = 0; j < columns; ++j) row[j] /= length;
  }
}

}  // namespace

int64_t fan_in(const Tensor& weight) { return fan(weight, std::size_t{1}); }
int64_t fan_out(const Tensor& weight) { return fan(weight, std::size_t{0}); }

double calculate_gain(std::string_view nonlinearity, double param) {
  for (const std::string_view one :
       {"linear", "sigmoid", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d"})
    if (nonlinearity == one) return 1;
  if (nonlinearity == "tanh") return 5.0 / 3;
  if (nonlinearity == "relu") return std::numbers::sqrt2;
  if (nonlinearity == "leaky_relu") return std::sqrt(2 / (1 + param * param));
  if (nonlinearity == "selu") return 0.75;
  TENON_CHECK(false, ValueError,
              "calculate_gain: nonlinearity: expected linear, sigmoid, conv*, tanh, relu, leaky_relu or ",
              "selu, got '", nonlinearity, "'");
}

void uniform_(const Tensor& t, double from, double to) {
  const NoGradGuard no_grad;
  tenon::uniform_(t, from, to);
}
void normal_(const Tensor& t, double mean, double std) {
  const NoGradGuard no_grad;
  tenon::normal_(t, mean, std);
}
void trunc_normal_(const Tensor& t, double mean, double std, double a, double b) {
  TENON_CHECK(std > 0 && a < b, ValueError, "trunc_normal_: expected std > 0 and a < b, got std ", std, ", a ", a,
              ", b ", b);
  const NoGradGuard no_grad;
  const double low = normal_cdf((a - mean) / std), high = normal_cdf((b - mean) / std);
  Tensor x = empty(t.sizes(), TensorOptions(t.dtype() == kFloat64 ? kFloat64 : kFloat32).device(t.device()));
  tenon::uniform_(x, 2 * low - 1, 2 * high - 1);
  copy_to(t, erfinv(x).mul(std * std::numbers::sqrt2).add(mean).clamp(a, b));
}
void constant_(const Tensor& t, const Scalar& value) {
  const NoGradGuard no_grad;
  Tensor target = t;
  target.fill_(value);
}
void ones_(const Tensor& t) { constant_(t, 1); }
void zeros_(const Tensor& t) { constant_(t, 0); }
void eye_(const Tensor& matrix) {
  check_matrix("eye_", matrix);
  copy_to(matrix, eye(matrix.size(0), matrix.size(1), TensorOptions(matrix.dtype()).device(matrix.device())));
}
void dirac_(const Tensor& weight, int64_t groups) {
  TENON_CHECK(weight.dim() >= 3 && weight.dim() <= 5, ShapeError,
              "init::dirac_: expected 3 to 5 dimensions, got sizes ", weight.sizes());
  TENON_CHECK(groups > 0 && weight.size(0) % groups == 0, ValueError, "init::dirac_: groups: expected a divisor of ",
              weight.size(0), ", got ", groups);
  zeros_(weight);
  const NoGradGuard no_grad;
  const int64_t out = weight.size(0) / groups, in = weight.size(1);
  for (int64_t o = 0; o < weight.size(0); ++o) {
    if (o % out >= in) continue;
    Tensor at = weight.detach().select(0, o).select(0, o % out);
    while (at.dim() > 0) at = at.select(0, at.size(0) / 2);
    at.fill_(1);
  }
}
void xavier_uniform_(const Tensor& weight, double gain) {
  const double bound = gain * std::sqrt(6.0 / static_cast<double>(fan_in(weight) + fan_out(weight)));
  init::uniform_(weight, -bound, bound);
}
void xavier_normal_(const Tensor& weight, double gain) {
  init::normal_(weight, 0, gain * std::sqrt(2.0 / static_cast<double>(fan_in(weight) + fan_out(weight))));
}
void kaiming_uniform_(const Tensor& weight, double a, std::string_view mode, std::string_view nonlinearity) {
  const double bound = calculate_gain(nonlinearity, a) * std::sqrt(3.0 / fan(weight, mode));
  if (weight.numel() > 0) init::uniform_(weight, -bound, bound);
}
void kaiming_normal_(const Tensor& weight, double a, std::string_view mode, std::string_view nonlinearity) {
  const double deviation = calculate_gain(nonlinearity, a) / std::sqrt(fan(weight, mode));
  if (weight.numel() > 0) init::normal_(weight, 0, deviation);
}

void orthogonal_(const Tensor& weight, double gain) {
  TENON_CHECK(weight.dim() >= 2, ShapeError, "init::orthogonal_: expected at least 2 dimensions, got sizes ",
              weight.sizes());
  if (weight.numel() == 0) return;
  const int64_t rows = weight.size(0), columns = weight.numel() / rows;
  Tensor q = empty({std::min(rows, columns), std::max(rows, columns)}, TensorOptions(kFloat64));
  init::normal_(q);
  orthonormalise(q.data_ptr<double>(), q.size(0), q.size(1));
  q = q.mul(gain);
  copy_to(weight, (rows > columns ? q.t() : q).contiguous());
}
void sparse_(const Tensor& matrix, double sparsity, double std) {
  check_matrix("sparse_", matrix);
  TENON_CHECK(sparsity >= 0 && sparsity <= 1, ValueError, "init::sparse_: sparsity: expected a value in [0, 1], got ",
              sparsity);
  init::normal_(matrix, 0, std);
  const NoGradGuard no_grad;
  const int64_t rows = matrix.size(0), zeroed = static_cast<int64_t>(std::ceil(sparsity * static_cast<double>(rows)));
  std::vector<float> keep(static_cast<std::size_t>(matrix.numel()), 1);
  for (int64_t column = 0; column < matrix.size(1); ++column) {
    const std::vector<int64_t> order = randperm(rows).to_vector<int64_t>();
    for (int64_t i = 0; i < zeroed; ++i)
      keep[static_cast<std::size_t>(order[static_cast<std::size_t>(i)] * matrix.size(1) + column)] = 0;
  }
  copy_to(matrix,
          matrix.detach().mul(from_vector(std::move(keep), matrix.sizes()).to(matrix.device(), matrix.dtype())));
}

}  // namespace tenon::nn::init
