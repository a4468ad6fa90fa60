#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# From a bare machine to a trained network: installs what is missing, configures, builds, trains a small network on
# Fashion-MNIST, on the GPU where there is one.
#
#   tools/train.sh [options of examples/fashion_mnist, such as --epochs 5 --device cpu]
set -euo pipefail
cd "$(dirname "$0")/.."
preset=cpu
if [ -e /dev/nvidiactl ] && { command -v nvcc || [ -x /usr/local/cuda/bin/nvcc ]; } >/dev/null; then preset=cuda; fi
tools/setup.sh --data
targets=(fashion_mnist)
[ "$preset" = cuda ] && targets+=(tenon_cuda)
tools/build.sh "$preset" "${targets[@]}"
exec "build/$preset/bin/fashion_mnist" "$@"
