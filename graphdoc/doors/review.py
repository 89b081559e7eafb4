"""``python -m graphdoc.doors.review REPORT.json --base REF``: the patch as review comments with suggestion blocks."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from graphdoc.documents import Unreadable, read_object, read_source
from graphdoc.line_changes import Change, parse
from graphdoc.model import COMPLETE

# A review is posted: one request to GitHub's interface, at the place that a job is told (GITHUB_API_URL).

PLACE = "https://api.github.com"
LONGEST = 60.0
"""Seconds that an answer may take."""


class PostError(Exception):
    """The review was not taken; ``str()`` of it is one line that says why, with the server's own words."""


def post(review: dict[str, Any], *, place: str, repository: str, number: int, token: str) -> None:
    """Create this review of pull request ``number`` of ``repository`` (``owner/name``).

    The request is that of "create a review for a pull request": https://docs.github.com/rest/pulls/reviews

    Raises:
        PostError: it was refused, or nobody answers.
    """
    request = urllib.request.Request(
        f"{place.rstrip('/')}/repos/{repository}/pulls/{number}/reviews",
        json.dumps(review).encode(),
        {
            "Accept": "application/vnd.github+json",
            "Authorization": f"Bearer {token}",
            "Content-Type": "application/json",
            "User-Agent": "graphdoc",
            "X-GitHub-Api-Version": "2022-11-28",
        },
        method="POST",
    )
    try:
        with urllib.request.urlopen(request, timeout=LONGEST):
            pass
    except urllib.error.HTTPError as e:
        raise PostError(f"{e.code} {_said(e.read(10_000)) or e.reason}") from e
    except (OSError, ValueError) as e:  # URLError is an OSError; a place that is no URL is a ValueError
        raise PostError(str(getattr(e, "reason", e))) from e


def _said(answer: bytes) -> str:
    """``message`` and ``errors`` of an answer, in one line."""
    try:
        told = json.loads(answer)
        errors = [e if isinstance(e, str) else str(e.get("message", e)) for e in told.get("errors", [])]
        return " ".join(": ".join([str(told["message"]), *errors[:3]]).split())
    except (ValueError, KeyError, AttributeError, TypeError):
        return ""


# The files of a pull request as its page shows them: which lines are new, and what stands in them.

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


# ``python -m graphdoc.doors.review REPORT.json --base REF``: the patch as review comments with suggestion blocks.
# GitHub shows a suggestion only on lines that the pull request changes, and applies it by a click; so a change of the
# best fix becomes a comment where all of its old lines are among those, and is left out where they are not. Prints
# the JSON array that the ``comments`` of "create a review for a pull request" takes, or with ``--commit`` that whole
# request; ``--post`` sends it.

MOST_BYTES = 100_000_000
"""Of a report; what is longer was not written here."""
BODY = "graphdoc: a patch for the autograd error of this pull request, on the lines that it changes."


def comments(report: dict[str, Any], request: PullRequest) -> list[dict[str, Any]]:
    """One comment for each change of the best fix that lies within the lines that ``request`` changes."""
    for diagnosis in report["diagnoses"]:
        for fix in diagnosis["fixes"]:
            if fix["diff"] and fix["safety"] in COMPLETE and fix["verified"] is not False:
                told = f"{diagnosis['code']}: {fix['title']} [{fix['safety']}]"
                found = [(file.path, change) for file in parse(fix["diff"]) for change in file.changes]
                return [c for path, change in found if (c := _comment(path, change, told, request))]
    return []


def _comment(path: str, change: Change, told: str, request: PullRequest) -> dict[str, Any] | None:
    first, old, new = change.old_start, list(change.old), list(change.new)
    if not old:
        if change.before is None:
            return None
        # A suggestion replaces lines, so lines that are only added bring the one above with them.
        first, old, new = first - 1, [change.before], [change.before, *new]
    last = first + len(old) - 1
    place = request.place(path, first, old)
    if not place or not set(range(first, last + 1)) <= request.lines[place]:
        return None
    body = "\n".join(line.removesuffix("\r") for line in new)
    ticks = "`" * max(3, 1 + max((len(run) for run in body.split() if set(run) == {"`"}), default=0))
    at: dict[str, Any] = {"path": place, "line": last, "side": "RIGHT"}
    if first < last:
        at |= {"start_line": first, "start_side": "RIGHT"}
    return {**at, "body": f"{told}\n\n{ticks}suggestion\n{body}{chr(10) if new else ''}{ticks}"}


def main(words: list[str] | None = None) -> int:
    """Print the comments; 0 where there are any, 1 where no change of the patch lies on a changed line.

    2 where something cannot be done, which one line on stderr says.
    """
    parser = argparse.ArgumentParser(prog="python -m graphdoc.doors.review", description=__doc__)
    parser.add_argument("report", type=Path, help="what `graphdoc run --report json:FILE` wrote")
    parser.add_argument("--base", required=True, metavar="REF", help="what the pull request is to be merged into")
    parser.add_argument("--commit", default="", metavar="SHA", help="print a whole review of this commit")
    parser.add_argument(
        "--post",
        type=int,
        metavar="NUMBER",
        help="send it too, to this pull request of GITHUB_REPOSITORY at GITHUB_API_URL, with the token GH_TOKEN",
    )
    chosen = parser.parse_args(words)
    if chosen.post is not None and not chosen.commit:
        parser.error("--post needs --commit")
    try:
        report = read_object(chosen.report, MOST_BYTES)
        found = comments(report, pull_request(chosen.base, chosen.commit, Path.cwd()))
        told = {"commit_id": chosen.commit, "event": "COMMENT", "body": BODY, "comments": found}
        print(json.dumps(told if chosen.commit else found, indent=2))
        if found and chosen.post is not None:
            place, token = os.environ.get("GITHUB_API_URL") or PLACE, os.environ.get("GH_TOKEN", "")
            repository = os.environ.get("GITHUB_REPOSITORY", "")
            post(told, place=place, repository=repository, number=chosen.post, token=token)
    except subprocess.CalledProcessError as e:
        print(f"graphdoc: {(e.stderr.decode('utf-8', 'replace').strip() or str(e)).splitlines()[0]}", file=sys.stderr)
        return 2
    except (OSError, ValueError, KeyError, TypeError, AttributeError, PostError) as e:
        line = str(e) if isinstance(e, PostError | Unreadable) else f"{type(e).__name__}: {e}"
        print(f"graphdoc: {line}", file=sys.stderr)
        return 2
    return 0 if found else 1


if __name__ == "__main__":
    sys.exit(main())
