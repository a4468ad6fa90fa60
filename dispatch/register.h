// SPDX-License-Identifier: Apache-2.0
// The macros that declare operators and register kernels. An operator is written once, in the header of its
// family:
//
//   TENON_OP(softplus, "softplus(Tensor self, float beta=1) -> Tensor", kernel, kPlain,
//            Tensor(const Tensor&, double), void(const LoopPlan&, double))
//
// Included normally this declares `op::softplus`. The one source file that says TENON_DEFINE_OPERATORS before it
// includes the header also defines the handle and links it into the registry; the implementation is the function
// `impl::softplus(Call&, const Tensor&, double)` of that file. Handles are never inline: a unique symbol would
// pin a plugin in memory for ever.
#pragma once

#include <tenon/dispatch/op.h>

namespace tenon::dispatch {

/// Links a handle into the registry for the life of its library.
class TENON_API OpRegistrar {
 public:
  explicit OpRegistrar(const OpBase& op);
  ~OpRegistrar();
  OpRegistrar(const OpRegistrar&) = delete;

 private:
  const OpBase& op_;
};

struct KeyedEntry {
  Key key;
  KernelEntry entry;
};

/// Fills cells for the life of its library. Equal registrations (same file and line) are kept once, the highest
/// rank wins; two different kernels for one cell make the cell throw RegistrationError at its first use.
class TENON_API KernelRegistrar {
 public:
  KernelRegistrar(const OpBase& op, Backend backend, const KeyedEntry* entries, int count);
  ~KernelRegistrar();
  KernelRegistrar(const KernelRegistrar&) = delete;

 private:
  const OpBase& op_;
  Backend backend_;
  const KeyedEntry* entries_;
  int count_;
};

template <int N>
struct KeyedEntries {
  KeyedEntry items[N];
};

/// The table behind one TENON_REGISTER_KERNEL: `pick(tag)` returns the kernel for tag's type.
template <class Op, class... Ts, class Pick>
KeyedEntries<sizeof...(Ts)> keyed_entries(Types<Ts...>, Pick pick, const char* file, int line, int rank) {
  return {{KeyedEntry{
      kKeyOf<Ts>,
      {reinterpret_cast<AnyFunction>(static_cast<typename Op::Kernel*>(pick(TypeTag<Ts>{}))), file, line, rank}}...}};
}

}  // namespace tenon::dispatch

namespace tenon {
using dispatch::Call;
using dispatch::kNoInplace;
using dispatch::kNonDeterministic;
using dispatch::kNonDifferentiable;
using dispatch::kNotCapturable;
using dispatch::kPlain;
using dispatch::Width;
using dispatch::Widths;
}  // namespace tenon

#define TENON_DECLARE_OP_(name, ...)                              \
  namespace op {                                                  \
  extern TENON_API const ::tenon::dispatch::Op<__VA_ARGS__> name; \
  }
#define TENON_DEFINE_OP_(name, schema, kind, flags, implementation, ...)                                          \
  namespace op {                                                                                                  \
  extern TENON_API constinit const ::tenon::dispatch::Op<__VA_ARGS__> name{schema, ::tenon::dispatch::Kind::kind, \
                                                                           flags, implementation};                \
  }                                                                                                               \
  static const ::tenon::dispatch::OpRegistrar TENON_UNIQUE(tenon_op_){op::name};

#if defined(TENON_DEFINE_OPERATORS)
#define TENON_OP(name, schema, kind, flags, ...)           \
  TENON_DECLARE_OP_(name, __VA_ARGS__)                     \
  namespace impl {                                         \
  ::tenon::dispatch::Op<__VA_ARGS__>::Implementation name; \
  }                                                        \
  TENON_DEFINE_OP_(name, schema, kind, flags, &impl::name, __VA_ARGS__)
/// As TENON_OP, with a shared implementation given by expression instead of impl::name.
#define TENON_OP_WITH(name, schema, kind, flags, implementation, ...) \
  TENON_DECLARE_OP_(name, __VA_ARGS__)                                \
  TENON_DEFINE_OP_(name, schema, kind, flags, implementation, __VA_ARGS__)
#else
#define TENON_OP(name, schema, kind, flags, ...) TENON_DECLARE_OP_(name, __VA_ARGS__)
#define TENON_OP_WITH(name, schema, kind, flags, implementation, ...) TENON_DECLARE_OP_(name, __VA_ARGS__)
#endif

/// TENON_REGISTER_KERNEL(op::add, cpu, Numbers, add_cpu): add_cpu<T> serves key dtype T of every T in Numbers.
#define TENON_REGISTER_KERNEL(handle, backend, types, function) \
  TENON_REGISTER_KERNEL_(handle, backend, types, function, 0, __FILE__, __COUNTER__)
/// For a source file that includes itself once per SIMD target, under different names: the file is the one compiled.
#define TENON_REGISTER_KERNEL_RANKED(handle, backend, types, function, rank) \
  TENON_REGISTER_KERNEL_(handle, backend, types, function, rank, __BASE_FILE__, __COUNTER__)
#define TENON_REGISTER_KERNEL_(handle, backend, types, function, rank, file, id) \
  TENON_REGISTER_KERNEL_NAMED_(handle, backend, types, function, rank, file, id)
#define TENON_REGISTER_KERNEL_NAMED_(handle, backend, types, function, rank, file, id)                            \
  static const auto tenon_entries_##id = ::tenon::dispatch::keyed_entries<std::remove_cvref_t<decltype(handle)>>( \
      types{}, [](auto tag) { return &function<typename decltype(tag)::type>; }, file, __LINE__, rank);           \
  static const ::tenon::dispatch::KernelRegistrar tenon_kernels_##id(handle, ::tenon::Backend::backend,           \
                                                                     tenon_entries_##id.items, types::size)
