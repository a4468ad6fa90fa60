// SPDX-License-Identifier: Apache-2.0
#include <tenon/autograd/accumulate_grad.h>
#include <tenon/autograd/anomaly.h>
#include <tenon/autograd/hooks.h>
#include <tenon/core/operand.h>
#include <tenon/core/stack_trace.h>
#include <tenon/dispatch/thread_state.h>

#include <stdexcept>
#include <typeinfo>

namespace tenon::autograd {

constinit thread_local int anomaly_level TENON_INITIAL_EXEC = 0;

AnomalyMode::AnomalyMode(bool check_nan) : previous_(anomaly_level) { anomaly_level = check_nan ? 2 : 1; }
AnomalyMode::~AnomalyMode() { anomaly_level = previous_; }

void remember_site(Node& node) {
  void* frames[kMaxStackFrames];
  const int n = capture_stack(frames, kMaxStackFrames);
  node.set_site(std::vector<void*>(frames, frames + n));  // braces would make a list of two
}

namespace {
// The innermost functions outside the library.
std::string describe(const Node& node) {
  const NodeHooks* hooks = node.hooks();
  if (hooks && !hooks->site.empty()) return "\n  recorded at " + site_text(hooks->site);
  return dynamic_cast<const AccumulateGrad*>(&node) ? "" : " (recorded outside anomaly mode)";
}

// Throws E(text) if the exception is exactly an E.
template <class... E>
void throw_same(const std::exception& e, const std::string& text) {
  const auto one = [&]<class T>(const T*) {
    if (typeid(e) == typeid(T)) throw T(text);
  };
  (one(static_cast<const E*>(nullptr)), ...);
}

std::string& last_place() {
  thread_local std::string place;
  return place;
}

bool has_nan(std::span<const Tensor> tensors) {
  const NoGradGuard guard;
  for (const Tensor& t : tensors)
    if (t.defined() && t.numel() > 0 && t.ne(t).any().item<bool>()) return true;
  return false;
}
}  // namespace

void apply_checked(Node& node, std::span<Tensor> grads, std::span<Tensor> results) {
  const bool check = anomaly_level == 2 && !has_nan(grads);
  node.apply(grads, results);
  TENON_CHECK(!check || !has_nan(results), AutogradError, "backward of ", node.name(),
              " gave NaN from gradients without NaN");
}

void rethrow_with_place(const Node& node) {
  const std::string place = describe(node);
  last_place() = place;
  try {
    throw;
  } catch (const AutogradError& e) {
    throw_same<AutogradError>(e, e.what() + place);
    throw;
  } catch (const std::exception& e) {
    const std::string text = tenon::detail::concat("backward of ", node.name(), ": ", e.what(), place);
    if (typeid(e) == typeid(OutOfMemoryError))
      throw OutOfMemoryError(text, static_cast<const OutOfMemoryError&>(e).numbers());
    throw_same<Error, ShapeError, DtypeError, DeviceError, IndexError, ValueError, AliasError, SchemaError,
               RegistrationError, IoError, CudaError, ArchError, CaptureError, LibraryError, InternalError,
               std::runtime_error, std::logic_error, std::invalid_argument, std::out_of_range, std::domain_error,
               std::length_error, std::range_error>(e, text);
    throw;
  }
}

std::string anomaly_place() { return last_place(); }

}  // namespace tenon::autograd
