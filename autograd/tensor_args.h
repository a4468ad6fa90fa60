// SPDX-License-Identifier: Apache-2.0
// TensorArgs: a parameter that takes one tensor, tensors in braces, or any list of them, so that grad(loss, w),
// grad({loss}, {w, b}) and grad(loss, model.parameters()) are one function. It owns what it is made of from braces, single
// tensors and temporary vectors, and refers to other lists. of_list: functions of users as functions of a list.
#pragma once

#include <tenon/autograd/arguments.h>

namespace tenon::autograd {

/// For parameters (const TensorArgs&). Made from nothing, {} or nullopt it is empty and not given().
class TensorArgs {
 public:
  TensorArgs() = default;
  // NOLINTBEGIN(google-explicit-constructor)
  TensorArgs(std::nullopt_t) {}
  TensorArgs(const Tensor& t) : one_(t), view_(&one_, 1), given_(true) {}
  TensorArgs(std::initializer_list<Tensor> list) : own_(list), view_(own_), given_(true) {}
  TensorArgs(std::vector<Tensor>&& list) : own_(static_cast<std::vector<Tensor>&&>(list)), view_(own_), given_(true) {}
  TensorArgs(const Tensor* first, std::size_t count) : view_(first, count), given_(true) {}
  template <class List>
  requires(std::is_convertible_v<const List&, TensorList>) TensorArgs(const List& list) : view_(list), given_(true) {}
  template <class List>
  requires(std::is_convertible_v<const List&, TensorList>) TensorArgs(const std::optional<List>& list)
      : view_(list ? TensorList(*list) : TensorList()), given_(list.has_value()) {}
  // NOLINTEND(google-explicit-constructor)
  TensorArgs(const TensorArgs&) = delete;
  TensorArgs& operator=(const TensorArgs&) = delete;

  operator TensorList() const { return view_; }  // NOLINT(google-explicit-constructor)
  bool given() const { return given_; }
  bool empty() const { return view_.empty(); }
  std::size_t size() const { return view_.size(); }
  const Tensor* begin() const { return view_.data(); }
  const Tensor* end() const { return view_.data() + view_.size(); }
  const Tensor& operator[](std::size_t i) const { return view_[i]; }

 private:
  Tensor one_;
  std::vector<Tensor> own_;
  TensorList view_;
  bool given_ = false;
};

/// Any function of tensors.
using TensorFunction = tenon::Function<std::vector<Tensor>(TensorList inputs)>;

namespace internal {
template <class F>
concept OfOneTensor = std::is_invocable_r_v<Tensor, F&, const Tensor&>;

template <class T>
std::vector<Tensor> listed(const T& results) {
  static_assert(kTensorsIn<T>, "tenon: the function returns a Tensor, or a tuple, pair, vector or array of them");
  std::vector<Tensor> list;
  collect(list, results);
  return list;
}
inline void expect_inputs(std::size_t expected, TensorList in) {
  TENON_CHECK(in.size() == expected, ValueError, "the function takes ", expected,
              expected == 1 ? " tensor" : " tensors", "; expected as many inputs, got ", in.size());
}

/// Calls `f` with the list, a vector, or each tensor as an argument (up to four). Refers to `f`.
template <class F>
TensorFunction of_list(F& f) {
  if constexpr (std::is_invocable_v<F&, TensorList>)
    return [&f](TensorList in) { return listed(f(in)); };
  else if constexpr (std::is_invocable_v<F&, const std::vector<Tensor>&>)
    return [&f](TensorList in) { return listed(f(std::vector<Tensor>(in.begin(), in.end()))); };
  else if constexpr (std::is_invocable_v<F&, const Tensor&>)
    return [&f](TensorList in) { return expect_inputs(1, in), listed(f(in[0])); };
  else if constexpr (std::is_invocable_v<F&, const Tensor&, const Tensor&>)
    return [&f](TensorList in) { return expect_inputs(2, in), listed(f(in[0], in[1])); };
  else if constexpr (std::is_invocable_v<F&, const Tensor&, const Tensor&, const Tensor&>)
    return [&f](TensorList in) { return expect_inputs(3, in), listed(f(in[0], in[1], in[2])); };
  else if constexpr (std::is_invocable_v<F&, const Tensor&, const Tensor&, const Tensor&, const Tensor&>)
    return [&f](TensorList in) { return expect_inputs(4, in), listed(f(in[0], in[1], in[2], in[3])); };
  else
    static_assert(kTensorsIn<F>,
                  "tenon: the function takes a TensorList, a std::vector<Tensor>, or one to four tensors");
}
template <OfOneTensor F>
TensorFunction of_one(F& f) {
  return [&f](TensorList in) { return listed(Tensor(f(in[0]))); };
}
}  // namespace internal

}  // namespace tenon::autograd
