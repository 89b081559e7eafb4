"""What trials have found, kept with the run: no patch is tried twice for one run."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from graphdoc.documents import Unreadable, read_object
from graphdoc.files import write_private
from graphdoc.verify.compared import Verdict

FOLDER = "trials"
_VERSION = 1
MOST_BYTES = 16_000_000
"""Of one verdict, or of the patches put together from one."""


class Results:
    """The verdicts of one kept run, by the text of the patch and what was asked of it."""

    def __init__(self, run: Path) -> None:
        self.folder = run / FOLDER
        self.writable = (run / "run.json").is_file()
        """Only a run that graphdoc keeps gets a folder; beside a file of Evidence from elsewhere nothing is written."""

    def get(self, key: str, seconds: float, asked: bool = False) -> Verdict | None:
        """The verdict with this key; not one that was left open because fewer seconds were given then, nor, where the
        user asks for the trial, one that it was refused.
        """
        try:
            found = read_object(self.folder / f"{key}.json", MOST_BYTES)
            if found["version"] != _VERSION or (found["open"] and found["seconds"] < seconds):
                return None
            verified = found["verified"]
            if verified not in (True, False, None) or not isinstance(found["data"], dict):
                return None
            verdict = Verdict(verified, str(found["summary"]), found["data"])
            return None if asked and verdict.refused and not verdict.open else verdict
        except (Unreadable, KeyError, TypeError):
            return None

    def further(self, key: str) -> list[dict[str, Any]]:
        """The patches that were put together from the one with this key, as ``keep_further`` was given them."""
        try:
            found = read_object(self.folder / f"{key}.further.json", MOST_BYTES)
            told = found["patches"] if found["version"] == _VERSION else []
            return [one for one in told if _is_patch(one)]
        except (Unreadable, KeyError, TypeError):
            return []

    def keep_further(self, key: str, patches: Sequence[Mapping[str, Any]]) -> None:
        """Keep what was put together from a patch; where that is not possible, it is done again the next time."""
        self._write(f"{key}.further.json", {"version": _VERSION, "patches": list(patches)})

    def keep(self, key: str, verdict: Verdict, seconds: float) -> None:
        """Keep a verdict; where that is not possible, the patch is tried again the next time."""
        document = {
            "version": _VERSION,
            "verified": verdict.verified,
            "summary": verdict.summary,
            "data": verdict.data,
            "open": verdict.open,
            "seconds": seconds,
        }
        self._write(f"{key}.json", document)

    def _write(self, name: str, document: Mapping[str, Any]) -> None:
        if not self.writable:
            return
        try:
            self.folder.mkdir(mode=0o700, exist_ok=True)
            write_private(self.folder / name, (json.dumps(document, indent=1) + "\n").encode())
        except OSError:
            pass


def _is_patch(one: Any) -> bool:
    named = isinstance(one, dict) and all(isinstance(one.get(k), str) for k in ("id", "title", "note", "safety"))
    return named and all(isinstance(one.get(k), dict) for k in ("link", "texts"))


def key_of(texts: Mapping[str, str], safe: bool, same_numbers: bool) -> str:
    """The key of a patch: its whole text and what it is measured by."""
    asked = json.dumps([sorted(texts.items()), safe, same_numbers])
    return hashlib.sha256(asked.encode("utf-8", "surrogatepass")).hexdigest()[:32]
