// SPDX-License-Identifier: Apache-2.0
// elementwise(plan, f): runs a lambda over the elements of a plan, whatever its shapes and strides.
//   elementwise(plan, [](float a, float b) { return a + b; });            scalars; the compiler vectorises the loop
//   elementwise<T>(plan, [](auto d, auto v) HWY_ATTR { return Abs(v); });  Highway vectors of float or double
// The scalar form takes and returns the types it computes in (float for the 16-bit floats); two outputs are a
// Pair. Inside kernels/cpu the header is read once per SIMD target, between targets.h and the kernels; anywhere else
// it offers the scalar form in tenon::cpu.
#include <tenon/kernels/cpu/run_plan.h>

#ifndef TENON_KERNELS_CPU_LOOPS_COMMON
#define TENON_KERNELS_CPU_LOOPS_COMMON
namespace tenon::cpu {

/// What a body with two outputs returns.
template <class A, class B = A>
struct Pair {
  A first;
  B second;
};
template <class R>
inline constexpr bool is_pair_v = false;
template <class A, class B>
inline constexpr bool is_pair_v<Pair<A, B>> = true;
template <class F>
concept ScalarBody = requires {
  &F::operator();
};

}  // namespace tenon::cpu
#endif

#if (defined(HWY_NAMESPACE) && (defined(TENON_KERNELS_CPU_LOOPS_TARGET) == defined(HWY_TARGET_TOGGLE))) || \
    (!defined(HWY_NAMESPACE) && !defined(TENON_KERNELS_CPU_LOOPS_PLAIN))
#if defined(HWY_NAMESPACE)
#ifdef TENON_KERNELS_CPU_LOOPS_TARGET
#undef TENON_KERNELS_CPU_LOOPS_TARGET
#else
#define TENON_KERNELS_CPU_LOOPS_TARGET
#endif
HWY_BEFORE_NAMESPACE();
namespace tenon::cpu::HWY_NAMESPACE {
#else
#define TENON_KERNELS_CPU_LOOPS_PLAIN
namespace tenon::cpu {
#endif

// `ivdep`: an output is an input's array exactly or not at all, so no iteration reads what another one wrote.
template <class F, class R, class A>
void run_scalar(const F& f, R* out, const A* a, int64_t n) {
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) out[i] = f(a[i]);
}
template <class F, class R, class A, class B>
void run_scalar(const F& f, R* out, const A* a, const B* b, int64_t n) {
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) out[i] = f(a[i], b[i]);
}
template <class F, class R, class A, class B, class C>
void run_scalar(const F& f, R* out, const A* a, const B* b, const C* c, int64_t n) {
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) out[i] = f(a[i], b[i], c[i]);
}
template <class F, class R, class S, class... A>
void run_scalar_pair(const F& f, R* first, S* second, int64_t n, const A*... in) {
  for (int64_t i = 0; i < n; ++i) {
    const Pair<R, S> r = f(in[i]...);
    first[i] = r.first;
    second[i] = r.second;
  }
}

// The body of a scalar lambda F with result R and arguments A.
template <class F, class R, class... A>
struct ScalarLoop {
  static void run(const void* body, char* const* data, int64_t n) {
    step(*static_cast<const F*>(body), data, n, std::index_sequence_for<A...>());
  }
  template <std::size_t... I>
  static void step(const F& f, char* const* data, int64_t n, std::index_sequence<I...>) {
    if constexpr (is_pair_v<R>)
      run_scalar_pair(f, reinterpret_cast<decltype(R::first)*>(data[0]),
                      reinterpret_cast<decltype(R::second)*>(data[1]), n, reinterpret_cast<const A*>(data[2 + I])...);
    else
      run_scalar(f, reinterpret_cast<R*>(data[0]), reinterpret_cast<const A*>(data[1 + I])..., n);
  }
  static constexpr RunBody body(const F& f, int64_t grain) {
    if constexpr (is_pair_v<R>)
      return {&run, &f, {dtype_of<decltype(R::first)>(), dtype_of<decltype(R::second)>(), dtype_of<A>()...}, grain};
    else
      return {&run, &f, {dtype_of<R>(), dtype_of<A>()...}, grain};
  }
};

template <class F, class R, class... A>
void elementwise_as(const LoopPlan& plan, const F& f, int64_t grain, R (F::*)(A...) const) {
  run_body(plan, ScalarLoop<F, R, std::remove_cvref_t<A>...>::body(f, grain), sizeof...(A) + (is_pair_v<R> ? 2 : 1));
}

/// Runs the scalar lambda f over the plan's elements. `grain`: elements below which one thread does it all.
template <class F>
requires ScalarBody<F>
void elementwise(const LoopPlan& plan, const F& f, int64_t grain = kGrain) {
  elementwise_as(plan, f, grain, &F::operator());
}

#if defined(HWY_NAMESPACE)
namespace hn = hwy::HWY_NAMESPACE;

// The body of a vector lambda F: one output of T, `Inputs` inputs of T. The rest of a vector is loaded and stored
// under a mask.
template <class F, class T, int kInputs>
void run_vector_body(const void* body, char* const* data, int64_t n) {
  const F& f = *static_cast<const F*>(body);
  const hn::ScalableTag<T> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  T* out = reinterpret_cast<T*>(data[0]);
  const T* a = reinterpret_cast<const T*>(data[1]);
  [[maybe_unused]] const T* b = reinterpret_cast<const T*>(kInputs > 1 ? data[2] : data[1]);
  [[maybe_unused]] const T* c = reinterpret_cast<const T*>(kInputs > 2 ? data[3] : data[1]);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    if constexpr (kInputs == 1) hn::StoreU(f(d, hn::LoadU(d, a + i)), d, out + i);
    if constexpr (kInputs == 2) hn::StoreU(f(d, hn::LoadU(d, a + i), hn::LoadU(d, b + i)), d, out + i);
    if constexpr (kInputs == 3)
      hn::StoreU(f(d, hn::LoadU(d, a + i), hn::LoadU(d, b + i), hn::LoadU(d, c + i)), d, out + i);
  }
  if (i == n) return;
  const auto rest = hn::FirstN(d, static_cast<std::size_t>(n - i));
  if constexpr (kInputs == 1) hn::BlendedStore(f(d, hn::MaskedLoad(rest, d, a + i)), rest, d, out + i);
  if constexpr (kInputs == 2)
    hn::BlendedStore(f(d, hn::MaskedLoad(rest, d, a + i), hn::MaskedLoad(rest, d, b + i)), rest, d, out + i);
  if constexpr (kInputs == 3)
    hn::BlendedStore(
        f(d, hn::MaskedLoad(rest, d, a + i), hn::MaskedLoad(rest, d, b + i), hn::MaskedLoad(rest, d, c + i)), rest, d,
        out + i);
}

/// Runs f(d, v...), a lambda of Highway vectors, over the plan's elements. T: float or double, or a 16-bit float, which
/// f gets as float. Functors shared by several T are compiled once for float.
template <class T, class F>
void elementwise(const LoopPlan& plan, const F& f, int64_t grain = kGrain) {
  using C = compute_t<T>;
  using D = hn::ScalableTag<C>;
  using V = hn::Vec<D>;
  constexpr int kInputs = std::is_invocable_v<F, D, V> ? 1 : std::is_invocable_v<F, D, V, V> ? 2 : 3;
  constexpr DType t = dtype_of<C>();
  run_body(plan, {&run_vector_body<F, C, kInputs>, &f, {t, t, t, t}, grain}, kInputs + 1);
}
#endif

#if defined(HWY_NAMESPACE)
}  // namespace tenon::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#else
}  // namespace tenon::cpu
#endif
#endif
