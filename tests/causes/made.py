"""Evidence made by hand for the tests of recognisers: a program's text, and places in it found by their source."""

from __future__ import annotations

from collections.abc import Iterable

from graphdoc.causes import find
from graphdoc.causes.base import Cause
from graphdoc.evidence import Cut, Event, Evidence, Frame, Parameter, Raised
from graphdoc.finding import Finding
from graphdoc.program.observed import program_of

FILE = "train.py"
NO_GRAPH = "element 0 of tensors does not require grad and does not have a grad_fn"
UNUSED = "One of the differentiated Tensors appears to not have been used in the graph. Set allow_unused=True"


def only(slugs: Iterable[str], evidence: Evidence) -> tuple[str, Finding]:
    """The one of these causes that recognises the evidence; a second one would be a fault."""
    found = [(slug, finding) for slug in slugs if (finding := cause(slug).recognise(program_of(evidence)))]
    assert len(found) == 1, [slug for slug, _ in found]
    return found[0]


def lines(finding: Finding, role: str = "cause") -> list[int]:
    """The first lines of a finding's places of this role."""
    return [s.line for s in finding.spans if s.role == role]


class Program:
    """A program's source. ``program.at("model(x)")`` is the frame of that expression, wherever it first stands."""

    def __init__(self, source: str) -> None:
        self.source = source

    def at(self, text: str, function: str = "<module>", nth: int = 0) -> Frame:
        start = -1
        for _ in range(nth + 1):
            start = self.source.index(text, start + 1)
        line = self.source.count("\n", 0, start) + 1
        column = start - (self.source.rfind("\n", 0, start) + 1) + 1
        return Frame(FILE, line, column, line, column + len(text), function, True)

    def evidence(
        self,
        message: str = NO_GRAPH,
        at: Frame | None = None,
        kind: str = "RuntimeError",
        *,
        cuts: list[Cut] | None = None,
        events: list[Event] | None = None,
        parameters: list[Parameter] | None = None,
        extras: dict[str, object] | None = None,
        warnings: list[str] | None = None,
        from_text: bool = False,
    ) -> Evidence:
        """The evidence of a run of this program that ended with ``message`` at the frame."""
        return Evidence(
            raised=Raised(kind, message, [at] if at else []),
            cuts=cuts or [],
            events=events or [],
            parameters=parameters or [],
            extras=dict(extras or {}),
            warnings=warnings or [],
            sources={} if from_text else {FILE: self.source},
            from_text=from_text,
            failing_event=next((e.index for e in events or [] if e.failed), -1),
        )


def library(file: str = "/site-packages/torch/_tensor.py") -> Frame:
    """A frame that is not the user's."""
    return Frame(file, 1, 1, 1, 2, "inner", False)


def local(path: str, *, leaf: bool, requires_grad: bool, made: Frame | None = None, op: str = "") -> dict[str, object]:
    """An entry of ``extras["locals"]``: a tensor that the program could reach."""
    return {
        "path": path,
        "function": "<module>",
        "requires_grad": requires_grad,
        "is_leaf": leaf,
        "op": op,
        "made": [vars(made)] if made else [],
    }


def cause(slug: str) -> Cause:
    """The cause with this slug."""
    found = find(slug)
    assert found is not None
    return found
