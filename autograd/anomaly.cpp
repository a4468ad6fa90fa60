// SPDX-License-Identifier: Apache-2.0
#include <tenon/autograd/anomaly.h>
#include <tenon/autograd/hooks.h>
#include <tenon/core/operand.h>
#include <tenon/core/stack_trace.h>
#include <tenon/dispatch/thread_state.h>

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
std::string describe(const NodeHooks* hooks) {
  if (!hooks || hooks->site.empty()) return " (recorded outside anomaly mode)";
  return "\n  recorded at " + site_text(hooks->site);
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
  try {
    node.apply(grads, results);
  } catch (const AutogradError& e) {
    throw AutogradError(e.what() + describe(node.hooks()));
  } catch (const Error& e) {
    throw AutogradError(tenon::detail::concat("backward of ", node.name(), ": ", e.what(), describe(node.hooks())));
  }
  TENON_CHECK(!check || !has_nan(results), AutogradError, "backward of ", node.name(),
              " gave NaN from gradients without NaN", describe(node.hooks()));
}

}  // namespace tenon::autograd
