"""Running a small program under observation in a fork, and what the causes then make of its evidence."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from forked import Result, run_forked

from graphdoc.diagnose import Found, findings_for
from graphdoc.evidence import AS_IF, Evidence
from graphdoc.finding import Remedy
from graphdoc.fixes.fix_kind import CannotFix
from graphdoc.fixes.kinds import build
from graphdoc.probe import question
from graphdoc.source.module import Source


@dataclass(frozen=True)
class Seen:
    """One observed run: how it ended, its evidence (None where nothing failed) and what was found, best first."""

    result: Result
    evidence: Evidence | None
    found: list[Found]

    @property
    def slugs(self) -> list[str]:
        return [f.cause.slug for f in self.found]

    @property
    def said(self) -> str:
        """What the first finding tells."""
        f = self.found[0].finding
        return " ".join((f.title, f.explanation, f.because, *(s.label for s in f.spans)))

    @property
    def mended(self) -> bool:
        """Whether the program ran to its end and nothing is told of it."""
        kept = self.evidence
        seen_to_go_on = kept is not None and any(s.kind in AS_IF for s in kept.signs)  # its error was never raised
        failed = kept is not None and kept.raised is not None and not seen_to_go_on
        return self.result.status == 0 and not failed and not self.found

    def lines(self, role: str) -> list[str]:
        """The stripped source lines of the first finding's spans of this role."""
        assert self.evidence is not None
        out = []
        for s in self.found[0].finding.spans if self.found else ():
            text = self.evidence.sources[s.file].splitlines()
            if s.role == role:
                out += [line.strip() for line in text[s.line - 1 : s.end_line]]
        return out

    def lines_of_user(self, role: str) -> list[str]:
        """The same for places in the user's own files alone."""
        assert self.evidence is not None
        out = []
        for s in self.found[0].finding.spans if self.found else ():
            text = self.evidence.sources.get(s.file, "").splitlines()
            if s.role == role and text:
                out += [line.strip() for line in text[s.line - 1 : s.end_line]]
        return out

    def patches(self) -> list[tuple[str, dict[str, str]]]:
        """Kind and new texts of every remedy of the first finding that can be built, best first."""
        assert self.evidence is not None
        return built(self.found[0].finding.remedies if self.found else (), self.evidence.sources)


def built(remedies: Iterable[Remedy], texts: Mapping[str, str]) -> list[tuple[str, dict[str, str]]]:
    """Kind and new texts of every remedy that can be built on these sources."""
    sources = {f: Source(f, t) for f, t in texts.items()}
    out = []
    for remedy in remedies:
        try:
            out.append((remedy.kind, build(remedy.kind, sources, remedy.args)))
        except CannotFix:
            continue
    return out


def failing_line(traceback: str) -> str:
    """The innermost line of the program in a traceback."""
    places = [
        code for at, code in pairwise(traceback.splitlines()) if re.match(r'  File ".*/(patched_\d+|train)\.py"', at)
    ]
    return places[-1].strip() if places else ""


def observe(folder: Path, code: str, name: str = "train.py", **others: str) -> Seen:
    """Write the program (and ``others``, module name → code) into the folder, run it, look again where that helps."""
    folder.mkdir(parents=True, exist_ok=True)
    script = folder / name
    script.write_text(code)
    for module, text in others.items():
        (folder / f"{module}.py").write_text(text)
    result, evidence = _run(script, folder / "first", "observe")
    mode = question(evidence) if evidence is not None else ""
    if mode:
        _, again = _run(script, folder / "second", mode)
        known = {s.kind: s.facts for s in evidence.signs} if evidence is not None else {}
        for sign in again.signs if again is not None else ():
            sign.facts = {**known.get(sign.kind, {}), **sign.facts}  # as graphdoc.probe joins the two
        evidence = again or evidence
    found, notes = findings_for(evidence) if evidence is not None else ([], [])
    assert not any("recogniser" in n for n in notes), notes
    return Seen(result, evidence, found)


def _run(script: Path, out: Path, mode: str) -> tuple[Result, Evidence | None]:
    out.mkdir()

    def setup() -> None:
        from graphdoc.capture import install

        hook = sys.excepthook

        def remember(kind: type[BaseException], error: BaseException, trace: object) -> None:
            # What the interpreter does before it calls the hook, and what runpy's caller does not.
            sys.last_value = error
            hook(kind, error, trace)  # type: ignore[arg-type]

        sys.excepthook = remember
        install(str(out), mode)

    result = run_forked(script, setup=setup)
    trouble = [f.read_text() for f in out.glob("trouble-*")]
    assert not trouble, trouble
    files = list(out.glob("evidence-*.json"))
    return result, Evidence.read(str(files[0])) if files else None
