#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# tools/dist.sh BUILD_DIRECTORY TO: writes the release TO/coffer-VERSION.tar.xz: the files that git knows, as they are
# now, and share/ with the manual and the completions, which BUILD_DIRECTORY has (target coffer_manual). So a package
# can be built of it without the network.
set -euo pipefail
build=$(realpath "$1") to=$(realpath "$2")
cd "$(dirname "$0")/.."
name=coffer-$(python3 -B tools/version.py)
for part in man bash-completion zsh fish; do
  [ -d "$build/share/$part" ] || { echo "dist: $build/share/$part is missing: build coffer_manual" >&2; exit 1; }
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/$name/share" "$to"
git ls-files -z | while IFS= read -r -d '' file; do [ ! -e "$file" ] || printf '%s\0' "$file"; done |
  tar --null --files-from=- --create | tar --extract --directory "$work/$name"
cp -r "$build"/share/{man,bash-completion,zsh,fish} "$work/$name/share/"
# The same files make the same archive.
stamp=$(git log -1 --format=%ct)
tar --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$stamp" --create --directory "$work" "$name" |
  xz -2 >"$to/$name.tar.xz"
echo "$to/$name.tar.xz"
