#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# tools/build.sh [--tests] PRESET JOBS TARGET...: configures the preset's build directory if that is needed, and builds.
# --tests: with the tests and benchmarks, which need what `tools/setup.sh test` installs.
set -euo pipefail
cd "$(dirname "$0")/.."

tests=AUTO
if [ "$1" = --tests ]; then
  tests=ON
  shift
fi
preset=$1 jobs=$2
shift 2
directory=build-$preset
[ "$preset" != release ] || directory=build

# Ninja configures again by itself when a CMakeLists.txt changes. It does not know the presets, nor that the tests have
# become possible since.
if [ ! -f "$directory/build.ninja" ] || [ CMakePresets.json -nt "$directory/build.ninja" ] ||
  { [ "$tests" = ON ] && ! grep -q '^COFFER_TESTS:STRING=ON$' "$directory/CMakeCache.txt"; }; then
  # With AUTO, what an earlier run has found out stays.
  options=()
  [ "$tests" = AUTO ] || options=(-DCOFFER_TESTS=ON)
  cmake --preset "$preset" ${options[@]+"${options[@]}"}
  touch "$directory/build.ninja"
fi
exec cmake --build "$directory" --parallel "$jobs" --target "$@"
