// SPDX-License-Identifier: Apache-2.0
// Calls by name: overload resolution, binding of arguments, defaults from the schema's text.
#include <tenon/dispatch/registry.h>

#include <cstdlib>

namespace tenon::dispatch {
namespace {

Value parse_default(std::string_view text, ArgType type) {
  if (text == "None") return {};
  if (text == "True") return Value(true);
  if (text == "False") return Value(false);
  if (text.starts_with("[")) {
    std::vector<int64_t> list;
    const std::string inner(text.substr(1, text.size() - 2));
    for (const char* p = inner.c_str(); *p;) {
      char* end = nullptr;
      list.push_back(std::strtoll(p, &end, 10));
      p = *end == ',' ? end + 1 : end;
    }
    return Value(static_cast<std::vector<int64_t>&&>(list));
  }
  if (type == ArgType::string || type == ArgType::optional_string) return Value(text.substr(1, text.size() - 2));
  if (type == ArgType::memory_format || type == ArgType::optional_memory_format) {
    for (const MemoryFormat f : {MemoryFormat::contiguous, MemoryFormat::preserve, MemoryFormat::channels_last})
      if (text == name(f)) return Value(f);
  }
  if (type == ArgType::dtype || type == ArgType::optional_dtype) return Value(parse_dtype(text));
  const std::string number(text);
  if (number.find_first_of(".e") == std::string::npos)
    return Value(static_cast<int64_t>(std::strtoll(number.c_str(), nullptr, 10)));
  return Value(std::strtod(number.c_str(), nullptr));
}

bool is_last_positional(const Schema& schema, const Argument& a) {
  for (const Argument* next = &a + 1; next < schema.arguments + schema.count; ++next)
    if (!next->keyword_only) return false;
  return true;
}

// A list that comes last may be given as its elements: view(x, 2, 3), block_diag(x, y). None when these are no such.
Value joined(std::span<const Value> elements, ArgType list) {
  std::vector<int64_t> integers;
  std::vector<Tensor> tensors;
  for (const Value& v : elements) {
    if (list == ArgType::int_list && v.is_number() && v.number().is_integral())
      integers.push_back(v.number().integer());
    else if (list == ArgType::tensor_list && v.is_tensor())
      tensors.push_back(v.tensor());
    else
      return {};
  }
  return list == ArgType::int_list ? Value(integers) : Value(static_cast<std::vector<Tensor>&&>(tensors));
}

std::vector<Value> run(const OpBase& op, Form form, std::vector<Value>& bound, std::span<const Tensor> destinations) {
  Results results;
  uint32_t mask = thread_state.always;
  const auto grad = [](const Value& v) {
    if (v.is_tensor()) return detail::requires_grad(v.tensor());
    return v.kind() == Value::Kind::tensor_list && detail::requires_grad(TensorList(v.tensors()));
  };
  for (const Value& v : bound) mask |= grad(v) ? thread_state.differentiable : 0u;
  for (const Tensor& t : destinations) mask |= detail::requires_grad(t) ? thread_state.differentiable : 0u;
  if (mask) {
    run_layers(op, form, bound, destinations, results);
  } else {
    op.run_boxed(form, bound, destinations, results);
  }
  std::vector<Value> out;
  for (int i = 0; i < results.count; ++i) out.push_back(static_cast<Value&&>(results.items[i]));
  return out;
}

}  // namespace

bool bind_arguments(const Schema& schema, std::span<const Value> args, const KeywordArguments& kwargs,
                    std::vector<Value>& bound, std::string* reason, bool read_tensors) {
  const auto fail = [&](auto&&... text) {
    if (reason) *reason = tenon::detail::concat(text...);
    return false;
  };
  bound.clear();
  std::size_t next = 0;
  std::size_t used_keywords = 0;
  for (const Argument& a : schema.args()) {
    const Value* given = nullptr;
    if (!a.keyword_only && next < args.size()) given = &args[next++];
    if (given && next < args.size() && is_last_positional(schema, a)) {
      if (Value list = joined(args.subspan(next - 1), a.type); !list.is_none()) {
        bound.push_back(static_cast<Value&&>(list));
        next = args.size();
        continue;
      }
    }
    for (const auto& [key, value] : kwargs) {
      if (key != a.name) continue;
      if (given) return fail("argument ", a.name, " is given twice");
      given = &value;
      ++used_keywords;
    }
    if (!given && !a.has_default)
      return fail("argument ", a.name, " (", kArgTypeNames[static_cast<int>(a.type)], ") is missing");
    bound.push_back(given ? *given : parse_default(a.default_text, a.type));
    Value& v = bound.back();
    // None where a default exists means the default, as PyTorch's optional arguments do.
    if (v.is_none() && a.has_default) v = parse_default(a.default_text, a.type);
    if (!v.coerce(a.type, read_tensors))
      return fail("argument ", a.name, ": expected ", kArgTypeNames[static_cast<int>(a.type)], ", got ", v.kind_name());
  }
  if (next < args.size()) return fail("takes ", schema.count, " arguments, got ", args.size());
  if (used_keywords != kwargs.size()) {
    for (const auto& kv : kwargs) {
      bool known = false;
      for (const Argument& a : schema.args()) known = known || a.name == kv.first;
      if (!known) return fail("has no argument named ", kv.first);
    }
  }
  return true;
}

std::vector<Value> call(std::string_view given, std::vector<Value> args, const KeywordArguments& given_kwargs) {
  std::string name(given);
  KeywordArguments kwargs;
  std::vector<Tensor> destinations;
  Form form = Form::functional;
  for (const auto& kv : given_kwargs) {
    if (kv.first != "out") {
      kwargs.push_back(kv);
      continue;
    }
    if (kv.second.is_none()) continue;
    form = Form::out;
    if (kv.second.is_tensor())
      destinations = {kv.second.tensor()};
    else if (kv.second.kind() == Value::Kind::tensor_list && !kv.second.tensors().empty())
      destinations = kv.second.tensors();
    else if (kv.second.kind() == Value::Kind::tensor_list)
      TENON_CHECK(false, ValueError, given, ": argument out: expected a tensor for the result, got an empty list");
    else
      TENON_CHECK(false, SchemaError, given, ": argument out: expected Tensor or list of Tensor, got ",
                  kv.second.kind_name());
  }
  bool swapped = false;
  std::vector<const OpBase*> candidates = Registry::find(name, &swapped);
  if (candidates.empty() && name.size() > 1) {
    // add_ and add_.Tensor are the in-place form of add.
    const std::size_t dot = name.find('.');
    const std::size_t end = dot == std::string::npos ? name.size() : dot;
    if (name[end - 1] == '_' && !name.starts_with("__")) {
      name.erase(end - 1, 1);
      form = Form::inplace;
      candidates = Registry::find(name, &swapped);
    }
  }
  TENON_CHECK(!candidates.empty(), SchemaError, "no operator is named ", given);
  if (swapped) {
    TENON_CHECK(args.size() >= 2 && (args[0].is_tensor() || given == "__rpow__"), SchemaError, given,
                ": argument self: expected the tensor on the right, got ", args.empty() ? "none" : args[0].kind_name());
    std::swap(args[0], args[1]);
  }
  std::string reasons;
  std::vector<Value> bound;
  for (std::size_t i = 0; i < 2 * candidates.size(); ++i) {
    const OpBase* op = candidates[i % candidates.size()];
    const bool read_tensors = i >= candidates.size();
    std::string reason;
    if (!bind_arguments(op->schema(), args, kwargs, bound, &reason, read_tensors)) {
      if (read_tensors) reasons += tenon::detail::concat("\n  ", op->schema().text, ": ", reason);
      continue;
    }
    if (form == Form::inplace) {
      TENON_CHECK(op->kind() != Kind::view && !op->has(kNoInplace) && !bound.empty() && bound[0].is_tensor(),
                  SchemaError, op->name(), " has no in-place form");
      destinations = {bound[0].tensor()};
    }
    return run(*op, form, bound, destinations);
  }
  TENON_CHECK(false, SchemaError, given, ": no overload fits the arguments:", reasons);
  __builtin_unreachable();
}

}  // namespace tenon::dispatch
