// SPDX-License-Identifier: Apache-2.0
// PyTorch's C++ API as a peer: the same work under the same names as the rows of this folder. Built by
// benchmarks/peer/build.sh against the PyTorch of the machine it runs on.
#include "families.h"
#include "peer.h"

#include <torch/torch.h>
#include <torch/version.h>
#if defined(TENON_PEER_CUDA)
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAStream.h>
#endif

#include <functional>
#include <map>
#include <string>

namespace {

using torch::Tensor;
using Step = std::function<void()>;
using Prepare = std::function<Step(torch::Device)>;

Tensor rnd(at::IntArrayRef size, torch::Device d, torch::ScalarType t = torch::kFloat) {
  return torch::randn(size, torch::TensorOptions().device(d)).to(t);
}
Step keep(std::function<Tensor()> f) {
  return [f, kept = Tensor()]() mutable {
    kept.reset();
    kept = f();
  };
}
Tensor leaf(at::IntArrayRef size, torch::Device d) {
  return torch::ones(size, torch::TensorOptions(d).requires_grad(true));
}
struct Sizes {
  int64_t flat, side, matmul;
};
Sizes sizes(torch::Device d) { return d.is_cuda() ? Sizes{1 << 28, 16384, 8192} : Sizes{1 << 24, 4096, 1024}; }

struct Net : torch::nn::Module {
  torch::nn::Linear a{784, 512}, b{512, 512}, c{512, 10};
  Net() {
    register_module("a", a);
    register_module("b", b);
    register_module("c", c);
  }
  Tensor forward(const Tensor& x) { return c(torch::relu(b(torch::relu(a(x))))); }
};

Step mlp(torch::Device d, bool adamw) {
  auto net = std::make_shared<Net>();
  net->to(d);
  const Tensor x = rnd({128, 784}, d),
               y = torch::randint(10, {128}, torch::TensorOptions().device(d).dtype(torch::kLong));
  std::shared_ptr<torch::optim::Optimizer> optimizer;
  if (adamw)
    optimizer = std::make_shared<torch::optim::AdamW>(net->parameters(), torch::optim::AdamWOptions(1e-4));
  else
    optimizer = std::make_shared<torch::optim::SGD>(net->parameters(), torch::optim::SGDOptions(1e-4));
  return [=] {
    const Tensor loss = torch::nn::functional::cross_entropy(net->forward(x), y);
    optimizer->zero_grad();
    loss.backward();
    optimizer->step();
  };
}

const std::map<std::string, Prepare>& table() {
  static const std::map<std::string, Prepare> rows = {
    {"host empty", [](torch::Device d) { return keep([=] { return torch::empty({1}, d); }); }},
    {"host add",
     [](torch::Device d) { return keep([a = torch::ones({1}, d), b = torch::ones({1}, d)] { return a + b; }); }},
    {"host add number", [](torch::Device d) { return keep([a = torch::ones({1}, d)] { return a + 2.0; }); }},
    {"host add inference",
     [](torch::Device d) {
       return Step([a = torch::ones({1}, d), b = torch::ones({1}, d), kept = Tensor()]() mutable {
         const torch::InferenceMode guard;
         kept = a + b;
       });
     }},
    {"host add in place",
     [](torch::Device d) {
       return Step([a = torch::zeros({1}, d), b = torch::ones({1}, d)]() mutable { a.add_(b); });
     }},
    {"host add with gradient",
     [](torch::Device d) {
       return keep([a = torch::ones({1}, torch::TensorOptions(d).requires_grad(true)), b = torch::ones({1}, d)] {
         return a + b;
       });
     }},
    {"host view",
     [](torch::Device d) {
       return keep([a = torch::ones({2, 2}, d)] { return a.view({4}); });
     }},
    {"host select",
     [](torch::Device d) {
       return keep([a = torch::ones({2, 2}, d)] { return a.select(0, 1); });
     }},
    {"host sum", [](torch::Device d) { return keep([a = torch::ones({8}, d)] { return a.sum(); }); }},
    {"host matmul 8x8",
     [](torch::Device d) {
       return keep([a = torch::ones({8, 8}, d), b = torch::ones({8, 8}, d)] { return a.matmul(b); });
     }},
    {"host mm sum backward",
     [](torch::Device d) {
       return Step([w = torch::ones({8, 8}, torch::TensorOptions(d).requires_grad(true)),
                    x = torch::ones({8, 8}, d)]() mutable {
         x.mm(w).sum().backward();
         w.mutable_grad() = Tensor();
       });
     }},
    {"tape mul chain 64",
     [](torch::Device d) {
       return Step([x = leaf({1}, d), w = torch::ones({1}, d)]() mutable {
         Tensor y = x;
         for (int i = 0; i < 64; ++i) y = y * w;
         y.backward();
         x.mutable_grad() = Tensor();
       });
     }},
    {"tape mul chain 64 forward",
     [](torch::Device d) {
       return Step([x = leaf({1}, d), w = torch::ones({1}, d)] {
         Tensor y = x;
         for (int i = 0; i < 64; ++i) y = y * w;
       });
     }},
    {"tape mul both 64",
     [](torch::Device d) {
       return Step([x = leaf({1}, d), w = leaf({1}, d)]() mutable {
         Tensor y = x;
         for (int i = 0; i < 64; ++i) y = y * w;
         y.backward();
         x.mutable_grad() = Tensor();
         w.mutable_grad() = Tensor();
       });
     }},
    {"tape tiny linear",
     [](torch::Device d) {
       return Step([x = torch::ones({8, 8}, d), w = leaf({8, 8}, d), b = leaf({8}, d)]() mutable {
         torch::linear(x, w, b).sum().backward();
         w.mutable_grad() = Tensor();
         b.mutable_grad() = Tensor();
       });
     }},
    {"tape view",
     [](torch::Device d) {
       return keep([x = leaf({2, 2}, d)] { return x.view({4}); });
     }},
    {"tape sum", [](torch::Device d) { return keep([x = leaf({8}, d)] { return x.sum(); }); }},
    {"tape detach add in place",
     [](torch::Device d) {
       return Step([x = leaf({1}, d), z = torch::zeros({1}, d)] {
         Tensor h = z.detach();
         h.add_(x);
       });
     }},
    {"tape grad of a small graph",
     [](torch::Device d) {
       return Step([a = leaf({1}, d), b = leaf({1}, d)] { torch::autograd::grad({(a * b + a).exp()}, {a, b}); });
     }},
#if defined(TENON_PEER_CUDA)
    {"host current stream",
     [](torch::Device) {
       return Step([] {
         auto s = c10::cuda::getCurrentCUDAStream();
         asm volatile("" : : "r"(s.stream()) : "memory");
       });
     }},
    {"host stream from pool",
     [](torch::Device) {
       return Step([] {
         auto s = c10::cuda::getStreamFromPool();
         asm volatile("" : : "r"(s.stream()) : "memory");
       });
     }},
#endif
    {"host allocate and free",
     [](torch::Device d) -> Step {
#if defined(TENON_PEER_CUDA)
       if (d.is_cuda())
         return
             [] { c10::cuda::CUDACachingAllocator::raw_delete(c10::cuda::CUDACachingAllocator::raw_alloc(1 << 20)); };
#endif
       auto* allocator = c10::GetAllocator(d.type());
       return [=] { auto p = allocator->allocate(1 << 20); };
     }},
    {"roof add",
     [](torch::Device d) {
       const int64_t n = sizes(d).flat;
       return Step([a = rnd({n}, d), b = rnd({n}, d), c = torch::empty({n}, d)]() mutable { torch::add_out(c, a, b); });
     }},
    {"add f32",
     [](torch::Device d) {
       const int64_t n = sizes(d).flat;
       return keep([a = rnd({n}, d), b = rnd({n}, d)] { return a + b; });
     }},
    {"add number f32",
     [](torch::Device d) {
       const int64_t n = sizes(d).flat;
       return keep([a = rnd({n}, d)] { return a + 2.0; });
     }},
    {"add bf16",
     [](torch::Device d) {
       const int64_t n = sizes(d).flat;
       return keep([a = rnd({n}, d, torch::kBFloat16), b = rnd({n}, d, torch::kBFloat16)] { return a + b; });
     }},
    {"gelu f32",
     [](torch::Device d) {
       const int64_t n = sizes(d).flat;
       return keep([a = rnd({n}, d)] { return torch::gelu(a); });
     }},
    {"cast f32 bf16",
     [](torch::Device d) {
       const int64_t n = sizes(d).flat;
       return keep([a = rnd({n}, d)] { return a.to(torch::kBFloat16); });
     }},
    {"copy f32",
     [](torch::Device d) {
       const int64_t n = sizes(d).flat;
       return keep([a = rnd({n}, d)] { return a.clone(); });
     }},
    {"where f32",
     [](torch::Device d) {
       const int64_t n = sizes(d).flat;
       return keep([a = rnd({n}, d), b = rnd({n}, d), c = rnd({n}, d).gt(0)] { return torch::where(c, a, b); });
     }},
    {"add row broadcast",
     [](torch::Device d) {
       const int64_t s = sizes(d).side;
       return keep([a = rnd({s, s}, d), b = rnd({s}, d)] { return a + b; });
     }},
    {"add column broadcast",
     [](torch::Device d) {
       const int64_t s = sizes(d).side;
       return keep([a = rnd({s, s}, d), b = rnd({s, 1}, d)] { return a + b; });
     }},
    {"add transposed",
     [](torch::Device d) {
       const int64_t s = sizes(d).side;
       return keep([a = rnd({s, s}, d), b = rnd({s, s}, d)] { return a + b.t(); });
     }},
    {"transpose copy",
     [](torch::Device d) {
       const int64_t s = sizes(d).side;
       return keep([a = rnd({s, s}, d)] { return a.t().contiguous(); });
     }},
    {"sum all",
     [](torch::Device d) {
       const int64_t s = sizes(d).side;
       return keep([a = rnd({s, s}, d)] { return a.sum(); });
     }},
    {"sum dim 0",
     [](torch::Device d) {
       const int64_t s = sizes(d).side;
       return keep([a = rnd({s, s}, d)] { return a.sum({0}); });
     }},
    {"sum dim 1",
     [](torch::Device d) {
       const int64_t s = sizes(d).side;
       return keep([a = rnd({s, s}, d)] { return a.sum({1}); });
     }},
    {"argmax rows",
     [](torch::Device d) {
       const int64_t s = sizes(d).side;
       return keep([a = rnd({s, s}, d)] { return a.argmax(1); });
     }},
    {"var rows",
     [](torch::Device d) {
       const int64_t s = sizes(d).side;
       return keep([a = rnd({s, s}, d)] { return a.var(1); });
     }},
    {"softmax f32 1024",
     [](torch::Device d) {
       const int64_t n = sizes(d).flat;
       return keep([a = rnd({n / 1024, 1024}, d)] { return a.softmax(-1); });
     }},
    {"softmax bf16 8192",
     [](torch::Device d) {
       const int64_t n = sizes(d).flat;
       return keep([a = rnd({n / 8192, 8192}, d, torch::kBFloat16)] { return a.softmax(-1); });
     }},
    {"layer_norm f32 4096",
     [](torch::Device d) {
       const int64_t n = sizes(d).flat;
       return keep([a = rnd({n / 4096, 4096}, d), w = rnd({4096}, d), b = rnd({4096}, d)] {
         return torch::layer_norm(a, {4096}, w, b);
       });
     }},
    {"layer_norm bf16 4096",
     [](torch::Device d) {
       const int64_t n = sizes(d).flat;
       return keep([a = rnd({n / 4096, 4096}, d, torch::kBFloat16), w = rnd({4096}, d, torch::kBFloat16),
                    b = rnd({4096}, d, torch::kBFloat16)] { return torch::layer_norm(a, {4096}, w, b); });
     }},
    {"index_select rows",
     [](torch::Device d) {
       const int64_t n = sizes(d).flat;
       return keep([a = rnd({n / 1024, 1024}, d),
                    i = torch::randint(n / 1024, {n / 1024}, torch::TensorOptions(d).dtype(torch::kLong))] {
         return a.index_select(0, i);
       });
     }},
    {"cat",
     [](torch::Device d) {
       const int64_t n = sizes(d).flat;
       return keep([a = rnd({n / 2}, d), b = rnd({n / 2}, d)] { return torch::cat({a, b}); });
     }},
    {"randn",
     [](torch::Device d) {
       const int64_t n = sizes(d).flat;
       return keep([=] { return torch::randn({n}, d); });
     }},
    {"matmul f32",
     [](torch::Device d) {
       const int64_t n = sizes(d).matmul;
       return keep([a = rnd({n, n}, d), b = rnd({n, n}, d)] { return a.mm(b); });
     }},
    {"matmul f64",
     [](torch::Device d) {
       const int64_t n = sizes(d).matmul;
       return keep([a = rnd({n, n}, d, torch::kDouble), b = rnd({n, n}, d, torch::kDouble)] { return a.mm(b); });
     }},
    {"matmul bf16",
     [](torch::Device d) {
       const int64_t n = sizes(d).matmul;
       return keep([a = rnd({n, n}, d, torch::kBFloat16), b = rnd({n, n}, d, torch::kBFloat16)] { return a.mm(b); });
     }},
    {"matmul f16",
     [](torch::Device d) {
       const int64_t n = sizes(d).matmul;
       return keep([a = rnd({n, n}, d, torch::kHalf), b = rnd({n, n}, d, torch::kHalf)] { return a.mm(b); });
     }},
    {"mlp step sgd", [](torch::Device d) { return mlp(d, false); }},
    {"mlp step adamw", [](torch::Device d) { return mlp(d, true); }},
  };
  return rows;
}

// --- the families, from the list that tenon's rows are compiled from --------------------------------------------
namespace families {
using namespace torch;
using Inputs = FamilyInputs<Tensor>;

Tensor values_of_unique(const Tensor& x) { return std::get<0>(torch::_unique2(x)); }
Tensor values_of_unique_consecutive(const Tensor& x) { return std::get<0>(torch::unique_consecutive(x)); }

const std::map<std::string, Tensor (*)(const Inputs&)>& table() {
#define TENON_FAMILY_ROW(name, bytes, expression) {name, [](const Inputs& in) -> Tensor { return expression; }},
  static const std::map<std::string, Tensor (*)(const Inputs&)> rows = {TENON_FAMILY_ROWS(TENON_FAMILY_ROW)};
#undef TENON_FAMILY_ROW
  return rows;
}

Step prepare(Tensor (*step)(const Inputs&), torch::Device d) {
  const int64_t side = d.is_cuda() ? 16384 : 2048, n = side * side;
  const auto flat = [&] { return torch::randn({n}, d); };
  const Tensor k = torch::randint(1000, {n}, TensorOptions(d).dtype(torch::kLong));
  const Inputs in{flat(),
                  flat(),
                  flat(),
                  torch::rand({n}, d).clamp(1e-6, 1 - 1e-6),
                  k,
                  flat().view({side, side}),
                  torch::linspace(0, 1, 1000, d)};
  return keep([=] { return step(in); });
}
}  // namespace families

void* prepare(const char* row, const char* device) {
  const auto family = families::table().find(row);
  if (family != families::table().end()) return new Step(families::prepare(family->second, torch::Device(device)));
  const auto found = table().find(row);
  if (found == table().end()) return nullptr;
  return new Step(found->second(torch::Device(device)));
}
void run(void* work, int64_t iterations) {
  const Step& step = *static_cast<Step*>(work);
  for (int64_t i = 0; i < iterations; ++i) step();
}
void synchronize() {
#if defined(TENON_PEER_CUDA)
  torch::cuda::synchronize();
#endif
}
void destroy(void* work) {
  delete static_cast<Step*>(work);
#if defined(TENON_PEER_CUDA)
  c10::cuda::CUDACachingAllocator::emptyCache();
#endif
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const TenonPeer* tenon_peer() {
  static const TenonPeer peer{"PyTorch " TORCH_VERSION, &prepare, &run, &synchronize, &destroy};
  return &peer;
}
