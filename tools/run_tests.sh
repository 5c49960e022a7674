#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# tools/run_tests.sh [JOBS]: builds and runs every test in the release build, then the tests labelled tsan in a build
# with ThreadSanitizer. Both parts run even if the first fails. The last line sums up.
set -euo pipefail
cd "$(dirname "$0")/.."
jobs=${1:-$(nproc)}

# GCC 12's ThreadSanitizer does not know the address-space layouts of newer kernels' randomisation.
fixed_layout=()
if setarch "$(uname -m)" --addr-no-randomize true 2>/dev/null; then
  fixed_layout=(setarch "$(uname -m)" --addr-no-randomize)
fi

summary=""
status=0
run() { # PRESET DIRECTORY [COMMAND that runs another]...
  local preset=$1 log=$2/ctest.log
  shift 2
  tools/build.sh --tests "$preset" "$jobs" all
  "$@" ctest --preset "$preset" --parallel "$jobs" --timeout 600 2>&1 | tee "$log" || status=1
  summary+="${summary:+; }$preset: $(grep 'tests passed,' "$log" || echo 'ctest did not finish')"
}

run release build
run tsan build-tsan ${fixed_layout[@]+"${fixed_layout[@]}"}
echo "$summary"
exit "$status"
