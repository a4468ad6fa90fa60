// SPDX-License-Identifier: Apache-2.0
// All of nn, for users.
#pragma once

#include <tenon/nn/clip_grad.h>
#include <tenon/nn/init.h>
#include <tenon/nn/layers.h>
#include <tenon/nn/sequential.h>
