"""``python -m graphdoc.doors.review REPORT.json --base REF``: the patch as review comments with suggestion blocks.

GitHub shows a suggestion only on lines that the pull request changes, and applies it by a click; so a change of the
best fix becomes a comment where all of its old lines are among those, and is left out where they are not. Prints the
JSON array that the ``comments`` of "create a review for a pull request" takes, or with ``--commit`` that whole request.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from graphdoc.unified_diff import Change, parse

BODY = "graphdoc: a patch for the autograd error of this pull request, on the lines that it changes."


def comments(report: dict[str, Any], changed: dict[str, set[int]]) -> list[dict[str, Any]]:
    """One comment for each change of the best fix that lies within the ``changed`` lines of a file, from 1."""
    for diagnosis in report["diagnoses"]:
        for fix in diagnosis["fixes"]:
            if fix["diff"] and fix["safety"] != "display" and fix["verified"] is not False:
                told = f"{diagnosis['code']}: {fix['title']} [{fix['safety']}]"
                found = [(file.path, change) for file in parse(fix["diff"]) for change in file.changes]
                return [c for path, change in found if (c := _comment(path, change, told, changed.get(path, set())))]
    return []


def _comment(path: str, change: Change, told: str, lines: set[int]) -> dict[str, Any] | None:
    first, last, new = change.old_start, change.old_start + len(change.old) - 1, list(change.new)
    if not change.old:
        if change.before is None:
            return None
        # A suggestion replaces lines, so lines that are only added bring the one above with them.
        first = last = change.old_start - 1
        new = [change.before, *new]
    if not set(range(first, last + 1)) <= lines:
        return None
    body = "\n".join(line.removesuffix("\r") for line in new)
    ticks = "`" * max(3, 1 + max((len(run) for run in body.split() if set(run) == {"`"}), default=0))
    place = {"path": path, "line": last, "side": "RIGHT"}
    if first < last:
        place |= {"start_line": first, "start_side": "RIGHT"}
    return {**place, "body": f"{told}\n\n{ticks}suggestion\n{body}{chr(10) if new else ''}{ticks}"}


def changed_lines(base: str, folder: Path) -> dict[str, set[int]]:
    """The lines, by file, that the work tree in ``folder`` has and the merge base with ``base`` has not.

    Raises:
        subprocess.CalledProcessError: git does not know ``base``.
    """
    words = ["git", "-c", "core.quotePath=off", "diff", "--merge-base", "--no-ext-diff", "--no-color", "--relative"]
    words += ["--src-prefix=a/", "--dst-prefix=b/", "-U0", base, "--"]
    text = subprocess.run(words, cwd=folder, capture_output=True, check=True).stdout.decode("utf-8", "replace")
    return {file.path: {c.new_start + n for c in file.changes for n in range(len(c.new))} for file in parse(text)}


def main(words: list[str] | None = None) -> int:
    """Print the comments; 0 where there are any, 1 where no change of the patch lies on a changed line."""
    parser = argparse.ArgumentParser(prog="python -m graphdoc.doors.review", description=__doc__)
    parser.add_argument("report", type=Path, help="what `graphdoc run --report json:FILE` wrote")
    parser.add_argument("--base", required=True, metavar="REF", help="what the pull request is to be merged into")
    parser.add_argument("--commit", metavar="SHA", help="print a whole review of this commit, not its comments alone")
    chosen = parser.parse_args(words)
    try:
        report = json.loads(chosen.report.read_text(encoding="utf-8"))
        found = comments(report, changed_lines(chosen.base, Path.cwd()))
    except (OSError, ValueError, KeyError, subprocess.CalledProcessError) as e:
        print(f"graphdoc: {type(e).__name__}: {e}", file=sys.stderr)
        return 2
    told: Any = found
    if chosen.commit:
        told = {"commit_id": chosen.commit, "event": "COMMENT", "body": BODY, "comments": found}
    print(json.dumps(told, indent=2))
    return 0 if found else 1


if __name__ == "__main__":
    sys.exit(main())
