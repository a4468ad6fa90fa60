// SPDX-License-Identifier: Apache-2.0
// Complex numbers and their parts. Gradients follow PyTorch's convention: that of a complex number is the direction in
// which a real loss grows fastest, dL/dre + i dL/dim. abs, sgn and conj, which is computed at once, are in ops/unary.h.
#pragma once

#include <tenon/dispatch/register.h>
#include <tenon/dispatch/registry.h>

namespace tenon {

/// real + i imag; float32 or float64, both alike. The class complex has the shorter name.
TENON_OP(make_complex, "complex(Tensor real, Tensor imag) -> Tensor", kernel, kNoInplace,
         Tensor(const Tensor&, const Tensor&), void())
inline Tensor make_complex(const Tensor& re, const Tensor& im) { return op::make_complex(re, im); }
/// abs (cos(angle) + i sin(angle)); float32 or float64, both alike.
TENON_OP(polar, "polar(Tensor abs, Tensor angle) -> Tensor", composite, kNoInplace,
         Tensor(const Tensor&, const Tensor&), void())
inline Tensor polar(const Tensor& abs, const Tensor& angle) { return op::polar(abs, angle); }
/// A view of complex numbers as pairs of real ones, the new last dimension.
TENON_OP(view_as_real, "view_as_real(Tensor self) -> Tensor", view, kNoInplace, Tensor(const Tensor&), void())
inline Tensor view_as_real(const Tensor& self) { return op::view_as_real(self); }
/// A view of pairs, which lie side by side in the last dimension (at an even place), as complex numbers.
TENON_OP(view_as_complex, "view_as_complex(Tensor self) -> Tensor", view, kNoInplace, Tensor(const Tensor&), void())
inline Tensor view_as_complex(const Tensor& self) { return op::view_as_complex(self); }
/// A view of the real parts; a real tensor itself.
TENON_OP(real, "real(Tensor self) -> Tensor", composite, kNoInplace, Tensor(const Tensor&), void())
inline Tensor real(const Tensor& self) { return op::real(self); }
/// A view of the imaginary parts. A real tensor is an error.
TENON_OP(imag, "imag(Tensor self) -> Tensor", composite, kNoInplace, Tensor(const Tensor&), void())
inline Tensor imag(const Tensor& self) { return op::imag(self); }
/// The angle in (-pi, pi]; of real numbers 0 or pi. Integers give the default float.
TENON_OP(angle, "angle(Tensor self) -> Tensor", kernel, kNoInplace, Tensor(const Tensor&), void())
inline Tensor angle(const Tensor& self) { return op::angle(self); }
/// The tensor itself: none is conjugated or negated lazily.
TENON_OP(resolve_conj, "resolve_conj(Tensor self) -> Tensor", composite, kNoInplace, Tensor(const Tensor&), void())
TENON_ALIAS("resolve_neg", "resolve_conj")
inline bool is_complex(const Tensor& self) { return self.is_complex(); }

}  // namespace tenon
