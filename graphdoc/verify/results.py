"""What trials have found, kept with the run: no patch is tried twice for one run."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

from graphdoc.files import write_whole
from graphdoc.verify.verdict import Verdict

FOLDER = "trials"
_VERSION = 1


class Results:
    """The verdicts of one kept run, by the text of the patch and what was asked of it."""

    def __init__(self, run: Path) -> None:
        self.folder = run / FOLDER
        self.writable = (run / "run.json").is_file()
        """Only a run that graphdoc keeps gets a folder; beside a file of Evidence from elsewhere nothing is written."""

    def get(self, key: str, seconds: float) -> Verdict | None:
        """The verdict with this key; not one that was left open because fewer seconds were given then."""
        try:
            found = json.loads((self.folder / f"{key}.json").read_bytes())
            if found["version"] != _VERSION or (found["open"] and found["seconds"] < seconds):
                return None
            verified = found["verified"]
            if verified not in (True, False, None) or not isinstance(found["data"], dict):
                return None
            return Verdict(verified, str(found["summary"]), found["data"])
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return None

    def keep(self, key: str, verdict: Verdict, seconds: float) -> None:
        """Keep a verdict; where that is not possible, the patch is tried again the next time."""
        if not self.writable or verdict.refused:
            return
        document = {
            "version": _VERSION,
            "verified": verdict.verified,
            "summary": verdict.summary,
            "data": verdict.data,
            "open": verdict.open,
            "seconds": seconds,
        }
        try:
            self.folder.mkdir(exist_ok=True)
            write_whole(self.folder / f"{key}.json", (json.dumps(document, indent=1) + "\n").encode())
        except OSError:
            pass


def key_of(texts: Mapping[str, str], safe: bool, same_numbers: bool) -> str:
    """The key of a patch: its whole text and what it is measured by."""
    asked = json.dumps([sorted(texts.items()), safe, same_numbers])
    return hashlib.sha256(asked.encode("utf-8", "surrogatepass")).hexdigest()[:32]
