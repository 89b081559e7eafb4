"""Probes: each looks at one question and adds to the same Evidence; all but the standing one belong to a second run."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from graphdoc.capture.witness import Witness


def attach(witness: Witness, kind: str) -> None:
    """Add a probe to a witness that is already installed: ``standing``, ``audit``, ``writes``, ``hidden``, ``cuts``,
    ``product``, ``whatif[:all]``, ``nonfinite[:START[:only|:all]]`` or ``verify``.
    """
    kind, _, detail = kind.partition(":")
    if kind == "audit":
        from graphdoc.capture.audit import Audit

        witness.audits.append(Audit.start(witness))
    elif kind == "check-gradients":
        from graphdoc.capture.audit.asked import GradientsAsked

        witness.audits.append(GradientsAsked(witness))
    elif kind == "always":
        from graphdoc.capture.default_probe import DefaultProbe

        witness.probes.append(DefaultProbe.start(witness))
    elif kind == "writes":
        from graphdoc.capture.writes import WriteWatch

        witness.probes.append(WriteWatch.start(witness))
    elif kind == "hidden":
        from graphdoc.capture.hidden_writes import HiddenWrites

        witness.probes.append(HiddenWrites.start(witness))
    elif kind == "cuts":
        from graphdoc.capture.cuts import CutWatch

        witness.probes.append(CutWatch.start(witness))
    elif kind == "whatif":
        from graphdoc.capture.whatif import WhatIf

        witness.probes.append(WhatIf.start(witness, detail))
    elif kind == "product":
        from graphdoc.capture.one_side import OneSide

        witness.probes.append(OneSide.start(witness))
    elif kind == "verify":
        from graphdoc.capture.trace import StepTrace

        witness.probes.append(StepTrace.start(witness))
    elif kind == "nonfinite":
        from graphdoc.capture.close_look import CloseLook

        CloseLook.start(witness, detail)
