# SPDX-License-Identifier: MIT
"""Debian's packages for other processors, unpacked and not installed: this machine's own packages are not touched."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

# The oldest Debian that has all three processors.
SUITE = "trixie"
KEYS = "/usr/share/keyrings/debian-archive-keyring.gpg"
NAMES = {"x86_64": "amd64", "aarch64": "arm64", "riscv64": "riscv64"}


def site() -> str | None:
    """Where this machine gets Debian's packages from."""
    if not shutil.which("apt-get"):
        return None
    shown = subprocess.run(["apt-get", "indextargets", "--format", "$(ORIGIN) $(COMPONENT) $(CODENAME) $(REPO_URI)",
                            "Created-By: Packages"], capture_output=True, text=True)
    words = (line.split() for line in shown.stdout.splitlines())
    return next((uri for origin, component, codename, uri in words
                 if (origin, component) == ("Debian", "main") and "-" not in codename), None)


def options(arch: str, work: Path) -> list[str]:
    settings = {"Dir::Etc::SourceList": work / "sources", "Dir::Etc::SourceParts": "/dev/null",
                "Dir::State": work / "state", "Dir::State::Status": work / "status", "Dir::Cache": work / "cache",
                "APT::Architecture": NAMES[arch], "APT::Architectures": NAMES[arch], "APT::Sandbox::User": "",
                "Acquire::Languages": "none", "Acquire::Retries": 3}
    return [word for name, value in settings.items() for word in ("-o", f"{name}={value}")]


def newest(arch: str, work: Path, pattern: str) -> str | None:
    """The package that a regular expression names; of several the one with the highest version in its name."""
    shown = subprocess.run(["apt-cache", *options(arch, work), "search", "--names-only", pattern], capture_output=True,
                           text=True, check=True).stdout
    names = [line.split()[0] for line in shown.splitlines()]
    return max(names, key=lambda name: [int(part) if part.isdigit() else 0 for part in name.replace("+", ".").replace(
        "-", ".").split(".")], default=None)


def unpacked(arch: str, pattern: str, root: Path, only: str = "", suite: str = SUITE) -> Path | None:
    """The package for that processor, in `root`; None where it cannot be had. `only`: of its files."""
    if root.is_dir():
        return root
    uri = site()
    if uri is None:
        return None
    print(f"test_arch: fetching {root.name}", flush=True)
    work = root.with_name(f"{root.name}.apt")
    for folder in ("state/lists/partial", "cache/archives/partial", "root"):
        (work / folder).mkdir(parents=True, exist_ok=True)
    (work / "status").touch()
    (work / "sources").write_text(f"deb [signed-by={KEYS}] {uri} {suite} main\n")
    apt = ["apt-get", "-qq", *options(arch, work)]
    if subprocess.run([*apt, "update"]).returncode != 0:
        return None
    package = newest(arch, work, pattern)
    if package is None or subprocess.run([*apt, "download", package], cwd=work).returncode != 0:
        return None
    with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", next(work.glob("*.deb"))], stdout=subprocess.PIPE) as packed:
        subprocess.run(["tar", "x", "-C", work / "root", "--wildcards", f"./{only}*"], stdin=packed.stdout, check=True)
    (work / "root").rename(root)
    shutil.rmtree(work)
    return root
