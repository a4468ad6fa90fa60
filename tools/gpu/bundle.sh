#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Packs what a GPU machine needs to test and time a build made elsewhere: programs, libraries that machine may lack, the
# script that runs them. Unpack there and call tenon-gpu/run.sh.
#
#   tools/gpu/bundle.sh [--build DIR] [--output FILE] [--add PATH]... [--no-build]
#
# Default: builds the preset `cuda` for compute capability 9.0 in build/gpu and writes out/gpu.tar.xz.
# --add puts a file or folder under data/. The archive must stay below 60 MiB.
set -euo pipefail
cd "$(dirname "$0")/../.."
build=build/gpu output=out/gpu.tar.xz make=1 add=()
while [ $# -gt 0 ]; do
  case $1 in
    --build) build=$2; shift 2 ;;
    --output) output=$2; shift 2 ;;
    --add) add+=("$2"); shift 2 ;;
    --no-build) make=0; shift ;;
    *) echo "bundle.sh: unknown option $1" >&2; exit 2 ;;
  esac
done

if [ $make = 1 ]; then
  command -v ccache >/dev/null && export CMAKE_CXX_COMPILER_LAUNCHER=ccache CMAKE_CUDA_COMPILER_LAUNCHER=ccache CCACHE_BASEDIR=${CCACHE_BASEDIR:-$PWD} CCACHE_NOHASHDIR=1
  cmake --preset cuda -B "$build" -DTENON_CUDA_ARCHITECTURES="${TENON_CUDA_ARCHITECTURES:-90}" >/dev/null
  cmake --build "$build" -j "${TENON_JOBS:-$(nproc)}" | tail -1
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
top=$work/tenon-gpu
mkdir -p "$top/bin" "$top/lib" "$top/data" "$(dirname "$output")"
find "$build/bin" -maxdepth 1 -type f -perm -u+x -exec cp {} "$top/bin/" \;
for library in "$build"/lib/libtenon*.so; do
  name=$(basename "$library")
  cp -L "$library" "$top/lib/$name.0"
  ln -s "$name.0" "$top/lib/$name"
done

# Libraries of the distribution, except the C and C++ run-times, the driver, and BLAS, which are there or must be.
find "$top/bin" "$top/lib" -type f -exec ldd {} \; 2>/dev/null | awk '$2 == "=>" && $3 ~ "^/" {print $3}' | sort -u |
  grep -vE '/(libc|libm|libdl|librt|libpthread|libgcc_s|libstdc\+\+|libcuda|libopenblas|libblas|libgfortran|libquadmath|libgomp|libtenon[a-z_]*)\.so' |
  while read -r library; do cp -L "$library" "$top/lib/"; done
find "$top/bin" "$top/lib" -type f -exec strip --strip-unneeded {} + 2>/dev/null || true

cp tools/gpu/run.sh "$top/"
find benchmarks -maxdepth 1 -name '*.py' -exec cp {} "$top/bin/" \; 2>/dev/null || true
for path in "${add[@]}"; do cp -rL "$path" "$top/data/"; done
{
  echo "commit $(git rev-parse --short HEAD 2>/dev/null || echo unknown)$(git diff --quiet HEAD 2>/dev/null || echo ', modified')"
  echo "built $(date -u +%Y-%m-%dT%H:%MZ), $(c++ --version | head -1), $(sed -n 's/^CMAKE_CUDA_ARCHITECTURES[^=]*=//p; s/^TENON_CUDA_ARCHITECTURES[^=]*=/architectures /p' "$build/CMakeCache.txt" | tail -1)"
} >"$top/VERSION"

tar -C "$work" -c tenon-gpu | xz -T0 -6 >"$output"
size=$(stat -c %s "$output")
printf '%s: %d KiB, %d programs, libraries: %s\n' "$output" $((size / 1024)) "$(find "$top/bin" -type f | wc -l)" \
       "$(find "$top/lib" -type f -printf '%f ')"
[ "$size" -le $((60 * 1048576)) ] || { echo "bundle.sh: above 60 MiB" >&2; exit 1; }
