// SPDX-License-Identifier: Apache-2.0
#include "case_reader.h"

#include <tenon/ops/copy.h>
#include <tenon/ops/factory.h>
#include <tenon/ops/view.h>

#include <cmath>

namespace tenon::conformance {

bool is_tensor(const Json& v) { return v.is_object() && v.contains("dtype") && v.contains("shape"); }

double number(const Json& v) {
  if (!v.is_string()) return v.is_boolean() ? (v.get<bool>() ? 1.0 : 0.0) : v.get<double>();
  const std::string s = v.get<std::string>();
  if (s == "nan") return NAN;
  if (s == "inf") return INFINITY;
  if (s == "-inf") return -INFINITY;
  return std::stod(s);
}

namespace {

int64_t integer(const Json& v) {
  if (v.is_string()) return static_cast<int64_t>(std::stoll(v.get<std::string>()));
  return v.is_boolean()          ? v.get<bool>()
         : v.is_number_integer() ? v.get<int64_t>()
                                 : static_cast<int64_t>(v.get<double>());
}

template <class T>
T element(const Json& v) {
  if constexpr (is_complex_v<T>) {
    using R = typename T::value_type;
    return v.is_array() ? T(static_cast<R>(number(v[0])), static_cast<R>(number(v[1]))) : T(static_cast<R>(number(v)));
  } else if constexpr (std::is_same_v<T, bool>) {
    return v.is_boolean() ? v.get<bool>() : number(v) != 0;
  } else if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(integer(v));
  } else {
    return T(static_cast<std::conditional_t<std::is_same_v<T, double>, double, float>>(number(v)));
  }
}

std::vector<int64_t> ints(const Json& v) {
  std::vector<int64_t> out;
  for (const Json& e : v) out.push_back(integer(e));
  return out;
}

// The flat data of `v` in a new contiguous CPU tensor.
Tensor flat_tensor(const Json& v, const char* key, IntArrayRef sizes) {
  const DType t = parse_dtype(v.at("dtype").get<std::string>());
  Tensor out = empty(sizes, t);
  visit_dtype<Join<AllTypes, Float8s>>("case", t, [&](auto tag) {
    using T = typename decltype(tag)::type;
    T* p = static_cast<T*>(out.data_ptr());
    const int64_t n = out.numel();
    if (v.contains("fill")) {
      for (int64_t i = 0; i < n; ++i) p[i] = element<T>(v["fill"]);
    } else if (v.contains("bits")) {
      for (int64_t i = 0; i < n; ++i) {
        const uint64_t bits = std::stoull(v["bits"][static_cast<std::size_t>(i)].get<std::string>(), nullptr, 16);
        __builtin_memcpy(p + i, &bits, sizeof(T) < 8 ? sizeof(T) : 8);
      }
    } else {
      const Json& data = v.at(key);
      TENON_CHECK(static_cast<int64_t>(data.size()) == n, ShapeError, "case: ", data.size(), " values for sizes ",
                  sizes);
      for (int64_t i = 0; i < n; ++i) p[i] = element<T>(data[static_cast<std::size_t>(i)]);
    }
  });
  return out;
}

}  // namespace

Tensor CaseReader::expected(const Json& v) { return flat_tensor(v, "data", ints(v.at("shape"))); }

CaseReader::CaseReader(const Json& test, Device device, Layout layout) : device_(device), layout_(layout) {
  if (!test.contains("storages")) return;
  for (const auto& [name, v] : test["storages"].items()) storages_[name] = expected(v).to(device);
}

Tensor CaseReader::laid_out(const Tensor& t) const {
  const dispatch::BelowLayersGuard below;
  const auto filled = [&](Tensor view) {
    view.copy_(t);
    return view;
  };
  switch (layout_) {
    case Layout::as_given:
      return t;
    case Layout::transposed: {
      if (t.dim() < 2) return t;
      return filled(empty_like(t.transpose(0, -1).contiguous()).transpose(0, -1));
    }
    case Layout::every_second: {
      if (t.dim() == 0) return t;
      DimVector sizes(t.sizes());
      sizes[sizes.size() - 1] *= 2;
      return filled(zeros(sizes, t.options()).slice(-1, 0, {}, 2));
    }
    case Layout::shifted: {
      const int64_t n = t.numel();
      return filled(zeros(IntArrayRef(n + 1), t.options()).slice(0, 1).view(t.sizes()));
    }
    case Layout::expanded: {
      // Dimensions of size 1 get stride 0, as expand leaves them.
      DimVector strides(t.contiguous().strides());
      for (std::size_t d = 0; d < strides.size(); ++d)
        if (t.sizes()[d] == 1) strides[d] = 0;
      return t.contiguous().as_strided(t.sizes(), strides);
    }
  }
  return t;
}

Tensor CaseReader::tensor(const Json& v) {
  if (v.contains("storage")) {
    // A view of its own flat storage.
    const Json& data = v["storage"];
    Json flat = {{"dtype", v["dtype"]}, {"shape", {data.size()}}, {"data", data}};
    return expected(flat).to(device_).as_strided(ints(v["shape"]), ints(v["stride"]), v.value("offset", int64_t{0}));
  }
  const Tensor contiguous = expected(v).to(device_);
  if (v.contains("stride_like")) {
    Tensor view = dispatch::call("empty_strided", {contiguous.sizes(), ints(v["stride_like"])},
                                 {{"dtype", contiguous.dtype()}, {"device", device_}})[0]
                      .tensor();
    return view.copy_(contiguous);
  }
  return laid_out(contiguous);
}

std::vector<TensorIndex> CaseReader::indices(const Json& v) {
  std::vector<TensorIndex> list;
  const auto bound = [](const Json& e) { return e.is_null() ? std::optional<int64_t>() : integer(e); };
  for (const Json& e : v.is_array() ? v : Json::array({v})) {
    if (e.is_null())
      list.emplace_back(None);
    else if (e.is_boolean())
      list.emplace_back(e.get<bool>());
    else if (e.is_number())
      list.emplace_back(integer(e));
    else if (e.is_array())
      list.emplace_back(tensor({{"dtype", "int64"}, {"shape", {e.size()}}, {"data", e}}));
    else if (e.contains("slice"))
      list.emplace_back(Slice(bound(e["slice"][0]), bound(e["slice"][1]), bound(e["slice"][2]).value_or(1)));
    else if (e.contains("ellipsis"))
      list.emplace_back(Ellipsis);
    else
      list.emplace_back(value(e).tensor());
  }
  return list;
}

dispatch::Value CaseReader::value(const Json& v) {
  using dispatch::Value;
  if (v.is_null()) return {};
  if (v.is_boolean()) return Value(v.get<bool>());
  if (v.is_number_integer()) return Value(v.get<int64_t>());
  if (v.is_number()) return Value(v.get<double>());
  if (v.is_string()) {
    const std::string s = v.get<std::string>();
    if (s == "cpu") return Value(device_);
    if (s == "nan" || s == "inf" || s == "-inf") return Value(number(v));
    const bool digits = s.find_first_not_of("0123456789", s[0] == '-' ? 1 : 0) == std::string::npos;
    return digits && s != "-" && !s.empty() ? Value(integer(v)) : Value(s);  // integers beyond 2^53 come as text
  }
  if (v.is_array()) {
    const auto whole = [&](const Json& e) {
      if (!e.is_string() && !e.is_number_integer()) return e.is_boolean();
      const Value item = value(e);
      return item.is_number() && item.number().is_integral();
    };
    bool tensors = false, integers = true;
    for (const Json& e : v) {
      tensors = tensors || is_tensor(e) || (e.is_object() && e.contains("of"));
      integers = integers && whole(e);
    }
    if (tensors) {
      std::vector<Tensor> list;
      for (const Json& e : v) {
        const Value item = value(e);
        list.push_back(item.is_tensor() ? item.tensor() : Tensor());  // null among the indices
      }
      return Value(std::move(list));
    }
    if (integers) return Value(ints(v));
    std::vector<Tensor> numbers;  // what takes a list of numbers takes tensors of no dimension
    for (const Json& e : v) {
      const Value item = value(e);
      TENON_CHECK(item.is_number(), SchemaError, "case: a list of other values than tensors and numbers");
      numbers.push_back(scalar_tensor(item.number(), kFloat64));
    }
    return Value(std::move(numbers));
  }
  if (is_tensor(v)) return Value(tensor(v));
  if (v.contains("of"))
    return Value(storages_.at(v["of"].get<std::string>())
                     .as_strided(ints(v["shape"]), ints(v["stride"]), v.value("offset", int64_t{0})));
  if (v.contains("dtype")) return Value(parse_dtype(v["dtype"].get<std::string>()));
  if (v.contains("scalar")) return Value(number(v["scalar"]));
  if (v.contains("complex")) return Value(Scalar(complex<double>(number(v["complex"][0]), number(v["complex"][1]))));
  if (v.contains("device")) return Value(device_);
  if (v.contains("memory_format")) {
    const std::string name = v["memory_format"].get<std::string>();
    if (name.find("channels_last_3d") != std::string::npos) return Value(MemoryFormat::channels_last_3d);
    if (name.find("channels_last") != std::string::npos) return Value(MemoryFormat::channels_last);
    return Value(name.find("preserve") != std::string::npos ? MemoryFormat::preserve : MemoryFormat::contiguous);
  }
  TENON_CHECK(false, SchemaError, "case: unknown value ", v.dump());
}

}  // namespace tenon::conformance
