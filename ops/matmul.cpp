// SPDX-License-Identifier: Apache-2.0
#define TENON_DEFINE_OPERATORS
#include <tenon/ops/matmul.h>

#include <tenon/dispatch/make_tensor.h>

namespace tenon {
namespace {
constexpr std::string_view kPrecisions[] = {"highest", "high", "medium"};
constinit int precision_chosen = 0;
}  // namespace
void set_float32_matmul_precision(std::string_view precision) {
  for (int i = 0; i < 3; ++i)
    if (precision == kPrecisions[i]) return __atomic_store_n(&precision_chosen, i, __ATOMIC_RELAXED);
  detail::fail<ValueError>("set_float32_matmul_precision: precision: expected highest, high or medium, got ",
                           precision);
}
std::string_view float32_matmul_precision() {
  return kPrecisions[__atomic_load_n(&precision_chosen, __ATOMIC_RELAXED)];
}
bool allow_tf32() { return __atomic_load_n(&precision_chosen, __ATOMIC_RELAXED) != 0; }
void set_allow_tf32(bool on) { __atomic_store_n(&precision_chosen, on ? 1 : 0, __ATOMIC_RELAXED); }
}  // namespace tenon

namespace tenon::impl {
namespace {
using dispatch::make_view;

std::size_t rank_of(const Tensor& t) { return t.sizes().size(); }

// `names` are the arguments' names, for messages.
void check_product(const Call& call, const Tensor& a, const Tensor& b, int rank, const char* const (&names)[2]) {
  TENON_CHECK(a.dim() == rank, ShapeError, call.name(), ": ", names[0], ": expected ", rank, " dimensions, got ",
              a.dim());
  TENON_CHECK(b.dim() == rank, ShapeError, call.name(), ": ", names[1], ": expected ", rank, " dimensions, got ",
              b.dim());
  TENON_CHECK(a.dtype() == b.dtype(), DtypeError, call.name(), ": expected one dtype, got ", names[0], " ", a.dtype(),
              " and ", names[1], " ", b.dtype());
  TENON_CHECK(a.sizes()[rank - 1] == b.sizes()[rank - 2], ShapeError, call.name(), ": sizes ", a.sizes(), " and ",
              b.sizes(), " do not multiply: expected ", a.sizes()[rank - 1], " rows in ", names[1], ", got ",
              b.sizes()[rank - 2]);
  TENON_CHECK(rank == 2 || a.sizes()[0] == b.sizes()[0], ShapeError, call.name(),
              ": expected equal numbers of matrices, got ", a.sizes()[0], " and ", b.sizes()[0]);
}

DimVector product_sizes(const Tensor& a, const Tensor& b) {
  DimVector sizes(a.sizes());
  sizes[sizes.size() - 1] = b.sizes().back();
  return sizes;
}

Tensor product(Call& call, const dispatch::Op<Tensor(const Tensor&, const Tensor&), MatmulKernel>& handle,
               const Tensor& a, const Tensor& b) {
  const Device device = call.device_of({&a, &b});
  const Tensor out = call.output(0, product_sizes(a, b), a.dtype(), device, {&a, &b});
  if (!out.is_meta()) {
    const auto kernel = handle.kernel(a.backend(), dispatch::key_of(a.dtype()));
    if (out.numel() != 0) kernel(out, Tensor(), a, b, 0, 1);
  }
  return out;
}

// Broadcast strides for `sizes`; ShapeError when it does not broadcast there.
Tensor expanded(const Call& call, const Tensor& t, IntArrayRef sizes) {
  if (t.sizes() == sizes) return t;
  DimVector strides(sizes.size(), 0);
  bool fits = rank_of(t) <= sizes.size();
  for (std::size_t i = 1; fits && i <= rank_of(t); ++i) {
    const int64_t size = t.sizes()[rank_of(t) - i];
    fits = size == 1 || size == sizes[sizes.size() - i];
    strides[sizes.size() - i] = size == 1 ? 0 : t.strides()[rank_of(t) - i];
  }
  TENON_CHECK(fits, ShapeError, call.name(), ": self: expected sizes that broadcast to ", sizes, ", got ", t.sizes());
  return make_view(t, sizes, strides, t.storage_offset());
}

using AddProduct =
    dispatch::Op<Tensor(const Tensor&, const Tensor&, const Tensor&, const Scalar&, const Scalar&), MatmulKernel>;
Tensor add_product(Call& call, const AddProduct& handle, const Tensor& self, const Tensor& a, const Tensor& b,
                   const Scalar& beta, const Scalar& alpha) {
  const Device device = call.device_of({&self, &a, &b});
  const DType t = a.dtype();
  TENON_CHECK(self.dtype() == t, DtypeError, call.name(), ": self: expected the dtype of the matrices, ", t, ", got ",
              self.dtype());
  TENON_CHECK(is_complex(t) || (!beta.is_complex() && !alpha.is_complex()), DtypeError, call.name(),
              ": beta, alpha: expected numbers that fit ", t, ", got ", beta, " and ", alpha);
  const DimVector sizes = product_sizes(a, b);
  const Tensor added = expanded(call, self, sizes);
  const bool own = !call.destinations.empty() && call.destinations[0].is_same(self);
  const Tensor out = call.output(0, sizes, t, device, {&a, &b, own ? nullptr : &self});
  if (out.is_meta()) return out;
  const auto kernel = handle.kernel(a.backend(), dispatch::key_of(t));
  if (out.numel() == 0) return out;
  const bool zero = is_integral(t, true) ? beta.integer() == 0 : beta.equal(0);
  kernel(out, zero ? Tensor() : added, a, b, beta, alpha);
  return out;
}

// Whether all dimensions but the last can be walked as one.
bool foldable(const Tensor& t) {
  int64_t step = -1;  // stride of what is folded so far, times its size
  for (std::size_t d = rank_of(t) - 1; d-- > 0;) {
    if (t.sizes()[d] == 1) continue;
    if (step >= 0 && t.strides()[d] != step) return false;
    step = t.strides()[d] * t.sizes()[d];
  }
  return true;
}

int64_t count(IntArrayRef sizes) {
  int64_t n = 1;
  for (const int64_t s : sizes) n *= s;
  return n;
}

// Both at least 2-D.
Tensor batched(const Tensor& a, const Tensor& b) {
  const IntArrayRef a_batch = a.sizes().slice(0, rank_of(a) - 2), b_batch = b.sizes().slice(0, rank_of(b) - 2);
  const DimVector batch = dispatch::broadcast_sizes(a_batch, b_batch, "matmul");
  const int64_t n = count(batch), m = a.size(-2), k = a.size(-1), columns = b.size(-1);
  const auto flat = [&](const Tensor& t, IntArrayRef own) {
    DimVector sizes(batch);
    sizes.push_back(t.size(-2));
    sizes.push_back(t.size(-1));
    const Tensor wide = own == IntArrayRef(batch) ? t : t.expand(sizes);
    return wide.dim() == 3 ? wide : wide.reshape({n, t.size(-2), t.size(-1)});
  };
  TENON_CHECK(k == b.size(-2), ShapeError, "matmul: sizes ", a.sizes(), " and ", b.sizes(), " do not multiply");
  const Tensor out = op::bmm(flat(a, a_batch), flat(b, b_batch));
  if (batch.size() == 1) return out;
  DimVector sizes(batch);
  sizes.push_back(m);
  sizes.push_back(columns);
  return out.view(sizes);
}

}  // namespace

Tensor mm(Call& call, const Tensor& self, const Tensor& mat2) {
  check_product(call, self, mat2, 2, {"self", "mat2"});
  return product(call, op::mm, self, mat2);
}
Tensor bmm(Call& call, const Tensor& self, const Tensor& mat2) {
  check_product(call, self, mat2, 3, {"self", "mat2"});
  return product(call, op::bmm, self, mat2);
}
Tensor addmm(Call& call, const Tensor& self, const Tensor& mat1, const Tensor& mat2, const Scalar& beta,
             const Scalar& alpha) {
  check_product(call, mat1, mat2, 2, {"mat1", "mat2"});
  return add_product(call, op::addmm, self, mat1, mat2, beta, alpha);
}
Tensor baddbmm(Call& call, const Tensor& self, const Tensor& batch1, const Tensor& batch2, const Scalar& beta,
               const Scalar& alpha) {
  check_product(call, batch1, batch2, 3, {"batch1", "batch2"});
  return add_product(call, op::baddbmm, self, batch1, batch2, beta, alpha);
}

Tensor mv(Call&, const Tensor& self, const Tensor& vec) {
  TENON_CHECK(self.dim() == 2 && vec.dim() == 1, ShapeError, "mv: expected a matrix and a vector, got ", self.dim(),
              " and ", vec.dim(), " dimensions");
  return op::mm(self, vec.unsqueeze(1)).view(self.size(0));
}

Tensor dot(Call&, const Tensor& self, const Tensor& tensor) {
  TENON_CHECK(self.dim() == 1 && tensor.dim() == 1, ShapeError, "dot: expected two vectors, got ", self.dim(), " and ",
              tensor.dim(), " dimensions");
  TENON_CHECK(self.numel() == tensor.numel(), ShapeError, "dot: expected vectors of one length, got ", self.numel(),
              " and ", tensor.numel());
  return op::mm(self.unsqueeze(0), tensor.unsqueeze(1)).view(IntArrayRef());
}

Tensor matmul(Call&, const Tensor& self, const Tensor& other) {
  const int64_t da = self.dim(), db = other.dim();
  TENON_CHECK(da > 0 && db > 0, ShapeError, "matmul: expected at least one dimension each, got ", da, " and ", db);
  if (da == 2 && db == 2) return op::mm(self, other);
  if (da == 1 && db == 1) return op::dot(self, other);
  if (da == 2 && db == 1) return op::mv(self, other);
  if (da == 1 && db == 2) return op::mm(self.unsqueeze(0), other).view(other.size(1));
  if (db == 1) {  // [..., m, k] x [k]
    DimVector sizes(self.sizes());
    sizes.pop_back();
    return op::matmul(self, other.unsqueeze(1)).view(sizes);
  }
  if (da == 1) {  // [k] x [..., k, n]
    DimVector sizes(other.sizes());
    sizes.erase(sizes.size() - 2);
    return op::matmul(self.unsqueeze(0), other).view(sizes);
  }
  if (db == 2 && foldable(self)) {  // one matrix for all: its rows are the rows of every batch
    const int64_t k = self.size(-1);
    const DimVector sizes = product_sizes(self, other);
    return op::mm(self.reshape({count(self.sizes().slice(0, rank_of(self) - 1)), k}), other).view(sizes);
  }
  return batched(self, other);
}

Tensor linear(Call&, const Tensor& input, const Tensor& weight, const Tensor& bias) {
  TENON_CHECK(input.dim() >= 1, ShapeError, "linear: input: expected at least one dimension, got a 0-dim tensor");
  TENON_CHECK(weight.dim() == 2 || weight.dim() == 1, ShapeError, "linear: weight: expected [out, in], got ",
              weight.sizes());
  TENON_CHECK(input.size(-1) == weight.size(-1), ShapeError, "linear: input: expected ", weight.size(-1),
              " features in the last dimension, as in weight, got sizes ", input.sizes());
  if (weight.dim() == 1) {
    const Tensor out = op::matmul(input, weight);
    return bias.defined() ? out.add(bias) : out;
  }
  const Tensor columns = weight.transpose(0, 1);
  const Tensor rows =
      input.dim() == 2 ? input : input.reshape({count(input.sizes().slice(0, rank_of(input) - 1)), input.size(-1)});
  const Tensor out = bias.defined() ? op::addmm(bias, rows, columns, 1, 1) : op::mm(rows, columns);
  if (input.dim() == 2) return out;
  DimVector sizes(input.sizes());
  sizes[sizes.size() - 1] = weight.size(0);
  return out.view(sizes);
}

}  // namespace tenon::impl
