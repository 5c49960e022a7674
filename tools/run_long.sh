#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# tools/run_long.sh [JOBS]: what only explores longer than `make test` does. Each fuzzing target and each reader for
# FUZZ_SECONDS (60), other inputs each time; trials for HOURS (0.5), new worlds each time, and every seeded bug; every
# mutant; the models in their deep configurations; the tests labelled long. All parts run even if one fails. The last
# lines sum up.
set -euo pipefail
cd "$(dirname "$0")/.."
jobs=${1:-$(nproc)}
export FUZZ_SECONDS=${FUZZ_SECONDS:-60}

summary=""
status=0
part() { # NAME COMMAND...
  local name=$1 result=passed
  shift
  echo "== $name"
  "$@" || { result=FAILED status=1; }
  summary+="$name: $result"$'\n'
}

tools/build.sh --tests release "$jobs" all
tools/build.sh --tests fuzz "$jobs" fuzz_programs
for name in api options trace stream rt; do
  part "fuzz.$name" python3 -B test/fuzz/run.py "build-fuzz/test/fuzz/fuzz_$name" --seconds "$FUZZ_SECONDS"
done
tools/build.sh --tests release "$jobs" coffer_command_tests
for name in reader_page reader_profile; do
  part "fuzz.$name" build/venv/bin/python -B test/fuzz/run.py "test/fuzz/$name.py" --seconds "$FUZZ_SECONDS" \
    --artifacts build
done
part trial python3 -B test/trial/run.py --jobs "$jobs" --hours "${HOURS:-0.5}"
part 'tests labelled long' ctest --test-dir build -L '^long$' --output-on-failure
part models python3 -B models/run.py --deep --jobs "$jobs"
part 'seeded bugs' python3 -B test/trial/seeded.py --jobs "$jobs"
part mutants python3 -B test/mutants/run.py --jobs "$jobs"
printf '%s' "$summary"
exit "$status"
