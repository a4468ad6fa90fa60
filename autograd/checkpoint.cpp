// SPDX-License-Identifier: Apache-2.0
// A frame is the pair of hooks in force during the first call. Its packed tensors are numbers; the first of them that a
// backward run unpacks calls fn again under hooks that collect, by number, what is saved then. What was collected
// belongs to the run and leaves it as it is unpacked, so the memory of a segment goes as backward goes on.
#include <tenon/autograd/autograd_meta.h>
#include <tenon/autograd/checkpoint.h>
#include <tenon/autograd/engine.h>
#include <tenon/autograd/packed_save.h>
#include <tenon/core/operand.h>
#include <tenon/dispatch/make_tensor.h>
#include <tenon/ops/generator.h>
#include <tenon/streams/guard.h>

#include <deque>

namespace tenon::autograd::internal {
namespace {

uint64_t next_key() {
  static uint64_t counter = 0;
  return __atomic_add_fetch(&counter, 1u, __ATOMIC_RELAXED);
}

// What one run collected.
struct Recomputed final : RunLocal {
  struct Item {
    Tensor tensor;
    uint32_t version = 0;
  };
  std::vector<Item> items;
};

// Guards that are entered one after the other and left in the reverse order.
template <class Guard>
struct Guards {
  std::deque<Guard> list;
  Guards() = default;
  ~Guards() {
    while (!list.empty()) list.pop_back();
  }
};

class Frame final : public SavedTensorHooks {
 public:
  Frame(const CheckpointOptions& options, TensorList inputs, CheckpointCall* call);
  Ref<PackedTensor> pack(const Tensor& t) override;
  Tensor unpack(std::size_t number);
  void drop(std::size_t number) { __atomic_store_n(&metas_[number].alive, false, __ATOMIC_RELAXED); }
  void complete();

  struct Meta {
    DimVector sizes;
    DType dtype;
    Device device;
    uint32_t version = 0;
    bool alive = true;  // a node still refers to it
  };
  const std::deque<Meta>& metas() const { return metas_; }
  bool completed() const { return completed_; }

 private:
  struct Input {
    Tensor tensor;
    uint32_t version = 0;
    PackedSave packed;  // in place of the tensor, by the hooks around the checkpoint
    bool requires_grad = false;
  };
  struct Random {
    Device device;
    uint64_t seed, offset;
  };
  std::unique_ptr<Recomputed> recompute();
  void remember_generators(bool from_start);

  const uint64_t key_ = next_key();
  const std::unique_ptr<CheckpointCall> call_;
  const bool preserve_rng_;
  const uint32_t autocast_ = dispatch::thread_state.always & dispatch::kAutocastLayer;
  std::vector<Input> inputs_;
  std::vector<Random> random_;
  std::vector<Stream> streams_;
  std::deque<Meta> metas_;
  bool completed_ = false;
};

class Number final : public PackedTensor {
 public:
  Number(Frame* frame, std::size_t number) : frame_(Ref<SavedTensorHooks>::share(frame)), number_(number) {}
  ~Number() override { frame().drop(number_); }
  Tensor unpack() override { return frame().unpack(number_); }

 private:
  Frame& frame() const { return static_cast<Frame&>(*frame_); }
  Ref<SavedTensorHooks> frame_;
  std::size_t number_;
};

class Plain final : public PackedTensor {
 public:
  explicit Plain(const Tensor& t) : tensor_(t), version_(t.version()) {}
  Tensor unpack() override {
    TENON_CHECK(tensor_.version() == version_, AutogradError,
                "checkpoint: a tensor saved inside of fn has been written in place since");
    return tensor_;
  }

 private:
  Tensor tensor_;
  uint32_t version_;
};

// Hooks of the second call.
class Collector final : public SavedTensorHooks {
 public:
  Collector(const Frame& frame, Recomputed& to) : frame_(frame), to_(to) { to.items.resize(frame.metas().size()); }
  Ref<PackedTensor> pack(const Tensor& t) override {
    const std::size_t n = count_++;
    if (n < to_.items.size()) {
      const Frame::Meta& m = frame_.metas()[n];
      TENON_CHECK(t.sizes() == IntArrayRef(m.sizes) && t.dtype() == m.dtype && t.device() == m.device, AutogradError,
                  "checkpoint: fn did not do the same when it was called again: saved tensor ", n, ": expected ",
                  m.dtype, " of sizes ", m.sizes, " on ", m.device, ", got ", t.dtype(), " of sizes ", t.sizes(),
                  " on ", t.device());
      TENON_CHECK(t.version() == m.version, AutogradError,
                  "checkpoint: a tensor that fn captured and saves has been written in place since the first call: "
                  "expected version ",
                  m.version, ", found ", t.version(), ". Write to a clone(), or pass it as an argument");
      if (__atomic_load_n(&m.alive, __ATOMIC_RELAXED)) to_.items[n] = {t, t.version()};
    } else {
      TENON_CHECK(!frame_.completed(), AutogradError,
                  "checkpoint: fn did not do the same when it was called again: it saved more than the ",
                  to_.items.size(), " tensors of the first time");
    }
    return Ref<PackedTensor>::adopt(new Plain(t));
  }
  std::size_t count() const { return count_; }

 private:
  const Frame& frame_;
  Recomputed& to_;
  std::size_t count_ = 0;
};

Frame::Frame(const CheckpointOptions& options, TensorList inputs, CheckpointCall* call)
    : call_(call), preserve_rng_(options.preserve_rng) {
  for (const Tensor& t : inputs) {
    Input& in = inputs_.emplace_back();
    if (!t.defined()) continue;
    in.requires_grad = takes_part(t);
    if (saved_tensor_hooks()) {
      in.packed = PackedSave(t, "checkpoint");
    } else {
      in.tensor = dispatch::make_alias(t);  // without its history, which may come to lead back here
      in.version = t.version();
    }
    if (t.device().is_cpu() || t.device().is_meta()) continue;
    const Stream stream = current_stream(t.device());
    bool known = false;
    for (const Stream& s : streams_) known = known || s.device() == stream.device();
    if (!known) streams_.push_back(stream);
  }
  if (preserve_rng_) {
    default_generator();
    remember_generators(false);
  }
}

// A generator that forward was the first to ask for began at the start.
void Frame::remember_generators(bool from_start) {
  for (const Generator& each : default_generators()) {
    const Device device = each.device();
    bool known = false;
    for (const Random& r : random_) known = known || r.device == device;
    if (known) continue;
    const Generator& g = current_generator(device);
    random_.push_back({device, g.seed(), from_start ? 0 : g.offset()});
  }
}

void Frame::complete() {
  completed_ = true;
  if (preserve_rng_) remember_generators(true);
}

Ref<PackedTensor> Frame::pack(const Tensor& t) {
  metas_.push_back({DimVector(t.sizes()), t.dtype(), t.device(), t.version()});
  return Ref<PackedTensor>::adopt(new Number(this, metas_.size() - 1));
}

Tensor Frame::unpack(std::size_t number) {
  std::unique_ptr<RunLocal> outside;  // of any run
  std::unique_ptr<RunLocal>* place = run_local(key_);
  if (!place) place = &outside;
  const auto item = [&]() -> Recomputed::Item* {
    auto* done = static_cast<Recomputed*>(place->get());
    return done && number < done->items.size() && done->items[number].tensor.defined() ? &done->items[number] : nullptr;
  };
  if (!item()) *place = recompute();
  Recomputed::Item& found = *item();
  TENON_CHECK(found.tensor.version() == found.version, AutogradError,
              "checkpoint: a tensor saved inside of fn has been written in place since: expected version ",
              found.version, ", found ", found.tensor.version());
  return static_cast<Tensor&&>(found.tensor);
}

std::unique_ptr<Recomputed> Frame::recompute() {
  const EnableGradGuard grad;
  struct Autocast {
    const uint32_t before = dispatch::thread_state.always;
    explicit Autocast(uint32_t on) {
      dispatch::thread_state.always = (before & ~uint32_t{dispatch::kAutocastLayer}) | on;
    }
    ~Autocast() { dispatch::thread_state.always = before; }
  } const autocast(autocast_);
  Guards<StreamGuard> streams;
  for (std::size_t i = streams_.size(); i-- > 0;) streams.list.emplace_back(streams_[i]);
  // Generators of its own: those of the program, and other threads, are not disturbed.
  Guards<GeneratorGuard> generators;
  for (const Random& r : random_) {
    const Generator g(r.device);
    g.manual_seed(r.seed);
    g.set_offset(r.offset);
    generators.list.emplace_back(g);
  }
  std::vector<Tensor> inputs;
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    const Input& in = inputs_[i];
    Tensor t = in.packed ? in.packed.unpack("checkpoint") : in.tensor;
    if (t.defined()) {
      TENON_CHECK(in.packed || t.version() == in.version, AutogradError, "checkpoint: input ", i,
                  " has been written in place since: expected version ", in.version, ", found ", t.version(),
                  ". Pass a clone()");
      t = dispatch::make_alias(t);
      if (in.requires_grad) t.requires_grad_();
    }
    inputs.push_back(static_cast<Tensor&&>(t));
  }
  auto result = std::make_unique<Recomputed>();
  auto* collector = new Collector(*this, *result);
  const SavedTensorHooksGuard hooks(Ref<SavedTensorHooks>::adopt(collector));
  call_->run(inputs);
  TENON_CHECK(collector->count() >= metas_.size(), AutogradError,
              "checkpoint: fn did not do the same when it was called again: it saved ", collector->count(),
              " tensors, but ", metas_.size(), " the first time");
  return result;
}

}  // namespace

CheckpointCall::~CheckpointCall() = default;

Ref<SavedTensorHooks> begin_checkpoint(const CheckpointOptions& options, TensorList inputs, CheckpointCall* call) {
  return Ref<SavedTensorHooks>::adopt(new Frame(options, inputs, call));
}
void end_checkpoint(SavedTensorHooks& frame) { static_cast<Frame&>(frame).complete(); }

}  // namespace tenon::autograd::internal
