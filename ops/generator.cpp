// SPDX-License-Identifier: Apache-2.0
#include <tenon/dispatch/make_tensor.h>
#include <tenon/ops/generator.h>
#include <tenon/streams/stream.h>

#include <atomic>
#include <cstring>
#include <random>

namespace tenon {
namespace {
constexpr uint64_t kDefaultSeed = 67280421310721;  // PyTorch's

std::atomic<CaptureHook> capture_hook{nullptr};
std::atomic<uint64_t> global_seed{kDefaultSeed};
std::atomic<Generator*> defaults[kDeviceTypes][kMaxDevices];
thread_local const GeneratorGuard* innermost = nullptr;

uint64_t entropy() {
  std::random_device source;
  const uint64_t high = source();
  return high << 32 | source();
}
}  // namespace

// Seed and offset are separate atomics, so that no lock can be left held in a forked child. Seeding while other
// threads draw gives each of them a position of one stream or of the other.
struct Generator::State {
  std::atomic<uint32_t> owners{1};
  Device device;
  std::atomic<uint64_t> seed;
  std::atomic<uint64_t> offset{0};
  State(Device d, uint64_t s) : device(d), seed(s) {}
};

Generator::Generator(Device device)
    : state_(new State(device.has_index() ? device : resolve(device), global_seed.load(std::memory_order_relaxed))) {}
Generator::Generator(const Generator& o) : state_(o.state_) { state_->owners.fetch_add(1, std::memory_order_relaxed); }
Generator& Generator::operator=(Generator o) noexcept {
  State* const mine = state_;
  state_ = o.state_;
  o.state_ = mine;
  return *this;
}
Generator::~Generator() {
  if (state_ && state_->owners.fetch_sub(1, std::memory_order_acq_rel) == 1) delete state_;
}

Device Generator::device() const { return state_->device; }
void Generator::manual_seed(uint64_t seed) const {
  state_->seed.store(seed, std::memory_order_relaxed);
  state_->offset.store(0, std::memory_order_release);
}
uint64_t Generator::seed() const { return state_->seed.load(std::memory_order_relaxed); }
uint64_t Generator::reseed() const {
  const uint64_t fresh = entropy();
  manual_seed(fresh);
  return fresh;
}
uint64_t Generator::offset() const { return state_->offset.load(std::memory_order_relaxed); }
void Generator::set_offset(uint64_t blocks) const { state_->offset.store(blocks, std::memory_order_relaxed); }

Tensor Generator::get_state() const {
  const uint64_t words[2] = {seed(), offset()};
  const Tensor state = dispatch::make_tensor(static_cast<int64_t>(sizeof words), kUInt8, kCPU);
  std::memcpy(state.data_ptr(), words, sizeof words);
  return state;
}
void Generator::set_state(const Tensor& state) const {
  uint64_t words[2];
  TENON_CHECK(state.defined() && state.is_cpu() && state.dtype() == kUInt8 && state.is_contiguous() &&
                  state.nbytes() == static_cast<int64_t>(sizeof words),
              ValueError, "Generator::set_state: state: expected 16 contiguous uint8 on the CPU, as get_state gives");
  std::memcpy(words, state.data_ptr(), sizeof words);
  manual_seed(words[0]);
  set_offset(words[1]);
}

PhiloxState Generator::advance(uint64_t blocks) const {
  PhiloxState state;
  state.seed = seed();
  if (state_->device.is_cuda()) {
    const CaptureHook hook = capture_hook.load(std::memory_order_acquire);
    if (hook && hook(state_->device, state.seed, blocks, state)) return state;
  }
  state.offset = state_->offset.fetch_add(blocks, std::memory_order_relaxed);
  return state;
}

Generator& default_generator(Device device) {
  if (!device.has_index()) device = resolve(device);
  std::atomic<Generator*>& slot = defaults[static_cast<int>(device.type())][device.index()];
  Generator* present = slot.load(std::memory_order_acquire);
  if (!present) {
    Generator* const fresh = new Generator(device);  // leaked: operators may run while the process ends
    if (slot.compare_exchange_strong(present, fresh, std::memory_order_acq_rel))
      present = fresh;
    else
      delete fresh;
  }
  return *present;
}

std::vector<Generator> default_generators() {
  std::vector<Generator> present;
  for (auto& of_type : defaults)
    for (auto& each : of_type)
      if (const Generator* g = each.load(std::memory_order_acquire)) present.push_back(*g);
  return present;
}

const Generator& current_generator(Device device) {
  for (const GeneratorGuard* g = innermost; g; g = g->previous_)
    if (g->generator_.device() == device) return g->generator_;
  return default_generator(device);
}

Generator& manual_seed(uint64_t seed) {
  global_seed.store(seed, std::memory_order_relaxed);  // for generators made later
  for (auto& of_type : defaults)
    for (std::atomic<Generator*>& slot : of_type)
      if (const Generator* present = slot.load(std::memory_order_acquire)) present->manual_seed(seed);
  Generator& cpu = default_generator(kCPU);
  cpu.manual_seed(seed);
  return cpu;
}
uint64_t reseed() {
  const uint64_t fresh = entropy();
  manual_seed(fresh);
  return fresh;
}
uint64_t initial_seed() { return default_generator(kCPU).seed(); }

GeneratorGuard::GeneratorGuard(Generator generator)
    : generator_(static_cast<Generator&&>(generator)), previous_(innermost) {
  innermost = this;
}
GeneratorGuard::~GeneratorGuard() { innermost = previous_; }

ForkRngGuard::ForkRngGuard() : seed_(global_seed.load(std::memory_order_relaxed)) {
  for (Generator& g : default_generators()) {
    PhiloxState state;
    state.seed = g.seed();
    state.offset = g.offset();
    saved_.emplace_back(g, state);
  }
}
ForkRngGuard::~ForkRngGuard() {
  manual_seed(seed_);  // generators that came meanwhile are as if they came now
  for (auto& [g, state] : saved_) {
    g.manual_seed(state.seed);
    g.set_offset(state.offset);
  }
}

void set_generator_capture_hook(CaptureHook hook) { capture_hook.store(hook, std::memory_order_release); }

}  // namespace tenon
