# SPDX-License-Identifier: MIT
"""Source packages of this machine's distribution, by apt with lists and state of its own: the machine's configuration
stays as it is."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path


class Unavailable(Exception):
    """There is no such source package to be had; the text says why."""


def source_entries() -> str:
    """This machine's package sources of the distribution, asked for sources instead of packages."""
    found = []
    for path in sorted(Path("/etc/apt/sources.list.d").glob("*.sources")):
        for stanza in path.read_text().split("\n\n"):
            lines = [line for line in stanza.splitlines() if line.strip() and not line.startswith("#")]
            if any(line.startswith("Types:") for line in lines):
                found.append("\n".join("Types: deb-src" if line.startswith("Types:") else line for line in lines))
    return "\n\n".join(found) + "\n"


def source_lines() -> str:
    lists = [Path("/etc/apt/sources.list"), *sorted(Path("/etc/apt/sources.list.d").glob("*.list"))]
    lines = [line for path in lists if path.is_file() for line in path.read_text().splitlines()]
    return "\n".join("deb-src" + line[3:] for line in lines if line.startswith(("deb ", "deb\t"))) + "\n"


def download(package: str, place: Path) -> None:
    """Its description (.dsc) and archives, into a directory that is there."""
    if shutil.which("apt-get") is None:
        raise Unavailable("no apt-get to fetch the sources by")
    parts = place / "apt" / "parts"
    for directory in (parts, place / "apt/state/lists/partial", place / "apt/cache/archives/partial"):
        directory.mkdir(parents=True, exist_ok=True)
    (parts / "suite.sources").write_text(source_entries())
    (parts / "suite.list").write_text(source_lines())
    apt = ["apt-get", "-qq", "-o", "Dir::Etc::sourcelist=/dev/null", "-o", f"Dir::Etc::sourceparts={parts}",
           "-o", f"Dir::State={place}/apt/state", "-o", "Dir::State::status=/var/lib/dpkg/status",
           "-o", f"Dir::Cache={place}/apt/cache", "-o", "APT::Sandbox::User="]
    try:
        for command in (["update"], ["source", "--download-only", "--only-source", package]):
            done = subprocess.run([*apt, *command], cwd=place, capture_output=True, text=True, timeout=300, check=False)
            # An update may fail in part; what is missing then shows in what follows.
            if command[0] == "source" and (done.returncode != 0 or not list(place.glob(f"{package}_*.orig.tar.*"))):
                raise Unavailable(f"apt has no sources of {package} for this machine")
    except subprocess.TimeoutExpired:
        raise Unavailable("apt does not answer") from None
    finally:
        shutil.rmtree(place / "apt", ignore_errors=True)
