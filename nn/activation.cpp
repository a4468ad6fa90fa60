// SPDX-License-Identifier: Apache-2.0
#include <tenon/nn/activation.h>
#include <tenon/ops/factory.h>

namespace tenon::nn {

PReLU::PReLU(int64_t num_parameters, double init, const TensorOptions& options) {
  TENON_CHECK(num_parameters > 0, ValueError, "PReLU: num_parameters: expected a positive number, got ",
              num_parameters);
  weight = parameter(full(IntArrayRef(num_parameters), init, options));
}

}  // namespace tenon::nn
