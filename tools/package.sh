#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# tools/package.sh deb|wheel|wheels BUILD_DIRECTORY TO [TAG...]: makes a release of the tree (tools/dist.sh) and
# packages of the release, in the folder TO. Prints each package. wheel: of this machine's compiler and for its C
# library; wheels: for older ones and for other machines (tools/wheels.py, which has the tags).
set -euo pipefail
kind=$1 build=$(realpath "$2")
mkdir -p "$3"
to=$(realpath "$3")
shift 3
top=$(dirname "$(realpath "$0")")/..
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# auditwheel looks for patchelf in PATH.
packages_venv() {
  venv=$build/venv-packages
  if [ ! "$venv/complete" -nt "$top/tools/requirements-packages.txt" ]; then
    python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check -r "$top/tools/requirements-packages.txt"
    : >"$venv/complete"
  fi
  PATH=$venv/bin:$PATH
}

archive=$("$top/tools/dist.sh" "$build" "$to")
tar xf "$archive" --directory "$work"
release=$work/$(basename "$archive" .tar.xz)
case $kind in
  deb)
    (cd "$release" && dpkg-buildpackage -us -uc) >"$to/deb.log" 2>&1 || { tail -n 40 "$to/deb.log" >&2; exit 1; }
    find "$work" -maxdepth 1 -type f -exec mv -t "$to" {} +
    ls "$to"/*.deb
    ;;
  wheel)
    # auditwheel says which systems the wheel is for, by the symbols that it needs of the C library, and brings libzstd
    # along.
    packages_venv
    "$venv/bin/pip" wheel --quiet --disable-pip-version-check --no-deps --wheel-dir "$work/plain" "$release"
    auditwheel repair --wheel-dir "$to" "$work"/plain/*.whl >"$to/wheel.log" 2>&1 || {
      cat "$to/wheel.log" >&2
      exit 1
    }
    ls "$to"/*.whl
    ;;
  wheels)
    packages_venv
    "$venv/bin/python" -B "$release/tools/wheels.py" "$release" "$build/wheels" "$to" "$@"
    ls "$to"/*.whl
    ;;
  *)
    echo "package: no kind '$kind'" >&2
    exit 2
    ;;
esac
