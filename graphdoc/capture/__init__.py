"""All that runs inside the user's process: standard library and torch, nothing else."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from graphdoc.capture.witness import Witness

_installed: Witness | None = None


def install(out: str, mode: str = "observe", *, told_of_end: bool = False) -> None:
    """Start observing this process; called once, right after ``torch`` has been executed.

    Args:
        out: the folder into which ``evidence-<pid>.json`` is written.
        mode: ``observe`` (with ``:nan-all``, ``:nan-stop``, ``:nan-off``, ``:no-audit``, ``:audit-all``,
            ``:check-gradients`` or ``:learned`` behind it), ``probe:record``,
            ``probe:writes[:uncompiled]``, ``probe:cuts[:around]``, ``probe:product``,
            ``probe:nonfinite[:START[:only|:all]]``, ``verify`` (see
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
        from graphdoc.capture.default_probe import attach

        attach(witness, "always")
        kind, _, detail = mode.partition(":")
        if "no-audit" not in mode.split(":"):
            attach(witness, "audit")
        if "check-gradients" in mode.split(":"):
            attach(witness, "check-gradients")
        if kind == "probe":
            from graphdoc.capture.trials.trace import StepCount

            witness.step_count = StepCount(witness)
        if kind in ("probe", "verify", "compare"):
            attach(witness, detail if kind == "probe" else kind)
        keep_untraced(witness.torch)
        leave(out, "observed")
        return witness
    except Exception as e:
        leave(out, "unobserved")
        note_trouble(out, e)
        return None


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
