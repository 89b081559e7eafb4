"""The limits of numbers: functions without a finite value or derivative, what is masked with -inf, fewer bits."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from graphdoc.evidence import Frame, SourceTexts
from graphdoc.program import bindings
from graphdoc.program.bindings import expression_at, source_at
from graphdoc.program.parameter_paths import within
from graphdoc.program.spans import innermost_at
from graphdoc.source.module import Source, given_to, is_method_call, receiver_of, values_of
from graphdoc.source.paths import called, is_set, last_word, only
from graphdoc.source.scopes import is_torchs

LOG = "nan-log-of-zero"
INVERSE = "nan-acos-boundary"
POINT = "nan-singular-point"


@dataclass(frozen=True)
class Singular:
    """``ends``: the points themselves (``0 or 1``); ``beyond``: where there is no value at all (``outside of 0 to 1``),
    from ``low`` down and from ``high`` up. ``guard``: a method call that keeps an operand inside, with ``{0}`` for the
    margin, ``{1}`` for the least above zero. ``safe``: a value that the function and its derivative are finite at."""

    cause: str
    ends: str
    beyond: str = ""
    guard: str = ""
    low: float | None = None
    high: float | None = None
    safe: str = "1.0"

    def guard_in(self, dtype: str) -> str:
        """The call that keeps an operand of this type inside: ``clamp_min(-1.0 + 1e-2)`` in bfloat16."""
        margin = {"float16": "1e-3", "bfloat16": "1e-2"}.get(dtype, "1e-6")
        return self.guard.format(margin, _LEAST["log"][dtype == "float16"])

    def leaves(self, smallest: float, largest: float) -> bool:
        """Whether numbers between these bounds reach beyond its ends."""
        return (self.low is not None and smallest < self.low) or (self.high is not None and largest > self.high)


BELOW_ONE = {"float16": 0.9995, "bfloat16": 0.996}
"""The largest number below 1 of a type in which the usual margins are rounded away: ``1 - 1e-6`` is 1 there."""

_LEAST = {
    "log": ("1e-12", "1e-7"),
    "sqrt": ("1e-12", "1e-7"),
    "norm": ("1e-12", "1e-4"),
    "division": ("1e-8", "1e-4"),
    "pow": ("1e-6", "1e-6"),
}
"""By the group of a function the bound below which it has no finite value or derivative worth having, and the one in
half precision, which holds no smaller one, or not one over it; as small as that, for what was finite is to stay."""

_POLES = Singular(POINT, "0 or a negative whole number", guard="clamp_min(1e-6)", safe="2.0")
POSITIVE = Singular(POINT, "0", "below zero", "clamp_min(1e-6)", low=0.0)
_MATRIX = Singular(POINT, "a singular matrix")
_ROW = Singular(POINT, "equal numbers without eps")
_UNIT = Singular(INVERSE, "-1 or 1", "outside of -1 to 1", "clamp(-1.0 + {0}, 1.0 - {0})", -1.0, 1.0, "0.0")

FUNCTIONS: dict[str, Singular] = {
    "weightnorminterface": Singular("nan-norm-at-zero", "a weight of zero length"),
    "log1p": Singular(LOG, "-1", "below -1", "clamp_min(-1.0 + {0})", low=-1.0),
    "xlog1py": Singular(LOG, "-1", "below -1", "clamp_min(-1.0 + {0})", low=-1.0),
    "logit": Singular(LOG, "0 or 1", "outside of 0 to 1", "clamp({0}, 1.0 - {0})", 0.0, 1.0, "0.5"),
    "entr": Singular(LOG, "0", "below zero", "clamp_min({1})", low=0.0),
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
    "bessely0": POSITIVE,
    "bessely1": POSITIVE,
    "modifiedbesselk0": POSITIVE,
    "modifiedbesselk1": POSITIVE,
    "scaledmodifiedbesselk0": POSITIVE,
    "scaledmodifiedbesselk1": POSITIVE,
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


def above_zero(group: str, numbers: Numbers | None) -> str:
    """The call that keeps what a function of this group is given above zero, in its type; empty for other groups."""
    least = least_above_zero(group, numbers)
    return f"clamp_min({least})" if least else ""


def least_above_zero(group: str, numbers: Numbers | None) -> str:
    """That bound alone, as it is written."""
    half = numbers is not None and numbers.dtype == "float16"
    return _LEAST[group][half] if group in _LEAST else ""


def largest_exponent(operation: str, dtype: str) -> str:
    """The call that keeps an exponent just inside of what its type can hold; empty for other functions."""
    most = {"float16": "10.0", "float64": "700.0"}.get(dtype, "80.0")
    return f"clamp_max({most})" if operation in ("exp", "expm1") else ""


def singular_point(operation: str) -> Singular | None:
    """What is known of a function, by its name in either pass: ``special_entr``, ``specialentr``."""
    return FUNCTIONS.get(operation.replace("_", "").removeprefix("special"))


# What was measured of a tensor that is not finite, or of what went into it: counts, bounds and makers.


@dataclass(frozen=True)
class Numbers:
    """What is known of one tensor's numbers at that moment; see ``graphdoc.capture.tensors.number_facts``."""

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
        return [(base(str(b.get("op", ""))), innermost_at(b.get("stack"))) for b in self.facts.get("by") or ()]

    def made_by(self, *names: str, within: int = 3) -> bool:
        """Whether one of these operations is among the nearest that made it."""
        return any(op in names for op, _ in self.makers[:within])


def base(op: str) -> str:
    """``log`` of ``aten.log.default``."""
    parts = op.split(".")
    return parts[1] if len(parts) > 1 else op


def number_of(value: object) -> float:
    return float(value) if isinstance(value, int | float) else -1.0


# What a program masks with: the expression that says which elements are left out, where -inf is written for them.


_FILLS = ("masked_fill", "masked_fill_")


@dataclass(frozen=True)
class Mask:
    """``text`` as the program writes it, at ``frame``. ``handed``: to a layer, as its ``key_padding_mask`` or the like,
    which writes the -inf itself."""

    text: str
    frame: Frame
    handed: bool = False


def mask_at(sources: SourceTexts, frame: Frame | None) -> Mask | None:
    """The mask of ``x.masked_fill(mask, v)``, ``torch.where(mask, x, v)``, ``x[mask] = v`` or ``layer(x, mask=m)``.

    None where the expression at this place takes none, or several.
    """
    node, handed = expression_at(sources, frame), False
    masks: list[ast.expr] = []
    if isinstance(node, ast.Subscript) and is_set(node):
        masks = [node.slice]
    elif isinstance(node, ast.Call) and called(node) in (*_FILLS, "where"):
        # ``torch.masked_fill(x, mask, v)`` fills its first argument.
        filled = (
            called(node) != "where" and is_method_call(node) and is_torchs(source_at(sources, frame), node.func.value)
        )
        masks = node.args[filled : filled + 1]
    elif isinstance(node, ast.Call):
        given = [k.value for k in node.keywords if k.arg is not None and k.arg.endswith("mask")]
        masks, handed = [v for v in given if not isinstance(v, ast.Constant)], True
    mask = only(masks)
    if frame is None or mask is None:
        return None
    return Mask(bindings.text_of(mask), bindings.frame_of(sources, frame.file, mask), handed)


# Where the source gives numbers fewer bits: a model that is turned into 16 bits.


SHORT = frozenset({"bfloat16", "float16", "half"})
_TURNS = frozenset({"to", "type", "bfloat16", "half"})


def shortened(sources: SourceTexts, names: list[str], every: list[str]) -> Frame | None:
    """The one call that turns what holds these parameters into 16 bits: ``model.to(torch.bfloat16)``, ``Net().half()``,
    ``Net(dtype=torch.bfloat16)``; None where there is none or there are several. ``every``: all parameters' names."""
    found = [
        bindings.frame_of(sources, file, call)
        for file, statement in bindings.everywhere(sources, ast.Assign, ast.Expr)
        if isinstance(statement.value, ast.Call)
        for call in _turning(sources, file, statement.value)
        if any(
            within(bindings.text_of(whole), every).keys() & names
            for whole in (receiver_of(call), *getattr(statement, "targets", ()))
        )
    ]
    return only(found)


_HALF = ("float16", "half")


def only_half(sources: SourceTexts) -> tuple[Frame, list[str]] | None:
    """The one expression of the program that says half precision, ``torch.float16``, ``"float16"`` or ``x.half()``,
    with a pattern of it and what it is for bfloat16; None where there is none or there are several."""
    found: list[tuple[Frame, list[str]]] = []
    for file, node in bindings.everywhere(sources, ast.Attribute, ast.Name, ast.Constant):
        source = Source(file, sources[file])
        call, said = source.parents.get(node), node.value if isinstance(node, ast.Constant) else last_word(node)
        if said not in _HALF or (isinstance(node, ast.Name) and said != _HALF[0]):
            continue
        if isinstance(call, ast.Call) and call.func is node:
            pair = ["{it}.half()", "{it}.bfloat16()"]
        elif isinstance(node, ast.Constant):
            pair = [repr(said), '"bfloat16"']
        elif isinstance(node, ast.Name) or is_torchs(source, node.value):
            pair = [ast.unparse(node), "{torch.bfloat16}"]
        else:
            continue  # NumPy's
        found.append((bindings.frame_of(sources, file, call if pair[0].endswith(")") and call else node), pair))
    return only(found)


def _turning(sources: SourceTexts, file: str, value: ast.Call) -> list[ast.Call]:
    """The calls of a chain, ``Net().to(device).half()``, that say 16 bits; the first of them alone."""
    out: list[ast.Call] = []
    call: ast.expr = value
    while isinstance(call, ast.Call):
        name = call.func.attr if is_method_call(call) else ""
        named = [k.value for k in call.keywords if k.arg is not None and k.arg.endswith("dtype")]
        given = given_to(call) if name in _TURNS else named
        if name in SHORT & _TURNS or any(_says(sources, file, a) for a in given):
            out = [call]
        call = call.func.value if is_method_call(call) else call.func
    return out


def _says(sources: SourceTexts, file: str, given: ast.expr) -> bool:
    """Whether an argument is a format of 16 bits, a name that is bound to nothing else, or called a ``dtype``: what
    was turned has 16 bits."""
    last = last_word(given)
    bound = values_of(bindings.tree(sources, file), last) if isinstance(given, ast.Name) else []
    named = last in SHORT or last.endswith("dtype")
    return named or (bool(bound) and all(last_word(v) in SHORT for v in bound))
