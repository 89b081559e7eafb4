"""The report of a kept run, made by ``python -m graphdoc show`` in a process of its own."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from graphdoc.launch import Request, as_environment
from graphdoc.launch.scratch import scratch

LONGEST = 180.0
"""Seconds that a report may take, with a second run of the program."""


@dataclass(frozen=True)
class Told:
    """``text`` is the report as on a terminal, ``codes`` those of its diagnoses, best first.

    ``place`` is the first place to go to, as ``train.py:12``; ``notes`` what is said of a fault without a diagnosis;
    ``trouble`` a line on why there is no report. For a notebook, ``html`` is the report once more, and ``cells`` the
    new text of each cell that the first fix changes, ``fix`` what it is.
    """

    text: str = ""
    codes: tuple[str, ...] = ()
    place: str = ""
    notes: tuple[str, ...] = ()
    trouble: str = ""
    html: str = ""
    fix: str = ""
    cells: Mapping[str, str] = field(default_factory=dict)


def tell(folder: Path, rerun: bool = False) -> Told:
    """The report of the run in ``folder``. ``rerun`` runs the program once more where that tells more. Never raises."""
    with scratch() as place:
        answer = place / "report.json"
        words = ["show", str(folder), "--report", f"json:{answer}", *(["--rerun"] if rerun else [])]
        text, trouble = ask("graphdoc", words)
        try:
            document = json.loads(answer.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return Told(trouble=trouble or "there is no report")
    return _told(text, document)


def tell_cell(folder: Path, _: bool = False) -> Told:
    """The same for a cell of a notebook, which cannot be run again. Never raises."""
    text, trouble = ask("graphdoc.doors.cells", [str(folder)])
    try:
        answer = json.loads(text)
    except ValueError:
        return Told(trouble=trouble or "there is no report")
    told = _told(answer["text"], answer["report"])
    return replace(told, html=answer["html"], fix=answer["fix"], cells=answer["cells"])


def _told(text: str, document: dict[str, Any]) -> Told:
    diagnoses = document["diagnoses"]
    first = re.search(r"^ *--> (.+:\d+):\d+$", text, re.MULTILINE) if diagnoses else None
    place = first[1] if first is not None else ""
    return Told(text, tuple(d["code"] for d in diagnoses), place, tuple(document["notes"]))


def ask(module: str, words: list[str]) -> tuple[str, str]:
    """What ``python -m MODULE`` says to these words on stdout, and the last line of its stderr if it failed."""
    environment = as_environment(Request(words), None)
    environment.update(NO_COLOR="1", COLUMNS="100", PYTHONIOENCODING="utf-8", PYTHONWARNINGS="ignore")
    # What lies in the user's folder is none of our modules. `graphdoc` itself sees to that, and hands its options on.
    safe = [] if module == "graphdoc" else ["-P"]
    try:
        done = subprocess.run(
            [sys.executable, *safe, "-m", module, *words],
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=LONGEST,
        )
    except (OSError, subprocess.SubprocessError) as e:
        return "", f"no report could be made: {e}"
    said = done.stderr.decode("utf-8", "replace").strip().splitlines()
    return done.stdout.decode("utf-8", "replace"), said[-1] if said and done.returncode else ""
