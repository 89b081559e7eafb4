"""Probes, each of which looks at one question and adds to the same Evidence, and the one that every run has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphdoc.capture.events.scaling import ScalerCalls
from graphdoc.evidence import GRADIENTS_ASKED, Sign

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphdoc.capture.graph.autopsy import Autopsy
    from graphdoc.capture.witness import Witness
    from graphdoc.evidence import Evidence


class GradientsAsked:
    """``gradients-asked``: an optimizer has stepped, and its gradients are to be measured. What the user has asked for,
    so that a run of which nothing is to be told asks for its second run too."""

    def __init__(self, witness: Witness) -> None:
        self._journal = witness.journal

    def found(self) -> bool:
        """Whether there is anything to tell."""
        return bool(self._journal.optimizers)

    def tell(self, evidence: Evidence) -> None:
        """Add it."""
        evidence.signs.append(Sign(GRADIENTS_ASKED, weak=True, facts={"optimizers": self._journal.trained}))


class DefaultProbe:
    """The user's Functions in the failing graph, the calls of a GradScaler, the tensor that an optimizer refused."""

    def __init__(self, witness: Witness) -> None:
        self._witness = witness
        self._scaler = ScalerCalls()

    @classmethod
    def start(cls, witness: Witness) -> DefaultProbe:
        probe = cls(witness)
        witness.undoing += probe._scaler.watch(witness)
        return probe

    @property
    def scaled(self) -> bool:
        """Whether a GradScaler was used."""
        return self._scaler.used

    @property
    def scaler_calls(self) -> list[Any]:
        """Its latest calls, oldest first."""
        return list(self._scaler.calls)

    def fill_scaler(self, evidence: Evidence, cwd: str) -> None:
        """Tell them of a run that was not ended by one."""
        self._scaler.fill_ended(evidence, cwd)

    @property
    def starved(self) -> dict[str, Any] | None:
        """What is known of a GradScaler that leaves out every step (see ``graphdoc.capture.events.scaling``)."""
        return self._scaler.starved

    def audited(self) -> list[Sign]:
        """What a run that goes on tells of it."""
        return self._scaler.signs(self._witness.cwd)

    def fill(self, evidence: Evidence, autopsy: Autopsy, roots: list[Any], _outputs: list[Any]) -> None:
        """Called for each failure; what cannot be told is left out, and never costs the rest of the evidence."""
        from graphdoc.capture.graph import functions, refused, resharded

        parts: list[Callable[[], None]] = [
            lambda: functions.fill(evidence, autopsy, roots),
            lambda: self._scaler.fill(evidence, autopsy.cwd),
            lambda: resharded.fill(evidence, autopsy) if roots else None,
        ]
        if not roots:
            parts.append(lambda: refused.fill(evidence, autopsy))
        for tell in parts:
            try:
                tell()
            except Exception as e:
                self._witness.trouble(e)


# Probes: each looks at one question and adds to the same Evidence; all but the standing one belong to a second run.


def attach(witness: Witness, kind: str) -> None:
    """Add a probe to a witness that is already installed: ``standing``, ``audit``, ``writes``, ``hidden``, ``cuts``,
    ``product``, ``whatif[:all][:OPTIMIZER...]``, ``nonfinite[:START[:only|:all]]``, ``verify`` or ``compare``.
    """
    kind, _, detail = kind.partition(":")
    if kind == "audit":
        from graphdoc.capture.audit import Audit

        witness.audits.append(Audit.start(witness))
    elif kind == "check-gradients":
        witness.audits.append(GradientsAsked(witness))
    elif kind == "always":
        witness.probes.append(DefaultProbe.start(witness))
    elif kind == "writes":
        from graphdoc.capture.second_run.writes import WriteWatch

        witness.probes.append(WriteWatch.start(witness))
    elif kind == "hidden":
        from graphdoc.capture.second_run.writes import HiddenWrites

        witness.probes.append(HiddenWrites.start(witness))
    elif kind == "cuts":
        from graphdoc.capture.second_run.cuts import CutWatch

        witness.probes.append(CutWatch.start(witness))
    elif kind == "whatif":
        from graphdoc.capture.whatif import WhatIf

        witness.probes.append(WhatIf.start(witness, detail))
    elif kind == "product":
        from graphdoc.capture.second_run.one_side import OneSide

        witness.probes.append(OneSide.start(witness))
    elif kind == "verify":
        from graphdoc.capture.trials.trace import StepTrace

        witness.probes.append(StepTrace.start(witness))
    elif kind == "compare":
        from graphdoc.capture.trials.comparing import Compared

        witness.probes.append(Compared.start(witness))
    elif kind == "nonfinite":
        from graphdoc.capture.second_run.close_look import CloseLook

        CloseLook.start(witness, detail)
