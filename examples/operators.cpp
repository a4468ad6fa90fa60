// SPDX-License-Identifier: Apache-2.0
// The families of operators, a few lines each; docs/operators.md quotes the marked parts.
#include <tenon/tenon.h>

using namespace tenon;

namespace {

// Ends the program with an error when a comment does not hold.
void expect(const Tensor& got, const Tensor& wanted) {
  TENON_CHECK(allclose(got.to(kFloat64), wanted.to(kFloat64), 1e-4, 1e-6), ValueError, "operators: got\n", got,
              "\nexpected\n", wanted);
}

void pointwise() {
  // [unary]
  Tensor x = tensor({-1.0, 0.0, 4.0});
  Tensor y = x.relu().sqrt();  // 0 0 2
  x.abs_();                    // in place: 1 0 4
  // [unary]
  expect(y, tensor({0, 0, 2}));
  expect(x, tensor({1, 0, 4}));
}
void binary() {
  // [binary]
  Tensor column = arange(3).view({3, 1}), row = arange(2);
  Tensor table = column * 10 + row;                 // [3, 2]: 0 1, 10 11, 20 21
  Tensor halves = div(row + 5, 2);                  // integers divide as floats: 2.5 3
  Tensor floors = op::div(row - 5, 2, "floor");     // -3 -2
  Tensor scaled = add(row, ones({2}, kInt64), 10);  // row + 10 * ones: 10 11
  // [binary]
  expect(table, tensor({0, 1, 10, 11, 20, 21}).view({3, 2}));
  expect(halves, tensor({2.5, 3.0}));
  expect(floors, tensor({-3, -2}));
  expect(scaled, tensor({10, 11}));
}
void ternary() {
  // [ternary]
  Tensor a = tensor({1.0, 2.0}), b = tensor({3.0, 4.0});
  Tensor s = addcmul(zeros({2}), a, b, 0.5);  // 0 + 0.5 * a * b: 1.5 4
  Tensor m = lerp(a, b, 0.25);                // a quarter of the way: 1.5 2.5
  // [ternary]
  expect(s, tensor({1.5, 4.0}));
  expect(m, tensor({1.5, 2.5}));
}
void compare() {
  // [compare]
  Tensor x = tensor({1.0, 2.0, 3.0});
  Tensor larger = x > 1.5;                   // false true true
  Tensor near = isclose(x, x * (1 + 1e-6));  // true true true
  bool same = equal(x, x.clone());           // true
  // [compare]
  expect(larger, tensor({0, 1, 1}));
  expect(near, tensor({1, 1, 1}));
  expect(scalar_tensor(same), scalar_tensor(true));
}
void choosing() {
  // [where]
  Tensor x = tensor({-2.0, 0.5, 7.0});
  Tensor positive = where(x > 0, x, 0);  // 0 0.5 7
  Tensor cut = clamp(x, -1, 1);          // -1 0.5 1
  // [where]
  expect(positive, tensor({0.0, 0.5, 7.0}));
  expect(cut, tensor({-1.0, 0.5, 1.0}));
}
void rounding() {
  // [rounding]
  Tensor x = tensor({-2.5, 0.25, 3.5});
  Tensor even = round(x);         // halves to even: -2 0 4
  Tensor rest = remainder(x, 2);  // the sign of the divisor: 1.5 0.25 1.5
  // [rounding]
  expect(even, tensor({-2, 0, 4}));
  expect(rest, tensor({1.5, 0.25, 1.5}));
}
void bitwise() {
  // [bitwise]
  Tensor x = tensor({6, 3});
  Tensor odd = (x & 1) != 0;               // false true
  Tensor shifted = x << 2;                 // 24 12
  Tensor common = gcd(x, tensor({4, 9}));  // 2 3
  // [bitwise]
  expect(odd, tensor({0, 1}));
  expect(shifted, tensor({24, 12}));
  expect(common, tensor({2, 3}));
}
void special() {
  // [special]
  Tensor x = tensor({0.5, 5.0});
  Tensor factorials = lgamma(x + 1).exp();   // 0.886 120
  Tensor tail = special_log_ndtr(-10 * x);   // log of the normal distribution, far out: -15.065 -1254.83
  Tensor back = erfinv(erf(tensor({0.3})));  // 0.3
  // [special]
  expect(factorials, tensor({0.886227, 120.0}));
  expect(tail, tensor({-15.064998, -1254.8314}));
  expect(back, tensor({0.3}));
}
void exponential() {
  // [exponential]
  Tensor small = tensor({1e-8});
  Tensor x = log1p(small);                                   // 1e-8: log(1 + x) would be 0
  Tensor s = logaddexp(tensor({1000.0}), tensor({1000.0}));  // 1000.693: exp would overflow
  // [exponential]
  expect(x * 1e8, tensor({1.0}));
  expect(s, tensor({1000.693147}));
}
void finite() {
  // [finite]
  Tensor x = log(tensor({0.0, 1.0, -1.0}));  // -inf 0 nan
  Tensor usable = isfinite(x);               // false true false
  Tensor filled = nan_to_num(x, 9, 0, -5);   // -5 0 9
  // [finite]
  expect(usable, tensor({0, 1, 0}));
  expect(filled, tensor({-5, 0, 9}));
}
void reduce() {
  // [reduce]
  Tensor x = arange(6).view({2, 3}).to(kFloat32);
  Tensor total = x.sum();                                // 15
  Tensor rows = x.mean(1);                               // 1 4
  Tensor spread = op::std(x, {1}, 0, /*keepdim=*/true);  // [2, 1]: 0.816 0.816
  auto [largest, places] = x.max(0);                     // 3 4 5 at 1 1 1
  // [reduce]
  expect(total, scalar_tensor(15));
  expect(rows, tensor({1, 4}));
  expect(spread, full({2, 1}, 0.8164966));
  expect(largest, tensor({3, 4, 5}));
  expect(places, tensor({1, 1, 1}));
}
void statistics() {
  // [statistics]
  Tensor x = log(tensor({1.0, -1.0, 2.0}));
  Tensor known = nanmean(x);                                  // 2
  Tensor sum = logsumexp(tensor({1000.0, 1000.0}), {0});      // 1000.693
  auto [low, high] = aminmax(tensor({3, 1, 2}));              // 1 3
  auto [variance, mean] = var_mean(tensor({1.0, 2.0, 6.0}));  // 7 3
  // [statistics]
  expect(known, scalar_tensor(0.34657359));
  expect(sum, scalar_tensor(1000.693147));
  expect(stack({low, high}), tensor({1, 3}));
  expect(stack({variance, mean}), tensor({7, 3}));
}
void quantiles() {
  // [quantile]
  Tensor x = tensor({4.0, 1.0, 3.0, 2.0});
  Tensor middle = quantile(x, 0.5);                       // 2.5
  Tensor thirds = quantile(x, tensor({0.25f, 0.75f}));    // several at once: 1.75 3.25
  Tensor element = quantile(x, 0.5, {}, false, "lower");  // one of them: 2
  // [quantile]
  expect(middle, scalar_tensor(2.5));
  expect(thirds, tensor({1.75, 3.25}));
  expect(element, scalar_tensor(2));
}
void scan() {
  // [scan]
  Tensor y = tensor({1.0, 3.0, 2.0});
  Tensor sums = cumsum(y, 0);          // 1 4 6
  auto [best, places] = cummax(y, 0);  // 1 3 3 at 0 1 1
  Tensor steps = diff(y);              // 2 -1
  Tensor area = trapezoid(y, 0.5);     // 2.25
  Tensor slope = gradient(y, 0.5)[0];  // 4 1 -2
  // [scan]
  expect(sums, tensor({1, 4, 6}));
  expect(best, tensor({1, 3, 3}));
  expect(places, tensor({0, 1, 1}));
  expect(steps, tensor({2, -1}));
  expect(area, scalar_tensor(2.25));
  expect(slope, tensor({4, 1, -2}));
}
void order() {
  // [sort]
  Tensor x = tensor({3, 1, 2});
  auto [sorted, places] = sort(x);  // 1 2 3 from 1 2 0
  auto [best, at] = topk(x, 2);     // 3 2 at 0 2
  Tensor middle = median(x);        // 2
  // [sort]
  expect(sorted, tensor({1, 2, 3}));
  expect(places, tensor({1, 2, 0}));
  expect(best, tensor({3, 2}));
  expect(at, tensor({0, 2}));
  expect(middle, scalar_tensor(2));
}
void search() {
  // [search]
  Tensor edges = tensor({1.0, 2.0, 4.0});
  Tensor before = searchsorted(edges, tensor({0.5, 2.0, 9.0}));  // 0 1 3
  Tensor after = bucketize(tensor({2.0}), edges, false, true);   // 2: behind equal edges
  Tensor known = isin(tensor({1, 5}), tensor({5, 6}));           // false true
  // [search]
  expect(before, tensor({0, 1, 3}));
  expect(after, tensor({2}));
  expect(known, tensor({0, 1}));
}
void counting() {
  // [unique]
  auto [values, inverse, counts] = unique(tensor({2, 1, 2}), true, true, true);  // 1 2, from 1 0 1, with 1 2
  // [unique]
  expect(values, tensor({1, 2}));
  expect(inverse, tensor({1, 0, 1}));
  expect(counts, tensor({1, 2}));
  // [histogram]
  Tensor often = bincount(tensor({0, 2, 2}));                                          // 1 0 2
  auto [inside, edges] = histogram(tensor({0.1, 0.2, 0.9}), tensor({0.0, 0.5, 1.0}));  // 2 1
  // [histogram]
  expect(often, tensor({1, 0, 2}));
  expect(inside, tensor({2, 1}));
  expect(edges, tensor({0.0, 0.5, 1.0}));
}
void norms() {
  // [vector_norm]
  Tensor x = tensor({3.0, -4.0});
  Tensor length = norm(x);          // 5
  Tensor city = vector_norm(x, 1);  // 7
  // [vector_norm]
  expect(length, scalar_tensor(5));
  expect(city, scalar_tensor(7));
  // [softmax]
  Tensor p = softmax(tensor({0.0, 0.0, 1000.0}), 0);  // 0 0 1
  // [softmax]
  expect(p, tensor({0, 0, 1}));
}

}  // namespace

int main() {
  pointwise();
  binary();
  ternary();
  compare();
  choosing();
  rounding();
  bitwise();
  special();
  exponential();
  finite();
  reduce();
  statistics();
  quantiles();
  scan();
  order();
  search();
  counting();
  norms();
}
