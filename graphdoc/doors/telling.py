"""The report of a kept run, made by ``python -m graphdoc show`` in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from graphdoc.launch import Request, as_environment

LONGEST = 180.0
"""Seconds that a report may take, with a second run of the program."""


@dataclass(frozen=True)
class Told:
    """``text`` is the report in the format that was asked for, ``codes`` those of its diagnoses, best first.

    ``place`` is the first place to go to, as ``train.py:12``; ``notes`` what is said of a fault without a diagnosis;
    ``trouble`` a line on why there is no report.
    """

    text: str = ""
    codes: tuple[str, ...] = ()
    place: str = ""
    notes: tuple[str, ...] = ()
    trouble: str = ""


def tell(folder: Path, fmt: str = "terminal", *, rerun: bool = False) -> Told:
    """The report of the run in ``folder``. ``rerun`` runs the program once more where that tells more. Never raises."""
    with tempfile.TemporaryDirectory(prefix="graphdoc-") as scratch:
        answer = Path(scratch, "report.json")
        words = ["show", str(folder), "--format", fmt, "--report", f"json:{answer}", *(["--rerun"] if rerun else [])]
        text, trouble = ask(words)
        try:
            document = json.loads(answer.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return Told(trouble=trouble or "there is no report")
    diagnoses = document["diagnoses"]
    spans = [s for d in diagnoses[:1] for s in d["spans"]]
    place = next((f"{s['file']}:{s['line']}" for s in spans if s["role"] == "cause"), "")
    return Told(text, tuple(d["code"] for d in diagnoses), place, tuple(document["notes"]))


def ask(words: list[str], cwd: str | None = None) -> tuple[str, str]:
    """What ``python -m graphdoc`` says to these words on stdout, and the last line of its stderr if it failed."""
    environment = as_environment(Request(words), None)
    environment.update(NO_COLOR="1", COLUMNS="100", PYTHONIOENCODING="utf-8", PYTHONWARNINGS="ignore")
    try:
        done = subprocess.run(
            [sys.executable, "-m", "graphdoc", *words],
            env=environment,
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=LONGEST,
        )
    except (OSError, subprocess.SubprocessError) as e:
        return "", f"no report could be made: {e}"
    said = done.stderr.decode("utf-8", "replace").strip().splitlines()
    return done.stdout.decode("utf-8", "replace"), said[-1] if said and done.returncode else ""
