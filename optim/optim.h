// SPDX-License-Identifier: Apache-2.0
// All of optim, for users.
#pragma once

#include <tenon/optim/optimizer.h>
