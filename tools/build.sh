#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tools/build.sh PRESET [TARGET...]: configures and builds one preset, through ccache when there is one.
# TENON_JOBS limits the parallel jobs. Extra configure options come from TENON_CMAKE_ARGS.
set -euo pipefail
cd "$(dirname "$0")/.."
preset=$1
shift
if command -v ccache >/dev/null; then
  export CCACHE_BASEDIR=${CCACHE_BASEDIR:-$PWD} CCACHE_NOHASHDIR=${CCACHE_NOHASHDIR:-1}
  export CMAKE_CXX_COMPILER_LAUNCHER=ccache CMAKE_CUDA_COMPILER_LAUNCHER=ccache
fi
read -r -a extra <<<"${TENON_CMAKE_ARGS:-}"
# Quiet while it works; everything when it does not.
log=$(mktemp)
trap 'rm -f "$log"' EXIT
cmake --preset "$preset" "${extra[@]}" >"$log" 2>&1 || { cat "$log"; exit 1; }
grep '^-- tenon:' "$log" || true
targets=()
[ $# -gt 0 ] && targets=(--target "$@")
cmake --build "build/$preset" -j "${TENON_JOBS:-$(nproc)}" "${targets[@]}"
