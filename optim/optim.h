// SPDX-License-Identifier: Apache-2.0
// All optimizers and what goes with them.
#pragma once

#include <tenon/optim/adadelta.h>
#include <tenon/optim/adagrad.h>
#include <tenon/optim/adam.h>
#include <tenon/optim/lbfgs.h>
#include <tenon/optim/moving_average.h>
#include <tenon/optim/reduce_on_plateau.h>
#include <tenon/optim/rmsprop.h>
#include <tenon/optim/scheduler.h>
#include <tenon/optim/sgd.h>
#include <tenon/optim/step_guard.h>
