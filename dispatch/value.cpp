// SPDX-License-Identifier: Apache-2.0
#include <tenon/dispatch/value.h>

namespace tenon::dispatch {

void Value::set_ints(IntArrayRef list) {
  count_ = static_cast<uint32_t>(list.size());
  if (count_ > kInlineInts) heap_ = new int64_t[count_];
  int64_t* to = count_ > kInlineInts ? heap_ : ints_;
  for (std::size_t i = 0; i < list.size(); ++i) to[i] = list[i];
}

void Value::copy_other(const Value& o) {
  switch (o.kind_) {
    case Kind::tensor_list:
      tensors_ = new std::vector<Tensor>(*o.tensors_);
      break;
    case Kind::int_list:
      set_ints(o.ints());
      break;
    case Kind::string:
      string_ = new std::string(*o.string_);
      break;
    case Kind::dtype:
      dtype_ = o.dtype_;
      break;
    case Kind::device:
      device_ = o.device_;
      break;
    case Kind::memory_format:
      format_ = o.format_;
      break;
    default:  // inline
      break;
  }
  kind_ = o.kind_;
}

void Value::take_other(Value& o) noexcept {
  switch (o.kind_) {
    case Kind::tensor_list:
      tensors_ = o.tensors_;
      break;
    case Kind::string:
      string_ = o.string_;
      break;
    case Kind::int_list:
      count_ = o.count_;
      if (count_ > kInlineInts) {
        heap_ = o.heap_;
        break;
      }
      [[fallthrough]];
    default:
      copy_other(o);
      break;
  }
  kind_ = o.kind_;
  o.kind_ = Kind::none;
}

void Value::clear_other() noexcept {
  if (kind_ == Kind::tensor_list) delete tensors_;
  if (kind_ == Kind::string) delete string_;
  if (kind_ == Kind::int_list && count_ > kInlineInts) delete[] heap_;
}

const char* Value::kind_name() const {
  switch (kind_) {
    case Kind::none:
      return "None";
    case Kind::tensor:
      return tensor_.defined() ? "Tensor" : "undefined Tensor";
    case Kind::tensor_list:
      return "list of Tensor";
    case Kind::number:
      return number_.is_bool() ? "bool" : number_.is_integral() ? "int" : number_.is_complex() ? "complex" : "float";
    case Kind::int_list:
      return "list of int";
    case Kind::string:
      return "str";
    case Kind::dtype:
      return "dtype";
    case Kind::device:
      return "device";
    case Kind::memory_format:
      return "memory_format";
  }
  return "?";
}

bool Value::coerce(ArgType type, bool read_tensors) {
  const auto one_element = [&] {
    return read_tensors && is_tensor() && tensor_.defined() && tensor_.numel() == 1 && tensor_.dim() == 0;
  };
  switch (type) {
    case ArgType::optional_tensor:
      if (is_none()) *this = Value(Tensor());
      return is_tensor();
    case ArgType::tensor:
      return is_tensor() && tensor_.defined();
    case ArgType::tensor_list:
      if (kind_ == Kind::int_list && count_ == 0) *this = Value(std::vector<Tensor>());
      if (is_tensor() && tensor_.defined()) *this = Value(std::vector<Tensor>{tensor_});
      return kind_ == Kind::tensor_list;
    case ArgType::operand:
      return is_number() || (is_tensor() && tensor_.defined());
    case ArgType::optional_scalar:
      if (is_none()) return true;
      [[fallthrough]];
    case ArgType::scalar:
      if (one_element()) *this = Value(tensor_.item());
      return is_number();
    case ArgType::optional_integer:
      if (is_none()) return true;
      [[fallthrough]];
    case ArgType::integer:
      if (one_element() && is_integral(tensor_.dtype())) *this = Value(tensor_.item());
      return is_number() && number_.is_integral();
    case ArgType::optional_int_list:
      if (is_none()) return true;
      [[fallthrough]];
    case ArgType::int_list:
      if (is_number() && number_.is_integral()) *this = Value(IntArrayRef(number_.integer()));
      if (kind_ == Kind::tensor_list && tensors_->empty()) *this = Value(IntArrayRef());
      return kind_ == Kind::int_list;
    case ArgType::optional_floating:
      if (is_none()) return true;
      [[fallthrough]];
    case ArgType::floating:
      if (one_element()) *this = Value(tensor_.item());
      return is_number() && !number_.is_complex();
    case ArgType::optional_boolean:
      if (is_none()) return true;
      [[fallthrough]];
    case ArgType::boolean:
      return is_number() && (number_.is_bool() || number_.is_integral());
    case ArgType::optional_string:
      if (is_none()) return true;
      [[fallthrough]];
    case ArgType::string:
      return kind_ == Kind::string;
    case ArgType::optional_dtype:
      if (is_none()) return true;
      [[fallthrough]];
    case ArgType::dtype:
      return kind_ == Kind::dtype;
    case ArgType::optional_device:
      if (is_none()) return true;
      [[fallthrough]];
    case ArgType::device:
      return kind_ == Kind::device;
    case ArgType::optional_memory_format:
      if (is_none()) return true;
      [[fallthrough]];
    case ArgType::memory_format:
      return kind_ == Kind::memory_format;
  }
  return false;
}

}  // namespace tenon::dispatch
