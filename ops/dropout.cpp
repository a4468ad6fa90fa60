// SPDX-License-Identifier: Apache-2.0
#define TENON_DEFINE_OPERATORS
#include <tenon/ops/dropout.h>

#include <tenon/dispatch/declare_only.h>
//
#include <tenon/dispatch/make_tensor.h>
#include <tenon/ops/binary.h>
#include <tenon/ops/factory.h>
#include <tenon/ops/random.h>
#include <tenon/ops/view.h>

#include <cmath>

namespace tenon::impl {
namespace {

Tensor dropped(std::string_view who, const Tensor& input, double p, bool training, bool channels, bool alpha) {
  TENON_CHECK(p >= 0 && p <= 1, ValueError, who, ": p: expected a probability in [0, 1], got ", p);
  if (p == 0 || !training || input.numel() == 0) return input;
  TENON_CHECK(is_floating_point(input.dtype()) || is_complex(input.dtype()), DtypeError, who,
              ": input: expected a floating or complex dtype, got ", input.dtype());
  if (p == 1) return op::mul(input, 0);
  DimVector sizes(input.sizes());
  if (channels) {
    TENON_CHECK(input.dim() >= 2, ShapeError, who, ": input: expected at least 2 dimensions, got ", input.sizes());
    for (std::size_t d = 2; d < sizes.size(); ++d) sizes[d] = 1;
  }
  const DType t = real_of(input.dtype());
  const Tensor kept = op::bernoulli_p(dispatch::make_tensor(sizes, t, input.device()), 1 - p);
  if (!alpha) return op::mul(input, op::mul(kept, 1 / (1 - p)));
  constexpr double kLimit = 1.7580993408473766;
  const double a = 1 / std::sqrt((kLimit * kLimit * p + 1) * (1 - p));
  const Tensor shift = op::add(op::mul(op::sub(kept, 1, 1), kLimit * a), kLimit * a * p, 1);
  return op::add(op::mul(input, op::mul(kept, a)), shift, 1);
}
// Dropout of channels for entries of `rank` dimensions, or a batch of them.
Tensor of_entries(const char* who, const Tensor& input, double p, bool training, int64_t rank) {
  TENON_CHECK(input.dim() == rank || input.dim() == rank + 1, ShapeError, who, ": input: expected ", rank, " or ",
              rank + 1, " dimensions, got ", input.sizes());
  if (input.dim() == rank + 1) return dropped(who, input, p, training, true, false);
  return dropped(who, input.unsqueeze(0), p, training, true, false).squeeze(0);
}

}  // namespace

#define TENON_DROPOUT(name, ...)                                                   \
  Tensor name(Call&, const Tensor& input, double p, bool training, bool inplace) { \
    if (inplace) return op::name.inplace(input, input, p, training, false);        \
    return __VA_ARGS__;                                                            \
  }
TENON_DROPOUT(feature_dropout, dropped("feature_dropout", input, p, training, true, false))
TENON_DROPOUT(dropout1d, of_entries("dropout1d", input, p, training, 2))
TENON_DROPOUT(dropout2d, dropped("dropout2d", input, p, training, true, false))
TENON_DROPOUT(dropout3d, of_entries("dropout3d", input, p, training, 4))
TENON_DROPOUT(alpha_dropout, dropped("alpha_dropout", input, p, training, false, true))
TENON_DROPOUT(feature_alpha_dropout, dropped("feature_alpha_dropout", input, p, training, true, true))
#undef TENON_DROPOUT

}  // namespace tenon::impl
