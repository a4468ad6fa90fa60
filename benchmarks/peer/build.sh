#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds libtenon_peer.so against the PyTorch that python3 finds: benchmarks/peer/build.sh [output]
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
out=${1:-libtenon_peer.so}
torch=$(python3 -c 'import os, torch; print(os.path.dirname(torch.__file__))')
abi=$(python3 -c 'import torch; print(int(torch._C._GLIBCXX_USE_CXX11_ABI))')
cuda=() libraries=(-ltorch -ltorch_cpu -lc10)
if [ -e "$torch/lib/libtorch_cuda.so" ]; then
  cuda=(-DTENON_PEER_CUDA -I"${CUDA_HOME:-/usr/local/cuda}/include")
  libraries+=(-Wl,--no-as-needed -ltorch_cuda -lc10_cuda)
fi
g++ -std=c++20 -O2 -fPIC -shared -w -D_GLIBCXX_USE_CXX11_ABI="$abi" "${cuda[@]}" \
  -I"$torch/include" -I"$torch/include/torch/csrc/api/include" "$here/torch_peer.cpp" -o "$out" \
  -L"$torch/lib" -Wl,-rpath,"$torch/lib" "${libraries[@]}"
echo "$out: PyTorch $(python3 -c 'import torch; print(torch.__version__)')"
