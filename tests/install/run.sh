#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tests/install/run.sh shared|static: installs tenon under a temporary prefix, moves the prefix, builds the consumer
# against it and compares what it finds registered with the source tree. The move shows that nothing in the package
# names the place it was installed to. Then builds examples/custom_op, an operator outside this tree, against the same
# package, and runs its row.
set -euo pipefail
cd "$(dirname "$0")/../.."
kind=$1
jobs=${TENON_JOBS:-$(nproc)}
cmake --preset cpu >/dev/null
cmake --build build/cpu -j "$jobs" --target tenon registered_cells | tail -1
build=build/cpu
if [ "$kind" = static ]; then
  build=build/static
  cmake --preset cpu -B $build -DBUILD_SHARED_LIBS=OFF -DTENON_TESTS=OFF -DTENON_BENCHMARKS=OFF -DTENON_EXAMPLES=OFF >/dev/null
fi
cmake --build $build -j "$jobs" | tail -1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cmake --install $build --prefix "$work/first" >/dev/null
mv "$work/first" "$work/moved"
cmake -S tests/install -B "$work/consumer" -G Ninja -DCMAKE_PREFIX_PATH="$work/moved" -DCMAKE_BUILD_TYPE=Release >/dev/null
cmake --build "$work/consumer" | tail -1
"$work/consumer/consumer" >"$work/found"
build/cpu/bin/registered_cells >"$work/expected" 2>/dev/null
[ -s "$work/expected" ] || { echo "install $kind: no operator is registered" >&2; exit 1; }
diff "$work/expected" "$work/found" || { echo "install $kind: the package lacks registrations" >&2; exit 1; }
cmake -S examples/custom_op -B "$work/custom_op" -G Ninja -DCMAKE_PREFIX_PATH="$work/moved" -DCMAKE_BUILD_TYPE=Release >/dev/null
cmake --build "$work/custom_op" -j "$jobs" | tail -1
ctest --test-dir "$work/custom_op" --output-on-failure | tail -3
echo "install $kind: $(wc -l <"$work/found") operators, as in the source tree"
