// SPDX-License-Identifier: Apache-2.0
// Calls by name, schemas, registration and layers.
#include <tenon/dispatch/layers.h>
#include <tenon/dispatch/registry.h>
#include <tenon/ops/binary.h>
#include <tenon/ops/factory.h>
#include <tenon/ops/reduce.h>
#include <tenon/ops/unary.h>
#include <tenon/ops/view.h>

#include <algorithm>
#include <string>
#include <thread>

#include "tests/support/catch.h"

using namespace tenon;
using namespace tenon::dispatch;
using tenon::testing::contains;
using tenon::testing::error_of;

namespace {
std::vector<double> values(const Value& v) { return v.tensor().to_vector<double>(); }
using V = std::vector<double>;
}  // namespace

TEST_CASE("a schema is parsed into names, types, defaults and results") {
  constexpr Schema s = parse_schema(
      "max.dim(Tensor self, int[]? dim=[0, -1], *, Scalar? c=None, str how='mean', float eps=1e-05) -> (Tensor values, "
      "Tensor indices)");
  STATIC_REQUIRE(s.count == 5);
  CHECK(s.name == "max");
  CHECK(s.overload == "dim");
  CHECK(s.full_name() == "max.dim");
  CHECK(s.results == 2);
  CHECK(s.arguments[0].type == ArgType::tensor);
  CHECK_FALSE(s.arguments[0].has_default);
  CHECK(s.arguments[1].type == ArgType::optional_int_list);
  CHECK(s.arguments[1].default_text == "[0, -1]");
  CHECK_FALSE(s.arguments[1].keyword_only);
  CHECK(s.arguments[2].keyword_only);
  CHECK(s.arguments[3].default_text == "'mean'");
  CHECK(s.arguments[4].name == "eps");
  CHECK(parse_schema("f() -> Tensor[]").results == 0);
  CHECK(parse_schema("f(Tensor a) -> Tensor").full_name() == "f");
  for (const char* bad :
       {"f", "f(Tensor) -> Tensor", "f(Tensor a)", "f(Tensors a) -> Tensor", "f(Tensor a -> Tensor"}) {
    INFO(bad);
    CHECK_THROWS(parse_schema(bad));
  }
}

TEST_CASE("calls by name take positions, keywords, defaults, aliases, out= and the in-place form") {
  const Tensor a = from_vector(std::vector<double>{1, 2, 3}), b = from_vector(std::vector<double>{10, 20, 30});
  CHECK(values(call("add", {a, b})[0]) == V{11, 22, 33});
  CHECK(values(call("add", {a, b}, {{"alpha", 2}})[0]) == V{21, 42, 63});
  CHECK(values(call("add", {a}, {{"other", 5}})[0]) == V{6, 7, 8});
  CHECK(values(call("subtract", {b, a})[0]) == V{9, 18, 27});
  CHECK(values(call("__rsub__", {a, 1})[0]) == V{0, -1, -2});
  CHECK(values(call("nn.functional.relu", {op::neg(a)})[0]) == V{0, 0, 0});
  const Tensor out = zeros({3}, kFloat64);
  CHECK(call("mul", {a, b}, {{"out", out}})[0].tensor().is_same(out));
  CHECK(out.to_vector<double>() == V{10, 40, 90});
  const Tensor self = a.clone();
  CHECK(call("add_", {self, b})[0].tensor().is_same(self));
  CHECK(self.to_vector<double>() == V{11, 22, 33});
  CHECK(call("split", {a, 2})[0].tensors().size() == 2);
  CHECK(call("item", {full({}, 4)})[0].number().integer() == 4);
}

TEST_CASE("overloads are chosen by their arguments") {
  const Tensor m = from_vector(std::vector<double>{1, 5, 3, 2}, {2, 2});
  CHECK(call("max", {m}).size() == 1);
  CHECK(call("max", {m, 1}).size() == 2);
  CHECK(values(call("max", {m, full({}, 3.0)})[0]) == V{3, 5, 3, 3});
  CHECK(call("max.dim", {m, 0}, {{"keepdim", true}})[0].tensor().sizes() == IntArrayRef({1, 2}));
  CHECK(values(call("sum", {m, 0})[0]) == V{4, 7});  // an integer where a list is expected
}

TEST_CASE("a call that fits nothing says what is known and why it does not fit") {
  const Tensor a = ones({2});
  CHECK(contains(error_of<SchemaError>([] { call("no_such_operator", {}); }), "no_such_operator"));
  CHECK(contains(error_of<SchemaError>([&] { call("mul", {a}); }), "other"));
  CHECK(contains(error_of<SchemaError>([&] { call("mul", {a, a, a}); }), "got 3"));
  CHECK(contains(error_of<SchemaError>([&] { call("mul", {a, "text"}); }), "Tensor|Scalar"));
  CHECK(contains(error_of<SchemaError>([&] { call("add", {a, a}, {{"beta", 2}}); }), "beta"));
  CHECK(contains(error_of<SchemaError>([&] { call("add", {a, a}, {{"other", a}}); }), "twice"));
  CHECK(contains(error_of<SchemaError>([&] { call("add", {a, a}, {{"out", 3}}); }), "out"));
  CHECK(contains(error_of<SchemaError>([&] { call("view_", {a, std::vector<int64_t>{2}}); }), "in-place"));
  const std::string all = error_of<SchemaError>([&] { call("max", {a, "dim"}); });
  CHECK(contains(all, "max.dim("));
  CHECK(contains(all, "max.other("));
}

// --- registration ------------------------------------------------------------------------------------------------
namespace {
using Plain = void(const LoopPlan&);
template <class T>
void first(const LoopPlan&) {}
template <class T>
void second(const LoopPlan&) {}
KeyedEntry entry(Plain* f, const char* file, int line, int rank = 0) {
  return {key_of(kFloat32), {reinterpret_cast<AnyFunction>(f), file, line, rank}};
}
const OpBase& test_op() {
  static constinit const Op<Tensor(const Tensor&), Plain> op("test_registration(Tensor self) -> Tensor", Kind::kernel,
                                                             kPlain, &unary_same);
  return op;
}
}  // namespace

TEST_CASE("the same registration again changes nothing, a better target wins, another one is an error at first use") {
  const OpBase& op = test_op();
  const Key key = key_of(kFloat32);
  CHECK(contains(error_of<DtypeError>([&] { op.kernel(Backend::cpu, key); }), "test_registration"));
  const KeyedEntry a = entry(&first<float>, "dir/a.cpp", 10), again = entry(&first<float>, "dir/a.cpp", 10),
                   better = entry(&second<float>, "dir/a.cpp", 10, 5), other = entry(&second<float>, "dir/b.cpp", 3);
  {
    const KernelRegistrar one(op, Backend::cpu, &a, 1);
    CHECK(op.kernel(Backend::cpu, key) == reinterpret_cast<AnyFunction>(&first<float>));
    CHECK(op.kernel(Backend::sim, key) == reinterpret_cast<AnyFunction>(&first<float>));  // runs CPU kernels
    {
      const KernelRegistrar twice(op, Backend::cpu, &again, 1);
      CHECK(op.kernel(Backend::cpu, key) == reinterpret_cast<AnyFunction>(&first<float>));
    }
    {
      const KernelRegistrar wide(op, Backend::cpu, &better, 1);
      CHECK(op.kernel(Backend::cpu, key) == reinterpret_cast<AnyFunction>(&second<float>));
    }
  }
  CHECK(op.cell(Backend::cpu, key) == nullptr);
  const KernelRegistrar one(op, Backend::cpu, &a, 1);
  {
    const KernelRegistrar conflict(op, Backend::cpu, &other, 1);  // must not throw: it may run before main
    CHECK_THROWS_AS(op.kernel(Backend::cpu, key), RegistrationError);
  }
  CHECK_NOTHROW(op.kernel(Backend::cpu, key));  // the plugin is gone, and the conflict with it
  const KernelRegistrar conflict(op, Backend::cpu, &other, 1);
  CHECK_THROWS_AS(op.kernel(Backend::cpu, key), RegistrationError);
}

TEST_CASE("a missing kernel names operator, backend, dtype and what there is") {
  const std::string text = error_of<DtypeError>([] { op::gelu.kernel(Backend::cpu, key_of(kInt32)); });
  for (const char* part : {"gelu", "cpu", "int32", "float32"}) CHECK(contains(text, part));
  const auto all = Registry::all();
  CHECK(std::is_sorted(all.begin(), all.end(), [](const OpBase* x, const OpBase* y) { return x->name() < y->name(); }));
  CHECK(std::adjacent_find(all.begin(), all.end(),
                           [](const OpBase* x, const OpBase* y) { return x->name() == y->name(); }) == all.end());
}

// --- layers ------------------------------------------------------------------------------------------------------
namespace {
struct Recorder {
  std::vector<std::string> events;
  RecordHook hook() {
    return {[](void* self, const OpBase& op, std::span<const Value>) -> void* {
              static_cast<Recorder*>(self)->events.push_back("+" + std::string(op.name()));
              return nullptr;
            },
            [](void* self, void*, const OpBase& op) {
              static_cast<Recorder*>(self)->events.push_back("-" + std::string(op.name()));
            },
            this};
  }
};
using Events = std::vector<std::string>;
}  // namespace

TEST_CASE("RecordFunction sees every operator once, composites around their parts, errors too, on its thread only") {
  const Tensor a = ones({2, 2});
  Recorder outer, inner;
  {
    const RecordFunctionGuard guard(outer.hook());
    op::add(a, a, 1);
    op::rsub(a, 1, 1);
    CHECK_THROWS_AS(op::mul(a, ones({3})), ShapeError);
    std::thread([&] { op::mul(a, a); }).join();
    {
      const RecordFunctionGuard nested(inner.hook());
      call("neg", {a});
    }
    Tensor b = a.clone();
  }
  op::exp(a);
  const Events start(outer.events.begin(), outer.events.begin() + 6);
  CHECK(start == Events{"+add", "-add", "+rsub", "+sub", "-sub", "-rsub"});
  CHECK(std::count(outer.events.begin(), outer.events.end(), "+mul") == 1);
  CHECK(std::count(outer.events.begin(), outer.events.end(), "-mul") == 1);
  CHECK(inner.events == Events{"+neg", "-neg"});
  CHECK(outer.events.back() == "-clone");
  CHECK(std::count(outer.events.begin(), outer.events.end(), "+neg") == 1);  // outer scopes see it too
  CHECK(std::count(outer.events.begin(), outer.events.end(), "+exp") == 0);
  CHECK(std::count(outer.events.begin(), outer.events.end(), "+copy") == 0);  // below the layers
}

TEST_CASE("RecordFunction: nested hooks start from the outermost, and end in the other order") {
  Events events;
  struct Named {
    Events* events;
    std::string name;
    RecordHook hook() {
      return {
          [](void* self, const OpBase&, std::span<const Value>) -> void* {
            static_cast<Named*>(self)->events->push_back("+" + static_cast<Named*>(self)->name);
            return self;
          },
          [](void* self, void* token, const OpBase&) {
            static_cast<Named*>(self)->events->push_back((token == self ? "-" : "?") + static_cast<Named*>(self)->name);
          },
          this};
    }
  } outer{&events, "outer"}, middle{&events, "middle"}, inner{&events, "inner"};
  const Tensor a = ones({2});
  const RecordFunctionGuard first(outer.hook());
  {
    const RecordFunctionGuard second(middle.hook());
    const RecordFunctionGuard third(inner.hook());
    op::neg(a);
  }
  CHECK(events == Events{"+outer", "+middle", "+inner", "-inner", "-middle", "-outer"});
  events.clear();
  op::neg(a);
  CHECK(events == Events{"+outer", "-outer"});
}

TEST_CASE("grad mode and inference mode belong to the thread and end with their scope") {
  CHECK(grad_enabled());
  {
    const NoGradGuard off;
    CHECK_FALSE(grad_enabled());
    bool other = false;
    std::thread([&] { other = grad_enabled(); }).join();
    CHECK(other);
    const EnableGradGuard on;
    CHECK(grad_enabled());
  }
  CHECK(grad_enabled());
  {
    const InferenceMode mode;
    CHECK_FALSE(grad_enabled());
    CHECK_FALSE(op::mul(ones({1}).requires_grad_(), 2).requires_grad());
  }
  CHECK(grad_enabled());
}
