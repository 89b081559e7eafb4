"""``python -m graphdoc.doors.cells RUN``: the report of a failed cell as text and HTML, and the cell as the fix has it.

Runs in a process of its own, beside the kernel. Prints one JSON object.
"""

from __future__ import annotations

import io
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from graphdoc.cli.running import with_patches
from graphdoc.diagnose import report_for
from graphdoc.errors import UsageError
from graphdoc.fixes.apply import patched
from graphdoc.launch.keep import open_run
from graphdoc.launch.scratch import scratch
from graphdoc.model import Fix, Report
from graphdoc.probe import question
from graphdoc.processes import read_processes
from graphdoc.render import render

ALONE = "a notebook's session cannot be run a second time to tell more; the same code in a script can"


def answer(folder: Path) -> dict[str, Any]:
    """What the notebook shows of the run in ``folder``."""
    kept = open_run(folder, Path.cwd())
    report = with_patches(kept, report_for(kept))
    evidence = read_processes(kept).first
    if report.diagnoses and evidence is not None and question(evidence):
        report = replace(report, notes=(*report.notes, ALONE))
    report = replace(report, run=replace(report.run, fixed_by="%graphdoc fix"))
    texts = {name: evidence.sources.get(name, "") for name in evidence.extras.get("cells", [])} if evidence else {}
    fixes = [f for d in report.diagnoses for f in d.fixes if f.is_complete]
    chosen = next((found for fix in fixes if (found := _changed(fix, texts))), None)
    return {
        "text": render(report, "terminal"),
        "html": as_html(report),
        "report": report.to_json(),
        "fix": chosen[0] if chosen else "",
        "cells": chosen[1] if chosen else {},
    }


def as_html(report: Report) -> str:
    """The terminal's report as one ``<pre>`` with its colours, for a page that has its own style."""
    from rich.console import Console
    from rich.text import Text

    console = Console(record=True, file=io.StringIO(), width=160, legacy_windows=False)
    console.print(Text.from_ansi(render(report, "terminal", color=True)), soft_wrap=True)
    return console.export_html(inline_styles=True, code_format='<pre style="line-height:1.25">{code}</pre>')


def _changed(fix: Fix, texts: dict[str, str]) -> tuple[str, dict[str, str]] | None:
    """What a fix is, and the new text of the cells that it changes; None where it changes no cell or a file as well."""
    with scratch() as folder:
        for name, text in texts.items():
            (folder / name).write_text(text, encoding="utf-8")
        try:
            found = patched(fix.diff, folder)
        except UsageError:
            return None
    note = f": {fix.note}" if fix.note else ""
    return f"{fix.title} [{fix.safety}, not tried]{note}", {path.name: data.decode() for path, data in found.items()}


if __name__ == "__main__":
    print(json.dumps(answer(Path(sys.argv[1]))))
