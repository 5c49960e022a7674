# SPDX-License-Identifier: MIT
"""Runs the steps of a Dockerfile in chroots, for machines without a container engine: FROM, RUN, COPY and ENV, in the
forms that packaging/containers uses. Anything else is an error, not ignored."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple


class Stage(NamedTuple):
    root: Path
    environment: dict[str, str]


def instructions(text: str) -> list[tuple[str, str]]:
    joined = text.replace("\\\n", " ")
    lines = [line.strip() for line in joined.splitlines()]
    parts = [line.partition(" ") for line in lines if line and line[0] != "#"]
    return [(word, rest.strip()) for word, _, rest in parts]


def copy_into(source: Path, target: Path) -> None:
    """A folder's contents, or a file, as COPY does. Links stay links."""
    if source.is_dir():
        shutil.copytree(source, target, symlinks=True, dirs_exist_ok=True)
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, target, follow_symlinks=False)


def build(text: str, context: Path, work: Path, system: Callable[[str, Path], None], run: Callable[..., str],
          images: dict[str, Path] | None = None) -> Stage:
    """The last stage. `system` fills a folder with a distribution's image; `run` starts a command; `images` are made
    already, by name."""
    stages: dict[str, Stage] = {name: Stage(root, {}) for name, root in (images or {}).items()}
    stage = None
    for number, (word, rest) in enumerate(instructions(text)):
        if word == "FROM":
            image, _, name = rest.partition(" AS ")
            stage = Stage(work / f"stage{number}", {})
            stage.root.mkdir()
            stages[name] = stage
            if image != "scratch":
                system(image, stage.root)
        elif stage is None:
            raise ValueError(f"{word} before FROM")
        elif word == "RUN":
            given = [f"{name}={value}" for name, value in stage.environment.items()]
            run("chroot", stage.root, "env", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                "DEBIAN_FRONTEND=noninteractive", *given, "sh", "-c", rest)
        elif word == "COPY":
            words = shlex.split(rest)
            origin = stages[words.pop(0).removeprefix("--from=")].root if words[0].startswith("--from=") else context
            source, target = words
            copy_into(origin / source.lstrip("/"), stage.root / target.lstrip("/"))
        elif word == "ENV":
            name, _, value = rest.partition("=")
            stage.environment[name] = value
        else:
            raise ValueError(f"no step {word}")
    if stage is None:
        raise ValueError("no FROM")
    return stage
