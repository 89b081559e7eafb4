"""The files of a pull request as its page shows them: which lines are new, and what stands in them."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from graphdoc.sourcetext import read_source
from graphdoc.unified_diff import parse

_DIFF = ("-c", "core.quotePath=off", "diff", "--merge-base", "--no-ext-diff", "--no-color", "--no-renames", "-U0")


@dataclass(frozen=True)
class PullRequest:
    """``lines`` are those that it adds or changes, from 1, by path from the repository's top.

    ``prefix`` is the folder below the top in which graphdoc was run, ``""`` or ``"sub/"``: what a report calls its
    files starts there. ``commit`` is the last commit of the pull request; empty for the work tree.
    """

    top: Path
    prefix: str
    lines: Mapping[str, set[int]]
    commit: str = ""

    def place(self, path: str, first: int, old: list[str]) -> str:
        """The path from the top of the file that a patch calls ``path`` and in which the ``old`` lines stand from line
        ``first`` on; empty where there is none, for what a patch was made for may not be what the page shows."""
        for found in dict.fromkeys((self.prefix + path, path)):
            if self.lines.get(found) and self._text(found)[first - 1 : first - 1 + len(old)] == old:
                return found
        return ""

    def _text(self, path: str) -> list[str]:
        try:
            data = git(self.top, "show", f"{self.commit}:{path}") if self.commit else read_source(str(self.top / path))
        except (OSError, subprocess.CalledProcessError):
            return []
        return (data or b"").decode("utf-8", "replace").split("\n")


def pull_request(base: str, commit: str, folder: Path) -> PullRequest:
    """What is new since the merge base with ``base``: in ``commit``, or in the work tree of ``folder`` if it is empty.

    Raises:
        subprocess.CalledProcessError: git does not know one of the two, or ``folder`` is in no repository.
    """
    top, prefix = git(folder, "rev-parse", "--show-toplevel", "--show-prefix").decode().split("\n")[:2]
    text = git(Path(top), *_DIFF, "--src-prefix=a/", "--dst-prefix=b/", base, *([commit] if commit else []), "--")
    files = parse(text.decode("utf-8", "replace"))
    lines = {file.path: {c.new_start + n for c in file.changes for n in range(len(c.new))} for file in files}
    return PullRequest(Path(top), prefix, lines, commit)


def git(folder: Path, *words: str) -> bytes:
    """What a command of git's prints.

    Raises:
        subprocess.CalledProcessError: it fails.
    """
    return subprocess.run(["git", *words], cwd=folder, capture_output=True, check=True).stdout
