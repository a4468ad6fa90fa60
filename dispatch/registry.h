// SPDX-License-Identifier: Apache-2.0
// Registry: every operator handle that is loaded, in no other list. Coverage tables, the conformance runner and the
// "every operator has a test row" test walk it; `call` finds operators in it by name.
#pragma once

#include <tenon/dispatch/op.h>

namespace tenon::dispatch {

/// Another spelling of an operator's name ("true_divide" for "div"); `arguments` unchanged.
struct Alias {
  std::string_view name, target;
};

class TENON_API Registry {
 public:
  /// All handles, sorted by full name. A snapshot: handles of a plugin are valid while it is loaded.
  static std::vector<const OpBase*> all();
  /// Overloads of `name` in declared order (or the one overload when `name` is "max.dim"). Names may be spelled as
  /// PyTorch does: "nn.functional.relu", "linalg.norm", "__radd__" (with swapped = true).
  static std::vector<const OpBase*> find(std::string_view name, bool* swapped = nullptr);
  static void add_alias(Alias alias);

 private:
  friend class OpRegistrar;
  friend class KernelRegistrar;
  friend class GradientRegistrar;
  static void link(const OpBase& op);
  static void unlink(const OpBase& op);
  static void set_cell(const OpBase& op, Backend backend, Key key, const KernelEntry* entry);
  static void clear_cell(const OpBase& op, Backend backend, Key key, const KernelEntry* entry);
  static void set_gradient(const OpBase& op, const Gradient* gradient);
  static void clear_gradient(const OpBase& op, const Gradient* gradient);
};

struct AliasRegistrar {
  AliasRegistrar(std::string_view name, std::string_view target) { Registry::add_alias({name, target}); }
};

using KeywordArguments = std::vector<std::pair<std::string, Value>>;
/// Calls an operator by name: "add", "max.dim", "add_" (in place), keyword "out" (tensor or list) for the out= form.
/// Overloads are tried in declared order,
/// first without and then with reading numbers from 0-dim tensors; SchemaError says why none fits. Passes the layers like a typed call.
TENON_API std::vector<Value> call(std::string_view name, std::vector<Value> args, const KeywordArguments& kwargs = {});

/// Fills positional, keyword and default values in the order of the schema; false (and a reason) when they do not fit.
/// `read_tensors`: 0-dim tensors may stand for numbers, which waits for their device.
TENON_API bool bind_arguments(const Schema& schema, std::span<const Value> args, const KeywordArguments& kwargs,
                              std::vector<Value>& bound, std::string* reason, bool read_tensors = true);
/// Operator x backend x dtype as a Markdown table.
TENON_API std::string coverage_table();

}  // namespace tenon::dispatch

/// Declares another spelling on the line below an operator's TENON_OP; acts in the defining file only.
#if defined(TENON_DEFINE_OPERATORS)
#define TENON_ALIAS(alias, target) \
  static const ::tenon::dispatch::AliasRegistrar TENON_UNIQUE(tenon_alias_)(alias, target);
#else
#define TENON_ALIAS(alias, target)
#endif
