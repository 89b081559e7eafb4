"""Runs small programs in forks of the test process and reads the traces that they leave."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from forked import Result, run_forked

from graphdoc.capture import install
from graphdoc.evidence import Evidence
from graphdoc.fixes.kinds import NO_TRAITS, Traits
from graphdoc.program.observed import program_of
from graphdoc.verify.compared import Baseline, Outcome, Verdict
from graphdoc.verify.traces import (
    Trace,
    behind_what_was_made_once,
    expected_names,
    failing_index,
    own_graph,
    reached_from,
    read_trace,
    refused_views,
)
from graphdoc.verify.trial import back_to_original
from graphdoc.verify.verdict import behind_old_parts, judge


@dataclass
class Ran:
    """One traced run: how it ended, its trace, and its evidence where it failed."""

    result: Result
    trace: Trace
    evidence: Evidence | None


def traced(folder: Path, source: str, mode: str) -> Ran:
    """Run a program under the capture in this mode."""
    folder.mkdir(parents=True, exist_ok=True)
    script = folder / "train.py"
    script.write_text(textwrap.dedent(source))
    result = run_forked(script, setup=_installer(str(folder), mode))
    trace = read_trace(folder)
    assert trace is not None, result.stderr
    assert not list(folder.glob("trouble-*")), [f.read_text() for f in folder.glob("trouble-*")]
    failed = [Evidence.read(str(f)) for f in folder.glob("evidence-*.json")]
    return Ran(result, trace, failed[0] if failed else None)


def _installer(out: str, mode: str) -> Callable[[], None]:
    return lambda: install(out, mode)


class Sick:
    """A failing program with its reference run, to judge patched versions of it."""

    def __init__(self, folder: Path, source: str) -> None:
        self.folder = folder
        self.source = textwrap.dedent(source)
        self.original = traced(folder / "original", self.source, "verify:-1")
        assert self.original.evidence is not None, "the program does not fail"
        self.failing = failing_index(self.original.evidence)
        views = refused_views(self.original.evidence.raised)
        mode = "verify:reference:views" if views else "verify:reference"
        reference = traced(folder / "reference", self.source, f"{mode}:{self.failing}")
        why = "" if reference.trace.is_past(self.failing, views) else "not beyond"
        evidence = self.original.evidence
        program = program_of(evidence)
        self.baseline = Baseline(
            reference.trace,
            self.failing,
            why,
            expected_names(program),
            own_graph=own_graph(evidence),
            once=behind_what_was_made_once(program.reuse),
            reached_from=reached_from(evidence),
            old_parts=behind_old_parts(evidence, program.reuse),
        )

    def judge(
        self,
        patched: str,
        *,
        safe: bool = False,
        same_numbers: bool = False,
        left: str = "",
        traits: Traits = NO_TRAITS,
    ) -> Verdict:
        """The verdict on a patched version, which must run to its end."""
        text = textwrap.dedent(patched)
        ran = traced(self.folder / "patched", text, f"verify:{self.failing}")
        assert ran.result.status == 0, ran.result.stderr
        path = str((self.folder / "patched" / "train.py").resolve())
        back_to_original(ran.trace, {path: self.source}, {path: text}, str(self.folder / "patched"))
        for file in (self.folder / "patched").iterdir():
            file.unlink()
        outcome = Outcome(0, False, 1.0, left=left, traits=traits)
        return judge(outcome, ran.trace, self.baseline, safe, same_numbers)

    def edited(self, *edits: tuple[str, str]) -> str:
        """The program with each (old, new) text replaced; old must be there."""
        text = self.source
        for old, new in edits:
            assert old in text
            text = text.replace(old, new)
        return text
