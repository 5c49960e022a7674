#!/usr/bin/env bash
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

build() { # PRESET DIRECTORY TARGET...
  local preset=$1 directory=$2
  shift 2
  # Ninja configures again when a CMakeLists.txt changed; it cannot know about presets or about tests newly possible.
  if [ ! -f "$directory/build.ninja" ] || [ CMakePresets.json -nt "$directory/build.ninja" ] ||
    ! grep -q '^COFFER_TESTS:STRING=ON$' "$directory/CMakeCache.txt"; then
    cmake --preset "$preset" -DCOFFER_TESTS=ON
    touch "$directory/build.ninja"
  fi
  cmake --build "$directory" --parallel "$jobs" --target "$@"
}

summary=""
status=0
run() { # NAME DIRECTORY COMMAND...
  local name=$1 log=$2/ctest.log
  shift 2
  "$@" 2>&1 | tee "$log" || status=1
  summary+="${summary:+; }$name: $(grep 'tests passed,' "$log" || echo 'ctest did not finish')"
}

build release build all
build tsan build-tsan all
run release build ctest --preset release --parallel "$jobs" --timeout 600
run tsan build-tsan "${fixed_layout[@]}" ctest --preset tsan --parallel "$jobs" --timeout 600
echo "$summary"
exit "$status"
