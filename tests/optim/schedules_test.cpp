// SPDX-License-Identifier: Apache-2.0
// Schedules against learning rates recorded with PyTorch 2.11: SGD with a learning rate of 0.5, 16 steps.
#include <tenon/ops/factory.h>
#include <tenon/optim/optim.h>

#include "tests/support/catch.h"

#include <cmath>
#include <limits>
#include <map>

using namespace tenon;
using tenon::testing::contains;
using tenon::testing::error_of;

namespace {

using V = std::vector<double>;
const std::map<std::string, V> kRecorded = {
    {"step",
     {0.5, 0.5, 0.5, 0.25, 0.25, 0.25, 0.125, 0.125, 0.125, 0.0625, 0.0625, 0.0625, 0.03125, 0.03125, 0.03125,
      0.015625}},
    {"multi_step",
     {0.5, 0.5, 0.15, 0.15, 0.15, 0.0135, 0.0135, 0.0135, 0.0135, 0.0135, 0.0135, 0.00405, 0.00405, 0.00405, 0.00405,
      0.00405}},
    {"exponential",
     {0.5, 0.4, 0.32000000000000006, 0.25600000000000006, 0.20480000000000007, 0.16384000000000007, 0.13107200000000005,
      0.10485760000000005, 0.08388608000000004, 0.06710886400000003, 0.05368709120000003, 0.042949672960000025,
      0.03435973836800002, 0.027487790694400018, 0.021990232555520017, 0.017592186044416015}},
    {"constant", {0.125, 0.125, 0.125, 0.125, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5}},
    {"linear",
     {0.05, 0.10714285714285715, 0.16428571428571428, 0.22142857142857142, 0.2785714285714286, 0.3357142857142857,
      0.39285714285714285, 0.45, 0.45, 0.45, 0.45, 0.45, 0.45, 0.45, 0.45, 0.45}},
    {"polynomial",
     {0.5, 0.3950617283950617, 0.3024691358024692, 0.22222222222222232, 0.15432098765432103, 0.09876543209876544,
      0.05555555555555558, 0.024691358024691357, 0.006172839506172844, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0}},
    {"cosine",
     {0.5, 0.45702882373436315, 0.34452882373436317, 0.20547117626563682, 0.09297117626563685, 0.05,
      0.09297117626563683, 0.20547117626563693, 0.3445288237343634, 0.45702882373436354, 0.5000000000000004,
      0.4570288237343637, 0.3445288237343635, 0.20547117626563705, 0.09297117626563692, 0.05}},
    {"restarts",
     {0.5, 0.3775, 0.13250000000000006, 0.5, 0.4671762239271875, 0.3775, 0.255, 0.13250000000000006,
      0.04282377607281252, 0.5, 0.4916518274408217, 0.4671762239271875, 0.4282411613907041, 0.3775, 0.3184106660501176,
      0.255}},
    {"restarts equal",
     {0.5, 0.42677669529663687, 0.25, 0.07322330470336313, 0.5, 0.42677669529663687, 0.25, 0.07322330470336313, 0.5,
      0.42677669529663687, 0.25, 0.07322330470336313, 0.5, 0.42677669529663687, 0.25, 0.07322330470336313}},
    {"lambda",
     {0.5, 0.25, 0.16666666666666666, 0.125, 0.1, 0.08333333333333333, 0.07142857142857142, 0.0625, 0.05555555555555555,
      0.05, 0.045454545454545456, 0.041666666666666664, 0.038461538461538464, 0.03571428571428571, 0.03333333333333333,
      0.03125}},
    {"sequential",
     {0.05, 0.1625, 0.275, 0.38750000000000007, 0.5, 0.45, 0.405, 0.36450000000000005, 0.32805000000000006,
      0.2952450000000001, 0.2657205000000001, 0.23914845000000007, 0.21523360500000008, 0.19371024450000007,
      0.17433922005000008, 0.15690529804500009}},
    {"chained",
     {0.05, 0.045000000000000005, 0.04050000000000001, 0.3645000000000001, 0.3280500000000001, 0.2952450000000001,
      0.2657205000000001, 0.23914845000000007, 0.21523360500000008, 0.19371024450000007, 0.17433922005000008,
      0.15690529804500009, 0.14121476824050008, 0.12709329141645007, 0.11438396227480506, 0.10294556604732455}},
    {"one cycle",
     {0.040000000000000036, 0.19490484561964427, 0.5596380858267195, 0.8987874445102688, 0.9992134106552782,
      0.9719417773875232, 0.9077808033578921, 0.811745653949763, 0.6913429508156801, 0.5559840141227016,
      0.41624922336007847, 0.28306099820869923, 0.16683004371715396, 0.0766415938342564, 0.019545260862094144, 4e-06}},
    {"one cycle momentum",
     {0.95, 0.9338640785812871, 0.8958710327263834, 0.8605429745301802, 0.8500786592491092, 0.8528058334845816,
      0.8592219565520369, 0.8688255099070633, 0.8808658283817454, 0.8944017761948346, 0.9083753111652367,
      0.9216941869558779, 0.9333173288976001, 0.9423362099614142, 0.9480458660972549, 0.95}},
    {"one cycle linear",
     {0.1, 0.26666666666666666, 0.43333333333333335, 0.6, 0.7666666666666666, 0.9333333333333332, 0.9,
      0.7333333333333334, 0.5666666666666667, 0.40000000000000013, 0.2333333333333334, 0.0952857142857143,
      0.07171428571428573, 0.048142857142857154, 0.024571428571428577, 0.0010000000000000009}},
    {"one cycle linear momentum",
     {0.95, 0.9314814814814815, 0.912962962962963, 0.8944444444444444, 0.8759259259259259, 0.8574074074074074,
      0.861111111111111, 0.8796296296296295, 0.8981481481481481, 0.9166666666666666, 0.9351851851851851, 0.95, 0.95,
      0.95, 0.95, 0.95}},
    {"plateau",
     {1.0, 1.0, 1.0, 0.5, 0.5, 0.25, 0.25, 0.25, 0.25, 0.125, 0.125, 0.0625, 0.0625, 0.03125, 0.03125, 0.015625}},
    {"plateau abs",
     {1.0, 1.0, 0.1, 0.1, 0.1, 0.010000000000000002, 0.010000000000000002, 0.010000000000000002, 0.0010000000000000002,
      0.0010000000000000002, 0.0010000000000000002, 0.0010000000000000002, 0.0010000000000000002, 0.0010000000000000002,
      0.0010000000000000002, 0.0010000000000000002}},
    {"plateau max",
     {1.0, 1.0, 1.0, 0.5, 0.5, 0.5, 0.25, 0.25, 0.25, 0.125, 0.125, 0.125, 0.0625, 0.0625, 0.0625, 0.03125}},
};

std::string difference(const V& got, const std::string& name) {
  const V& expected = kRecorded.at(name);
  for (std::size_t i = 0; i < expected.size(); ++i)
    if (!(std::fabs(got[i] - expected[i]) <= 1e-12)) return name + " differs in step " + std::to_string(i);
  return got.size() == expected.size() ? "" : "another number of steps";
}
Tensor parameter() { return zeros({1}).requires_grad_(); }
optim::SGD sgd(double lr = 0.5) { return optim::SGD({parameter()}, {.lr = lr, .momentum = 0.9}); }
V rates(optim::Optimizer& optimizer, optim::Scheduler& scheduler) {
  V all;
  for (int i = 0; i < 16; ++i) {
    all.push_back(optimizer.learning_rate());
    if (i < 15) scheduler.step();
  }
  return all;
}
template <class Scheduler, class... Args>
void check(const std::string& name, Args&&... args) {
  optim::SGD optimizer = sgd();
  Scheduler scheduler(optimizer, std::forward<Args>(args)...);
  CHECK(difference(rates(optimizer, scheduler), name) == "");
}

}  // namespace

TEST_CASE("schedules give the recorded learning rates") {
  check<optim::StepLR>("step", 3, 0.5);
  check<optim::MultiStepLR>("multi_step", std::vector<int64_t>{2, 5, 5, 11}, 0.3);
  check<optim::ExponentialLR>("exponential", 0.8);
  check<optim::ConstantLR>("constant", 0.25, 4);
  check<optim::LinearLR>("linear", 0.1, 0.9, 7);
  check<optim::PolynomialLR>("polynomial", 9, 2.0);
  check<optim::CosineAnnealingLR>("cosine", 5, 0.05);
  check<optim::CosineAnnealingWarmRestarts>("restarts", 3, 2, 0.01);
  check<optim::CosineAnnealingWarmRestarts>("restarts equal", 4, 1);
  check<optim::LambdaLR>("lambda", [](int64_t t) { return 1.0 / (1 + static_cast<double>(t)); });
  check<optim::SequentialLR>("sequential", std::vector<int64_t>{4}, optim::linear(0.1, 1, 4), optim::exponential(0.9));
  std::vector<optim::Schedule> parts;
  parts.push_back(optim::constant(0.1, 3)), parts.push_back(optim::exponential(0.9));
  check<optim::Scheduler>("chained", optim::chained(std::move(parts)));
}

TEST_CASE("one cycle: learning rate and momentum as recorded, and an end") {
  const optim::OneCycleOptions options[] = {{.max_lr = 1, .total_steps = 16},
                                            {.max_lr = 1,
                                             .total_steps = 16,
                                             .pct_start = 0.4,
                                             .cosine = false,
                                             .div_factor = 10,
                                             .final_div_factor = 100,
                                             .three_phase = true}};
  for (const std::string name : {"one cycle", "one cycle linear"}) {
    optim::SGD optimizer = sgd();
    optim::OneCycleLR scheduler(optimizer, options[name != "one cycle"]);
    V lr, momentum;
    for (int i = 0; i < 16; ++i) {
      lr.push_back(optimizer.learning_rate()), momentum.push_back(optimizer.momentum());
      if (i < 15) scheduler.step();
    }
    CHECK(difference(lr, name) == "");
    CHECK(difference(momentum, name + " momentum") == "");
    CHECK(contains(error_of<ValueError>([&] { scheduler.step(); }), "total_steps 16"));
    CHECK(scheduler.step_count() == 15);
  }
  optim::Adagrad none({parameter()});
  CHECK(contains(error_of<ValueError>([&] { optim::OneCycleLR(none, options[0]); }), "momentum"));
}

TEST_CASE("reduce on plateau as recorded") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const V measures = {5, 4, 4, 4.0000001, 3.9999, 4, 4, 3, 3, 3, 3, 3, nan, 2.9999, 3, 3};
  const std::map<std::string, optim::ReduceLROnPlateauOptions> options = {
      {"plateau", {.factor = 0.5, .patience = 1}},
      {"plateau abs",
       {.factor = 0.1, .patience = 0, .threshold = 0.5, .relative = false, .cooldown = 2, .min_lr = 1e-3}},
      {"plateau max", {.maximize = true, .factor = 0.5, .patience = 2}}};
  for (const auto& [name, o] : options) {
    optim::SGD optimizer = sgd(1);
    optim::ReduceLROnPlateau scheduler(optimizer, o);
    V all;
    for (const double m : measures) scheduler.step(m), all.push_back(optimizer.learning_rate());
    CHECK(difference(all, name) == "");
    optim::SGD other = sgd(1);
    optim::ReduceLROnPlateau copy(other, o);
    copy.load_state_dict(scheduler.state_dict());
    CHECK(copy.best() == scheduler.best());
    CHECK(copy.bad_steps() == scheduler.bad_steps());
  }
}

TEST_CASE("each group has its schedule from its own learning rate; state goes on where it was") {
  const auto made = [] { return optim::SGD({{{parameter()}, {.lr = 1}}, {{parameter()}, {.lr = 0.1}}}); };
  optim::SGD optimizer = made();
  optim::ExponentialLR scheduler(optimizer, 0.5);
  for (int i = 0; i < 3; ++i) scheduler.step();
  CHECK(scheduler.last_lr() == V{0.125, 0.1 * 0.125});
  optim::SGD other = made();
  optim::ExponentialLR later(other, 0.5);
  later.load_state_dict(scheduler.state_dict());
  later.step(), scheduler.step();
  CHECK(later.last_lr() == scheduler.last_lr());
}

TEST_CASE("schedules refuse what makes no sense") {
  optim::SGD o = sgd();
  CHECK(contains(error_of<ValueError>([&] { optim::StepLR(o, 0); }), "step_size"));
  CHECK(contains(error_of<ValueError>([&] { optim::LinearLR(o, 0); }), "start_factor"));
  CHECK(contains(error_of<ValueError>([&] { optim::CosineAnnealingLR(o, 0); }), "t_max"));
  CHECK(contains(error_of<ValueError>([&] { optim::SequentialLR(o, {1, 2}, optim::exponential(1)); }), "milestone"));
  CHECK(contains(error_of<ValueError>([&] { optim::ReduceLROnPlateau(o, {.factor = 1}); }), "factor"));
  CHECK(contains(error_of<ValueError>([&] { optim::OneCycleLR(o, {.max_lr = 1}); }), "total_steps"));
}
