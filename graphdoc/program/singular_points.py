"""PyTorch's functions without a finite value or derivative at a point, and numbers measured of what went into them.

Data alone. What ends in a zero below a root, a norm or a quotient is known by the group of its operator, see
``graphdoc.program.bad_values``; here stand the functions of which the reader has to be told where they end.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from graphdoc.evidence import Frame

LOG = "nan-log-of-zero"
INVERSE = "nan-acos-boundary"
POINT = "nan-singular-point"


@dataclass(frozen=True)
class Singular:
    """``ends``: the points themselves (``0 or 1``); ``beyond``: where there is no value at all (``outside of 0 to 1``),
    from ``low`` down and from ``high`` up. ``guard``: a method call that keeps an operand inside, with ``{0}`` for the
    margin. ``safe``: a value that the function and its derivative are finite at."""

    cause: str
    ends: str
    beyond: str = ""
    guard: str = ""
    low: float | None = None
    high: float | None = None
    safe: str = "1.0"

    def guard_in(self, dtype: str) -> str:
        """The call that keeps an operand of this type inside: ``clamp_min(-1.0 + 1e-2)`` in bfloat16."""
        return self.guard.format({"float16": "1e-3", "bfloat16": "1e-2"}.get(dtype, "1e-6"))

    def leaves(self, smallest: float, largest: float) -> bool:
        """Whether numbers between these bounds reach beyond its ends."""
        return (self.low is not None and smallest < self.low) or (self.high is not None and largest > self.high)


BELOW_ONE = {"float16": 0.9995, "bfloat16": 0.996}
"""The largest number below 1 of a type in which the usual margins are rounded away: ``1 - 1e-6`` is 1 there."""

_POLES = Singular(POINT, "0 or a negative whole number", guard="clamp_min(1e-6)", safe="2.0")
_ABOVE_ZERO = Singular(POINT, "0", "below zero", "clamp_min(1e-6)", low=0.0)
_MATRIX = Singular(POINT, "a singular matrix")
_ROW = Singular(POINT, "equal numbers without eps")
_UNIT = Singular(INVERSE, "-1 or 1", "outside of -1 to 1", "clamp(-1.0 + {0}, 1.0 - {0})", -1.0, 1.0, "0.0")

FUNCTIONS: dict[str, Singular] = {
    "log1p": Singular(LOG, "-1", "below -1", "clamp_min(-1.0 + {0})", low=-1.0),
    "xlog1py": Singular(LOG, "-1", "below -1", "clamp_min(-1.0 + {0})", low=-1.0),
    "logit": Singular(LOG, "0 or 1", "outside of 0 to 1", "clamp({0}, 1.0 - {0})", 0.0, 1.0, "0.5"),
    "entr": Singular(LOG, "0", "below zero", "clamp_min(1e-12)", low=0.0),
    "acos": _UNIT,
    "asin": _UNIT,
    "atanh": _UNIT,
    "erfinv": _UNIT,
    "acosh": Singular(INVERSE, "1", "below 1", "clamp_min(1.0 + {0})", low=1.0, safe="2.0"),
    "ndtri": Singular(INVERSE, "0 or 1", "outside of 0 to 1", "clamp({0}, 1.0 - {0})", 0.0, 1.0, "0.5"),
    "digamma": _POLES,
    "lgamma": _POLES,
    "polygamma": _POLES,
    "zeta": Singular(
        POINT, "an exponent of at most 1, or a second argument of 0 or a negative whole number", safe="2.0"
    ),
    "igamma": Singular(POINT, "0", "below zero", low=0.0),
    "igammac": Singular(POINT, "0", "below zero", low=0.0),
    "bessely0": _ABOVE_ZERO,
    "bessely1": _ABOVE_ZERO,
    "modifiedbesselk0": _ABOVE_ZERO,
    "modifiedbesselk1": _ABOVE_ZERO,
    "scaledmodifiedbesselk0": _ABOVE_ZERO,
    "scaledmodifiedbesselk1": _ABOVE_ZERO,
    "logdet": Singular(POINT, "a matrix whose determinant is zero or negative"),
    "linalgslogdet": Singular(POINT, "a matrix whose determinant is zero"),
    "linalginvex": _MATRIX,
    "linalgsolveex": _MATRIX,
    "linalgsolvetriangular": _MATRIX,
    "linalglusolve": _MATRIX,
    "linalgqr": _MATRIX,
    "linalgcholeskyex": Singular(POINT, "a matrix that is not positive definite"),
    "nativelayernorm": _ROW,
    "nativegroupnorm": _ROW,
    "nativebatchnorm": _ROW,
    "cudnnbatchnorm": _ROW,
    "fusedrmsnorm": Singular(POINT, "zeros alone without eps"),
    "choleskysolve": _MATRIX,
    "choleskyinverse": _MATRIX,
}
"""By the name that the dispatcher or the graph node gives the function, without ``special`` and underscores."""


def singular_point(operation: str) -> Singular | None:
    """What is known of a function, by its name in either pass: ``special_entr``, ``specialentr``."""
    return FUNCTIONS.get(operation.replace("_", "").removeprefix("special"))


# What was measured of a tensor that is not finite, or of what went into it: counts, bounds and makers.


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
