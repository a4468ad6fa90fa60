#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs an unpacked bundle on a GPU machine: tests, compute-sanitizer over the GPU tests, benchmarks. Logs go to $OUT
# (default ./out) as a handful of files; a short table comes last. Exit status 1 if a test or the sanitizer failed.
#
#   tenon-gpu/run.sh [tests] [sanitizer] [benchmarks]     default: all three
#
# TEST_FILTER    Catch2 test expression for the tests, default all
# SANITIZER      compute-sanitizer tools, default memcheck; for example "memcheck racecheck"
# PART_SECONDS   limit for each program, default 240
# BENCH_ARGS     arguments of every benchmark program
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
OUT=${OUT:-$PWD/out}
mkdir -p "$OUT"
limit=${PART_SECONDS:-240}
parts=("$@")
[ ${#parts[@]} -gt 0 ] || parts=(tests sanitizer benchmarks)
table=$(mktemp)
bad=0

# cuDNN as PyTorch brings it, newer than the system's.
cudnn=$(python3 -c 'import nvidia, os; print(next(p for r in nvidia.__path__ for p in [os.path.join(r, "cudnn", "lib")] if os.path.isdir(p)))' 2>/dev/null)
export LD_LIBRARY_PATH=$here/lib${cudnn:+:$cudnn}${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
[ -d /usr/local/cuda/bin ] && export PATH=$PATH:/usr/local/cuda/bin
export TENON_DATA=${TENON_DATA:-$here/data}

{
  cat "$here/VERSION"
  date -u +'run %Y-%m-%dT%H:%MZ'
  nvidia-smi --query-gpu=name,driver_version,memory.total,clocks.max.sm --format=csv,noheader
  nvcc --version 2>/dev/null | grep release
  grep -m1 'model name' /proc/cpuinfo; nproc
  python3 -c 'import torch; print("PyTorch", torch.__version__, "cuDNN", torch.backends.cudnn.version())' 2>/dev/null
  [ -x "$here/bin/tenon-info" ] && timeout 60 "$here/bin/tenon-info"
} >"$OUT/environment.txt" 2>&1
cat "$OUT/environment.txt"

row() { printf '%-34s %-9s %6s s  %s\n' "$1" "$2" "$3" "$4" | tee -a "$table"; }

run_one() {  # run_one LOG LABEL command...: appends to the log, adds a row
  local log=$1 label=$2 start=$SECONDS status verdict note one
  shift 2
  one=$(mktemp)
  timeout --kill-after=10 "$limit" "$@" >"$one" 2>&1 </dev/null
  status=$?
  case $status in
    0) verdict=passed ;;
    77) verdict=skipped ;;
    124 | 137) verdict=TIMEOUT; bad=1 ;;
    *) verdict=FAILED; bad=1 ;;
  esac
  note=$(grep -aE 'ERROR SUMMARY|^test cases:|^All tests passed|passed, [0-9]+ failed' "$one" | tail -1 | cut -c1-70)
  { printf '\n===== %s: %s\n' "$label" "$verdict"; cat "$one"; } >>"$log"
  [ $bad = 0 ] || [ $verdict = passed ] || [ $verdict = skipped ] || tail -n 25 "$one"
  row "$label" "$verdict" $((SECONDS - start)) "$note"
  rm -f "$one"
}

tests() {
  local program
  compgen -G "$here/bin/*_tests" >/dev/null || { row tests MISSING 0 "no test program in the bundle"; bad=1; }
  for program in "$here"/bin/*_tests; do
    [ -x "$program" ] && run_one "$OUT/tests.log" "$(basename "$program")" "$program" ${TEST_FILTER:+"$TEST_FILTER"}
  done
}

sanitizer() {
  command -v compute-sanitizer >/dev/null || { row compute-sanitizer absent 0 ""; return; }
  local program tool
  for tool in ${SANITIZER:-memcheck}; do
    for program in "$here"/bin/*_tests; do
      [ -x "$program" ] || continue
      # Exact sizes and no caching, so that an overrun leaves its allocation.
      TENON_ALLOC_CONF=backend:direct run_one "$OUT/sanitizer.log" "$tool $(basename "$program")" \
        compute-sanitizer --tool "$tool" --report-api-errors no --error-exitcode 1 "$program" "[cuda]~[slow]~[fork]"
    done
  done
}

benchmarks() {
  local program
  for program in "$here"/bin/*_bench "$here"/bin/*_bench.py; do
    [ -e "$program" ] || continue
    local command=("$program")
    [ "${program%.py}" = "$program" ] || command=(python3 "$program")
    # shellcheck disable=SC2086
    (cd "$OUT" && run_one "$OUT/benchmarks.log" "$(basename "$program")" "${command[@]}" ${BENCH_ARGS:-})
  done
  cat "$OUT/benchmarks.log" 2>/dev/null
}

for part in "${parts[@]}"; do
  case $part in
    tests | sanitizer | benchmarks) "$part" ;;
    *) echo "run.sh: unknown part $part" >&2; exit 2 ;;
  esac
done

printf '\n%s\n' "$(head -1 "$here/VERSION") on $(nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null | head -1)"
cat "$table"
cat "$table" >"$OUT/summary.txt"
exit $bad
