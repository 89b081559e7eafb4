"""What was measured of a tensor that is not finite, or of what went into it: counts, bounds and makers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from graphdoc.evidence import Frame


@dataclass(frozen=True)
class Numbers:
    """What is known of one tensor's numbers at that moment; see ``graphdoc.capture.number_facts``."""

    facts: Mapping[str, Any]

    def count(self, what: str) -> int:
        """How many elements are ``zeros``, ``negative``, ``nan``, ``inf``, ``ones`` (of either sign), ``minus_inf``."""
        value = self.facts.get(what, 0)
        return value if isinstance(value, int) else 0

    def first(self, what: str) -> str:
        """The position of the first such element: ``(2, 5)``; empty where there is none or the tensor is a scalar."""
        at = dict(self.facts.get("first") or {}).get(what) or []
        return "(" + ", ".join(str(int(i)) for i in at) + ")" if at else ""

    @property
    def n(self) -> int:
        return self.count("n")

    @property
    def bounds(self) -> tuple[float, float] | None:
        """The smallest and the largest of the finite elements; None where there is none, or they were not read."""
        low, high = self.facts.get("min"), self.facts.get("max")
        return (float(low), float(high)) if low is not None and high is not None else None

    @property
    def largest(self) -> float:
        """The largest magnitude among the finite elements, 0.0 where none is known."""
        return max(map(abs, self.bounds)) if self.bounds is not None else 0.0

    @property
    def dtype(self) -> str:
        return str(self.facts.get("dtype", ""))

    @property
    def parameter(self) -> str:
        return str(self.facts.get("parameter", ""))

    @property
    def held(self) -> str:
        """How the program reaches it, or an empty string."""
        return next(iter(self.facts.get("held") or ()), "")

    @property
    def makers(self) -> list[tuple[str, Frame | None]]:
        """The operations behind it with their places, nearest first."""
        return [(base(str(b.get("op", ""))), frame_of(b.get("stack"))) for b in self.facts.get("by") or ()]

    def made_by(self, *names: str, within: int = 3) -> bool:
        """Whether one of these operations is among the nearest that made it."""
        return any(op in names for op, _ in self.makers[:within])


def base(op: str) -> str:
    """``log`` of ``aten.log.default``."""
    parts = op.split(".")
    return parts[1] if len(parts) > 1 else op


def frame_of(stack: Any) -> Frame | None:
    """The innermost frame of a stack of plain frames."""
    if not isinstance(stack, list) or not stack or not isinstance(stack[-1], dict):
        return None
    known = Frame.__dataclass_fields__
    return Frame(**{k: v for k, v in stack[-1].items() if k in known})


def number_of(value: object) -> float:
    return float(value) if isinstance(value, int | float) else -1.0
