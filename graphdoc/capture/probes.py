"""Probes: what only a second run can know cheaply enough. Each looks at one question and adds to the same Evidence."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from graphdoc.capture.witness import Witness


def attach(witness: Witness, kind: str) -> None:
    """Add the probe of this kind (``writes`` or ``cuts``) to a witness that is already installed."""
    if kind == "writes":
        from graphdoc.capture.writes import WriteWatch

        witness.probes.append(WriteWatch.start(witness))
    elif kind == "cuts":
        from graphdoc.capture.cuts import CutWatch

        witness.probes.append(CutWatch.start(witness))
    elif kind == "verify":
        from graphdoc.capture.trace import StepTrace

        witness.probes.append(StepTrace.start(witness))
