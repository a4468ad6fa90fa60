// SPDX-License-Identifier: Apache-2.0
// Generator: the state behind random operators, a seed and a position in the stream of numbers it stands for. Numbers
// are Philox-4x32-10 (kernels/philox.h): they depend on seed, position and element index alone, so the CPU and every
// GPU give the same ones whatever the number of threads.
#pragma once

#include <tenon/core/tensor.h>

namespace tenon {

/// What a kernel needs: the key, and the first counter that is free. When `base` is not null the counter starts at
/// *base + offset, `base` being device memory that a replayed graph advances.
struct PhiloxState {
  uint64_t seed = 0;
  uint64_t offset = 0;
  const uint64_t* base = nullptr;
};

inline constexpr uint64_t kNarrowRange = uint64_t(1) << 25;  ///< up to here randint spends 32 bits a number, else 64

/// A counted handle; copies share the state. Thread-safe: concurrent operators get disjoint positions.
class TENON_API Generator {
 public:
  /// A new generator for `device` with the default seed.
  explicit Generator(Device device = kCPU);
  Generator(const Generator& o);
  Generator(Generator&& o) noexcept : state_(o.state_) { o.state_ = nullptr; }
  Generator& operator=(Generator o) noexcept;
  ~Generator();

  Device device() const;
  /// Restarts the stream of `seed`.
  void manual_seed(uint64_t seed) const;
  uint64_t seed() const;
  /// A seed from the system's source of randomness, also set.
  uint64_t reseed() const;
  /// Position in blocks of four 32-bit numbers.
  uint64_t offset() const;
  void set_offset(uint64_t blocks) const;
  /// Seed and offset as 16 bytes, uint8 on the CPU; set_state takes them back (ValueError for anything else).
  Tensor get_state() const;
  void set_state(const Tensor& state) const;

  /// Reserves `blocks` blocks and returns where they begin.
  PhiloxState advance(uint64_t blocks) const;

 private:
  struct State;
  State* state_;
};

/// The generator operators use on `device` unless a GeneratorGuard says otherwise. One per device, never destroyed.
TENON_API Generator& default_generator(Device device = kCPU);
/// The default generators that were asked for so far.
TENON_API std::vector<Generator> default_generators();
/// The generator of this thread's innermost GeneratorGuard, else the default one of `device`.
TENON_API const Generator& current_generator(Device device);
/// Seeds the default generators of all devices; returns the CPU's.
TENON_API Generator& manual_seed(uint64_t seed);
/// PyTorch's seed(): manual_seed with a number from the system's source of randomness, which is returned.
TENON_API uint64_t reseed();
/// The seed of the CPU's default generator.
TENON_API uint64_t initial_seed();

/// While it lives, this thread's random operators on the generator's device draw from it.
class TENON_API GeneratorGuard {
 public:
  explicit GeneratorGuard(Generator generator);
  ~GeneratorGuard();
  GeneratorGuard(const GeneratorGuard&) = delete;
  GeneratorGuard& operator=(const GeneratorGuard&) = delete;

 private:
  friend const Generator& current_generator(Device);
  Generator generator_;
  const GeneratorGuard* previous_;
};

/// fork_rng: when it ends, the default generators of all devices are as they were when it began. Other threads should
/// not draw from them meanwhile.
class TENON_API ForkRngGuard {
 public:
  ForkRngGuard();
  ~ForkRngGuard();
  ForkRngGuard(const ForkRngGuard&) = delete;
  ForkRngGuard& operator=(const ForkRngGuard&) = delete;

 private:
  uint64_t seed_;  // of generators made later
  std::vector<std::pair<Generator, PhiloxState>> saved_;
};

/// Graph capture: called by advance() on CUDA devices; returning true it has filled `state` for the graph and the
/// generator's own offset stays as it is. Set once by whoever owns capture; null means no capture.
using CaptureHook = bool (*)(Device device, uint64_t seed, uint64_t blocks, PhiloxState& state);
TENON_API void set_generator_capture_hook(CaptureHook hook);

}  // namespace tenon
