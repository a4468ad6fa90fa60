// SPDX-License-Identifier: Apache-2.0
// Copies of a tensor in another order, repeated, or with a part replaced, and the size of a tensor changed in place.
//
//   flip, fliplr, flipud    the order of entries reversed along `dims`, along dimension 1, along dimension 0
//   roll                    entry i moves to i + shift along each of `dims`, around the end; without dims in row-major order
//   rot90                   k quarter turns from dimension dims[0] towards dims[1]
//   repeat, tile            the whole repeated along each dimension. tile takes fewer numbers than there are dimensions
//   repeat_interleave       every entry of `dim` (none: of all) repeated in place, as often as `repeats` says: a number, or
//                           int64 or int32 numbers, one for all or one for each. The length of the result is known at once
//                           when `output_size` gives it, else a device is waited for. `repeat_interleave(repeats)`: the
//                           numbers of the entries, repeated.
//   select_scatter, slice_scatter, diagonal_scatter, as_strided_scatter
//                           a copy of self in which what the view of that name shows is `src`; as_strided_scatter is for
//                           tensors without gaps
//   resize, resize_as       x.resize_({2, 3}) of PyTorch, in place: op::resize.inplace(x, x, {2, 3}, {}). Keeps the elements
//                           in the order of memory; new ones are not initialised. resize_as takes the sizes of a tensor.
#pragma once

#include <tenon/dispatch/register.h>
#include <tenon/dispatch/registry.h>

namespace tenon {

// clang-format off
#define TENON_REARRANGE(name, kind, flags, schema, types) TENON_OP(name, schema, kind, flags, Tensor types, void())
#define TENON_REARRANGE_FN(name, kind, schema, types, function, parameters, ...) \
  TENON_REARRANGE(name, kind, kNoInplace, schema, types) \
  inline Tensor function parameters { return op::name(__VA_ARGS__); }
TENON_REARRANGE_FN(flip, kernel, "flip(Tensor self, int[] dims) -> Tensor", (const Tensor&, IntArrayRef), flip, (const Tensor& self, IntArrayRef dims), self, dims)
TENON_REARRANGE_FN(fliplr, composite, "fliplr(Tensor self) -> Tensor", (const Tensor&), fliplr, (const Tensor& self), self)
TENON_REARRANGE_FN(flipud, composite, "flipud(Tensor self) -> Tensor", (const Tensor&), flipud, (const Tensor& self), self)
TENON_REARRANGE_FN(roll, composite, "roll(Tensor self, int[] shifts, int[] dims=[]) -> Tensor", (const Tensor&, IntArrayRef, IntArrayRef), roll, (const Tensor& self, IntArrayRef shifts, IntArrayRef dims = {}), self, shifts, dims)
TENON_REARRANGE_FN(rot90, composite, "rot90(Tensor self, int k=1, int[] dims=[0,1]) -> Tensor", (const Tensor&, int64_t, IntArrayRef), rot90, (const Tensor& self, int64_t k = 1, IntArrayRef dims = {0, 1}), self, k, dims)
TENON_REARRANGE_FN(repeat, composite, "repeat(Tensor self, int[] repeats) -> Tensor", (const Tensor&, IntArrayRef), repeat, (const Tensor& self, IntArrayRef repeats), self, repeats)
TENON_REARRANGE_FN(tile, composite, "tile(Tensor self, int[] dims) -> Tensor", (const Tensor&, IntArrayRef), tile, (const Tensor& self, IntArrayRef dims), self, dims)
TENON_REARRANGE_FN(repeat_interleave, composite, "repeat_interleave.self_int(Tensor self, int repeats, int? dim=None, *, int? output_size=None) -> Tensor", (const Tensor&, int64_t, std::optional<int64_t>, std::optional<int64_t>), repeat_interleave, (const Tensor& self, int64_t repeats, std::optional<int64_t> dim = {}), self, repeats, dim, {})
TENON_REARRANGE_FN(repeat_interleave_each, composite, "repeat_interleave.self_Tensor(Tensor self, Tensor repeats, int? dim=None, *, int? output_size=None) -> Tensor", (const Tensor&, const Tensor&, std::optional<int64_t>, std::optional<int64_t>), repeat_interleave, (const Tensor& self, const Tensor& repeats, std::optional<int64_t> dim = {}, std::optional<int64_t> output_size = {}), self, repeats, dim, output_size)
TENON_REARRANGE(repeated_places, dynamic, kNoInplace | kNonDifferentiable | kNotCapturable, "repeat_interleave.Tensor(Tensor repeats, *, int? output_size=None) -> Tensor", (const Tensor&, std::optional<int64_t>))
TENON_REARRANGE(select_scatter, composite, kNoInplace, "select_scatter(Tensor self, Tensor src, int dim, int index) -> Tensor", (const Tensor&, const Tensor&, int64_t, int64_t))
TENON_REARRANGE(slice_scatter, composite, kNoInplace, "slice_scatter(Tensor self, Tensor src, int dim=0, int? start=None, int? end=None, int step=1) -> Tensor", (const Tensor&, const Tensor&, int64_t, std::optional<int64_t>, std::optional<int64_t>, int64_t))
TENON_REARRANGE(diagonal_scatter, composite, kNoInplace, "diagonal_scatter(Tensor self, Tensor src, int offset=0, int dim1=0, int dim2=1) -> Tensor", (const Tensor&, const Tensor&, int64_t, int64_t, int64_t))
TENON_REARRANGE(as_strided_scatter, composite, kNoInplace, "as_strided_scatter(Tensor self, Tensor src, int[] size, int[] stride, int? storage_offset=None) -> Tensor", (const Tensor&, const Tensor&, IntArrayRef, IntArrayRef, std::optional<int64_t>))
TENON_REARRANGE(resize, kernel, kNonDifferentiable, "resize(Tensor self, int[] size, *, memory_format? memory_format=None) -> Tensor", (const Tensor&, IntArrayRef, std::optional<MemoryFormat>))
TENON_REARRANGE(resize_as, kernel, kNonDifferentiable, "resize_as(Tensor self, Tensor the_template, *, memory_format? memory_format=None) -> Tensor", (const Tensor&, const Tensor&, std::optional<MemoryFormat>))
// clang-format on
#undef TENON_REARRANGE
#undef TENON_REARRANGE_FN

}  // namespace tenon
