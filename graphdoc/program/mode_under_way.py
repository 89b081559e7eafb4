"""A block that keeps operations from being recorded and is still under way where a program fails."""

from __future__ import annotations

import ast
from typing import Any

from graphdoc.evidence import Frame, Raised, SourceTexts
from graphdoc.program.tensors import frames
from graphdoc.source.module import Source
from graphdoc.source.places import Place

MODES = ("inference_mode", "no_grad")


def mode_under_way(sources: SourceTexts, extras: dict[str, Any], raised: Raised | None) -> tuple[str, Frame] | None:
    """The mode and the line of the ``with`` that switched it on last; None where no such block is around the failure.

    The latest switch of each mode is known by its stack. It is that of a block around the failure where all its callers
    are those of the failing line, and the ``with`` in its own function is around the line there.
    """
    told = extras.get("switches")
    switches = told if isinstance(told, dict) else {}
    failed = [f for f in raised.stack if f.user] if raised is not None else []
    for mode in MODES:
        stack = [f for f in frames(switches.get(mode)) if f.user]
        # A traceback begins where the exception was caught.
        while len(stack) > 1 and failed and stack[0].extent != failed[0].extent:
            del stack[0]
        if not stack or len(failed) < len(stack):
            continue
        callers = all(a.extent == b.extent for a, b in zip(stack[:-1], failed, strict=False))
        at, own = failed[len(stack) - 1], stack[-1]
        if callers and (at.file, at.function) == (own.file, own.function) and _is_around(sources, own, at):
            return mode, own
    return None


def _is_around(sources: SourceTexts, switch: Frame, at: Frame) -> bool:
    """Whether the ``with`` at one line is around another one."""
    source = Source(switch.file, sources.get(switch.file, ""))
    owner, inner = source.node_statement(Place.of(switch)), source.node_statement(Place.of(at))
    above = [inner, *source.node_ancestors(inner)] if inner is not None else []
    return isinstance(owner, ast.With | ast.AsyncWith) and owner is not inner and owner in above
