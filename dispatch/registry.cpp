// SPDX-License-Identifier: Apache-2.0
#include <tenon/dispatch/gradient.h>
#include <tenon/dispatch/register.h>
#include <tenon/dispatch/registry.h>

#include <algorithm>
#include <mutex>

// Bounds of the library (or program) this file became part of, from the linker.
extern "C" {
extern const char __ehdr_start[] __attribute__((visibility("hidden")));
extern const char _end[] __attribute__((visibility("hidden")));
}

namespace tenon::dispatch {

constinit thread_local ThreadState thread_state TENON_INITIAL_EXEC{0, kAutogradLayer, false, false};

namespace {
// Registration runs during static initialisation of several libraries, so the state is made on first use and
// never destroyed.

// What competes for slots in conflict, so that the last one left has its slot again when the others' libraries go.
template <class T>
struct Contenders {
  struct Item {
    const T** slot;
    const T* value;
  };
  std::vector<Item> items;
  void add(const T** slot, const T* value) { items.push_back({slot, value}); }
  /// Takes `value` out; the one that is left alone, or null.
  const T* remove(const T** slot, const T* value) {
    std::erase_if(items, [&](const Item& i) { return i.slot == slot && i.value == value; });
    const T* left = nullptr;
    int count = 0;
    for (const Item& i : items)
      if (i.slot == slot) left = i.value, ++count;
    if (count != 1) return nullptr;
    std::erase_if(items, [&](const Item& i) { return i.slot == slot; });
    return left;
  }
};
struct State {
  std::mutex mutex;
  Contenders<KernelEntry> kernels;
  Contenders<Gradient> gradients;
  const OpBase* first = nullptr;
  std::vector<Alias> aliases;
};
State& state() {
  static State* s = new State;
  return *s;
}
// The same line of the same file, however the compiler was led to it: a SIMD family includes itself by another path.
bool same_site(const char* a, int line_a, const char* b, int line_b) {
  const auto tail = [](std::string_view path) {
    const std::size_t slash = path.rfind('/');
    const std::size_t parent = slash == std::string_view::npos || slash == 0 ? slash : path.rfind('/', slash - 1);
    return parent == std::string_view::npos ? path : path.substr(parent + 1);
  };
  return line_a == line_b && a && b && tail(a) == tail(b);
}
// Marks a cell two kernels compete for; the text is made when somebody asks.
constexpr KernelEntry kConflict{nullptr, nullptr, 0, -1};
constexpr Gradient kGradientConflict{nullptr, 0, 0, 0, 0, false, nullptr, 0};
}  // namespace

const char* key_name(Key key) {
  static constexpr const char* kWidthNames[] = {"1-byte", "2-byte", "4-byte", "8-byte", "16-byte"};
  return key < kDTypes ? name(static_cast<DType>(key)) : kWidthNames[key - kDTypes];
}

void OpBase::missing_kernel(Backend backend, Key key) const {
  const auto row = static_cast<int>(backend == Backend::sim ? Backend::cpu : backend);
  const KernelEntry* entry = __atomic_load_n(&cells_[row][key], __ATOMIC_ACQUIRE);
  TENON_CHECK(entry != &kConflict, RegistrationError, name(), ": two different kernels are registered for ", backend,
              ", ", key_name(key));
  Message m;
  bool any = false;
  for (int b = 0; b < kBackends; ++b) {
    bool started = false;
    for (int k = 0; k < kKeys; ++k) {
      if (!cell(static_cast<Backend>(b), static_cast<Key>(k))) continue;
      m << (started ? ", "
            : any   ? "; "
                    : "")
        << (started ? "" : tenon::name(static_cast<Backend>(b))) << (started ? "" : ": ")
        << key_name(static_cast<Key>(k));
      started = any = true;
    }
  }
  TENON_CHECK(false, DtypeError, name(), ": no kernel for ", backend, ", ", key_name(key),
              ".\nRegistered: ", any ? m.take() : std::string("none"));
  __builtin_unreachable();
}

void OpBase::refuse_undefined(std::span<const bool> undefined) const {
  for (std::size_t i = 0; i < undefined.size(); ++i) {
    const Argument& a = schema_.arguments[i];
    TENON_CHECK(!undefined[i] || (a.type != ArgType::tensor && a.type != ArgType::operand), ValueError, name(),
                ": argument ", a.name,
                ": expected a tensor, got an undefined one (default-constructed, or a gradient that is absent)");
  }
}
void OpBase::refuse_no_destination() const {
  throw ValueError(tenon::detail::concat(name(), ": out: expected a tensor for the result, got an empty list"));
}

std::vector<const OpBase*> Registry::all() {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  std::vector<const OpBase*> ops;
  for (const OpBase* op = s.first; op; op = op->next_) ops.push_back(op);
  std::sort(ops.begin(), ops.end(), [](const OpBase* a, const OpBase* b) { return a->name() < b->name(); });
  return ops;
}

std::vector<const OpBase*> Registry::find(std::string_view given, bool* swapped) {
  if (swapped) *swapped = false;
  std::string name(given);
  const auto strip = [&](std::string_view prefix, std::string_view replacement) {
    if (name.starts_with(prefix)) name = std::string(replacement) + name.substr(prefix.size());
  };
  strip("nn.functional.unfold", "im2col");  // unfold is the view
  strip("nn.functional.", "");
  strip("torch.ops.aten.", "");
  strip("linalg.", "linalg_");
  strip("special.", "special_");
  strip("fft.", "fft_");
  if (swapped && name.size() > 5 && name.starts_with("__r") && name.ends_with("__")) {
    name = name.substr(3, name.size() - 5);
    *swapped = true;
    if (name == "mod") name = "remainder";
    if (name == "and" || name == "or" || name == "xor") name = "bitwise_" + name;
  }
  State& s = state();
  const std::lock_guard lock(s.mutex);
  for (const Alias& a : s.aliases) {
    if (name == a.name) {
      name = std::string(a.target);
      break;
    }
  }
  // An overload after the dot narrows the search when it is one of ours; ATen has more of them (add.Scalar).
  const std::size_t dot = name.find('.');
  const std::string base = name.substr(0, dot);
  std::vector<const OpBase*> found, exact;
  for (const OpBase* op = s.first; op; op = op->next_) {
    if (op->schema().name == base) found.push_back(op);
    if (op->name() == name) exact.push_back(op);
  }
  return dot != std::string::npos && !exact.empty() ? exact : found;
}

void Registry::add_alias(Alias alias) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  for (const Alias& a : s.aliases)
    if (a.name == alias.name) return;
  s.aliases.push_back(alias);
}

void Registry::link(const OpBase& op) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  const OpBase** last = &s.first;
  for (; *last; last = &(*last)->next_)
    if (*last == &op) return;  // a plugin loaded twice under two names may share one handle
  *last = &op;
}

void Registry::unlink(const OpBase& op) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  for (const OpBase** at = &s.first; *at; at = &(*at)->next_) {
    if (*at == &op) {
      *at = op.next_;
      return;
    }
  }
}

void Registry::set_cell(const OpBase& op, Backend backend, Key key, const KernelEntry* entry) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  const KernelEntry*& cell = op.cells_[static_cast<int>(backend)][key];
  const KernelEntry* winner = entry;
  if (cell == &kConflict) return s.kernels.add(&cell, entry);
  if (cell) {
    if (same_site(cell->file, cell->line, entry->file, entry->line)) {
      winner = entry->rank > cell->rank ? entry : cell;
    } else {
      s.kernels.add(&cell, cell);
      s.kernels.add(&cell, entry);
      winner = &kConflict;
    }
  }
  __atomic_store_n(&cell, winner, __ATOMIC_RELEASE);
}

void Registry::clear_cell(const OpBase& op, Backend backend, Key key, const KernelEntry* entry) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  const KernelEntry*& cell = op.cells_[static_cast<int>(backend)][key];
  if (cell == entry) __atomic_store_n(&cell, nullptr, __ATOMIC_RELEASE);
  if (cell != &kConflict) return;
  if (const KernelEntry* left = s.kernels.remove(&cell, entry)) __atomic_store_n(&cell, left, __ATOMIC_RELEASE);
}

void Registry::set_gradient(const OpBase& op, const Gradient* gradient) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  const Gradient* present = op.gradient_;
  if (present && same_site(present->file, present->line, gradient->file, gradient->line)) return;
  if (present) {
    if (present != &kGradientConflict) s.gradients.add(&op.gradient_, present);
    s.gradients.add(&op.gradient_, gradient);
  }
  __atomic_store_n(&op.gradient_, present ? &kGradientConflict : gradient, __ATOMIC_RELEASE);
}

void Registry::clear_gradient(const OpBase& op, const Gradient* gradient) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  if (op.gradient_ == gradient) __atomic_store_n(&op.gradient_, nullptr, __ATOMIC_RELEASE);
  if (op.gradient_ != &kGradientConflict) return;
  if (const Gradient* left = s.gradients.remove(&op.gradient_, gradient))
    __atomic_store_n(&op.gradient_, left, __ATOMIC_RELEASE);
}

namespace {
// What this library registered goes when the registry goes. Taking it out at exit, one registrar after the other, would
// only fail the calls of threads that still compute while the main thread leaves.
bool is_own(const void* registrar) {
  const auto at = reinterpret_cast<uintptr_t>(registrar);
  return at >= reinterpret_cast<uintptr_t>(__ehdr_start) && at < reinterpret_cast<uintptr_t>(_end);
}
}  // namespace

OpRegistrar::OpRegistrar(const OpBase& op) : op_(op) { Registry::link(op); }
OpRegistrar::~OpRegistrar() {
  if (!is_own(this)) Registry::unlink(op_);
}

KernelRegistrar::KernelRegistrar(const OpBase& op, Backend backend, const KeyedEntry* entries, int count)
    : op_(op), backend_(backend), entries_(entries), count_(count) {
  for (int i = 0; i < count; ++i) Registry::set_cell(op, backend, entries[i].key, &entries[i].entry);
}
KernelRegistrar::~KernelRegistrar() {
  if (is_own(this)) return;
  for (int i = 0; i < count_; ++i) Registry::clear_cell(op_, backend_, entries_[i].key, &entries_[i].entry);
}

Gradients::~Gradients() = default;
GradientRegistrar::GradientRegistrar(const OpBase& op, const Gradient& gradient) : op_(op), gradient_(gradient) {
  Registry::set_gradient(op, &gradient);
}
GradientRegistrar::~GradientRegistrar() {
  if (!is_own(this)) Registry::clear_gradient(op_, &gradient_);
}

std::string coverage_table() {
  Message m;
  m << "| operator | cpu | cuda | gradient |\n|---|---|---|---|\n";
  for (const OpBase* op : Registry::all()) {
    m << "| `" << op->name() << "` |";
    for (const Backend b : {Backend::cpu, Backend::cuda}) {
      m << " ";
      bool any = false;
      for (int k = 0; k < kKeys; ++k) {
        if (!op->cell(b, static_cast<Key>(k))) continue;
        m << (any ? " " : "") << key_name(static_cast<Key>(k));
        any = true;
      }
      if (op->kind() == Kind::view) m << "view";
      if (op->kind() == Kind::composite) m << "composite";
      m << " |";
    }
    const Gradient* g = op->gradient();
    m << (op->kind() == Kind::composite                                 ? " through its parts |\n"
          : op->has(kNonDifferentiable) || (g && g->non_differentiable) ? " none |\n"
          : g                                                           ? " yes |\n"
                                                                        : " missing |\n");
  }
  return m.take();
}

}  // namespace tenon::dispatch
