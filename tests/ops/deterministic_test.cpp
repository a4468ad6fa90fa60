// SPDX-License-Identifier: Apache-2.0
// The same bits in every run: what adds by index, scans and their gradients, a hundred times with several threads.
#include "tests/support/catch.h"

#include <tenon/kernels/cpu/parallel.h>
#include <tenon/tenon.h>

#include <functional>

using namespace tenon;

namespace {

// FNV-1a over the bytes.
uint64_t hash_of(const Tensor& t) {
  const Tensor host = t.detach().to(Device(kCPU)).contiguous();
  const auto* bytes = static_cast<const unsigned char*>(host.data_ptr());
  uint64_t h = 14695981039346656037u;
  for (int64_t i = 0; i < host.nbytes(); ++i) h = (h ^ bytes[i]) * 1099511628211u;
  return h;
}

struct Deterministic {
  Deterministic() { set_deterministic(true); }
  ~Deterministic() { set_deterministic(false); }
};

struct Threads {
  int before = num_threads();
  explicit Threads(int n) { set_num_threads(n); }
  ~Threads() { set_num_threads(before); }
};

void check_repeats(Device device, int runs) {
  const Deterministic on;
  CHECK(is_deterministic());
  manual_seed(tenon::testing::seed());
  // Many values for few places, of sizes so different that the order of a sum shows.
  const TensorOptions options = TensorOptions(kFloat32).device(device);
  const int64_t n = 8000, rows = 37, columns = 24;
  const Tensor values = mul(randn({n, columns}, options), exp(mul(randn({n, 1}, options), 8)));
  const Tensor index = randint(rows, {n}, TensorOptions(kInt64).device(device));
  const Tensor wide = randint(rows, {n, columns}, TensorOptions(kInt64).device(device));
  const Tensor zero = zeros({rows, columns}, options), line = values.slice(1, 0, 1).reshape({-1});
  const Tensor near_one = add(mul(randn({n, columns}, options), 0.001), 1);
  const std::function<Tensor()> operators[] = {
      [&] { return index_add(zero, 0, index, values); },
      [&] { return index_add(zero.to(kBFloat16), 0, index, values.to(kBFloat16), 2); },
      [&] { return scatter_add(zero, 0, wide, values); },
      [&] { return scatter(zero, 0, wide, values); },
      [&] { return index_copy(zero, 0, index, values); },
      [&] { return scatter_reduce(zero, 0, wide, values, "mean", false); },
      [&] { return scatter_reduce(zero, 0, wide, near_one, "prod", false); },
      [&] { return index_reduce(zero, 0, index, values, "amax"); },
      [&] {
        return index_put(zero, std::vector<Tensor>{index, wide.select(1, 0).clamp({}, columns - 1)}, line, true);
      },
      [&] { return put(zero, index, line, true); },
      [&] { return bincount(index, line); },
      [&] { return cumsum(values, 0); },
      [&] { return sum(values); },
      [&] {
        const Tensor weight = zero.detach().clone().requires_grad_();
        embedding(index, weight).backward(values);
        return weight.grad();
      },
      [&] {
        const Tensor x = zero.detach().clone().requires_grad_();
        gather(x, 0, wide).backward(values);
        return x.grad();
      },
  };
  int number = 0;
  for (const auto& f : operators) {
    INFO("operator " << number++);
    const uint64_t first = hash_of(f());
    int others = 0;
    for (int run = 1; run < runs; ++run) others += hash_of(f()) != first ? 1 : 0;
    CHECK(others == 0);
  }
}

}  // namespace

TEST_CASE("a hundred runs with several threads give one hash", "[ops]") {
  const Threads several(4);
  check_repeats(kCPU, 100);
}

TEST_CASE("a hundred runs give one hash on a device", "[ops][cuda]") {
  TENON_REQUIRE_CUDA();
  check_repeats(kCUDA, 100);
}

TEST_CASE("sums in a fixed order are right on a device", "[ops][cuda]") {
  TENON_REQUIRE_CUDA();
  const Deterministic on;
  manual_seed(tenon::testing::seed());
  for (const bool transposed : {false, true}) {
    const Tensor index = randint(7, {50, 9}), src = randint(-9, 9, {50, 9});
    const Tensor start = transposed ? zeros({9, 7}, kInt64).t() : zeros({7, 9}, kInt64);
    const Device cuda(kCUDA);
    const auto same = [](const Tensor& a, const Tensor& b) { return a.to(Device(kCPU)).eq(b).all().item<bool>(); };
    CHECK(same(scatter_add(start.to(cuda), 0, index.to(cuda), src.to(cuda)), scatter_add(start, 0, index, src)));
    CHECK(same(scatter(start.to(cuda), 0, index.to(cuda), src.to(cuda)), scatter(start, 0, index, src)));
    CHECK(same(index_add(start.to(cuda), 0, index.select(1, 0).to(cuda), src.to(cuda), 3),
               index_add(start, 0, index.select(1, 0), src, 3)));
    const Tensor few = index.select(1, 0).to(kInt16), weights = src.select(1, 0).to(kFloat32);
    CHECK(same(bincount(few.to(cuda), weights.to(cuda), 300), bincount(few, weights, 300)));
    for (const char* reduce : {"prod", "amax", "amin", "mean"})
      CHECK(same(scatter_reduce(start.to(cuda), 0, index.to(cuda), src.to(cuda), reduce, false),
                 scatter_reduce(start, 0, index, src, reduce, false)));
    CHECK_THROWS_AS(scatter_add(start.to(cuda), 0, index.add(7).to(cuda), src.to(cuda)).to(Device(kCPU)), IndexError);
  }
}
