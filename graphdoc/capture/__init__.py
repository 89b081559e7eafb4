"""All that runs inside the user's process: standard library and torch, nothing else."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from graphdoc.capture.witness import Witness

_installed: Witness | None = None
_PROBES = {
    "audit": "audit.Audit",
    "writes": "second_run.writes.WriteWatch",
    "hidden": "second_run.writes.HiddenWrites",
    "cuts": "second_run.cuts.CutWatch",
    "nonfinite": "second_run.close_look.CloseLook",
    "whatif": "whatif.WhatIf",
    "verify": "trials.trace.StepTrace",
    "compare": "trials.comparing.Compared",
}
"""What looks at a question of its own, and adds to the same Evidence; all but the audit belong to runs of our own."""


def install(out: str, mode: str = "observe", *, told_of_end: bool = False) -> None:
    """Start observing this process; called once, right after ``torch`` has been executed.

    Args:
        out: the folder into which ``evidence-<pid>.json`` is written.
        mode: ``observe`` (with ``:nan-all``, ``:nan-stop``, ``:nan-off``, ``:no-audit``, ``:audit-all``,
            ``:check-gradients`` or ``:learned`` behind it), ``probe:record``,
            ``probe:writes[:uncompiled]``, ``probe:cuts``, ``probe:nonfinite[:START[:only|:all]]``, ``verify`` (see
            ``graphdoc.capture.trials.trace``) or ``compare`` (see ``graphdoc.capture.trials.comparing``).
        told_of_end: the caller will call ``ended`` when the process ends; else ``atexit`` does, before what the
            program had registered there before it imported torch.

    Never raises: what goes wrong is left as one line in ``trouble-<pid>.txt``.
    """
    from graphdoc.capture.process.marks import leave

    if _installed is not None:
        return
    if disabled():
        leave(out, "disabled")
        return
    _start(out, mode, told_of_end)


def begin(out: str, mode: str = "observe") -> Witness | None:
    """Observe a piece of a program (a test, a cell) in a process that has torch already.

    The witness's ``finish`` or ``undo`` ends it. Args and files as for ``install``. None where this process is observed
    as a whole, where GRAPHDOC_DISABLE is set, or where the capture cannot be put in place (then one line in
    ``trouble-<pid>.txt`` says why). Never raises.
    """
    return None if busy() or disabled() else _start(out, mode, True)


def forget() -> None:
    """Let go of what has observed a piece that is over."""
    global _installed
    if _installed is not None and _installed.over:
        _installed = None


def busy() -> bool:
    """Whether this process is being observed."""
    return _installed is not None and not _installed.over


def disabled() -> bool:
    """Whether the user wants nothing observed."""
    return os.environ.get("GRAPHDOC_DISABLE", "0") not in ("", "0")


def _start(out: str, mode: str, told_of_end: bool) -> Witness | None:
    global _installed
    from graphdoc.capture.process.ignored import note_trouble
    from graphdoc.capture.process.marks import leave
    from graphdoc.capture.process.untraced import keep_untraced
    from graphdoc.capture.witness import Witness

    try:
        if "_graphdoc_inside" in sys.modules:  # a run that is kept from the user's files from within
            sys.modules["_graphdoc_inside"].cover_torch(sys.modules["torch"])
        if "uncompiled" in mode.split(":"):
            _leave_uncompiled()
        witness = Witness(sys.modules["torch"], out, mode)
        _installed = witness
        witness.install(told_of_end)
        kind, _, detail = mode.partition(":")
        if "no-audit" not in witness.words:
            attach(witness, "audit")
        if kind == "probe":
            from graphdoc.capture.trials.trace import StepCount

            witness.step_count = StepCount(witness)
        attach(witness, detail if kind == "probe" else mode)
        keep_untraced(witness.torch)
        leave(out, "observed")
        return witness
    except Exception as e:
        leave(out, "unobserved")
        note_trouble(out, e)
        return None


def attach(witness: Witness, mode: str) -> None:
    """Start the probe that a mode begins with, if it is one, and give it the words behind that."""
    kind, _, detail = mode.partition(":")
    if kind in _PROBES:
        module, _, name = _PROBES[kind].rpartition(".")
        probe = getattr(import_module(f"graphdoc.capture.{module}"), name)
        witness.probes.append(probe.start(witness, detail))


def _leave_uncompiled() -> None:
    """Let `torch.compile` hand back what it is given, in a run of ours: torch._dynamo.config reads the variable."""
    os.environ["TORCHDYNAMO_DISABLE"] = "1"
    config = sys.modules.get("torch._dynamo.config")
    if config is not None:
        config.disable = True  # type: ignore[attr-defined]


def reloaded() -> None:
    """Torch's own file has been executed once more: what it sets, and we had set otherwise, is ours again."""
    if _installed is not None and busy():
        _installed.anomaly.show()


def ended() -> None:
    """The process ends, and nothing of the program's runs any more but ``__del__`` as Python takes it down."""
    if _installed is not None and busy():
        from graphdoc.capture.process.ignored import mark_late

        _installed.at_exit()
        mark_late(_installed.out)
