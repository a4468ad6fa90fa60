// SPDX-License-Identifier: Apache-2.0
#define TENON_DEFINE_OPERATORS
#include <tenon/ops/pad.h>

#include <tenon/dispatch/declare_only.h>
//
#include <tenon/dispatch/make_tensor.h>
#include <tenon/ops/copy.h>
#include <tenon/ops/factory.h>
#include <tenon/ops/rearrange.h>
#include <tenon/ops/reduce.h>
#include <tenon/ops/view.h>

#include <algorithm>

namespace tenon {
namespace detail {
bool holds(DType t, const Scalar& value);                                            // ops/factory.cpp
DimVector format_strides(const Tensor& like, MemoryFormat format, const char* who);  // ops/copy.cpp
}  // namespace detail

namespace {

int64_t entries(IntArrayRef list) { return static_cast<int64_t>(list.size()); }

AxisMap map_of(std::string_view who, std::string_view mode) {
  if (mode == "reflect") return AxisMap::reflect;
  if (mode == "replicate") return AxisMap::replicate;
  TENON_CHECK(mode == "circular", ValueError, who,
              ": mode: expected 'constant', 'reflect', 'replicate' or 'circular', got '", mode, "'");
  return AxisMap::circular;
}

// Both numbers of dimension d of a tensor with `rank` dimensions; zeros where pad says nothing.
struct Ends {
  int64_t before = 0, after = 0;
  Ends(IntArrayRef pad, int64_t rank, int64_t d) {
    const auto k = static_cast<std::size_t>(2 * (rank - 1 - d));
    if (k < pad.size()) before = pad[k], after = pad[k + 1];
  }
  int64_t total(std::string_view who, int64_t size) const {
    int64_t sum = 0;
    const bool fits = !__builtin_add_overflow(before, after, &sum) && !__builtin_add_overflow(sum, size, &sum);
    TENON_CHECK(fits && sum >= 0, ShapeError, who, ": pad: ", before, " and ", after, " leave a dimension of size ",
                size, fits ? " with less than nothing" : " with too many entries");
    return sum;
  }
};

// The dimensions that `pad` is about, checked for the modes other than constant.
int64_t check_edges(std::string_view who, const Tensor& self, IntArrayRef pad, AxisMap map) {
  const int64_t spatial = entries(pad) / 2;
  TENON_CHECK(entries(pad) % 2 == 0 && spatial >= 1 && spatial <= 3, ShapeError, who,
              ": pad: expected 2, 4 or 6 numbers for the last 1 to 3 dimensions, got ", pad);
  TENON_CHECK(self.dim() == spatial + 1 || self.dim() == spatial + 2, ShapeError, who, ": self: expected ", spatial + 1,
              " or ", spatial + 2, " dimensions for the padding ", pad, ", got sizes ", self.sizes());
  // An empty batch is fine; whatever else is copied from must be there.
  for (int64_t d = self.dim() - spatial - (map == AxisMap::circular ? 0 : 1); d < self.dim(); ++d)
    TENON_CHECK(self.size(d) > 0 || (map == AxisMap::circular && Ends(pad, self.dim(), d).total(who, 0) == 0),
                ShapeError, who, ": self: expected no empty dimension but the batch, got sizes ", self.sizes());
  for (int64_t d = self.dim() - spatial; d < self.dim(); ++d) {
    const Ends ends(pad, self.dim(), d);
    const int64_t size = self.size(d), most = std::max(ends.before, ends.after), out = ends.total(who, size);
    TENON_CHECK(map != AxisMap::reflect || most < size, ShapeError, who, ": pad: reflection needs less than the size, ",
                size, ", of dimension ", d, ", got ", ends.before, " and ", ends.after);
    TENON_CHECK(map != AxisMap::circular || most <= size, ShapeError, who, ": pad: dimension ", d, " of size ", size,
                " goes around once at most, got ", ends.before, " and ", ends.after);
    TENON_CHECK(map == AxisMap::circular || out > 0, ShapeError, who, ": pad: ", ends.before, " and ", ends.after,
                " leave nothing of dimension ", d, " of size ", size);
  }
  return spatial;
}

// Slices along d without the negative ends.
Tensor cropped(const Tensor& self, IntArrayRef pad) {
  Tensor x = self;
  for (int64_t d = 0; d < self.dim(); ++d) {
    const Ends ends(pad, self.dim(), d);
    const int64_t before = std::max<int64_t>(-ends.before, 0), after = std::max<int64_t>(-ends.after, 0);
    if (before > 0 || after > 0) x = x.slice(d, std::min(before, x.size(d)), std::max(x.size(d) - after, before));
  }
  return x;
}

Tensor padded(std::string_view who, int64_t spatial, const Tensor& self, IntArrayRef padding, std::string_view mode) {
  TENON_CHECK(entries(padding) == 2 * spatial, ShapeError, who, ": padding: expected ", 2 * spatial, " numbers, got ",
              padding);
  check_edges(who, self, padding, map_of(who, mode));
  return op::pad_edges(self, padding, mode);
}
Tensor padded_backward(std::string_view who, int64_t spatial, const Tensor& grad, const Tensor& self,
                       IntArrayRef padding, std::string_view mode) {
  TENON_CHECK(entries(padding) == 2 * spatial, ShapeError, who, ": padding: expected ", 2 * spatial, " numbers, got ",
              padding);
  check_edges(who, self, padding, map_of(who, mode));
  DimVector sizes(self.sizes());
  for (int64_t d = 0; d < self.dim(); ++d)
    sizes[static_cast<std::size_t>(d)] = Ends(padding, self.dim(), d).total(who, self.size(d));
  TENON_CHECK(grad.sizes() == IntArrayRef(sizes), ShapeError, who, ": grad_output: expected sizes ", IntArrayRef(sizes),
              ", got ", grad.sizes());
  return op::pad_edges_backward(grad, padding, mode);
}

}  // namespace

namespace impl {

Tensor constant_pad_nd(Call& call, const Tensor& self, IntArrayRef pad, const Scalar& value) {
  TENON_CHECK(entries(pad) % 2 == 0 && entries(pad) <= 2 * self.dim(), ShapeError,
              "constant_pad_nd: pad: expected two numbers for each of at most ", self.dim(), " dimensions, got ", pad);
  TENON_CHECK(detail::holds(self.dtype(), value), ValueError, "constant_pad_nd: value: ", value, " does not fit the ",
              self.dtype(), " of self");
  DimVector sizes(self.sizes());
  bool grows = false;
  for (int64_t d = 0; d < self.dim(); ++d) {
    const Ends ends(pad, self.dim(), d);
    sizes[static_cast<std::size_t>(d)] = ends.total("constant_pad_nd", self.size(d));
    grows = grows || ends.before > 0 || ends.after > 0;
    TENON_CHECK(std::max<int64_t>(-ends.before, 0) <= self.size(d) - std::max<int64_t>(-ends.after, 0), ShapeError,
                "constant_pad_nd: pad: ", ends.before, " and ", ends.after, " cut off more than dimension ", d,
                " has, ", self.size(d));
  }
  checked_numel(sizes, "constant_pad_nd");
  DimVector strides;
  for (const auto format : {MemoryFormat::channels_last, MemoryFormat::channels_last_3d})
    if (!self.is_contiguous() && self.is_contiguous(format))
      strides = detail::format_strides(dispatch::make_tensor(sizes, self.dtype(), kMeta), format, "constant_pad_nd");
  Tensor out = call.output(0, sizes, self.dtype(), self.device(), {&self}, strides);
  if (out.is_meta() || out.numel() == 0) return out;
  if (grows) out.fill_(value);
  const Tensor from = cropped(self, pad);
  if (from.numel() == 0) return out;
  Tensor inside = out;
  for (int64_t d = 0; d < self.dim(); ++d) {
    const int64_t before = std::max<int64_t>(Ends(pad, self.dim(), d).before, 0);
    inside = inside.slice(d, before, before + from.size(d));
  }
  inside.copy_(from);
  return out;
}

Tensor pad_edges(Call& call, const Tensor& self, IntArrayRef pad, std::string_view mode) {
  const AxisMap map = map_of("_pad_edges", mode);
  const int64_t spatial = check_edges("_pad_edges", self, pad, map), rank = self.dim();
  const Tensor x = map == AxisMap::circular ? cropped(self, pad) : self;  // what is cut off is not gone around
  GridAxis axes[3];
  for (int64_t k = 0; k < spatial; ++k) {
    const int64_t d = rank - spatial + k;
    const Ends ends(pad, rank, d);
    axes[k].in = x.size(d);
    axes[k].out = ends.total("_pad_edges", self.size(d));
    axes[k].shift = map == AxisMap::circular ? std::max<int64_t>(ends.before, 0) : ends.before;
    axes[k].map = map;
    TENON_CHECK(axes[k].in > 0 || axes[k].out == 0, ShapeError, "_pad_edges: pad: ", ends.before, " and ", ends.after,
                " leave nothing of dimension ", d, " to go around");
  }
  const detail::GridTensors t(call, x, {axes, static_cast<std::size_t>(spatial)});
  if (t.any()) op::pad_edges.kernel(t.out.backend(), dispatch::width_key(t.out.itemsize()))(t.out, t.self, t.grid);
  return t.finish();
}

// Folds what lies before and after each dimension onto where it came from, one dimension after the other.
Tensor pad_edges_backward(Call& call, const Tensor& grad_output, IntArrayRef pad, std::string_view mode) {
  const AxisMap map = map_of("_pad_edges_backward", mode);
  const int64_t rank = grad_output.dim();
  DimVector sizes(grad_output.sizes()), taken(pad.size());
  for (std::size_t k = 0; k < pad.size(); ++k) taken[k] = std::max<int64_t>(-pad[k], 0);
  for (int64_t d = 0; d < rank; ++d) {
    const Ends ends(pad, rank, d);
    sizes[static_cast<std::size_t>(d)] -= ends.before + ends.after;
  }
  checked_numel(sizes, "_pad_edges_backward");
  const Tensor out = call.output(0, sizes, grad_output.dtype(), grad_output.device(), {&grad_output});
  if (out.is_meta() || out.numel() == 0) return out;
  const DType t = grad_output.dtype();
  Tensor sum = op::constant_pad_nd(grad_output, taken, 0).to(t == kFloat16 || t == kBFloat16 ? kFloat32 : t);
  for (int64_t d = 0; d < rank; ++d) {
    const Ends ends(pad, rank, d);
    const int64_t before = std::max<int64_t>(ends.before, 0), after = std::max<int64_t>(ends.after, 0);
    const int64_t cut = map == AxisMap::circular ? std::max<int64_t>(-ends.before, 0) : 0;
    const int64_t n =
        sum.size(d) - before - after - cut - (map == AxisMap::circular ? std::max<int64_t>(-ends.after, 0) : 0);
    const Tensor inside = sum.slice(d, before, sum.size(d) - after);
    const auto add = [&](int64_t at, const Tensor& part) {
      Tensor to = inside.slice(d, at, at + part.size(d));
      to.add_(part);
    };
    for (const bool first : {true, false}) {
      const int64_t length = first ? before : after;
      if (length == 0) continue;
      const Tensor part = first ? sum.slice(d, 0, before) : sum.slice(d, sum.size(d) - after);
      if (map == AxisMap::reflect) {
        add(first ? 1 : n - 1 - length, op::flip(part, d));
      } else if (map == AxisMap::replicate) {
        add(first ? 0 : n - 1, op::sum(part, d, true, std::nullopt));
      } else {
        for (int64_t done = 0; done < length;) {  // more than once around what was left after cropping
          const int64_t step = std::min(length - done, n);
          const int64_t from = first ? length - done - step : done;
          add(cut + (first ? n - step : 0), part.slice(d, from, from + step).clone());
          done += step;
        }
      }
    }
    sum = inside;
  }
  Tensor(out).copy_(sum);
  return out;
}

Tensor pad(Call&, const Tensor& self, IntArrayRef pad, std::string_view mode, const std::optional<Scalar>& value) {
  if (mode == "constant") {
    TENON_CHECK(entries(pad) % 2 == 0 && entries(pad) <= 2 * self.dim(), ShapeError,
                "pad: pad: expected two numbers for each of at most ", self.dim(), " dimensions, got ", pad);
    return op::constant_pad_nd(self, pad, value.value_or(0));
  }
  const AxisMap map = map_of("pad", mode);
  TENON_CHECK(!value || value->equal(0), ValueError, "pad: value: only mode 'constant' takes one, got ", *value,
              " with '", mode, "'");
  check_edges("pad", self, pad, map);
  return op::pad_edges(self, pad, mode);
}
Tensor pad_enum(Call&, const Tensor& self, IntArrayRef pad, int64_t mode, const std::optional<Scalar>& value) {
  TENON_CHECK(mode >= 0 && mode <= 3, ValueError, "_pad_enum: mode: expected 0 to 3, got ", mode);
  constexpr std::string_view names[] = {"reflect", "replicate", "circular", "constant"};
  return op::pad(self, pad, names[mode], value);
}
Tensor pad_circular(Call&, const Tensor& self, IntArrayRef pad) {
  check_edges("_pad_circular", self, pad, AxisMap::circular);
  return op::pad_edges(self, pad, "circular");
}

// clang-format off
#define TENON_PAD_OPS(name, spatial, mode) \
  Tensor name(Call&, const Tensor& self, IntArrayRef padding) { return padded(#name, spatial, self, padding, mode); } \
  Tensor name##_backward(Call&, const Tensor& grad_output, const Tensor& self, IntArrayRef padding) { return padded_backward(#name "_backward", spatial, grad_output, self, padding, mode); }
TENON_PAD_OPS(reflection_pad1d, 1, "reflect")
TENON_PAD_OPS(reflection_pad2d, 2, "reflect")
TENON_PAD_OPS(reflection_pad3d, 3, "reflect")
TENON_PAD_OPS(replication_pad1d, 1, "replicate")
TENON_PAD_OPS(replication_pad2d, 2, "replicate")
TENON_PAD_OPS(replication_pad3d, 3, "replicate")
#undef TENON_PAD_OPS
// clang-format on

}  // namespace impl
}  // namespace tenon
