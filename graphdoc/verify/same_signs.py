"""Whether what was seen in a run that went on is seen in the patched one too."""

from __future__ import annotations

from graphdoc.evidence import Sign

_NONFINITE = "nonfinite"
"""The kind of sign of a nan or inf (``graphdoc.capture.finite``)."""


def same_signs(a: list[Sign], b: list[Sign]) -> bool:
    """Whether anything that was seen in a run that went on was seen in another one too, of the same parameters and the
    same optimizer: a second fault of the kind is one of its own."""
    mine = [s for s in a if not s.weak]
    return any(
        s.kind == t.kind
        and (not s.parameters or bool(set(s.parameters) & set(t.parameters)))
        and (min(s.optimizer, t.optimizer) < 0 or s.optimizer == t.optimizer)
        for s in mine
        for t in b
        if not t.weak
    )


def left_over(a: list[Sign], b: list[Sign]) -> str:
    """A doubt if a run that was to end a nan still meets one, in other places than the original."""
    mine = any(s.kind == _NONFINITE for s in a)
    other = next((s for s in b if s.kind == _NONFINITE and not s.weak), None)
    if not mine or other is None:
        return ""
    more = f" and {len(other.parameters) - 2} more" if len(other.parameters) > 2 else ""
    whose = f" in {', '.join(other.parameters[:2])}{more}" if other.parameters else ""
    return f"another value that is not finite is still met{whose}"
