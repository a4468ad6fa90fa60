// SPDX-License-Identifier: Apache-2.0
// Schema: an operator's name, arguments, defaults and results, parsed at compile time from one string such as
//   "max.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)"
// It is the only source of argument names and defaults. A C++ signature that disagrees does not compile.
#pragma once

#include <tenon/core/operand.h>

#include <string_view>

namespace tenon::dispatch {

enum class ArgType : uint8_t {
  tensor,
  optional_tensor,
  tensor_list,
  operand,
  scalar,
  optional_scalar,
  integer,
  optional_integer,
  int_list,
  optional_int_list,
  floating,
  optional_floating,
  boolean,
  optional_boolean,
  string,
  optional_string,
  dtype,
  optional_dtype,
  device,
  optional_device,
  memory_format,
  optional_memory_format
};
/// As written in schemas, in the order of ArgType.
inline constexpr std::string_view kArgTypeNames[] = {
    "Tensor", "Tensor?", "Tensor[]", "Tensor|Scalar", "Scalar",        "Scalar?",       "int", "int?",
    "int[]",  "int[]?",  "float",    "float?",        "bool",          "bool?",         "str", "str?",
    "dtype",  "dtype?",  "device",   "device?",       "memory_format", "memory_format?"};

struct Argument {
  std::string_view name;
  std::string_view default_text;  ///< as written; empty when there is no default
  ArgType type = ArgType::tensor;
  bool has_default = false;
  bool keyword_only = false;
};

struct Schema {
  static constexpr int kMaxArguments = 14;
  std::string_view text;      ///< the whole string
  std::string_view name;      ///< "max"
  std::string_view overload;  ///< "dim", or empty
  std::string_view returns;   ///< text after the arrow
  Argument arguments[kMaxArguments];
  int count = 0;
  int results = 1;  ///< 0 for a list of tensors whose length depends on the arguments

  std::span<const Argument> args() const { return {arguments, static_cast<std::size_t>(count)}; }
  /// "max.dim"
  std::string_view full_name() const {
    return text.substr(0, name.size() + (overload.empty() ? 0 : 1 + overload.size()));
  }
};

namespace detail {
constexpr std::string_view trim(std::string_view s) {
  while (!s.empty() && s.front() == ' ') s.remove_prefix(1);
  while (!s.empty() && s.back() == ' ') s.remove_suffix(1);
  return s;
}
constexpr ArgType parse_type(std::string_view s) {
  for (std::size_t i = 0; i < std::size(kArgTypeNames); ++i)
    if (kArgTypeNames[i] == s) return static_cast<ArgType>(i);
  throw "schema: unknown argument type";
}
}  // namespace detail

/// Throws (at compile time: does not compile) when the text is not a schema.
constexpr Schema parse_schema(std::string_view text) {
  Schema schema;
  schema.text = text;
  const std::size_t open = text.find('(');
  if (open == std::string_view::npos) throw "schema: ( is missing";
  const std::string_view full = detail::trim(text.substr(0, open));
  const std::size_t dot = full.find('.');
  schema.name = full.substr(0, dot);
  if (dot != std::string_view::npos) schema.overload = full.substr(dot + 1);
  // The closing parenthesis of the arguments: defaults hold no parentheses, only brackets.
  const std::size_t close = text.find(')', open);
  const std::size_t arrow = text.find("->", close);
  if (close == std::string_view::npos || arrow == std::string_view::npos) throw "schema: ) or -> is missing";
  bool keyword_only = false;
  std::size_t from = open + 1;
  while (from < close) {
    std::size_t to = from;
    for (int depth = 0; to < close && (depth > 0 || text[to] != ','); ++to) {
      if (text[to] == '[') ++depth;
      if (text[to] == ']') --depth;
    }
    const std::string_view item = detail::trim(text.substr(from, to - from));
    from = to + 1;
    if (item == "*") {
      keyword_only = true;
      continue;
    }
    const std::size_t space = item.find(' ');
    if (space == std::string_view::npos) throw "schema: an argument needs a type and a name";
    if (schema.count == Schema::kMaxArguments) throw "schema: too many arguments";
    Argument& a = schema.arguments[schema.count++];
    a.type = detail::parse_type(item.substr(0, space));
    const std::size_t equals = item.find('=');
    a.name = item.substr(space + 1, equals == std::string_view::npos ? equals : equals - space - 1);
    if (equals != std::string_view::npos) {
      a.has_default = true;
      a.default_text = item.substr(equals + 1);
    }
    a.keyword_only = keyword_only;
  }
  schema.returns = detail::trim(text.substr(arrow + 2));
  schema.results = schema.returns == "Tensor[]" ? 0 : 1;
  if (schema.returns.starts_with("("))
    for (const char c : schema.returns) schema.results += c == ',' ? 1 : 0;
  return schema;
}

namespace detail {
template <class T>
inline constexpr int kArgTypeOf = -1;
#define TENON_ARG_TYPE(T, value) \
  template <>                    \
  inline constexpr int kArgTypeOf<T> = static_cast<int>(ArgType::value)
TENON_ARG_TYPE(const Tensor&, tensor);
TENON_ARG_TYPE(TensorList, tensor_list);
TENON_ARG_TYPE(const Operand&, operand);
TENON_ARG_TYPE(const Scalar&, scalar);
TENON_ARG_TYPE(const std::optional<Scalar>&, optional_scalar);
TENON_ARG_TYPE(int64_t, integer);
TENON_ARG_TYPE(std::optional<int64_t>, optional_integer);
TENON_ARG_TYPE(IntArrayRef, int_list);
TENON_ARG_TYPE(std::optional<IntArrayRef>, optional_int_list);
TENON_ARG_TYPE(double, floating);
TENON_ARG_TYPE(std::optional<double>, optional_floating);
TENON_ARG_TYPE(bool, boolean);
TENON_ARG_TYPE(std::optional<bool>, optional_boolean);
TENON_ARG_TYPE(std::string_view, string);
TENON_ARG_TYPE(std::optional<std::string_view>, optional_string);
TENON_ARG_TYPE(DType, dtype);
TENON_ARG_TYPE(std::optional<DType>, optional_dtype);
TENON_ARG_TYPE(Device, device);
TENON_ARG_TYPE(std::optional<Device>, optional_device);
TENON_ARG_TYPE(MemoryFormat, memory_format);
TENON_ARG_TYPE(std::optional<MemoryFormat>, optional_memory_format);
#undef TENON_ARG_TYPE

/// "Tensor?" is a const Tensor& that may be undefined; everything else matches exactly.
constexpr bool type_matches(ArgType schema, int type) {
  if (schema == ArgType::optional_tensor) return type == static_cast<int>(ArgType::tensor);
  return static_cast<int>(schema) == type;
}
}  // namespace detail

/// The schema, after checking it against the C++ argument types.
template <class... Args>
consteval Schema checked_schema(std::string_view text) {
  const Schema schema = parse_schema(text);
  if (schema.count != static_cast<int>(sizeof...(Args)))
    throw "schema: the C++ signature has another number of arguments";
  const int types[] = {detail::kArgTypeOf<Args>..., 0};
  for (int i = 0; i < schema.count; ++i)
    if (!detail::type_matches(schema.arguments[i].type, types[i])) throw "schema: an argument's C++ type differs";
  return schema;
}

}  // namespace tenon::dispatch
