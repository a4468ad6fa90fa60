// SPDX-License-Identifier: Apache-2.0
// Complex numbers: views of their parts, writes through these, gradients through those, in both directions.
#include "tests/support/catch.h"

#include <tenon/autograd/gradcheck.h>
#include <tenon/tenon.h>

using namespace tenon;
using Z = complex<double>;

namespace {

Tensor numbers(DType t = kComplex128) { return tensor({Z(1, 2), Z(-3, 4), Z(5, -6)}, t); }

}  // namespace

TEST_CASE("parts of complex numbers are views of them", "[ops]") {
  const Tensor z = numbers(), pairs = view_as_real(z);
  CHECK(pairs.dtype() == kFloat64);
  CHECK(pairs.data_ptr() == z.data_ptr());
  CHECK(pairs.to_vector<double>() == std::vector<double>{1, 2, -3, 4, 5, -6});
  CHECK(imag(z).to_vector<double>() == std::vector<double>{2, 4, -6});
  const uint32_t version = z.version();
  real(z).fill_(7);
  imag(z).mul_(10);
  CHECK(z.version() == version + 2);
  CHECK(z.to_vector<Z>() == std::vector<Z>{Z(7, 20), Z(7, 40), Z(7, -60)});
  const Tensor back = view_as_complex(pairs);
  CHECK(back.data_ptr() == z.data_ptr());
  CHECK(back.dtype() == kComplex128);
  CHECK(back.strides() == z.strides());
  back.select(0, 1).fill_(Z(0, 1));
  CHECK(pairs.select(0, 1).to_vector<double>() == std::vector<double>{0, 1});
  const Tensor x = ones({2});
  CHECK(real(x).is_same(x));
  CHECK(op::resolve_conj(x).is_same(x));
  CHECK(is_complex(z));
  CHECK_FALSE(is_complex(x));
  CHECK_THROWS_AS(imag(x), DtypeError);
}

TEST_CASE("views of parts follow strides and offsets", "[ops]") {
  const Tensor z = op::make_complex(arange(0, 12, 1, kFloat64).view({3, 4}), arange(12, 24, 1, kFloat64).view({3, 4}));
  const Tensor part = z.t().slice(0, 1, {}, 2);  // columns 1 and 3
  CHECK(view_as_real(part).strides() == IntArrayRef({4, 8, 1}));
  CHECK(real(part).to_vector<double>() == std::vector<double>{1, 5, 9, 3, 7, 11});
  CHECK(imag(part).to_vector<double>() == std::vector<double>{13, 17, 21, 15, 19, 23});
  CHECK(view_as_complex(view_as_real(part)).to_vector<Z>() == part.to_vector<Z>());
  CHECK(view_as_complex(view_as_real(part)).strides() == part.strides());
  // Pairs must lie side by side, at even places.
  const Tensor x = arange(0, 12, 1, kFloat32);
  CHECK(view_as_complex(x.slice(0, 2, 8).view({3, 2})).storage_offset() == 1);
  CHECK_THROWS_AS(view_as_complex(x.slice(0, 1, 3)), ShapeError);
  CHECK_THROWS_AS(view_as_complex(x.view({2, 6}).t()), ShapeError);
  CHECK_THROWS_AS(view_as_complex(x.view({4, 3}).slice(1, 0, 2)), ShapeError);
}

TEST_CASE("gradients pass through writes to parts of complex numbers", "[ops]") {
  using autograd::CheckedFunction;
  const auto check = [](const CheckedFunction& f, std::vector<Tensor> inputs) {
    for (Tensor& t : inputs) t.requires_grad_();
    CHECK(autograd::gradcheck(f, inputs));
    CHECK(autograd::gradgradcheck(f, inputs));
  };
  const Tensor z = numbers(), w = tensor({0.5, -1.5, 2.5}, kFloat64);
  check(  // a real view of a complex base
      [](TensorList in) {
        const Tensor y = mul(in[0], in[0]);
        imag(y).mul_(in[1]);
        return std::vector<Tensor>{mul(y, y)};
      },
      {z, w});
  check(  // twice, through a view that was there before
      [](TensorList in) {
        Tensor y = in[0].clone(), re = real(y), all = view_as_real(y);
        re.mul_(in[1]);
        all.select(0, 1).mul_(in[1].slice(0, 0, 2));
        return std::vector<Tensor>{mul(y, re), sin(all)};
      },
      {z, w});
  check(  // a complex view of a real base
      [](TensorList in) {
        const Tensor y = mul(in[0], 2), c = view_as_complex(y);
        c.select(0, 1).mul_(in[1].select(0, 0));
        c.slice(0, 1, 3).mul_(c.slice(0, 0, 2).clone());
        return std::vector<Tensor>{mul(y, y), c};
      },
      {view_as_real(numbers()).clone(), numbers()});
  check(  // a complex view of a real base that begins at an odd place
      [](TensorList in) {
        Tensor y = zeros({7}, kFloat64).slice(0, 1).detach();
        y.copy_(in[0]);
        view_as_complex(y.slice(0, 1, 5).view({2, 2})).mul_(in[1]);
        return std::vector<Tensor>{mul(y, y)};
      },
      {arange(1, 7, 1, kFloat64), numbers().slice(0, 0, 2).clone()});
  check(  // a strided base
      [](TensorList in) {
        const Tensor y = op::make_complex(in[0], in[1]).t().clone(), part = y.slice(1, 1, 3);
        real(part).mul_(imag(y).slice(1, 0, 2).clone());
        return std::vector<Tensor>{abs(y), angle(y)};
      },
      {arange(1, 7, 1, kFloat64).view({3, 2}), arange(3, 9, 1, kFloat64).view({3, 2})});
  check([](TensorList in) { return std::vector<Tensor>{real(conj(in[0])), polar(real(in[0]), in[1])}; }, {z, w});
}

TEST_CASE("what cannot be written says so for parts as well", "[ops]") {
  Tensor z = numbers();
  z.requires_grad_();
  CHECK_THROWS_AS(real(z).fill_(1), AutogradError);
  CHECK_THROWS_AS(view_as_real(z).mul_(2), AutogradError);
}

TEST_CASE("gradients of complex functions at their kinks are PyTorch's", "[ops]") {
  Tensor z = tensor({Z(0, 0), Z(3, 4), Z(-1, 0)}, kComplex128);
  z.requires_grad_();
  const auto gradient = [&](const Tensor& y) { return autograd::grad(y, z, ones_like(y))[0].to_vector<Z>(); };
  CHECK(gradient(abs(z)) == std::vector<Z>{Z(0, 0), Z(0.6, 0.8), Z(-1, 0)});
  const std::vector<Z> turned = gradient(angle(z));
  CHECK(turned[0] == Z(0, 0));
  CHECK(std::abs(turned[1].re + 0.16) + std::abs(turned[1].im - 0.12) < 1e-15);
  CHECK(std::abs(turned[2].re) + std::abs(turned[2].im + 1) < 1e-15);
  CHECK(gradient(sgn(z))[0] == Z(0, 0));
}
