#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# From a bare machine to a tested build: installs what is missing, configures, builds, runs every test.
#
#   tools/test.sh [PRESET]    default: cuda where there is a GPU and nvcc, else cpu
set -euo pipefail
cd "$(dirname "$0")/.."
default=cpu
if [ -e /dev/nvidiactl ] && { command -v nvcc || [ -x /usr/local/cuda/bin/nvcc ]; } >/dev/null; then default=cuda; fi
preset=${1:-$default}
tools/setup.sh
tools/build.sh "$preset"
ctest --preset "$preset"
