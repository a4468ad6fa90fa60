// SPDX-License-Identifier: Apache-2.0
// Rows of the operator families: expressions that mean the same in tenon and in PyTorch's C++, so that both sides are
// compiled from this one list. ROW(name, bytes that must move per element, expression over `in`).
#pragma once

/// n elements each: x, y, z normal; p in (0, 1); k whole numbers below 1000 (int64); m as x, square; e 1000 edges in
/// order. What an expression does not name costs nothing.
template <class Tensor>
struct FamilyInputs {
  Tensor x, y, z, p, k, m, e;
};

#define TENON_FAMILY_ROWS(ROW)                                 \
  ROW("exp", 8, exp(in.x))                                     \
  ROW("log", 8, log(in.p))                                     \
  ROW("log1p", 8, log1p(in.p))                                 \
  ROW("sin", 8, sin(in.x))                                     \
  ROW("tanh", 8, tanh(in.x))                                   \
  ROW("sigmoid", 8, sigmoid(in.x))                             \
  ROW("rsqrt", 8, rsqrt(in.p))                                 \
  ROW("asin", 8, asin(in.p))                                   \
  ROW("sinh", 8, sinh(in.x))                                   \
  ROW("pow number", 8, pow(in.p, 1.5))                         \
  ROW("pow", 12, pow(in.p, in.y))                              \
  ROW("atan2", 12, atan2(in.x, in.y))                          \
  ROW("hypot", 12, hypot(in.x, in.y))                          \
  ROW("logaddexp", 12, logaddexp(in.x, in.y))                  \
  ROW("xlogy", 12, xlogy(in.x, in.p))                          \
  ROW("addcmul", 16, addcmul(in.x, in.y, in.z))                \
  ROW("lerp", 12, lerp(in.x, in.y, 0.3))                       \
  ROW("clamp", 8, clamp(in.x, -1, 1))                          \
  ROW("round", 8, round(in.x))                                 \
  ROW("remainder", 8, remainder(in.x, 0.7))                    \
  ROW("floor_divide int64", 16, floor_divide(in.k, 7))         \
  ROW("bitwise_and int64", 16, bitwise_and(in.k, 255))         \
  ROW("nan_to_num", 8, nan_to_num(in.x))                       \
  ROW("isnan", 5, isnan(in.x))                                 \
  ROW("lt", 9, lt(in.x, in.y))                                 \
  ROW("isclose", 9, isclose(in.x, in.y))                       \
  ROW("erf", 8, erf(in.x))                                     \
  ROW("erfc", 8, erfc(in.x))                                   \
  ROW("erfinv", 8, erfinv(in.p))                               \
  ROW("erfcx", 8, special_erfcx(in.x))                         \
  ROW("lgamma", 8, lgamma(in.x))                               \
  ROW("digamma", 8, digamma(in.p))                             \
  ROW("polygamma", 8, polygamma(1, in.p))                      \
  ROW("i0", 8, i0(in.x))                                       \
  ROW("i1e", 8, special_i1e(in.x))                             \
  ROW("ndtri", 8, special_ndtri(in.p))                         \
  ROW("log_ndtr", 8, special_log_ndtr(in.x))                   \
  ROW("mean all", 4, mean(in.m))                               \
  ROW("prod rows", 4, prod(in.m, 1))                           \
  ROW("amax rows", 4, amax(in.m, {1}))                         \
  ROW("amax columns", 4, amax(in.m, {0}))                      \
  ROW("max rows", 4, std::get<0>(max(in.m, 1)))                \
  ROW("all", 8, all(in.k))                                     \
  ROW("norm", 4, norm(in.x))                                   \
  ROW("logsumexp rows", 4, logsumexp(in.m, {1}))               \
  ROW("nanmean", 4, nanmean(in.x))                             \
  ROW("count_nonzero", 8, count_nonzero(in.k))                 \
  ROW("log_softmax columns", 8, log_softmax(in.m, 0))          \
  ROW("cumsum rows", 8, cumsum(in.m, 1))                       \
  ROW("cumsum columns", 8, cumsum(in.m, 0))                    \
  ROW("cumsum flat", 8, cumsum(in.x, 0))                       \
  ROW("cumprod rows", 8, cumprod(in.m, 1))                     \
  ROW("cummax rows", 16, std::get<0>(cummax(in.m, 1)))         \
  ROW("logcumsumexp rows", 8, logcumsumexp(in.m, 1))           \
  ROW("diff", 8, diff(in.m))                                   \
  ROW("trapezoid", 4, trapezoid(in.m))                         \
  ROW("gradient", 12, gradient(in.m)[0])                       \
  ROW("sort rows", 16, std::get<0>(sort(in.m, 1)))             \
  ROW("sort flat", 16, std::get<0>(sort(in.x, 0)))             \
  ROW("sort flat int64", 24, std::get<0>(sort(in.k, 0)))       \
  ROW("topk rows", 4, std::get<0>(topk(in.m, 10, 1)))          \
  ROW("topk flat", 4, std::get<0>(topk(in.x, 100, 0)))         \
  ROW("kthvalue rows", 4, std::get<0>(kthvalue(in.m, 100, 1))) \
  ROW("median rows", 4, std::get<0>(median(in.m, 1)))          \
  ROW("mode rows", 4, std::get<0>(mode(in.m, 1)))              \
  ROW("quantile rows", 4, quantile(in.m, 0.3, 1))              \
  ROW("searchsorted", 12, searchsorted(in.e, in.p))            \
  ROW("bucketize", 12, bucketize(in.p, in.e))                  \
  ROW("isin", 9, isin(in.k, in.k.slice(0, 0, 100)))            \
  ROW("bincount", 8, bincount(in.k))                           \
  ROW("histc", 4, histc(in.x, 100, -4, 4))                     \
  ROW("unique", 8, values_of_unique(in.k))                     \
  ROW("unique_consecutive", 8, values_of_unique_consecutive(in.k))
