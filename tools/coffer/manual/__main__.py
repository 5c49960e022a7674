# SPDX-License-Identifier: MIT
"""python -m coffer.manual DIRECTORY VERSION: writes DIRECTORY/man/man1, and the completions where shells look for them
below a prefix's share."""

from __future__ import annotations

import sys
from pathlib import Path

from coffer.cli import app
from coffer.manual import bash, fish, man, zsh
from coffer.manual.declaration import declared


def main(directory: Path, version: str) -> None:
    command = declared(app)
    man.write(command, directory / "man" / "man1", version)
    for writer, path in ((bash, "bash-completion/completions/coffer"), (zsh, "zsh/site-functions/_coffer"),
                         (fish, "fish/vendor_completions.d/coffer.fish")):
        target = directory / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(writer.script(command), encoding="utf-8")


main(Path(sys.argv[1]), sys.argv[2])
