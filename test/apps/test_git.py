# SPDX-License-Identifier: MIT
"""git: init, add, commit, merge, gc and more on a generated repository, with dates pinned so that hashes are the same.
Much of git runs threads (index-pack, pack-objects, grep) or other programs."""

from __future__ import annotations

from pathlib import Path
from typing import Callable

import harness
from inputs.history import Tree

COMMITS = 12
FILES = 1500


def environment() -> dict[str, str]:
    result = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_PAGER": "cat", "GIT_EDITOR": "true"}
    for who in ("AUTHOR", "COMMITTER"):
        result |= {f"GIT_{who}_NAME": "A Tester", f"GIT_{who}_EMAIL": "tester@example.org"}
        result[f"GIT_{who}_DATE"] = "2024-01-02T03:04:05Z"
    return result


def build(git: Callable[..., str], repository: Path) -> None:
    git("init", "--quiet", "--initial-branch=main")
    tree = Tree(repository, FILES)
    for number in range(COMMITS):
        if number:
            tree.change(number)
        git("add", "--all")
        git("commit", "--quiet", "--message", f"Commit {number}")
    git("checkout", "--quiet", "-b", "side", "HEAD~4")
    (repository / "side.txt").write_text("side\n" * 1000)
    git("add", "--all")
    git("commit", "--quiet", "--message", "Side")
    git("checkout", "--quiet", "main")
    git("merge", "--quiet", "--message", "Merge", "side")


def history(allocator: harness.Allocator, home: Path) -> dict[str, str]:
    """Everything that git has to say about the repository."""
    repository = home / "repository"
    repository.mkdir()
    program = harness.require("git", "git")

    def git(*words: str) -> str:
        return harness.run(allocator, [program, *words], home=home, cwd=repository, env=environment()).text()

    build(git, repository)
    said = {"head": git("rev-parse", "HEAD", "main", "side")}
    git("-c", "pack.threads=2", "gc", "--quiet", "--prune=now")
    said["fsck"] = git("fsck", "--full", "--strict")
    said["objects"] = "\n".join(sorted(git("rev-list", "--all", "--objects").splitlines()))
    said["log"] = git("log", "--all", "--patch", "--stat", "--find-renames", "--topo-order")
    said["blame"] = git("blame", "--line-porcelain", "side.txt")
    said["grep"] = git("grep", "--threads=2", "--count", "--extended-regexp", "(owner|slot) .* span", "HEAD")
    # With one thread the deltas that are chosen, and so the pack and its name, depend on the objects alone.
    git("-c", "pack.threads=1", "repack", "--quiet", "-a", "-d", "-f")
    said["pack"] = " ".join(sorted(path.name for path in (repository / ".git/objects/pack").glob("*.pack")))
    said["verify"] = git("verify-pack", "--verbose", *map(str, (repository / ".git/objects/pack").glob("*.idx")))
    git("-c", "pack.threads=2", "clone", "--quiet", "--bare", "--no-local", ".", str(home / "clone"))
    said["clone"] = git("--git-dir", str(home / "clone"), "rev-parse", "main", "side")
    repository.rename(home / f"repository.{allocator.name}")
    (home / "clone").rename(home / f"clone.{allocator.name}")
    return said


def test_git(both: list[harness.Allocator], home: Path) -> None:
    got, expected = [history(allocator, home) for allocator in both]
    assert len(expected["objects"].splitlines()) > FILES + COMMITS
    assert not expected["fsck"].strip()
    for what, text in expected.items():
        assert got[what] == text, what
