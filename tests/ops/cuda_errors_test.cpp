// SPDX-License-Identifier: Apache-2.0
// What goes wrong on the GPU and must be told on the host: indices out of range, and a cuBLASLt that is not there.
#include "tests/support/catch.h"

#include <tenon/tenon.h>

#include <tenon/streams/stream.h>

#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

using namespace tenon;
using tenon::testing::contains;
using tenon::testing::error_of;

namespace {
const Device gpu(kCUDA, 0);

Tensor indices(std::vector<int64_t>&& values) { return from_vector(std::move(values)).to(gpu); }
}  // namespace

TEST_CASE("an index out of range is an IndexError at the next wait, and the device lives on", "[cuda]") {
  TENON_REQUIRE_CUDA();
  const Tensor x = arange(12, TensorOptions(gpu).dtype(kFloat32)).view({3, 4});
  for (int round = 0; round < 3; ++round) {
    SECTION("index_select, seen by synchronize " + std::to_string(round)) {
      const Tensor y = index_select(x, 0, indices({2, 3, 0}));
      const std::string text = error_of<IndexError>([] { synchronize(gpu); });
      CHECK(contains(text, "index_select: index: expected 0 to 2 for dimension 0, got 3 at element 1"));
      // The other rows are there, and the error is told once.
      CHECK(y.select(0, 2).select(0, 1).item<float>() == 1.0f);
      synchronize(gpu);
    }
  }
  SECTION("gather, seen by a copy to the host") {
    const Tensor y = gather(x, 1, indices({0, -1, 3}).view({1, 3}));
    CHECK(contains(error_of<IndexError>([&] { (void)y.to(Device(kCPU)); }), "gather: index"));
    const Tensor z = gather(x, 1, indices({0, 1, 3}).view({1, 3}));
    CHECK(z.select(0, 0).select(0, 2).item<float>() == 3.0f);
  }
  SECTION("embedding and its gradient, seen by item()") {
    const Tensor y = embedding(indices({0, 7}), x);
    CHECK(contains(error_of<IndexError>([&] { (void)y.sum().item(); }), "embedding: input: expected 0 to 2"));
    const Tensor g = op::embedding_backward(ones({2, 4}, gpu), indices({1, 5}), 3, -1, false);
    CHECK(contains(error_of<IndexError>([&] { (void)g.sum().item(); }), "got 5 at element 1"));
    CHECK(g.sum().item<float>() == 4.0f);
  }
  SECTION("scatter_add, index_add, index_copy") {
    const Tensor one = ones({1, 4}, gpu);
    const Tensor a = scatter_add(x, 0, indices({9, 0, 0, 0}).view({1, 4}), one);
    CHECK(contains(error_of<IndexError>([] { synchronize(gpu); }), "scatter_add: index"));
    const Tensor b = index_add(x, 0, indices({-1}), one);
    CHECK(contains(error_of<IndexError>([] { synchronize(gpu); }), "index_add: index"));
    const Tensor c = index_copy(x, 0, indices({3}), one);
    CHECK(contains(error_of<IndexError>([] { synchronize(gpu); }), "index_copy: index"));
    CHECK(b.sum().item<float>() == 66.0f);
    CHECK(c.sum().item<float>() == 66.0f);
  }
  SECTION("nll_loss") {
    const Tensor loss = nll_loss(x, indices({0, 4, 1}));
    CHECK(contains(error_of<IndexError>([&] { (void)loss.item(); }), "nll_loss: target: expected 0 to 3"));
  }
}

TEST_CASE("the embedding gradient gives the same bits every time", "[cuda]") {
  TENON_REQUIRE_CUDA();
  const int64_t n = 5000, rows = 7, columns = 33;
  const Tensor index = randint(rows, {n}, gpu), grad = randn({n, columns}, gpu);
  const Tensor first = op::embedding_backward(grad, index, rows, -1, false).to(Device(kCPU));
  const Tensor again = op::embedding_backward(grad, index, rows, -1, false).to(Device(kCPU));
  CHECK(first.ne(again).sum().item<int64_t>() == 0);
  // Against one-hot: row r is the sum over the places of r.
  const Tensor hot = arange(rows, gpu).view({rows, 1}).eq(index.view({1, n})).to(kFloat64);
  const Tensor expected = matmul(hot, grad.to(kFloat64)).to(Device(kCPU));
  CHECK(first.to(kFloat64).sub(expected).abs().max().item<double>() < 1e-3);
}

// Runs in a process of its own: the library is looked for once.
TEST_CASE("matrix product without cuBLASLt", "[.][cublaslt_missing]") {
  TENON_REQUIRE_CUDA();
  const Tensor a = ones({8, 8}, gpu);
  const std::string text = error_of<LibraryError>([&] { (void)mm(a, a); });
  CHECK(contains(text, "cuBLASLt"));
  CHECK(contains(text, "/nowhere/libcublasLt.so.13"));
  CHECK(contains(text, "TENON_CUBLASLT"));
  // Integers need no library.
  CHECK(mm(a.to(kInt32), a.to(kInt32)).sum().item<int64_t>() == 512);
}
TEST_CASE("a missing cuBLASLt is a LibraryError with what was tried", "[cuda]") {
  TENON_REQUIRE_CUDA();
  char self[4096];
  const ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
  REQUIRE(length > 0);
  self[length] = '\0';
  const std::string command =
      std::string("TENON_CUBLASLT=/nowhere/libcublasLt.so.13 '") + self + "' '[cublaslt_missing]' >/dev/null";
  const int status = std::system(command.c_str());
  CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 0));
}
