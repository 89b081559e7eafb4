"""All that runs inside the user's process: standard library and torch, nothing else."""

from __future__ import annotations

import os
import sys
from typing import Any

_installed: Any = None


def install(out: str, mode: str = "observe") -> None:
    """Start observing this process; called once, right after ``torch`` has been imported.

    Args:
        out: the folder into which ``evidence-<pid>.json`` is written.
        mode: ``observe``, ``observe:nan``, ``probe:writes``, ``probe:cuts`` or ``verify`` (see
            ``graphdoc.capture.trace``).

    Never raises: what goes wrong is left as one line in ``trouble-<pid>.txt``.
    """
    global _installed
    if _installed is not None or os.environ.get("GRAPHDOC_DISABLE"):
        return
    from graphdoc.capture.witness import Witness, note_trouble

    try:
        if "_graphdoc_inside" in sys.modules:  # a run that is kept from the user's files from within
            sys.modules["_graphdoc_inside"].cover_torch(sys.modules["torch"])
        witness = Witness(sys.modules["torch"], out, mode)
        _installed = witness
        witness.install()
        from graphdoc.capture.probes import attach

        attach(witness, "standing")
        kind, _, detail = mode.partition(":")
        if kind in ("probe", "verify"):
            attach(witness, detail if kind == "probe" else kind)
    except Exception as e:
        note_trouble(out, e)
