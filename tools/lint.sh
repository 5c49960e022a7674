#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# tools/lint.sh format: rewrites every C and C++ file by .clang-format.
# tools/lint.sh check [JOBS]: the format, clang-tidy over src/, and the tidy test; changes nothing.
set -euo pipefail
cd "$(dirname "$0")/.."

find_sources() { # FOLDER...
  find "$@" -name '*.cpp' -o -name '*.hpp' -o -name '*.h' -o -name '*.c' | sort
}
mapfile -t sources < <(find_sources src rt hw include test bench examples tools)
mapfile -t units < <(find src -name '*.cpp' ! -path 'src/os/fake/*' | sort; find rt/src -name '*.c' | sort)
if [ ${#sources[@]} -eq 0 ] || [ ${#units[@]} -eq 0 ]; then
  echo "lint: found no sources" >&2
  exit 1
fi

case ${1:-} in
  format)
    clang-format-19 -i "${sources[@]}"
    ;;
  check)
    jobs=${2:-$(nproc)}
    clang-format-19 --dry-run -Werror "${sources[@]}"
    echo "lint: ${#sources[@]} files are formatted"
    # The compilation database names GCC's flags; those that clang does not know change no meaning.
    printf '%s\0' "${units[@]}" | xargs -0 -n 1 -P "$jobs" clang-tidy-19 --quiet -p build \
      --extra-arg=-Wno-unknown-warning-option --extra-arg=-Wno-ignored-optimization-argument 2>/dev/null
    echo "lint: clang-tidy has nothing to say about ${#units[@]} files"
    python3 -B test/tidy/tidy.py
    ;;
  *)
    echo "usage: tools/lint.sh format | check [JOBS]" >&2
    exit 2
    ;;
esac
