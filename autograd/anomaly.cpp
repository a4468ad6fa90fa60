// SPDX-License-Identifier: Apache-2.0
#include <tenon/autograd/anomaly.h>
#include <tenon/autograd/hooks.h>
#include <tenon/core/operand.h>
#include <tenon/dispatch/thread_state.h>

#include <cxxabi.h>
#include <dlfcn.h>
#include <execinfo.h>

#include <cstdlib>

namespace tenon::autograd {

constinit thread_local int anomaly_level = 0;

AnomalyMode::AnomalyMode(bool check_nan) : previous_(anomaly_level) { anomaly_level = check_nan ? 2 : 1; }
AnomalyMode::~AnomalyMode() { anomaly_level = previous_; }

void remember_site(Node& node) {
  void* frames[48];
  const int n = backtrace(frames, 48);
  node.set_site({frames, frames + n});
}

namespace {
// The innermost functions outside the library, by name where the program exports names, else by address.
std::string describe(const NodeHooks* hooks) {
  if (!hooks || hooks->site.empty()) return " (recorded outside anomaly mode)";
  Dl_info own{};
  dladdr(reinterpret_cast<void*>(&remember_site), &own);
  std::string text = "\n  recorded at";
  int shown = 0;
  for (void* address : hooks->site) {
    Dl_info info{};
    if (!dladdr(address, &info) || info.dli_fbase == own.dli_fbase) continue;
    if (shown++ == 4) break;
    int status = 0;
    char* plain = info.dli_sname ? abi::__cxa_demangle(info.dli_sname, nullptr, nullptr, &status) : nullptr;
    text += tenon::detail::concat(
        shown > 1 ? " < " : " ",
        plain            ? plain
        : info.dli_sname ? info.dli_sname
                         : info.dli_fname,
        plain || info.dli_sname ? "" : "+",
        plain || info.dli_sname ? std::string()
                                : std::to_string(static_cast<char*>(address) - static_cast<char*>(info.dli_fbase)));
    std::free(plain);
  }
  return shown ? text : std::string();
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
