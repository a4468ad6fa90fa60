// SPDX-License-Identifier: Apache-2.0
// All of nn, for users.
#pragma once

#include <tenon/nn/activation.h>
#include <tenon/nn/attention.h>
#include <tenon/nn/clip_grad.h>
#include <tenon/nn/containers.h>
#include <tenon/nn/conv.h>
#include <tenon/nn/dropout.h>
#include <tenon/nn/embedding.h>
#include <tenon/nn/init.h>
#include <tenon/nn/layers.h>
#include <tenon/nn/linear.h>
#include <tenon/nn/loss.h>
#include <tenon/nn/normalization.h>
#include <tenon/nn/padding.h>
#include <tenon/nn/pool.h>
#include <tenon/nn/rnn.h>
#include <tenon/nn/upsample.h>
