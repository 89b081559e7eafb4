"""What a trial compares and what comes of it: how the patched run ended, the original beside it, the verdict."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from graphdoc.evidence import Evidence
from graphdoc.fixes.traits import NO_TRAITS, Traits
from graphdoc.verify.traces import Line, Trace

TOLERANCE = 1e-4
"""Relative difference of gradients up to which two runs count as equal."""


@dataclass
class Verdict:
    """``verified`` is None where the trial ended well enough but something speaks against calling it proven.

    ``equal`` is False where a fix that was to leave the gradients as they are has not. ``unmeasured``: nothing speaks
    against it, but there was nothing to compare with. ``open``: more time may tell more. ``refused``: it was not tried,
    because the program does what cannot be kept from the user's files; where it is ``open`` as well, because the time
    was used up. ``failed`` is the evidence of the other failure
    that the patched run met behind the first one, if it did, and ``elsewhere`` whether another call raised it; neither
    is kept with the verdict.
    """

    verified: bool | None
    summary: str
    data: dict[str, Any] = field(default_factory=dict)
    failed: Evidence | None = None
    elsewhere: bool = False

    @property
    def unmeasured(self) -> bool:
        return bool(self.data.get("unmeasured"))

    @property
    def without_reference(self) -> bool:
        """Whether a fix that was to leave the gradients as they are is proven by what trains alone."""
        return bool(self.data.get("without_reference"))

    @property
    def unfinite(self) -> bool:
        """Whether a loss or gradient that was to be finite was not."""
        return bool(self.data.get("not_finite"))

    @property
    def draws_again(self) -> bool:
        """Whether a computation runs a second time and draws other random numbers than the first time."""
        return bool(self.data.get("draws_again"))

    @property
    def open(self) -> bool:
        return bool(self.data.get("open"))

    @property
    def refused(self) -> bool:
        return self.data.get("tried") is False

    @property
    def equal(self) -> bool:
        return bool(self.data.get("max_relative_difference", 0.0) <= TOLERANCE)

    @property
    def differs(self) -> bool:
        """Whether numbers of the patched run were found to differ from the original's, or something was doubted."""
        gaps = (self.data.get("reference_gradients", 0.0), self.data.get("reference_loss", 0.0))
        told = self.data.get("doubts") or self.data.get("draws_elsewhere")
        return bool(told) or (self.verified is not False and max(gaps) > TOLERANCE)

    def to_json(self) -> dict[str, Any]:
        return {**self.data, "summary": self.summary}


@dataclass
class Outcome:
    """How the patched program ended, as far as traces do not tell: ``failure`` is its exception, ``same`` and
    ``autograd`` whether that is the original's and one of autograd's, ``clumsy`` whether the patch itself is at fault.
    ``stopped``: it was ended, having gone far enough behind the failure; ``refused`` is what it did that could not be
    kept from the user's files, and ``printed`` the last line of its output. ``outside``: how a trial may be to blame
    for the exception. ``still``: what had been seen in the original, which went on, is seen in it too.
    ``left`` is a doubt: something else of the same kind is still seen.
    ``next`` is the evidence of a failure of autograd's that is not the original's, ``elsewhere`` whether another call
    raised it, ``passed`` whether a later one did, and ``place`` names where, as the end of a sentence. ``later``: the
    exception is none of autograd's, and nothing that was changed leads to where it came from. ``traits`` are what the
    change says of itself.
    """

    exit_status: int
    timed_out: bool
    seconds: float
    failure: str = ""
    same: bool = False
    autograd: bool = False
    clumsy: bool = False
    stopped: bool = False
    refused: str = ""
    printed: str = ""
    outside: str = ""
    still: bool = False
    left: str = ""
    next: Evidence | None = None
    elsewhere: bool = False
    passed: bool = False
    place: str = ""
    later: bool = False
    traits: Traits = NO_TRAITS


@dataclass
class Baseline:
    """The original's trace. ``failing`` is the journal index of the call that failed, -1 where none is known.

    ``no_reference`` says why the trace does not hold the gradients that a safe fix has to give (it goes no further than
    that point, or its gradients behind it are not those to aim for), and is empty where it does. ``expected`` are names
    of parameters that the evidence says are to receive gradient. ``sound`` is False where what the original did before
    it failed was wrong already: gradients that were never exchanged between ranks. ``own_graph`` are names of the
    parameters that the failing call reached by nodes newer than the earlier calls. ``spared`` are names of parameters
    that are to receive no gradient any more, ``once`` of those behind a value that was computed once for all calls,
    ``piled`` of those whose gradients nobody has cleared, ``meant`` of those whose gradients are to be others, in a run
    that went on.
    ``steady`` is False where the original's own numbers differ from run to run. ``gone`` says in a sentence's first
    half what a patch has to achieve. ``reached_from`` are names of the parameters behind the original's backward calls,
    the failing one among them, by place; empty where one of them is not known. ``old_parts`` are names of the
    parameters behind what is stale, freed or older in the failing graph. ``late``: its time was up before its end.
    ``covered`` are the places of backward calls that were seen to reach no parameter. ``unfinite``: the original
    went on with values that are not finite, which a patch is to end.
    """

    trace: Trace
    failing: int = -1
    no_reference: str = "the unpatched program could not be made to go on"
    expected: frozenset[str] = frozenset()
    sound: bool = True
    own_graph: frozenset[str] = frozenset()
    spared: frozenset[str] = frozenset()
    once: frozenset[str] = frozenset()
    piled: frozenset[str] = frozenset()
    meant: frozenset[str] = frozenset()
    steady: bool = True
    gone: str = "the crash is gone"
    reached_from: Mapping[Line, frozenset[str]] = field(default_factory=dict)
    old_parts: frozenset[str] = frozenset()
    late: bool = False
    covered: frozenset[Line] = frozenset()
    unfinite: bool = False
