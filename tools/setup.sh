#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# tools/setup.sh SET...: installs what is missing of the package sets build, tools, run, test, peers, programs, soak,
# outside, models, hw, packages, arch, lint and clang, on Debian 12 and Ubuntu 24.04. It says what it installs, asks
# nothing, and leaves no service running and no database behind. When nothing is missing it is silent and touches
# neither the network nor the system.
set -euo pipefail

# Names that differ between the distributions are alternatives, a|b: the first one that is there is taken.
packages_build=(g++ cmake ninja-build make pkgconf binutils)
# The allocators that bench/ compares with.
packages_peers=(
  libjemalloc2 'libtcmalloc-minimal4t64|libtcmalloc-minimal4' libmimalloc2.0 libtbbmalloc2
)
# The real programs that `coffer bench` runs.
packages_programs=(
  redis-server redis-tools sqlite3 'postgresql-15|postgresql-16' postgresql-contrib ghostscript z3 g++ clang-19 python3
  lua5.4 rocksdb-tools nodejs git
)
# The programs of `make soak`, what puts load on them, and the peer that is a package.
packages_soak=(
  redis-server redis-tools 'postgresql-15|postgresql-16' postgresql-contrib nginx-light wrk python3 nodejs
  openjdk-17-jdk-headless mariadb-server sysbench libjemalloc2
)
packages_test=(
  libgtest-dev python3 python3-pytest valgrind relacy-dev
  # The real programs of test/apps, with those above.
  perl xz-utils time 'libpython3.11-testsuite|libpython3.12-testsuite'
  "${packages_peers[@]}" "${packages_programs[@]}"
  # What the index benchmarks and the suite of bench/ run.
  libxml2-dev libxslt1-dev phylip grep
  # The shells that complete it, and what shows its manual.
  fish zsh man-db groff-base
  # The coffer command, whose other needs pip installs; its profiles are parsed with the package that knows their form.
  python3-venv libzstd-dev python3-protobuf
  # A project that uses the installed library.
  meson
  # The processors that coffer-rt is tested on, and its analyser.
  gcc-riscv64-unknown-elf qemu-user qemu-system-misc lld-19 cppcheck
)
# The browser that looks at the bench's report. Ubuntu has it as a snap only.
if grep -qs '^ID=debian$' /etc/os-release; then
  packages_test+=(chromium)
fi
# Other processors and C libraries (tools/test_arch.py): 390 MB. The wheel that compiles for musl comes by pip, musl
# and a kernel with larger pages by apt, unpacked in build-arch.
packages_arch=(
  g++-aarch64-linux-gnu g++-riscv64-linux-gnu qemu-user qemu-system-arm libgtest-dev python3 python3-pip python3-pytest
)
# zstd compresses traces.
packages_tools=(python3 python3-venv libzstd-dev)
# What Debian packages are made and tried with, and what the tests of other ways build with.
packages_packages=(
  dpkg-dev debhelper lintian mmdebstrap xz-utils libzstd-dev valgrind git gcc libc6-dev python3-pytest python3-venv
)
# What `make outside` runs besides what it fetches and unpacks: peers, and suites that are installed.
packages_outside=(
  "${packages_peers[@]}" stress-ng 'libpython3.11-testsuite|libpython3.12-testsuite' python3 xz-utils dpkg-dev
)
packages_lint=(clang-format-19 clang-tidy-19 python3)
packages_clang=(clang-19 libclang-rt-19-dev)
packages_run=(python3)
packages_models=(spin gcc libc6-dev python3)
# The simulator of hw/, whose back end that compiles in memory has short benches running soonest; yosys for its abc;
# Verilator for long traces; the processors that the driver is compiled for, and that software is counted on.
packages_hw=(
  ghdl-mcode ghdl yosys gcc-riscv64-unknown-elf qemu-system-misc make g++ verilator gcc libc6-dev python3 python3-pytest
  python3-venv valgrind lua5.4
)

fail() {
  echo "setup: $*" >&2
  exit 1
}

cd "$(dirname "$0")/.."
sets="build tools run test peers programs soak outside models hw packages arch lint clang"
[ $# -gt 0 ] || fail "usage: tools/setup.sh SET..., of $sets"

wanted=()
for set_name in "$@"; do
  case $set_name in
    build) wanted+=("${packages_build[@]}") ;;
    tools) wanted+=("${packages_tools[@]}") ;;
    test) wanted+=("${packages_test[@]}") ;;
    peers) wanted+=("${packages_peers[@]}") ;;
    programs) wanted+=("${packages_programs[@]}") ;;
    soak) wanted+=("${packages_soak[@]}") ;;
    models) wanted+=("${packages_models[@]}") ;;
    packages) wanted+=("${packages_packages[@]}") ;;
    hw) wanted+=("${packages_hw[@]}") ;;
    outside) wanted+=("${packages_outside[@]}") ;;
    arch) wanted+=("${packages_arch[@]}") ;;
    lint) wanted+=("${packages_lint[@]}") ;;
    clang) wanted+=("${packages_clang[@]}") ;;
    run) wanted+=("${packages_run[@]}") ;;
    *) fail "no package set '$set_name'" ;;
  esac
done

# The stamp is good as long as neither this script nor the system's package database is newer.
stamp=build/stamps/setup-$(IFS=-; echo "$*")
if [ "$stamp" -nt "$0" ] && [ "$stamp" -nt /var/lib/dpkg/status ]; then
  exit 0
fi
write_stamp() {
  mkdir -p "$(dirname "$stamp")"
  : >"$stamp"
}

if ! command -v dpkg-query apt-get >/dev/null; then
  echo "setup: not a Debian or Ubuntu system; please see that these are installed: ${wanted[*]}" >&2
  write_stamp
  exit 0
fi

installed() { # NAME
  [ "$(dpkg-query --show --showformat '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

missing=()
for alternatives in "${wanted[@]}"; do
  found=
  for name in ${alternatives//|/ }; do
    if installed "$name"; then found=1; fi
  done
  [ "$found" ] || [[ " ${missing[*]-} " == *" $alternatives "* ]] || missing+=("$alternatives")
done
if [ ${#missing[@]} -eq 0 ]; then
  write_stamp
  exit 0
fi

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || fail "neither root nor sudo; please install: ${missing[*]}"
  as_root=(sudo)
fi
apt() {
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=600 "$@"
}

# Servers that are installed for the tests must not start, now or at boot, and PostgreSQL must not make a database.
# All three settings are files of their own, removed in the end, and none is touched that the user has made.
policy=/usr/sbin/policy-rc.d
cluster_conf=/etc/postgresql-common/createcluster.d/coffer-setup.conf
made=()
restore() {
  if [ ${#made[@]} -gt 0 ]; then "${as_root[@]}" rm -f "${made[@]}"; fi
}
trap restore EXIT
make_file() { # PATH MODE TEXT
  [ ! -e "$1" ] || return 0
  "${as_root[@]}" mkdir -p "$(dirname "$1")"
  made+=("$1")
  printf '%s\n' "$3" | "${as_root[@]}" tee "$1" >/dev/null
  "${as_root[@]}" chmod "$2" "$1"
}

echo "setup: missing: ${missing[*]}"
# A foreign source that fails must not stop us: if ours are there, the installation will tell.
apt update || echo "setup: apt-get update failed in part; trying with what is there" >&2

chosen=()
for alternatives in "${missing[@]}"; do
  pick=
  for name in ${alternatives//|/ }; do
    candidate=$(apt-cache policy "$name" 2>/dev/null | sed -n 's/^ *Candidate: //p')
    if [ -n "$candidate" ] && [ "$candidate" != "(none)" ]; then
      pick=$name
      break
    fi
  done
  [ -n "$pick" ] || fail "no package $alternatives in the sources of apt"
  chosen+=("$pick")
done

# Services that the system would start at boot from now on.
new_services=()
for service in redis-server:redis-server nginx-light:nginx mariadb-server:mariadb; do
  case " ${chosen[*]} " in *" ${service%:*} "*) new_services+=("${service#*:}") ;; esac
done

echo "setup: installing ${chosen[*]}"
make_file "$policy" 755 $'#!/bin/sh\nexit 101'
case " ${chosen[*]} " in
  *" postgresql-1"*) make_file "$cluster_conf" 644 "create_main_cluster = false" ;;
esac
apt install --yes --no-install-recommends "${chosen[@]}"
if [ ${#new_services[@]} -gt 0 ] && [ -d /run/systemd/system ]; then
  "${as_root[@]}" systemctl --quiet disable "${new_services[@]}" || true
fi

write_stamp
