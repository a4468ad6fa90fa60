// SPDX-License-Identifier: Apache-2.0
// Rows of ops/linalg.h whose results an einsum equation describes.
#include <tenon/ops/linalg.h>

#include "tests/support/op_case.h"
#include "tests/support/summed_products.h"

#include <algorithm>

using namespace tenon;
using namespace tenon::testing;

namespace {

using Sizes = std::vector<int64_t>;
using List = std::vector<Tensor>;
const Dtypes kWide = {kFloat64, kFloat32};  // 16-bit intermediate results would be rounded

Reference by_equation(std::string equation) {
  return [equation = std::move(equation)](const Args& a) {
    return std::vector<Array>{summed_products(equation, {a.array(0), a.array(1)}, a.array(0).dtype)};
  };
}
Maker pairs(std::vector<std::pair<Sizes, Sizes>> sizes) {
  return [sizes = std::move(sizes)](Inputs& in) {
    for (const auto& [a, b] : sizes) in.add({in.tensor(a), in.tensor(b)});
  };
}
void einsum_samples(Inputs& in) {
  const auto t = [&](Sizes s) { return in.tensor(s, -2, 2); };
  in.add({"i,j->ij", List{t({3}), t({4})}});
  in.add({"ij", List{t({3, 4})}});
  in.add({"ba", List{t({3, 4})}});
  in.add({" b a -> a b ", List{t({3, 4})}});
  in.add({"Ab", List{t({3, 4})}});
  in.add({"bA", List{t({3, 4})}});
  in.add({"ii->i", List{t({3, 3})}});
  in.add({"iji->ij", List{t({3, 2, 3})}});
  in.add({"aabb->ba", List{t({2, 2, 3, 3})}});
  in.add({"iii->i", List{t({3, 3, 3})}});
  in.add({"ij,jk", List{t({2, 3}), t({3, 4})}});
  in.add({"ij,jk->ki", List{t({2, 3}), t({3, 4})}});
  in.add({"aij,ajk->aik", List{t({2, 2, 3}), t({2, 3, 4})}});
  in.add({"aij,jk->aik", List{t({2, 3, 4}), t({4, 4})}});
  in.add({"ijk,ik->j", List{t({3, 2, 3}), t({3, 3})}});
  in.add({"ij,ij", List{t({2, 3}), t({2, 3})}});
  in.add({"ij,ij->ij", List{t({2, 3}), t({2, 3})}});
  in.add({"bhqd,bhkd->bhqk", List{t({2, 2, 3, 4}), t({2, 2, 2, 4})}});
  in.add({"bqhd,bkhd->bhqk", List{t({2, 3, 2, 4}), t({2, 2, 2, 4})}});
  in.add({"...ij,...jk->...ik", List{t({2, 1, 2, 3}), t({3, 3, 2})}});
  in.add({"i...,i...", List{t({3, 2}), t({3, 1, 2})}});
  in.add({"...,...", List{t({}), t({2, 3})}});
  in.add({",i->i", List{t({}), t({3})}});
  in.add({"ij,ij->i", List{t({2, 1}), t({1, 3})}});  // size 1 broadcasts
  in.add({"ii,ij->j", List{t({3, 3}), t({3, 2})}});
  in.add({"ij,jk->ik", List{t({2, 0}), t({0, 3})}});
  in.add({"ij,jk->ik", List{t({0, 2}), t({2, 3})}});
  in.add({"ij,jk->ik", List{t({33, 20}), t({20, 17})}}).no_gradient();
}
void einsum_wide_samples(Inputs& in) {
  const auto t = [&](Sizes s) { return in.tensor(s, -1, 1); };
  in.add({"...ik, ...j -> ij", List{t({2, 2, 3}), t({2, 3})}});
  in.add({"ij,jk,kl->il", List{t({2, 3}), t({3, 4}), t({4, 2})}});
  in.add({"i,i,i->i", List{t({3}), t({3}), t({3})}});
  in.add({"i,j,k", List{t({2}), t({3}), t({2})}});
  in.add({"bn,anm,bm->ba", List{t({2, 3}), t({4, 3, 2}), t({2, 2})}});
  in.add({"ab,bc,cd,de,ef,fa", List{t({2, 3}), t({3, 2}), t({2, 4}), t({4, 2}), t({2, 3}), t({3, 2})}}).no_gradient();
  List many;
  for (int i = 0; i < 8; ++i) many.push_back(t({2, 2}));
  in.add({"ab,bc,cd,de,ef,fg,gh,hi->ia", many}).no_gradient();
  in.add({"aij,bij->ab", List{t({2, 2, 3}), t({4, 2, 3})}});
  in.add({"ij,kl->il", List{t({2, 3}), t({3, 4})}});
  in.add({"ijk,jl->jl", List{t({2, 3, 2}), t({3, 4})}});
}

std::vector<Array> einsum_of(const Args& a) {
  const DType t = a.arrays(1)[0].dtype;
  // Where one operand is summed alone (the other one lacks the dimension, or has size 1), integers become int64.
  const std::string equation = a.text(0);
  const bool alone =
      equation == "...ik, ...j -> ij" || equation == "ij,kl->il" || equation == "ijk,jl->jl" || equation == "ij,ij->i";
  return {summed_products(a.text(0), a.arrays(1), is_integral(t) && alone ? kInt64 : t)};
}

}  // namespace

TENON_OP_CASES(einsum) {
  op_case(op::outer)
      .dtypes(kNumbers)
      .gradient()
      .samples(pairs({{{3}, {4}}, {{0}, {2}}, {{1}, {5}}}))
      .reference(by_equation("i,j"))
      .error<ShapeError>("", pairs({{{2, 2}, {2}}}));
  op_case(op::inner)
      .dtypes(kNumbers)
      .gradient()
      .samples(pairs({{{3}, {3}}, {{2, 3}, {4, 3}}, {{2, 2, 3}, {3}}, {{2, 0}, {3, 0}}, {{}, {2, 3}}, {{2}, {}}}))
      .reference([](const Args& a) {
        const Array x = a.array(0), y = a.array(1);
        const bool product = x.dim() == 0 || y.dim() == 0;
        const std::string letters = "abcdefgh";
        const auto term = [&](const Array& v, std::size_t from) {
          return letters.substr(from, v.sizes.size() - (product ? 0 : 1)) + (product ? "" : "z");
        };
        const std::string left = term(x, 0), right = term(y, 4);
        std::string result = left + right;
        result.erase(std::remove(result.begin(), result.end(), 'z'), result.end());
        return std::vector<Array>{summed_products(left + "," + right + "->" + result, {x, y}, x.dtype)};
      })
      .error<ShapeError>("", pairs({{{2, 3}, {2}}}))
      .error<DtypeError>("", [](Inputs& in) {
        in.add({in.tensor({3}), in.tensor({3}, 0, 1, kFloat64)});
      });
  op_case(op::tensordot)
      .dtypes(kNumbers)
      .gradient()
      .ulp(8)
      .samples([](Inputs& in) {
        in.add({in.tensor({2, 3, 4}), in.tensor({4, 3, 2}), ints({1, 2}), ints({1, 0})});
        in.add({in.tensor({3, 2, 4}), in.tensor({4, 5, 3}), ints({0, -1}), ints({2, 0})});
      })
      .reference([](const Args& a) {
        const char* equation = a.ints(2) == Sizes{1, 2} ? "ajk,kjb->ab" : "jak,kbj->ab";
        return std::vector<Array>{summed_products(equation, {a.array(0), a.array(1)}, a.array(0).dtype)};
      })
      .error<ValueError>("dims",
                         [](Inputs& in) {
                           in.add({in.tensor({2, 3}), in.tensor({3, 2}), ints({1}), ints({})});
                           in.add({in.tensor({3, 3}), in.tensor({3, 3}), ints({1, 1}), ints({0, 1})});
                         })
      .error<ShapeError>("dims",
                         [](Inputs& in) {
                           in.add({in.tensor({2, 3}), in.tensor({2, 3}), ints({0}), ints({1})});
                         })
      .error<DtypeError>("", [](Inputs& in) {
        in.add({in.tensor({2}), in.tensor({2}, 0, 1, kFloat64), ints({0}), ints({0})});
      });
  op_case(op::tensordot, "size 1")
      .dtypes(kWide + kIntegers)
      .gradient()
      .samples([](Inputs& in) {
        in.add({in.tensor({2, 2, 1}), in.tensor({2, 1, 2}), ints({0, 1}), ints({2, 0})});
        in.add({in.tensor({1, 1, 1}), in.tensor({2, 1, 2}), ints({0, 1}), ints({2, 0})});
      })
      .reference(by_equation("jka,kbj->ab"));
  op_case(op::tensordot_dims)
      .dtypes(kNumbers)
      .gradient()
      .ulp(8)
      .samples([](Inputs& in) {
        in.add({in.tensor({2, 3, 4}), in.tensor({3, 4, 2})});
        in.add({in.tensor({2, 3}), in.tensor({3, 4}), 1});
        in.add({in.tensor({2, 3}), in.tensor({2}), 0});
        in.add({in.tensor({2, 0}), in.tensor({0, 4}), 1});
      })
      .reference([](const Args& a) {
        const char* equation = a.integer(2) == 2 ? "aij,ijb->ab" : a.integer(2) == 1 ? "ai,ib->ab" : "ai,b->aib";
        return std::vector<Array>{summed_products(equation, {a.array(0), a.array(1)}, a.array(0).dtype)};
      })
      .errors_name("tensordot")
      .error<ValueError>("dims", [](Inputs& in) {
        in.add({in.tensor({2, 3}), in.tensor({3}), 2});
      });

  op_case(op::einsum)
      .dtypes(kNumbers)
      .gradient()
      .ulp(8)
      .samples(einsum_samples)
      .reference(einsum_of)
      .benchmark([](Inputs& in) {
        in.add({"bhqd,bhkd->bhqk", List{in.tensor({4, 8, 64, 64}), in.tensor({4, 8, 64, 64})}});
      });
  op_case(op::einsum, "rounded between")
      .dtypes(kWide + kComplexes + kIntegers)
      .gradient()
      .ulp(8)
      .samples(einsum_wide_samples)
      .reference(einsum_of);
  op_case(op::einsum, "sums")
      .dtypes(kWide + kComplexes + kIntegers)
      .gradient()
      .samples([](Inputs& in) {
        in.add({"ij->", List{in.tensor({3, 4})}});
        in.add({"i...->...", List{in.tensor({3, 2})}});
        in.add({"ii", List{in.tensor({3, 3})}});
        in.add({"...", List{in.tensor({2, 2})}});
      })
      .reference([](const Args& a) {
        const DType t = a.arrays(1)[0].dtype;
        return std::vector<Array>{summed_products(
            a.text(0), a.arrays(1), is_integral(t) && a.text(0) != "..." ? kInt64 : t)};  // the dtype of sum
      });
  op_case(op::einsum, "refused")
      .dtypes(kWide)
      .samples([](Inputs& in) {
        in.add({"i->i", List{in.tensor({2})}});
      })
      .reference(einsum_of)
      .error<ValueError>(
          "equation",
          [](Inputs& in) {
            for (const char* e : {"i.->i", "....", "......", "i-", "i>i", "i->j", "i->ii", "i->i->i", "1", "i->i,i"})
              in.add({e, List{in.tensor({2})}});
          })
      .error<ValueError>("tensors",
                         [](Inputs& in) {
                           in.add({"i,j", List{in.tensor({2})}});
                           in.add({"i", List{in.tensor({2}), in.tensor({2})}});
                         })
      .error<ShapeError>("tensors", [](Inputs& in) {
        in.add({"ij", List{in.tensor({2})}});
        in.add({"i", List{in.tensor({2, 2})}});
        in.add({"ij...", List{in.tensor({2})}});
        in.add({"ii", List{in.tensor({2, 3})}});
        in.add({"i,i", List{in.tensor({2}), in.tensor({3})}});
      });
}
