// SPDX-License-Identifier: Apache-2.0
// Tensors: making, indexing, computing, sharing memory. docs/index.md quotes the marked parts.
#include <tenon/tenon.h>

#include <iostream>
#include <numeric>

using namespace tenon;

namespace {

// Ends the program with an error when a promise of its comments does not hold.
void expect(bool held) { TENON_CHECK(held, ValueError, "01_tensors: a comment is wrong"); }

void make() {
  // [make]
  Tensor a = zeros({2, 3});                             // float32 on the CPU
  Tensor b = randn({2, 3}, TensorOptions(kFloat64));    // drawn from the default generator
  Tensor c = arange(6).view({2, 3});                    // int64; a view, no copy
  Tensor d = from_vector(std::vector<float>{1, 2, 3});  // takes over the vector's memory
  std::cout << c << "\n";
  // [make]
  expect(a.dtype() == kFloat32 && b.dtype() == kFloat64 && c.dtype() == kInt64 && d.numel() == 3);

  std::vector<float> numbers(12);
  std::iota(numbers.begin(), numbers.end(), 0.0f);
  Tensor shared = from_blob(numbers.data(), {3, 4});
  shared[1][2].fill_(-1);  // writes to the vector
  expect(numbers[6] == -1);
}

void index() {
  // [index]
  Tensor x = arange(24).view({2, 3, 4});
  Tensor row = x[1][2];                                                   // views share memory
  Tensor middle = x.index({Ellipsis, Slice(1, 3)});                       // [2, 3, 2], a view
  Tensor picked = x.index({from_vector(std::vector<int64_t>{1, 0}), 0});  // [2, 4], a copy
  x.index_put_({Slice(), 0}, 7);                                          // all of the first rows
  // [index]
  expect(row.sizes() == IntArrayRef{4} && middle.is_view() && picked.sizes() == IntArrayRef{2, 4});
  expect(x[1][0][3].item<int>() == 7 && row[0].item<int>() == 20);
}

void compute() {
  // [compute]
  Tensor x = randn({4, 1}), y = randn({3});
  Tensor z = (x + y) * 2 - y.exp();   // broadcast to [4, 3]
  Tensor i = arange(3) + 0.5;         // an integer tensor and a real number: float32
  z.clamp_(-1, 1);                    // in place
  op::mul.out(z, z, y);               // into a tensor of your own
  auto [values, indices] = z.max(1);  // two results
  float total = z.sum().item<float>();
  // [compute]
  expect(z.sizes() == IntArrayRef{4, 3} && i.dtype() == kFloat32 && values.numel() == indices.numel());
  expect(total == total);
}

void shape() {
  // [shape]
  Tensor x = arange(12, kFloat32).view({3, 4});
  diagonal(x).fill_(0);                         // a view: x has zeros on its diagonal
  Tensor windows = unfold(x, 1, 2, 1);          // [3, 3, 2], every two neighbours in a row, a view
  Tensor turned = flip(mT(x), 0);               // [4, 3], a copy
  Tensor lower = tril(x), wide = tile(x, {2});  // zeros above the diagonal; [3, 8]
  std::vector<Tensor> halves = hsplit(x, 2);    // two of [3, 2]
  Tensor again = hstack({halves[0], halves[1]});
  auto grid = meshgrid(std::vector<Tensor>{arange(3), arange(4)});  // rows and columns, each [3, 4]
  // [shape]
  expect(x[1][1].item<float>() == 0 && windows[0][1][1].item<float>() == 2 && turned.sizes() == IntArrayRef{4, 3});
  expect(lower[0].eq(0).all().item<bool>() && wide.size(1) == 8 && again.eq(x).all().item<bool>());
  expect(grid[1][2][3].item<int>() == 3);
}

void order() {
  // [order]
  Tensor x = randint(0, 100, {4, 8}).to(kFloat32);
  auto [sorted, places] = sort(x, 1);                            // stable; NaN last
  auto [best, where_best] = topk(x, 3, 1);                       // [4, 3], the largest first
  Tensor middle = quantile(x, 0.5, 1);                           // [4]
  auto [values, inverse, counts] = unique(x, true, true, true);  // the last two when asked for
  Tensor bins = bucketize(x, arange(0, 100, 10).to(kFloat32));   // which ten each lies in
  // [order]
  expect(gather(x, 1, places).eq(sorted).all().item<bool>() && gather(x, 1, where_best).eq(best).all().item<bool>());
  expect(middle.numel() == 4 && index_select(values, 0, inverse.view({-1})).eq(x.view({-1})).all().item<bool>());
  expect(counts.sum().item<int64_t>() == 32 && bins.sizes() == x.sizes());
}

void draw() {
  // [draw]
  manual_seed(7);                                      // of all devices: they give the same numbers
  Tensor u = rand({3}), n = normal(5, 0.5, {3});       // uniform in [0, 1); normal
  Tensor k = randint(-3, 3, {100}), p = randperm(10);  // integers below 3; 0 to 9 in some order
  Tensor e = exponential_(empty({4}), 2.0);            // there are cauchy_, geometric_, log_normal_, random_, ...
  Tensor coins = bernoulli(full({5}, 0.3));            // 1 with these probabilities
  Tensor picks = multinomial(tensor({1.0, 0.0, 3.0}), 1000, true);  // by weight: 2 often, 1 never
  Tensor again;
  {
    Generator own;  // a stream of numbers apart
    own.manual_seed(7);
    const GeneratorGuard guard(own);  // for this thread's operators on its device
    again = rand({3});                // those of u
  }
  const ForkRngGuard fork;  // when it ends, the default generators are as they are now
  // [draw]
  expect(again.eq(u).all().item<bool>() && n.numel() == 3 && k.amax().item<int>() < 3 && p.sum().item<int>() == 45);
  expect(e.amin().item<float>() > 0 && coins.numel() == 5 && !picks.eq(1).any().item<bool>());
}

void parts() {
  // [parts]
  Tensor z = make_complex(tensor({3.0f, 0.0f}), tensor({4.0f, 1.0f}));  // 3 + 4i, i
  Tensor r = abs(z), t = angle(z);                                      // back by polar(r, t)
  real(z).mul_(2);                                                      // a view: z is 6 + 4i, i
  Tensor pairs = view_as_real(z);                                       // [2, 2], the same memory
  // [parts]
  expect(r[0].item<float>() == 5 && t.numel() == 2 && pairs[0][0].item<float>() == 6);
}

void errors() {
  try {
    matmul(zeros({2, 3}), zeros({4, 5}));
    expect(false);
  } catch (const ShapeError& e) {
    std::cout << e.what() << "\n";
  }
}

}  // namespace

int main() {
  make();
  index();
  compute();
  shape();
  order();
  draw();
  parts();
  errors();
  std::cout << memory::memory_stats(kCPU).peak_allocated << " bytes at most\n";
}
