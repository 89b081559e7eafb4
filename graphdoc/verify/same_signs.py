"""Whether what was seen in a run that went on is seen in the patched one too."""

from __future__ import annotations

from graphdoc.evidence import Sign
from graphdoc.story.wording import folded

NONFINITE = "nonfinite"
"""The kind of sign of a nan or inf (``graphdoc.capture.finite``)."""


def same_signs(a: list[Sign], b: list[Sign]) -> bool:
    """Whether anything that was seen in a run that went on was seen in another one too, of all the same parameters and
    the same optimizer: a second fault of the kind is one of its own, and of one that is gone in part the rest is."""
    return any(set(s.parameters) <= set(t.parameters) for s, t in _alike(a, b))


def _alike(a: list[Sign], b: list[Sign]) -> list[tuple[Sign, Sign]]:
    """Pairs of signs of one kind and optimizer."""
    return [
        (s, t)
        for s in a
        for t in b
        if s.kind == t.kind
        and not (s.weak or t.weak)
        and (min(s.optimizer, t.optimizer) < 0 or s.optimizer == t.optimizer)
    ]


def left_in_part(a: list[Sign], b: list[Sign]) -> str:
    """A doubt if a run still shows of some parameters what was seen of more."""
    for s, t in _alike(a, b):
        rest = set(s.parameters) & set(t.parameters)
        if rest and rest != set(s.parameters):
            return f"the same is still seen of {folded(rest)}"
    return ""


def left_over(a: list[Sign], b: list[Sign]) -> str:
    """A doubt if a run that was to end a nan still meets one, in other places than the original."""
    mine = any(s.kind == NONFINITE for s in a)
    other = next((s for s in b if s.kind == NONFINITE and not s.weak), None)
    if not mine or other is None:
        return ""
    more = f" and {len(other.parameters) - 2} more" if len(other.parameters) > 2 else ""
    whose = f" in {', '.join(other.parameters[:2])}{more}" if other.parameters else ""
    return f"another value that is not finite is still met{whose}"
