// SPDX-License-Identifier: Apache-2.0
// Random small programs of views, in-place writes, detached aliases and arithmetic, run twice: as written, and as a
// program without any view or write, in which every tensor is a column vector, reading through a view is a product
// with a 0/1 matrix and writing makes a new vector. Values, gradients and second derivatives of both must agree, and
// the gradients with finite differences of the second. What the rules of autograd refuse must be refused, and nothing
// else.
#include <tenon/autograd/autograd.h>
#include <tenon/ops/binary.h>
#include <tenon/ops/copy.h>
#include <tenon/ops/factory.h>
#include <tenon/ops/matmul.h>
#include <tenon/ops/unary.h>
#include <tenon/ops/view.h>

#include "tests/support/catch.h"

#include <algorithm>
#include <cmath>
#include <random>

using namespace tenon;
using tenon::testing::contains;

namespace {

using V = std::vector<double>;
using Sizes = std::vector<int64_t>;
std::size_t at(int64_t i) { return static_cast<std::size_t>(i); }

/// A tensor of the program, and what it means without views: the elements `places` of the vector `base`.
struct Slot {
  Tensor tensor;
  int64_t base = 0;
  std::vector<int64_t> places;  // row-major
  Sizes sizes;
  bool cut = false;    // reading gives constants: detached, or a view made without recording
  bool multi = false;  // one of several views made at once
  bool quiet = false;  // a view made without recording
};

struct Step {
  bool write;
  int function;
  int64_t self, other;  // slots; other -1: none
  double number;
  bool constant;  // a write that gradients know nothing of
};

// The functions, on tensors of one size. Out of place for both programs: the second half are the writes.
constexpr int kPure = 10, kFunctions = 21;
Tensor apply(int function, const Tensor& a, const Tensor& b, double c) {
  switch (function) {
    case 0:
    case 10:
      return a * c;
    case 1:
    case 11:
      return a + c;
    case 2:
    case 12:
      return a.tanh();
    case 3:
      return (a * 0.25).exp();
    case 4:
    case 13:
      return a * b;
    case 5:
      return a + b;
    case 6:
    case 14:
      return a - b;
    case 7:
      return a * a;
    case 8:
    case 15:
      return a.sigmoid();
    case 9:
    case 16:
      return -a;
    case 17:
      return a + b * c;
    case 18:
      return b * 1;
    case 19:
      return a * 0 + c;
    default:
      return a * 0;
  }
}
void apply_in_place(int function, Tensor a, const Tensor& b, double c) {
  switch (function) {
    case 10:
      a.mul_(c);
      break;
    case 11:
      a += c;
      break;
    case 12:
      a.tanh_();
      break;
    case 13:
      a.mul_(b);
      break;
    case 14:
      a -= b;
      break;
    case 15:
      a.sigmoid_();
      break;
    case 16:
      a.neg_();
      break;
    case 17:
      a.add_(b, c);
      break;
    case 18:
      a.copy_(b);
      break;
    case 19:
      a.fill_(c);
      break;
    default:
      a.zero_();
  }
}
bool two_operands(int f) { return (f >= 4 && f <= 6) || f == 13 || f == 14 || f == 17 || f == 18; }
bool saves_result(int f) { return f == 2 || f == 3 || f == 8 || f == 12 || f == 15; }
bool is_product(int f) { return f == 4 || f == 13; }

bool broadcast(const Sizes& a, const Sizes& b, Sizes& out) {
  out.assign(std::max(a.size(), b.size()), 1);
  for (std::size_t i = 0; i < out.size(); ++i) {
    const int64_t x = i < a.size() ? a[a.size() - 1 - i] : 1, y = i < b.size() ? b[b.size() - 1 - i] : 1;
    if (x != y && x != 1 && y != 1) return false;
    out[out.size() - 1 - i] = std::max(x, y);
  }
  return true;
}

class Program {
 public:
  /// `free`: operators may save what is written later, and backward then refuses.
  Program(uint64_t seed, bool free) : random_(seed), free_(free) {
    const Sizes shapes[] = {{2, 3}, {3}, {2, 2, 2}};
    for (int i = 0; i < 3; ++i) {
      V v(i == 0 ? 6u : i == 1 ? 3u : 8u);
      for (double& e : v) e = number();
      Tensor t = from_vector(std::move(v), shapes[i]);
      if (i < 2) inputs.push_back(t.detach().clone().requires_grad_());  // the last one is a constant
      start_.push_back(t.to_vector<double>());
      add_base(i < 2 ? inputs.back() : t);
    }
    for (int i = 0; i < 14; ++i) step();
    for (const Slot& s : slots_) {
      V w(s.places.size());
      for (double& e : w) e = number();
      weights_.push_back(from_vector(std::move(w), s.sizes));
    }
  }

  /// Of the program as it was run.
  Tensor loss() const {
    Tensor sum;
    for (std::size_t k = 0; k < slots_.size(); ++k) {
      const Tensor part = (slots_[k].tensor * weights_[k]).sum();
      sum = sum.defined() ? sum + part : part;
    }
    return sum;
  }

  /// Of the program without views, from columns; undefined when a value differs. `constants` receives what is cut from
  /// the graph; in a `replay` it is taken from there, so that finite differences see the same constants.
  Tensor loss(const std::vector<Tensor>& columns, std::vector<Tensor>& constants, bool replay) const {
    std::size_t next = 0;
    const auto cut = [&](const Tensor& t) {
      if (!replay) constants.push_back(t.detach());
      return replay ? constants[next++] : constants.back();
    };
    std::vector<Tensor> bases = columns;
    const auto matrix = [&](const Slot& s, const Sizes& sizes) {  // picks the places of `s`, broadcast
      const Tensor wide = from_vector(std::vector<int64_t>(s.places), s.sizes).expand(sizes);
      const std::vector<int64_t> places = wide.to_vector<int64_t>();
      const int64_t n = lengths_[at(s.base)];
      V m(places.size() * at(n), 0.0);
      for (std::size_t i = 0; i < places.size(); ++i) m[i * at(n) + at(places[i])] = 1;
      return from_vector(std::move(m), {static_cast<int64_t>(places.size()), n});
    };
    const auto read = [&](const Slot& s, const Sizes& sizes) {
      const Tensor r = mm(matrix(s, sizes), bases[at(s.base)]);
      return s.cut ? cut(r) : r;
    };
    for (const Step& step : steps_) {
      const Slot& self = slots_[at(step.self)];
      Sizes sizes = self.sizes;
      if (step.other >= 0 && !step.write) broadcast(self.sizes, slots_[at(step.other)].sizes, sizes);
      const Tensor a = read(self, sizes), b = step.other < 0 ? Tensor() : read(slots_[at(step.other)], sizes);
      const Tensor value = apply(step.function, a, b, step.number);
      if (!step.write) {
        bases.push_back(value);
        continue;
      }
      const Tensor m = matrix(self, self.sizes),
                   back = from_vector(m.t().contiguous().to_vector<double>(), m.t().sizes());
      const Tensor base = bases[at(self.base)];
      const Tensor change = mm(back, value - mm(m, base));
      bases[at(self.base)] = base + (step.constant ? cut(change) : change);
    }
    Tensor sum;
    for (std::size_t k = 0; k < slots_.size(); ++k) {
      const auto n = static_cast<int64_t>(slots_[k].places.size());
      const Tensor value = read(slots_[k], slots_[k].sizes);
      if (!replay) {
        const V mine = slots_[k].tensor.detach().to_vector<double>(), other = value.detach().to_vector<double>();
        for (std::size_t i = 0; i < mine.size(); ++i)
          if (!(std::abs(mine[i] - other[i]) <= 1e-9 * (1 + std::abs(other[i])))) return {};
      }
      const Tensor part = (value * weights_[k].reshape({n, 1})).sum();
      sum = sum.defined() ? sum + part : part;
    }
    return sum;
  }

  std::vector<Tensor> columns(int64_t moved = -1, int64_t element = 0, double by = 0) const {
    std::vector<Tensor> out;
    for (std::size_t i = 0; i < start_.size(); ++i) {
      V v = start_[i];
      if (static_cast<int64_t>(i) == moved) v[at(element)] += by;
      const auto n = static_cast<int64_t>(v.size());
      out.push_back(from_vector(std::move(v), {n, 1}));
    }
    return out;
  }

  /// Whether something an operator saved was written afterwards.
  bool saved_was_written() const {
    return std::any_of(saved_.begin(), saved_.end(), [](const auto& s) { return s.first.version() != s.second; });
  }

  std::vector<Tensor> inputs;
  std::string text, fault;
  int refused = 0, views = 0, writes = 0;

 private:
  int64_t draw(int64_t n) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(n)); }
  double number() { return static_cast<double>(draw(17) - 8) / 8 + 0.0625; }
  // Late ones more often, so that chains grow.
  int64_t pick() {
    const auto n = static_cast<int64_t>(slots_.size());
    return n - 1 - std::min(draw(n), draw(n));
  }

  void add_base(const Tensor& t) {
    Slot s;
    s.tensor = t;
    s.base = static_cast<int64_t>(lengths_.size());
    for (int64_t i = 0; i < t.numel(); ++i) s.places.push_back(i);
    s.sizes.assign(t.sizes().begin(), t.sizes().end());
    lengths_.push_back(t.numel());
    slots_.push_back(std::move(s));
  }

  void step() {
    const int64_t what = draw(10);
    if (what < 4) return make_view(pick());
    if (what < 6) return compute(pick(), static_cast<int>(draw(kPure)));
    write(pick(), static_cast<int>(kPure + draw(kFunctions - kPure)));
  }

  void make_view(int64_t k) {
    Slot s = slots_[at(k)];
    const Tensor places = from_vector(std::vector<int64_t>(s.places), s.sizes);
    const int64_t rank = s.tensor.dim(), d = rank ? draw(rank) : 0, length = rank ? s.tensor.size(d) : 0;
    const int64_t what = draw(11), i = length ? draw(length) : 0, step = 1 + draw(2), e = rank ? draw(rank) : 0;
    const bool quiet = what != 8 && draw(10) == 0;
    const bool needs_dim = what == 0 || what == 1 || what == 6 || what == 7;
    if ((needs_dim && length < 2) || (what == 3 && !s.tensor.is_contiguous()) || (what == 4 && rank > 3)) return;
    if (what == 5 && (rank > 2 || s.tensor.numel() > 6)) return;
    const auto view_of = [&](const Tensor& t) -> Tensor {
      switch (what) {
        case 0:
          return t.select(d, i);
        case 1:
          return t.slice(d, i, {}, step);
        case 2:
          return rank ? t.transpose(d, e) : t.unsqueeze(0);
        case 3:
          return t.view({-1});
        case 4:
          return t.unsqueeze(d);
        case 5: {
          Sizes sizes(t.sizes().begin(), t.sizes().end());
          sizes.insert(sizes.begin(), 2);
          return t.expand(sizes);
        }
        case 6:
          return t.unbind(d)[at(i)];
        case 7:
          return t.split(step, d).back();
        case 8:
          return t.detach();
        case 9:
          return t.squeeze();
        default: {
          Sizes dims;
          for (int64_t n = rank; n-- > 0;) dims.push_back(n);
          return t.permute(dims);
        }
      }
    };
    static constexpr const char* kNames[] = {"select", "slice", "transpose", "view",    "unsqueeze", "expand",
                                             "unbind", "split", "detach",    "squeeze", "permute"};
    text += std::to_string(slots_.size()) + " = " + kNames[what] + "(" + std::to_string(k) + ")" +
            (quiet ? " without recording\n" : "\n");
    if (quiet && s.tensor.requires_grad()) s.quiet = s.cut = true;
    if (what == 6 || what == 7) s.multi = true;
    if (what == 8) s.cut = true, s.multi = s.quiet = false;
    {
      std::optional<NoGradGuard> no_grad;
      if (quiet) no_grad.emplace();
      s.tensor = view_of(s.tensor);
    }
    const Tensor mine = what == 3 ? places.reshape(-1) : view_of(places);
    s.places = mine.to_vector<int64_t>();
    s.sizes.assign(mine.sizes().begin(), mine.sizes().end());
    slots_.push_back(std::move(s));
    ++views;
  }

  void remember(const Tensor& t) {
    if (free_) saved_.emplace_back(t, t.version());
  }

  void compute(int64_t k, int f) {
    const int64_t other = two_operands(f) ? pick() : -1;
    Sizes sizes;
    if (other >= 0 && !broadcast(slots_[at(k)].sizes, slots_[at(other)].sizes, sizes)) return;
    const auto operand = [&](int64_t s) {
      const Tensor& t = slots_[at(s)].tensor;
      return free_ ? t : t.clone();  // nobody can write what is saved
    };
    const Tensor a = operand(k), b = other < 0 ? Tensor() : operand(other);
    Tensor r = apply(f, a, b, number_ = number());
    if (is_product(f) && a.requires_grad()) remember(b);
    if ((is_product(f) && b.requires_grad()) || f == 7) remember(a);
    if (saves_result(f)) remember(r);
    if (saves_result(f) && !free_) r = r.clone();
    text += std::to_string(slots_.size()) + " = f" + std::to_string(f) + "(" + std::to_string(k) + ", " +
            std::to_string(other) + ")\n";
    add_base(r);
    steps_.push_back({false, f, k, other, number_, false});
  }

  void write(int64_t k, int f) {
    const Slot& s = slots_[at(k)];
    const int64_t other = two_operands(f) ? pick() : -1;
    Sizes sizes;
    if (other >= 0 && (!broadcast(s.sizes, slots_[at(other)].sizes, sizes) || sizes != s.sizes)) return;
    const bool recorded = draw(6) != 0;
    Tensor b = other < 0 ? Tensor() : slots_[at(other)].tensor;
    const bool needs = s.tensor.requires_grad() || (b.defined() && b.requires_grad());
    if (recorded && s.cut && b.defined() && b.requires_grad()) return;  // history of an alias: not modelled
    if (!free_ && saves_result(f) && recorded && needs) return;
    std::vector<int64_t> sorted = s.places;
    std::sort(sorted.begin(), sorted.end());
    const bool repeats = std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end();
    const bool leaf = s.base < 2 && !s.cut;
    const bool refuse = repeats || (recorded && (s.quiet || leaf || (s.multi && needs)));
    text += "write f" + std::to_string(f) + "(" + std::to_string(k) + ", " + std::to_string(other) + ")" +
            (recorded ? "" : " without recording") + (refuse ? ": refused\n" : "\n");
    if (!free_ && is_product(f)) b = b.clone();
    const uint32_t before = s.tensor.version();
    const double c = number();
    const Tensor tracked = s.tensor;
    if (is_product(f) && recorded && s.tensor.requires_grad()) remember(b);
    try {
      std::optional<NoGradGuard> no_grad;
      if (!recorded) no_grad.emplace();
      apply_in_place(f, s.tensor, b, c);
      if (refuse) fault = "was not refused";
    } catch (const Error& e) {
      // An operand that overlaps the result in part may be refused, too.
      const bool shared = other >= 0 && slots_[at(other)].base == s.base && dynamic_cast<const AliasError*>(&e);
      if (!refuse && !shared) fault = e.what();
      if (!refuse && shared) text += "shares memory: refused\n";
      if (s.tensor.version() != before) fault = "a refused write happened";
      ++refused;
      return;
    }
    if (saves_result(f) && recorded && needs) remember(tracked);
    steps_.push_back({true, f, k, other, c, !recorded || s.cut});
    ++writes;
  }

  std::mt19937_64 random_;
  bool free_;
  double number_ = 0;
  std::vector<Slot> slots_;
  std::vector<Step> steps_;
  std::vector<int64_t> lengths_;
  std::vector<V> start_;
  std::vector<Tensor> weights_;
  std::vector<std::pair<Tensor, uint32_t>> saved_;
};

V flat(const Tensor& t, std::size_t n) { return t.defined() ? t.detach().to_vector<double>() : V(n, 0.0); }

// Gradients of `loss` by the inputs, or of the sum of their squares.
std::vector<V> gradients(const Tensor& loss, const std::vector<Tensor>& inputs, bool second) {
  std::vector<Tensor> g(inputs.size());
  if (loss.requires_grad()) g = autograd::grad({&loss, 1}, inputs, {}, true, second, true);
  if (second) {
    Tensor squares;
    for (const Tensor& t : g)
      if (t.defined()) squares = squares.defined() ? squares + (t * t).sum() : (t * t).sum();
    for (Tensor& t : g) t.reset();
    if (squares.defined() && squares.requires_grad()) g = autograd::grad({&squares, 1}, inputs, {}, true, false, true);
  }
  std::vector<V> out;
  for (std::size_t i = 0; i < g.size(); ++i) out.push_back(flat(g[i], static_cast<std::size_t>(inputs[i].numel())));
  return out;
}

std::string difference(const std::vector<V>& a, const std::vector<V>& b, double tolerance) {
  for (std::size_t i = 0; i < a.size(); ++i)
    for (std::size_t e = 0; e < a[i].size(); ++e)
      if (!(std::abs(a[i][e] - b[i][e]) <= tolerance * (1 + std::abs(b[i][e]))))
        return "input " + std::to_string(i) + " element " + std::to_string(e) + ": " + std::to_string(a[i][e]) +
               ", expected " + std::to_string(b[i][e]);
  return {};
}

struct Tally {
  int refused = 0, stale = 0, views = 0, writes = 0, compared = 0;
};

std::string check(Program& p, Tally& tally) {
  if (!p.fault.empty()) return p.fault;
  tally.refused += p.refused, tally.views += p.views, tally.writes += p.writes;
  std::vector<Tensor> columns = p.columns(), constants;
  for (std::size_t i = 0; i < 2; ++i) columns[i].requires_grad_();
  const Tensor plain = p.loss(columns, constants, false);
  if (!plain.defined()) return "the values differ";
  const std::vector<Tensor> leaves(columns.begin(), columns.begin() + 2);
  const Tensor loss = p.loss();
  for (const bool second : {false, true}) {
    std::vector<V> mine;
    try {
      mine = gradients(loss, p.inputs, second);
    } catch (const AutogradError& e) {
      if (!p.saved_was_written() || !contains(e.what(), "written in place since")) return e.what();
      ++tally.stale;
      return {};
    }
    const std::string text = difference(mine, gradients(plain, leaves, second), 1e-8);
    if (!text.empty()) return (second ? "second derivative, " : "gradient, ") + text;
    if (second) continue;
    std::vector<V> slopes = mine;
    const NoGradGuard guard;
    const double eps = 1e-5;
    for (std::size_t i = 0; i < 2; ++i)
      for (std::size_t e = 0; e < slopes[i].size(); ++e) {
        const auto side = [&](double by) {
          return p.loss(p.columns(static_cast<int64_t>(i), static_cast<int64_t>(e), by), constants, true)
              .item<double>();
        };
        slopes[i][e] = (side(eps) - side(-eps)) / (2 * eps);
      }
    const std::string slope = difference(mine, slopes, 2e-5);
    if (!slope.empty()) return "finite differences, " + slope;
  }
  ++tally.compared;
  return {};
}

void run(bool free, int count, Tally& tally) {
  const uint64_t seed = tenon::testing::seed();
  for (int i = 0; i < count; ++i) {
    Program p(seed * 1000003u + static_cast<uint64_t>(i), free);
    std::string text;
    try {
      text = check(p, tally);
    } catch (const Error& e) {
      text = std::string("threw: ") + e.what();
    }
    INFO("program " << i << "\n" << p.text << text);
    CHECK(text.empty());
  }
}

}  // namespace

TEST_CASE("random programs of views and writes agree with the same programs without") {
  Tally tally;
  run(false, 300, tally);
  CHECK(tally.compared == 300);
  CHECK(tally.refused > 100);
  CHECK(tally.writes > 300);
  CHECK(tally.views > 600);
}

TEST_CASE("random programs that write what was saved are right or refused") {
  Tally tally;
  run(true, 200, tally);
  CHECK(tally.stale > 10);
  CHECK(tally.compared > 50);
}
