"""All that runs inside the user's process: standard library and torch, nothing else."""

from __future__ import annotations

import os
import sys
from typing import Any

_installed: Any = None


def install(out: str, mode: str = "observe", *, told_of_end: bool = False) -> None:
    """Start observing this process; called once, right after ``torch`` has been executed.

    Args:
        out: the folder into which ``evidence-<pid>.json`` is written.
        mode: ``observe`` (with ``:nan``, ``:no-audit`` or ``:audit-all`` behind it), ``probe:writes``, ``probe:cuts``
            or ``verify`` (see ``graphdoc.capture.trace``).
        told_of_end: the caller will call ``ended`` when the process ends; else ``atexit`` does, before what the
            program had registered there before it imported torch.

    Never raises: what goes wrong is left as one line in ``trouble-<pid>.txt``.
    """
    global _installed
    from graphdoc.capture.marks import leave

    if _installed is not None:
        return
    if os.environ.get("GRAPHDOC_DISABLE", "0") not in ("", "0"):
        leave(out, "disabled")
        return
    from graphdoc.capture.witness import Witness, note_trouble

    try:
        if "_graphdoc_inside" in sys.modules:  # a run that is kept from the user's files from within
            sys.modules["_graphdoc_inside"].cover_torch(sys.modules["torch"])
        witness = Witness(sys.modules["torch"], out, mode)
        _installed = witness
        witness.install(told_of_end)
        from graphdoc.capture.probes import attach

        attach(witness, "standing")
        kind, _, detail = mode.partition(":")
        if "no-audit" not in mode.split(":"):
            attach(witness, "audit")
        if kind in ("probe", "verify"):
            attach(witness, detail if kind == "probe" else kind)
        leave(out, "observed")
    except Exception as e:
        leave(out, "unobserved")
        note_trouble(out, e)


def reloaded() -> None:
    """Torch's own file has been executed once more: what it sets, and we had set otherwise, is ours again."""
    if _installed is not None and not _installed.over:
        _installed.anomaly.show()


def ended() -> None:
    """The process ends, and nothing of the program's runs any more."""
    if _installed is not None:
        _installed.at_exit()
