"""The Diagnosis model: what every cause produces and every output format renders."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Literal

from graphdoc.address import page_address
from graphdoc.shapes import Picture

if TYPE_CHECKING:
    from graphdoc.finding import Remedy

SCHEMA_VERSION = 1

Role = Literal["cause", "created", "consumed", "freed", "mutated", "failed", "related"]
Confidence = Literal["certain", "likely", "possible"]
Safety = Literal["safe", "unsafe", "placeholders", "display"]
Outcome = Literal["autograd-failure", "other-failure", "completed"]

COMPLETE: frozenset[Safety] = frozenset(("safe", "unsafe"))
"""Of a fix with a patch: it can be applied as it stands, and tried. One with placeholders is an edit that its user has
to finish: each placeholder is a name that the program does not know, so that no run goes past it unnoticed."""
CONFIDENCE_ORDER: tuple[Confidence, ...] = ("certain", "likely", "possible")


def _told(one: Any, *left_out: str) -> dict[str, Any]:
    """The fields of a dataclass as the contract has them; lists for tuples, and without those that it does not have."""
    told = ((f.name, getattr(one, f.name)) for f in fields(one) if f.name not in left_out)
    return {name: list(value) if isinstance(value, tuple) else value for name, value in told}


@dataclass(frozen=True)
class Span:
    """One place in the user's source and what it has to do with the failure.

    Lines and columns count from 1, columns in characters, ``end_column`` is exclusive. ``file`` is relative to the
    working directory of the run where it lies below it, absolute otherwise. ``when`` orders places in time: the number
    of the graph node that was made there, or the number at which a call was made and the call's index; None where that
    is not known.
    """

    role: Role
    file: str
    line: int
    column: int
    end_line: int
    end_column: int
    label: str = ""
    when: tuple[int, int] | None = field(default=None, compare=False)

    @property
    def start(self) -> tuple[str, int, int]:
        """Where the place begins: file, line and column."""
        return self.file, self.line, self.column

    @property
    def extent(self) -> tuple[str, int, int, int, int]:
        """The whole place: file, line and column, and where it ends."""
        return self.file, self.line, self.column, self.end_line, self.end_column

    def to_json(self) -> dict[str, Any]:
        return _told(self, "when")


@dataclass(frozen=True)
class Fix:
    """One proposed change: a unified diff, how safe it is, and what was measured when it was tried.

    ``diff`` has ``a/`` and ``b/`` headers and may touch several files; it is empty for a fix that is only described.
    ``note`` says in one sentence what then flows where. ``verified`` is None until the fix was tried. ``base`` is the
    absolute path of the folder that the names in ``diff`` start from; empty for the working directory. ``called`` is
    ``safe`` where only a comparison of gradients is missing that it be so. ``placeholders`` says of each name that the
    patch leaves open what is to be written in its place.
    """

    id: str
    title: str
    safety: Safety
    diff: str = ""
    note: str = ""
    verified: bool | None = None
    verification: Mapping[str, Any] = field(default_factory=dict)
    base: str = ""
    called: str = ""
    placeholders: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_complete(self) -> bool:
        """Whether there is a patch that can be applied, and tried, as it stands."""
        return bool(self.diff) and self.safety in COMPLETE

    @property
    def offered(self) -> str:
        """The diff for a report: none of a fix that has failed when it was tried."""
        return "" if self.verified is False else self.diff

    @property
    def how_safe(self) -> str:
        """``safe`` or ``unsafe``; of one that is safe by its kind, what its gradients are known to be."""
        if self.safety != "unsafe" or "safe" not in (self.called, self.verification.get("called")):
            return self.safety
        untold = self.verification.get("unmeasured") or self.verification.get("without_reference") or self.called
        return "likely safe" if untold else "unsafe: other gradients"

    def to_json(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "title": self.title,
            "safety": self.safety,
            "note": self.note,
            "diff": self.offered,
            "verified": self.verified,
            "verification": dict(self.verification),
            **({"placeholders": dict(self.placeholders)} if self.placeholders else {}),
            **({"base": self.base} if self.base else {}),
        }


@dataclass(frozen=True)
class Diagnosis:
    """One cause found in the evidence, with the places that prove it and the fixes for it, best first.

    ``title`` is one line in the user's words; ``explanation`` a few sentences; ``facts`` are short measured
    statements (a parameter's name and versions, an iteration number) shown as notes. ``because`` is the one sentence
    of evidence that a short report gives; without one, and without a fact, it gives ``proof``, which says what is sure
    of faults of this kind. ``remedies`` are what patches are made from; both are no part of the contract.
    """

    code: str
    cause: str
    confidence: Confidence
    title: str
    explanation: str
    spans: tuple[Span, ...] = ()
    facts: tuple[str, ...] = ()
    fixes: tuple[Fix, ...] = ()
    because: str = ""
    proof: str = field(default="", compare=False, repr=False)
    remedies: tuple[Remedy, ...] = field(default=(), compare=False, repr=False)

    def to_json(self) -> dict[str, Any]:
        page = page_address(self.code)
        return {
            "code": self.code,
            "cause": self.cause,
            **({"page": page} if page else {}),
            "confidence": self.confidence,
            "title": self.title,
            "explanation": self.explanation,
            "because": self.because,
            "facts": list(self.facts),
            "spans": [s.to_json() for s in self.spans],
            "fixes": [f.to_json() for f in self.fixes],
        }

    def with_fixes(self, fixes: tuple[Fix, ...]) -> Diagnosis:
        return replace(self, fixes=fixes)


@dataclass(frozen=True)
class Run:
    """How the observed program was started and how it ended. ``seconds`` is wall-clock time.

    ``fixed_by`` is the command that mends it, no part of the contract: a notebook has one of its own, which tries
    nothing.
    """

    command: tuple[str, ...] = ()
    python: str = ""
    torch: str = ""
    exit_status: int = 0
    seconds: float = 0.0
    ranks: int = 1
    fixed_by: str = "graphdoc fix"

    def to_json(self) -> dict[str, Any]:
        return {**_told(self, "fixed_by"), "seconds": round(self.seconds, 3)}


@dataclass(frozen=True)
class Observed:
    """Whether the run was observed: a result of its own, beside the outcome.

    ``complete`` is False where torch was, or may have been, in a process that was not observed to its end; ``why``
    says so in one sentence without a full stop. ``torch`` is False where it was not seen to be imported at all. Only
    where both are True does a report without a diagnosis say that nothing is wrong with the graph.
    """

    complete: bool = True
    torch: bool = True
    why: str = ""

    def to_json(self) -> dict[str, Any]:
        return _told(self)


@dataclass(frozen=True)
class Report:
    """Everything one run (or one pasted log) has to say; the only thing that a renderer sees.

    ``exception`` is ``{"type": ..., "message": ...}`` or None. ``sources`` maps a span's file to that file's text as
    it was during the run, so that a report can show code on another machine. ``notes`` are plain sentences about the
    run itself: what a second run found, which ranks only waited. What was not observed is in ``observed``. ``left_out``
    says which fixes have no patch here, and why: for those who ask for all fixes. ``picture`` is for formats that can
    draw, and no part of the contract.
    """

    run: Run
    outcome: Outcome
    exception: Mapping[str, str] | None = None
    diagnoses: tuple[Diagnosis, ...] = ()
    notes: tuple[str, ...] = ()
    sources: Mapping[str, str] = field(default_factory=dict)
    observed: Observed = Observed()
    left_out: tuple[str, ...] = ()
    picture: Picture = field(default=Picture(), compare=False)

    def to_json(self) -> dict[str, Any]:
        """The JSON document of the contract (``schema_version`` 1)."""
        return {
            "schema_version": SCHEMA_VERSION,
            "run": self.run.to_json(),
            "outcome": self.outcome,
            "observed": self.observed.to_json(),
            "exception": dict(self.exception) if self.exception else None,
            "diagnoses": [d.to_json() for d in self.diagnoses],
            "notes": list(self.notes),
            "left_out": list(self.left_out),
        }
