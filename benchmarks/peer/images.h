// SPDX-License-Identifier: Apache-2.0
// Rows of padding, interpolation and sampling, as in families.h: m seen as images, p as the places of samples.
#pragma once

#define TENON_IMAGE_ROWS(ROW)                                                                                          \
  ROW("constant_pad_nd", 8, constant_pad_nd(in.m.view({-1, 16, 256, 256}), {1, 1, 1, 1}, 0))                           \
  ROW("reflection_pad2d", 8, reflection_pad2d(in.m.view({-1, 16, 256, 256}), {1, 1, 1, 1}))                            \
  ROW("upsample_nearest2d", 20, upsample_nearest2d(in.m.view({-1, 16, 256, 256}), {512, 512}))                         \
  ROW("upsample_bilinear2d", 20, upsample_bilinear2d(in.m.view({-1, 16, 256, 256}), {512, 512}, false))                \
  ROW("upsample_bicubic2d", 20, upsample_bicubic2d(in.m.view({-1, 16, 256, 256}), {512, 512}, false))                  \
  ROW("upsample_trilinear3d", 36, upsample_trilinear3d(in.m.view({-1, 4, 16, 128, 128}), {32, 256, 256}, false))       \
  ROW("grid_sampler_2d", 8.5,                                                                                          \
      grid_sampler_2d(in.m.view({-1, 16, 256, 256}), in.p.slice(0, 0, in.p.numel() / 8).view({-1, 256, 256, 2}), 0, 0, \
                      false))
