// SPDX-License-Identifier: Apache-2.0
// Runs the rows of this folder's *_cases.cpp.
#include <tenon/testing/op_tests.h>
