// SPDX-License-Identifier: Apache-2.0
// Everything a program written with tenon needs. The library itself never includes this.
#pragma once

#include <tenon/autograd/autograd.h>
#include <tenon/autograd/checkpoint.h>
#include <tenon/autograd/function.h>
#include <tenon/autograd/functional.h>
#include <tenon/autograd/graph_dot.h>
#include <tenon/core/index.h>
#include <tenon/core/print.h>
#include <tenon/data/safetensors.h>
#include <tenon/memory/allocator.h>
#include <tenon/nn/nn.h>
#include <tenon/ops/binary.h>
#include <tenon/ops/cat.h>
#include <tenon/ops/compare.h>
#include <tenon/ops/copy.h>
#include <tenon/ops/factory.h>
#include <tenon/ops/generator.h>
#include <tenon/ops/index.h>
#include <tenon/ops/loss.h>
#include <tenon/ops/matmul.h>
#include <tenon/ops/norm.h>
#include <tenon/ops/random.h>
#include <tenon/ops/reduce.h>
#include <tenon/ops/softmax.h>
#include <tenon/ops/sort.h>
#include <tenon/ops/unary.h>
#include <tenon/ops/view.h>
#include <tenon/ops/where.h>
#include <tenon/optim/optim.h>
#include <tenon/streams/availability.h>
#include <tenon/streams/devices.h>
#include <tenon/streams/event.h>
#include <tenon/streams/guard.h>
#include <tenon/version.h>
