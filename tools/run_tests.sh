#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# tools/run_tests.sh [--check] [JOBS]: builds and runs every test in the release build, then the tests labelled tsan in
# a build with ThreadSanitizer, then the fuzzing targets for some seconds. Those labelled long are left out
# (tools/run_long.sh). All parts run even if one fails. The last line sums up.
# --check: for a change in progress, the libraries and the quick ones of the tests that link or preload them, in the
# release build only (CONTRIBUTING.md says what that leaves out).
set -euo pipefail
cd "$(dirname "$0")/.."
check=false
if [ "${1:-}" = --check ]; then
  check=true
  shift
fi
jobs=${1:-$(nproc)}
# A quarter of the tests' time is waiting: three run for two processors.
tests_at_once=$((jobs + (jobs + 1) / 2))

# GCC 12's ThreadSanitizer does not know the address-space layouts of newer kernels' randomisation.
fixed_layout=()
if setarch "$(uname -m)" --addr-no-randomize true 2>/dev/null; then
  fixed_layout=(setarch "$(uname -m)" --addr-no-randomize)
fi

summary=""
status=0
options=()
run() { # PRESET DIRECTORY [COMMAND that runs another]...
  local preset=$1 directory=$2
  shift 2
  python3 -B tools/test_times.py run "$directory" "$jobs" -- "$@" ctest --preset "$preset" --parallel "$tests_at_once" \
    --timeout 600 ${options[@]+"${options[@]}"} 2>&1 | tee "$directory/ctest.log" || status=1
  summary+="${summary:+; }$preset: $(grep 'tests passed,' "$directory/ctest.log" || echo 'ctest did not finish')"
}

if [ "$check" = true ]; then
  labels='unit|conformance|misuse|fault|tidy'
  options=(-L "^($labels)\$" -E "$(python3 -B tools/test_times.py slow)")
  tools/build.sh --tests release "$jobs" coffer_libraries test/{unit,conformance,misuse,fault}/all
  run release build
else
  options=(-LE '^long$')
  python3 -B tools/test_times.py plan "$jobs"
  tools/build.sh --tests release "$jobs" all
  run release build
  tools/build.sh --tests tsan "$jobs" all
  run tsan build-tsan ${fixed_layout[@]+"${fixed_layout[@]}"}
  tools/build.sh --tests fuzz "$jobs" fuzz_programs
  ctest --preset fuzz --parallel "$tests_at_once" 2>&1 | tee build-fuzz/ctest.log || status=1
  summary+="; fuzz: $(grep 'tests passed,' build-fuzz/ctest.log || echo 'ctest did not finish')"
fi
echo "$summary"
exit "$status"
