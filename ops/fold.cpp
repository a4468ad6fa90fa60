// SPDX-License-Identifier: Apache-2.0
#define TENON_DEFINE_OPERATORS
#include <tenon/ops/fold.h>

#include <tenon/dispatch/declare_only.h>
//
#include <tenon/dispatch/make_tensor.h>
#include <tenon/ops/view.h>

namespace tenon::impl {
namespace {

/// The blocks of an image of `size`, checked; `who` as users spell it.
PoolWindows blocks(const char* who, IntArrayRef size, IntArrayRef kernel_size, IntArrayRef dilation,
                   IntArrayRef padding, IntArrayRef stride) {
  PoolWindows w;
  const auto list = [&](const char* name, IntArrayRef given, int64_t least, int64_t* to) {
    TENON_CHECK(given.size() == 1 || given.size() == 2, ShapeError, who, ": ", name,
                ": expected two numbers or one, got ", given);
    for (std::size_t d = 0; d < 2; ++d) {
      to[1 + d] = given[given.size() == 1 ? 0 : d];
      TENON_CHECK(to[1 + d] >= least && to[1 + d] <= 0x7fffffff, ValueError, who, ": ", name,
                  ": expected numbers from ", least, " to 2147483647, got ", given);
    }
  };
  list("kernel_size", kernel_size, 1, w.kernel);
  list("dilation", dilation, 1, w.dilation);
  list("padding", padding, 0, w.padding);
  list("stride", stride, 1, w.stride);
  for (std::size_t d = 1; d < 3; ++d) {
    w.in[d] = size[d - 1];
    const int64_t room = w.in[d] + 2 * w.padding[d] - w.dilation[d] * (w.kernel[d] - 1) - 1;
    w.out[d] = room < 0 ? 0 : room / w.stride[d] + 1;
    TENON_CHECK(w.out[d] > 0, ShapeError, who, ": no block of kernel_size ", kernel_size, " and dilation ", dilation,
                " fits into an image of ", size, " with padding ", padding);
  }
  return w;
}

// A contiguous result of the call.
Tensor plain_output(Call& call, IntArrayRef sizes, const Tensor& from) {
  checked_numel(sizes, std::string(call.name()).c_str());
  const Tensor out = call.output(0, sizes, from.dtype(), from.device(), {&from});
  return out.is_contiguous() ? out : dispatch::make_tensor(sizes, from.dtype(), from.device());
}

void check_channels(const char* who, int64_t channels, int64_t factor) {
  TENON_CHECK(channels % factor == 0, ShapeError, who, ": self: expected a number of channels that ", factor,
              " divides, got ", channels);
}

// [..., a, b, c, d]: the leading dimensions of `like` and these.
DimVector with_leading(const Tensor& like, int64_t trailing, std::initializer_list<int64_t> sizes) {
  DimVector r(like.sizes().slice(0, static_cast<std::size_t>(like.dim() - trailing)));
  for (const int64_t s : sizes) r.push_back(s);
  return r;
}
// Swaps of the last dimensions, given from the end.
Tensor permuted(const Tensor& t, std::initializer_list<int64_t> order) {
  DimVector dims;
  for (int64_t d = 0; d < t.dim() - static_cast<int64_t>(order.size()); ++d) dims.push_back(d);
  for (const int64_t d : order) dims.push_back(t.dim() + d);
  return op::permute(t, dims);
}

}  // namespace

Tensor im2col(Call& call, const Tensor& self, IntArrayRef kernel_size, IntArrayRef dilation, IntArrayRef padding,
              IntArrayRef stride) {
  const bool batch = self.dim() == 4;
  TENON_CHECK(
      (batch || self.dim() == 3) && (self.numel() > 0 || (batch && self.size(1) * self.size(2) * self.size(3) > 0)),
      ShapeError, "im2col: self: expected 3 or 4 dimensions, none of size 0 but the batch, got sizes ", self.sizes());
  PoolWindows w = blocks("im2col", self.sizes().slice(batch ? 2 : 1, 2), kernel_size, dilation, padding, stride);
  w.n = batch ? self.size(0) : 1;
  w.channels = self.size(batch ? 1 : 0);
  DimVector sizes{w.n, w.channels * w.window(), w.positions_out()};
  if (!batch) sizes.erase(0);
  const Tensor out = plain_output(call, sizes, self);
  if (out.is_meta()) return out;
  const auto kernel = op::im2col.kernel(self.backend(), dispatch::width_key(self.itemsize()));
  if (out.numel() > 0) kernel(out, self.contiguous(), w);
  return out;
}

Tensor col2im(Call& call, const Tensor& self, IntArrayRef output_size, IntArrayRef kernel_size, IntArrayRef dilation,
              IntArrayRef padding, IntArrayRef stride) {
  TENON_CHECK(output_size.size() == 1 || output_size.size() == 2, ShapeError,
              "fold: output_size: expected two numbers or one, got ", output_size);
  const int64_t size[] = {output_size[0], output_size.back()};
  TENON_CHECK(size[0] > 0 && size[1] > 0 && size[0] <= 0x7fffffff && size[1] <= 0x7fffffff, ValueError,
              "fold: output_size: expected positive numbers, got ", output_size);
  PoolWindows w = blocks("fold", IntArrayRef(size, 2), kernel_size, dilation, padding, stride);
  const bool batch = self.dim() == 3;
  TENON_CHECK((batch || self.dim() == 2) && (self.numel() > 0 || (batch && self.size(1) * self.size(2) > 0)),
              ShapeError, "fold: self: expected 2 or 3 dimensions, none of size 0 but the batch, got sizes ",
              self.sizes());
  const int64_t rows = self.size(-2);
  TENON_CHECK(rows % w.window() == 0, ShapeError, "fold: self: expected a number of rows that the ", w.window(),
              " elements of kernel_size ", kernel_size, " divide, got ", rows);
  TENON_CHECK(self.size(-1) == w.positions_out(), ShapeError, "fold: self: expected ", w.positions_out(),
              " blocks for output_size ", output_size, ", got ", self.size(-1));
  w.n = batch ? self.size(0) : 1;
  w.channels = rows / w.window();
  DimVector sizes{w.n, w.channels, size[0], size[1]};
  if (!batch) sizes.erase(0);
  const Tensor out = plain_output(call, sizes, self);
  if (out.is_meta()) return out;
  const auto kernel = op::col2im.kernel(self.backend(), dispatch::key_of(self.dtype()));
  if (out.numel() > 0) kernel(out, self.contiguous(), w);
  return out;
}

Tensor pixel_shuffle(Call&, const Tensor& self, int64_t r) {
  TENON_CHECK(self.dim() >= 3, ShapeError, "pixel_shuffle: self: expected at least 3 dimensions, got ", self.dim());
  TENON_CHECK(r > 0 && r <= 0x7fffffff, ValueError, "pixel_shuffle: upscale_factor: expected a positive number, got ",
              r);
  const int64_t c = self.size(-3), h = self.size(-2), w = self.size(-1);
  check_channels("pixel_shuffle", c, r * r);
  const Tensor parts = self.reshape(with_leading(self, 3, {c / (r * r), r, r, h, w}));
  return permuted(parts, {-5, -2, -4, -1, -3}).reshape(with_leading(self, 3, {c / (r * r), h * r, w * r}));
}
Tensor pixel_unshuffle(Call&, const Tensor& self, int64_t r) {
  TENON_CHECK(self.dim() >= 3, ShapeError, "pixel_unshuffle: self: expected at least 3 dimensions, got ", self.dim());
  TENON_CHECK(r > 0 && r <= 0x7fffffff, ValueError,
              "pixel_unshuffle: downscale_factor: expected a positive number, got ", r);
  const int64_t c = self.size(-3), h = self.size(-2), w = self.size(-1);
  TENON_CHECK(h % r == 0 && w % r == 0, ShapeError, "pixel_unshuffle: self: expected a height and a width that ", r,
              " divides, got ", h, " and ", w);
  const Tensor parts = self.reshape(with_leading(self, 3, {c, h / r, r, w / r, r}));
  return permuted(parts, {-5, -3, -1, -4, -2}).reshape(with_leading(self, 3, {c * r * r, h / r, w / r}));
}
Tensor channel_shuffle(Call&, const Tensor& self, int64_t groups) {
  TENON_CHECK(self.dim() >= 3, ShapeError, "channel_shuffle: self: expected at least 3 dimensions, got ", self.dim());
  TENON_CHECK(groups > 0, ValueError, "channel_shuffle: groups: expected a positive number, got ", groups);
  const int64_t c = self.size(1);
  check_channels("channel_shuffle", c, groups);
  DimVector parts(self.sizes());
  parts[1] = c / groups;
  parts.insert(1, groups);
  return op::transpose(self.reshape(parts), 1, 2).reshape(self.sizes());
}

}  // namespace tenon::impl
