// SPDX-License-Identifier: Apache-2.0
// Optimizers against trajectories recorded with PyTorch 2.11 in float64: parameters after 1, 3 and 10 steps (LBFGS: 1, 3
// and 5) of fitting tanh(X w + b) to four numbers. 16-bit parameters against the same formulas in float64.
#include <tenon/autograd/autograd.h>
#include <tenon/ops/binary.h>
#include <tenon/ops/copy.h>
#include <tenon/ops/factory.h>
#include <tenon/ops/matmul.h>
#include <tenon/ops/reduce.h>
#include <tenon/ops/unary.h>
#include <tenon/ops/view.h>
#include <tenon/optim/optim.h>

#include "tests/support/catch.h"

#include <cmath>
#include <functional>
#include <map>
#include <memory>

using namespace tenon;
using tenon::testing::contains;
using tenon::testing::error_of;

namespace {

using V = std::vector<double>;

struct Problem {
  Tensor x, y, w, b;
  explicit Problem(DType dtype = kFloat64, Device device = kCPU) {
    V xs, ys;
    for (int i = 0; i < 12; ++i) xs.push_back(std::sin(i * 0.7 + 0.3));
    for (int i = 0; i < 4; ++i) ys.push_back(std::cos(i));
    const auto made = [&](V v) { return from_vector(std::move(v)).to(device, dtype); };
    x = made(std::move(xs)).view({4, 3});
    y = made(std::move(ys));
    w = made({0.5, -0.25, 0.125}).requires_grad_();
    b = made({0.1}).requires_grad_();
  }
  Tensor loss() const { return square(tanh(x.matmul(w) + b) - y).sum(); }
  Tensor backward() const {
    w.set_grad({}), b.set_grad({});
    const Tensor l = loss();
    l.backward();
    return l;
  }
  V values() const {
    V v = w.detach().to(kCPU, kFloat64).to_vector<double>();
    v.push_back(b.detach().to(kFloat64).item<double>());
    return v;
  }
};

std::string difference(const V& got, const V& expected, double tolerance = 1e-12) {
  for (std::size_t i = 0; i < expected.size(); ++i)
    if (!(std::fabs(got[i] - expected[i]) <= tolerance * (1 + std::fabs(expected[i]))))
      return "parameter " + std::to_string(i) + " is " + std::to_string(got[i]) + ", expected " +
             std::to_string(expected[i]);
  return got.size() == expected.size() ? "" : "another number of parameters";
}

using Recorded = std::map<std::string, std::vector<V>>;
using Make = std::function<std::unique_ptr<optim::Optimizer>(std::vector<Tensor>)>;
template <class O, class Options>
Make make(Options options) {
  return [options](std::vector<Tensor> p) { return std::make_unique<O>(std::move(p), options); };
}

const Recorded kRecorded = {
    {"sgd",
     {{0.540929177821311, -0.26731816583448886, 0.05757949450547701, 0.0358589528400145},
      {0.6144964151672252, -0.24705670741839691, 0.015005893504637787, 0.0328116519995121},
      {0.7018492297383064, -0.23370194866930402, -0.0519183552818178, 0.04548745173459288}}},
    {"sgd momentum",
     {{0.5202145889106555, -0.25853408291724445, 0.09122724725273851, 0.06787947642000726},
      {0.6087655756195123, -0.2658603618368043, -0.010705598159565174, -0.011309346498085827},
      {0.8759836078052521, -0.20215097310259747, -0.19680132370890882, 0.09579836489255454}}},
    {"sgd nesterov",
     {{0.5384077189302454, -0.26621475754276447, 0.06083176978020315, 0.038971005198013775},
      {0.6590350296758049, -0.24133072210490683, -0.024824634992843042, 0.0058227938753978815},
      {0.8178986236783476, -0.21585203063459335, -0.16431340673209469, 0.09142117692292119}}},
    {"sgd maximize",
     {{0.4959070822178689, -0.2482681834165511, 0.1317420505494523, 0.10641410471599856},
      {0.4826629538540027, -0.24147923986669284, 0.1553711197813675, 0.1296619788230479},
      {0.4297097770143186, -0.1809937927465568, 0.30084793996954184, 0.2972099609921295}}},
    {"adam",
     {{0.5499999987632694, -0.29999999707057, 0.07500000074024171, 0.05000000077831858},
      {0.6497873949148406, -0.2717550192598989, -0.0007314170198913089, -0.006656359820094632},
      {0.8204252843299092, -0.2183720757688418, -0.15689805503214943, 0.06972696731137093}}},
    {"adam amsgrad",
     {{0.6999999951135105, -0.44999998845143363, -0.07499999703354349, -0.09999999688187197},
      {0.9304102597571775, -0.2778595025971607, 0.024106122132848747, 0.070551111167264},
      {0.8043745155551522, -0.34546520810121195, 0.004899646497299416, 0.04943895739385099}}},
    {"adamw",
     {{0.5474999987783776, -0.2987499971128584, 0.07437500074161414, 0.04950000077953201},
      {0.6416289763361973, -0.267694718781791, -0.001658273201376459, -0.006790043310818271},
      {0.8008683132775596, -0.20437609344068278, -0.15983775074923046, 0.06812959689822966}}},
    {"adamw maximize",
     {{0.4899500002443245, -0.23997500057742832, 0.13498749985167718, 0.1099899998440936},
      {0.4698769936848517, -0.22000328275968728, 0.155008747243996, 0.1300123581389077},
      {0.4000587272366609, -0.14867253128976782, 0.22635233813137584, 0.20143585097571115}}},
    {"nadam",
     {{0.5528225882601934, -0.30282258647193794, 0.07217741121529013, 0.04717741125551651},
      {0.6218507565406319, -0.2633926956501373, 0.03105928268069866, 0.02836116929629085},
      {0.737838835775213, -0.23464339351234892, -0.07183492136619322, 0.04901920010028564}}},
    {"nadam decoupled",
     {{0.5503244959189909, -0.3015744941593866, 0.07155050357388519, 0.046675503613945055},
      {0.6144263402536428, -0.25879411523531326, 0.029984889469259788, 0.028093288871637166},
      {0.7201830475574474, -0.21900758588959146, -0.0775803298826926, 0.047707449406068206}}},
    {"rmsprop",
     {{0.6999999505307894, -0.4499998828228616, -0.0749999703903362, -0.09999996886726192},
      {0.7684755787432728, -0.371797910836129, -0.019627949919108253, -0.00029949220440168844},
      {0.7978758928884647, -0.3386936689789603, -0.0012107469779259216, 0.05282305619253405}}},
    {"rmsprop all",
     {{0.5666666612372343, -0.3166666538349279, 0.058333336629395986, 0.03333333679791991},
      {0.7934328200699639, -0.26583072152745807, -0.02657980649560676, -0.00939308417778208},
      {0.8537918283140881, -0.3361473942186615, -0.06887138877936778, 0.12637834966140254}}},
    {"adagrad",
     {{0.5992704985630484, -0.29692829138044297, -0.01314752383633827, -0.03448711344592223},
      {0.6633210963821681, -0.2754410735915318, -0.04675945821278353, 0.00842608945926479},
      {0.7231412408223262, -0.2422185022556244, -0.05649930632383993, 0.04874499449707322}}},
    {"adadelta",
     {{0.5033540506663534, -0.25335381416898445, 0.12164591641266187, 0.09664591835203779},
      {0.5105956724840008, -0.2597727730769381, 0.11469235901832067, 0.08974878530276334},
      {0.5386790096967345, -0.2718578573863689, 0.09148536902043426, 0.06809395292401968}}},
};
const std::map<std::string, Make> kOptimizers = {
    {"sgd", make<optim::SGD>(optim::SGDOptions{.lr = 0.1})},
    {"sgd momentum",
     make<optim::SGD>(optim::SGDOptions{.lr = 0.05, .momentum = 0.9, .dampening = 0.1, .weight_decay = 0.01})},
    {"sgd nesterov",
     make<optim::SGD>(optim::SGDOptions{.lr = 0.05, .momentum = 0.9, .weight_decay = 0.01, .nesterov = true})},
    {"sgd maximize", make<optim::SGD>(optim::SGDOptions{.lr = 0.01, .momentum = 0.5, .maximize = true})},
    {"adam", make<optim::Adam>(optim::AdamOptions{.lr = 0.05, .weight_decay = 0.01})},
    {"adam amsgrad", make<optim::Adam>(optim::AdamOptions{.lr = 0.2, .beta1 = 0.5, .beta2 = 0.9, .amsgrad = true})},
    {"adamw", make<optim::AdamW>(optim::AdamWOptions{.lr = 0.05, .weight_decay = 0.1})},
    {"adamw maximize", make<optim::AdamW>(optim::AdamWOptions{.lr = 0.01, .amsgrad = true, .maximize = true})},
    {"nadam", make<optim::NAdam>(optim::NAdamOptions{.lr = 0.05, .weight_decay = 0.01})},
    {"nadam decoupled", make<optim::NAdam>(optim::NAdamOptions{
                            .lr = 0.05, .weight_decay = 0.1, .momentum_decay = 0.01, .decoupled_weight_decay = true})},
    {"rmsprop", make<optim::RMSprop>(optim::RMSpropOptions{.lr = 0.02, .weight_decay = 0.01})},
    {"rmsprop all",
     make<optim::RMSprop>(optim::RMSpropOptions{.lr = 0.02, .alpha = 0.9, .momentum = 0.8, .centered = true})},
    {"adagrad", make<optim::Adagrad>(optim::AdagradOptions{
                    .lr = 0.2, .lr_decay = 0.1, .weight_decay = 0.01, .initial_accumulator_value = 0.5})},
    {"adadelta", make<optim::Adadelta>(optim::AdadeltaOptions{.lr = 1.5, .rho = 0.8, .weight_decay = 0.01})},
};

void check_recorded(Device device) {
  for (const auto& [name, made] : kOptimizers) {
    INFO(name);
    const std::vector<V>& expected = kRecorded.at(name);
    const double tolerance = contains(name, "nadam") ? 1e-6 : 1e-12;  // PyTorch keeps the product of momenta in float32
    Problem p(kFloat64, device);
    const auto optimizer = made({p.w, p.b});
    for (int step = 1; step <= 10; ++step) {
      p.backward();
      optimizer->step();
      const int at = step == 1 ? 0 : step == 3 ? 1 : step == 10 ? 2 : -1;
      if (at >= 0) CHECK(difference(p.values(), expected[at], tolerance) == "");
    }
  }
}

}  // namespace

TEST_CASE("optimizers follow the recorded trajectories") { check_recorded(kCPU); }
TEST_CASE("optimizers follow the recorded trajectories on a GPU", "[cuda]") {
  TENON_REQUIRE_CUDA();
  check_recorded(Device(kCUDA, 0));
}

TEST_CASE("float32 parameters follow within float32's precision") {
  for (const auto& [name, made] : kOptimizers) {
    INFO(name);
    Problem p(kFloat32);
    const auto optimizer = made({p.w, p.b});
    for (int step = 1; step <= 10; ++step) p.backward(), optimizer->step();
    CHECK(difference(p.values(), kRecorded.at(name)[2], 2e-5) == "");
  }
}

namespace {
// Parameters in bfloat16 whose gradients are given: the wide trajectory is the optimizer's in float64.
void check_master_weights(Device device, DType dtype) {
  for (const auto& [name, made] : kOptimizers) {
    INFO(name << " in " << tenon::name(dtype));
    const V start = {0.5, -0.25, 0.125, 2};
    Tensor wide = from_vector(V(start)).requires_grad_(),
           narrow = from_vector(V(start)).to(device, dtype).requires_grad_();
    const auto reference = made({wide}), optimizer = made({narrow});
    for (int step = 0; step < 50; ++step) {
      const Tensor g = from_vector(V{0.25, -0.5, 1.0 / 64, step % 2 ? 0.125 : -0.0625});  // exact in 16 bits
      wide.set_grad(g), narrow.set_grad(g.to(device, dtype));
      reference->step(), optimizer->step();
    }
    const V expected = wide.detach().to_vector<double>();
    Tensor master;
    for (const auto& [key, tensor] : optimizer->state_dict())
      if (contains(key, "master")) master = tensor;
    REQUIRE(master.defined());
    CHECK(master.dtype() == kFloat32);
    CHECK(difference(master.to(kCPU, kFloat64).to_vector<double>(), expected, 1e-5) == "");
    CHECK(narrow.detach().to(kCPU).to(kFloat32).to_vector<float>() ==
          master.to(kCPU).to(dtype).to(kFloat32).to_vector<float>());
  }
}
}  // namespace
TEST_CASE("16-bit parameters are the rounded master weights, which follow in float32") {
  for (const DType t : {kBFloat16, kFloat16}) check_master_weights(kCPU, t);
}
TEST_CASE("16-bit parameters are the rounded master weights, on a GPU", "[cuda]") {
  TENON_REQUIRE_CUDA();
  for (const DType t : {kBFloat16, kFloat16}) check_master_weights(Device(kCUDA, 0), t);
}
TEST_CASE("without master weights small updates of 16-bit parameters are lost") {
  Tensor p = ones({3}, TensorOptions(kBFloat16)).requires_grad_();
  optim::SGD with({p}, {.lr = 1e-3});
  Tensor q = ones({3}, TensorOptions(kBFloat16)).requires_grad_();
  optim::SGD without({q}, {.lr = 1e-3, .master_weights = false});
  for (int i = 0; i < 100; ++i) {
    p.set_grad(ones({3}, TensorOptions(kBFloat16))), q.set_grad(ones({3}, TensorOptions(kBFloat16)));
    with.step(), without.step();
  }
  CHECK(q.detach().to(kFloat32).to_vector<float>() == std::vector<float>{1, 1, 1});
  CHECK(std::fabs(p.detach()[0].to(kFloat64).item<double>() - 0.9) < 0.004);
}

TEST_CASE("LBFGS follows the recorded trajectories") {
  const Recorded recorded = {
      {"lbfgs",
       {{0.6596886093653591, -0.24153755598711193, -0.021743740988179546, 0.017812961063174343},
        {0.7312742306143916, -0.23059117423940897, -0.07658485311968434, 0.053857487028988835},
        {0.7318499312567526, -0.2304200654943906, -0.07689881138843845, 0.05400717157335464}}},
      {"lbfgs wolfe",
       {{0.7308031281623396, -0.22804470410743155, -0.07221845509643944, 0.05082667246565793},
        {0.7318582378891603, -0.23041788002992541, -0.0769037749500024, 0.05400874373363017},
        {0.7318582378891603, -0.23041788002992541, -0.0769037749500024, 0.05400874373363017}}},
  };
  for (const auto& [name, expected] : recorded) {
    INFO(name);
    Problem p;
    const bool wolfe = contains(name, "wolfe");
    optim::LBFGS optimizer(
        {p.w, p.b},
        {.lr = wolfe ? 1 : 0.5, .max_iter = wolfe ? 5 : 4, .history_size = wolfe ? 4 : 3, .strong_wolfe = wolfe});
    for (int step = 1; step <= 5; ++step) {
      optimizer.step([&] { return p.backward(); });
      const int at = step == 1 ? 0 : step == 3 ? 1 : step == 5 ? 2 : -1;
      if (at >= 0) CHECK(difference(p.values(), expected[at], 1e-9) == "");
    }
  }
}

TEST_CASE("LBFGS finds the minimum of Rosenbrock's function, and its state can be moved") {
  Tensor x = from_vector(V{-1.2, 1}).requires_grad_();
  const auto loss = [](const Tensor& at) {
    const Tensor a = at[0], b = at[1];
    return square(1 - a) + 100 * square(b - square(a));
  };
  const auto evaluate = [&](const Tensor& at) {
    at.set_grad({});
    const Tensor l = loss(at);
    l.backward();
    return l;
  };
  optim::LBFGS optimizer({x}, {.max_iter = 20, .tolerance_change = 1e-15, .strong_wolfe = true});
  optimizer.step([&] { return evaluate(x); });
  Tensor y = x.detach().clone().requires_grad_();
  optim::LBFGS other({y}, {.max_iter = 20, .tolerance_change = 1e-15, .strong_wolfe = true});
  other.load_state_dict(optimizer.state_dict());
  for (int i = 0; i < 10; ++i) {
    optimizer.step([&] { return evaluate(x); });
    other.step([&] { return evaluate(y); });
  }
  CHECK(difference(x.detach().to_vector<double>(), {1, 1}, 1e-6) == "");
  CHECK(x.detach().to_vector<double>() == y.detach().to_vector<double>());
  CHECK(contains(error_of<ValueError>([&] { optimizer.step(); }), "closure"));
}
