"""Where the first value that is not finite came from: the record of the second run, read as questions and answers."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from graphdoc.evidence import Frame, Package, Raised, Sign, SourceTexts
from graphdoc.growth import grew_steadily
from graphdoc.program.bad_numbers import Numbers, base, frame_of, number_of
from graphdoc.program.installed import Deed, deed_of
from graphdoc.program.singular_points import Singular, singular_point
from graphdoc.program.spans import code_at
from graphdoc.source.operands import name_of, operand_of, parsed, position_of

KIND = "nonfinite"
HUGE = 1e12
"""Magnitudes from which on a product or a sum is called an overflow in single and double precision."""
HALF = ("float16", "bfloat16")

_OPERATIONS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("log", ("log", "log2", "log10", "log1p", "logit", "xlogy", "special_xlog1py", "special_entr")),
    ("sqrt", ("sqrt", "rsqrt")),
    (
        "division",
        (
            "div",
            "reciprocal",
            "true_divide",
            "mean",
            "nll_loss_forward",
            "nll_loss2d_forward",
            "remainder",
            "fmod",
            "floor_divide",
            "addcdiv",
        ),
    ),
    ("std", ("std", "var", "std_mean", "var_mean")),
    (
        "exp",
        (
            "exp",
            "exp2",
            "expm1",
            "sinh",
            "cosh",
            "softplus",
            "logaddexp",
            "special_expm1",
            "i0",
            "special_i1",
            "special_erfcx",
            "linalg_matrix_exp",
        ),
    ),
    ("pow", ("pow", "float_power")),
    ("arc", ("acos", "asin", "acosh", "atanh", "erfinv", "special_ndtri")),
    ("ctc", ("_ctc_loss", "_cudnn_ctc_loss")),
    ("softmax", ("_softmax", "_log_softmax", "_safe_softmax", "logsumexp", "_logcumsumexp")),
    ("eigen", ("linalg_eigh", "_linalg_eigh", "linalg_svd", "_linalg_svd", "linalg_eig", "_linalg_eigvals")),
    ("norm", ("linalg_vector_norm", "norm", "_cdist_forward", "_cdist_backward", "_euclidean_dist")),
)
"""Groups of operators by the name that PyTorch's dispatcher gives them, in-place ones without their underscore."""
_NODES = (
    ("norm", r"VectorNorm|^Norm|Cdist|EuclideanDist|Dist|^Hypot"),
    ("log", r"^(Log(2|10|1P|it)?|Xlogy|SpecialXlog1Py|SpecialEntr)Backward"),
    ("sqrt", r"^R?[sS]qrtBackward"),
    ("division", r"^(Div|Reciprocal|Mean|NllLoss|NllLoss2D|Addcdiv)Backward"),
    ("std", r"^(Std|Var)(Mean)?Backward"),
    ("exp", r"^(Exp|Exp2|Expm1|Sinh|Cosh|Softplus|I0|SpecialI1)Backward"),
    ("pow", r"^Pow|FloatPower"),
    ("arc", r"^(Acos|Asin|Acosh|Atanh|Erfinv)Backward"),
    ("ctc", r"Ctc"),
    ("softmax", r"(LogSoftmax|Softmax|Logsumexp|ScaledDotProduct\w*)Backward"),
    ("eigen", r"Eig|Svd|Symeig"),
)


@dataclass(frozen=True)
class Birth:
    """One record: an operation whose result was not finite. ``kind``: birth, turn, given, received, constant or
    empty."""

    facts: Mapping[str, Any]

    def text(self, name: str) -> str:
        return str(self.facts.get(name) or "")

    @property
    def kind(self) -> str:
        return self.text("kind")

    @property
    def op(self) -> str:
        return base(self.text("op"))

    @property
    def operation(self) -> str:
        """The function by its plain name, whichever pass it was in: ``log1p`` of ``log1p_`` and ``Log1PBackward0``."""
        if self.node and not self.inner:
            return re.sub(r"Backward\d*$", "", self.node).lower().removeprefix("special")
        return self.op.strip("_").removeprefix("special_")

    @property
    def node(self) -> str:
        """The graph node whose backward ran; empty in a forward pass."""
        return self.text("node")

    @property
    def shows(self) -> str:
        """nan or inf."""
        return self.text("shows")

    @property
    def inner(self) -> bool:
        """Python code of the user's ran in the backward pass: a custom Function or a hook."""
        return bool(self.facts.get("inner"))

    @property
    def place(self) -> Frame | None:
        """The user's expression: where the operation was called, in backward where its forward was."""
        made = frame_of(self.facts.get("made")) if self.node and not self.inner else None
        return made or frame_of(self.facts.get("stack"))

    @property
    def stack(self) -> list[Frame]:
        frames = self.facts.get("made") if self.node and not self.inner else self.facts.get("stack")
        return [f for f in (frame_of([x]) for x in frames or ()) if f is not None]

    @property
    def called(self) -> list[Frame]:
        """The frames of libraries that the user's expression called, down to the operation."""
        return [f for f in (frame_of([x]) for x in self.facts.get("called") or ()) if f is not None]

    @property
    def inputs(self) -> list[Numbers]:
        return [Numbers(i) for i in self.facts.get("inputs") or () if isinstance(i, dict)]

    @property
    def output(self) -> Numbers:
        return Numbers(self.facts.get("output") or {})

    def saved(self, *names: str) -> Numbers | None:
        """What the node kept of the forward pass under one of these names."""
        kept = self.facts.get("saved") or {}
        return next((Numbers(kept[n]) for n in names if isinstance(kept.get(n), dict)), None)

    @property
    def operand(self) -> Numbers | None:
        """The argument by which the function has no value: what a logarithm is taken of, what is divided by."""
        second = position_of(self.operation)
        kept = self.saved("other", "tensor2") if second else self.saved("self", "a", "x")
        return kept or next(iter(self.inputs[second:]), None)

    @property
    def group(self) -> str:
        """Which kind of function it is: ``log``, ``sqrt``, ``division`` …; empty for sums, products and the rest."""
        if self.node and not self.inner:
            return next((g for g, pattern in _NODES if re.search(pattern, self.node)), "")
        name = self.op[:-1] if self.op.endswith("_") else self.op
        if "scaled_dot_product" in name:
            return "softmax"
        name = name.removeprefix("_foreach_")
        return next((g for g, names in _OPERATIONS if name in names), "")

    @property
    def chosen(self) -> Frame | None:
        """The ``torch.where`` (or the like) that leaves this result out of the loss; backward only."""
        return next((f for f in (frame_of(c.get("stack")) for c in self.facts.get("chosen") or ()) if f), None)

    @property
    def overflows(self) -> bool:
        """Whether it is a result too large for its type, of numbers that were large already."""
        if self.shows != "inf" and not self.node:
            return False
        if self.group in ("log", "sqrt", "arc", "std", "ctc", "eigen"):
            return False
        if self.group == "division" and not self._is_divided_by_much:
            return False
        limit = 100.0 if self.output.dtype == "float16" else HUGE
        return any(i.largest >= limit for i in self.inputs)

    @property
    def _is_divided_by_much(self) -> bool:
        """Whether a quotient is infinite by what was divided, more than by the divisor: by their sum, of an average."""
        if self.node or any(not i.n for i in self.inputs):
            return False
        if self.op.startswith(("mean", "nll_loss")):
            return True
        if self.op.strip("_") not in ("div", "true_divide") or not self.inputs:
            return False
        if len(self.inputs) == 1:
            return self.inputs[0].largest >= HUGE  # by a number
        low, high = self.inputs[1].bounds or (0.0, 0.0)
        least = max(low, -high)  # of a divisor that has no zero between its bounds
        return least > 0 and self.inputs[0].largest * least > 1


@dataclass(frozen=True)
class Trouble:
    """The whole story: what was met first, and the chain of records that leads to it, oldest first."""

    sources: SourceTexts
    raised: Raised | None
    sign: Sign
    look: Mapping[str, Any]
    packages: list[Package]

    @property
    def what(self) -> str:
        """What was met first: a ``loss``, a ``gradient``, a ``parameter`` (after a step), or another ``value``."""
        return str(self.look.get("what", ""))

    @cached_property
    def chain(self) -> list[Birth]:
        return [Birth(r) for r in self.look.get("chain") or () if isinstance(r, dict)]

    @property
    def others(self) -> list[Birth]:
        """Further births of the same iteration."""
        return [Birth(r) for r in self.look.get("others") or () if isinstance(r, dict)]

    @property
    def born(self) -> Birth | None:
        """The record that began it: the first that no constant of the program's explains."""
        return next((b for b in self.chain if not _meant(b)), None)

    @property
    def first(self) -> Birth | None:
        """The record to tell of where no cause is known."""
        found = self.born or self.turned or next(iter(self.chain), None)
        return found if found is not None and found.place is not None else None

    @property
    def turned(self) -> Birth | None:
        """Where infinities became nan, if they did."""
        return next((b for b in self.chain if b.kind == "turn"), None)

    @property
    def constant(self) -> Birth | None:
        """Infinities that the program has written itself, at the root of the chain."""
        return next((b for b in self.chain if _meant(b)), None)

    @property
    def iteration(self) -> int:
        """Backward calls until then, the one that met it counted, from 1; 0 where that is not known."""
        value = self.look.get("calls", 0)
        return value if isinstance(value, int) else 0

    @property
    def call(self) -> list[Frame]:
        """The backward call or step at which it was met."""
        return [f for f in (frame_of([x]) for x in self.look.get("call") or ()) if f is not None]

    @property
    def names(self) -> list[str]:
        """The parameters that were not finite first, or whose gradient was not."""
        return [str(n) for n in self.look.get("names") or () if n]

    @property
    def history(self) -> list[tuple[int, float, float]]:
        """(backward call, loss, norm of the gradient) of the steps until then; -1 where a number was not seen."""
        out = []
        for h in self.look.get("history") or ():
            loss, norm = h.get("loss"), h.get("norm")
            out.append((int(h.get("call", 0)), number_of(loss), number_of(norm)))
        return out

    @property
    def norms(self) -> list[tuple[int, float]]:
        """(backward call, norm of the gradient), finite ones alone: those by which the optimizer stepped whose gradient
        grew most; all where none is known to have grown."""
        whose = self._most.get("optimizer")
        mine = (h for h in self.look.get("history") or () if whose in (None, h.get("optimizer")))
        known = ((int(h.get("call", 0)), number_of(h.get("norm"))) for h in mine)
        return [(call, norm) for call, norm in known if 0 <= norm < float("inf")]

    @cached_property
    def grew_steadily(self) -> bool:
        """Whether the loss had grown out of all bounds in many steps, each by about the same factor."""
        return grew_steadily([loss for _, loss, _ in self.history if loss >= 0 and loss < float("inf")])

    @property
    def grown(self) -> list[tuple[str, float]]:
        """Parameters by how much their gradient had grown, most first."""
        return [(str(g.get("name", "")), float(g.get("factor", 0.0))) for g in self.look.get("grown") or ()]

    @property
    def grown_step(self) -> list[Frame]:
        """The step by the gradient that grew most; empty where none is known to have grown."""
        return [f for f in (frame_of([x]) for x in self._most.get("step") or ()) if f is not None]

    @property
    def _most(self) -> Mapping[str, Any]:
        """What is known of the gradient that grew most."""
        return next(iter(self.look.get("grown") or ()), {})

    @property
    def grew_first(self) -> list[str]:
        """The parameters whose gradient was the first that grew far above its usual size."""
        known = [(int(g["from"]), str(g.get("name", ""))) for g in self.look.get("grown") or () if g.get("from")]
        first = min((call for call, _ in known), default=0)
        return sorted(name for call, name in known if call == first)

    def deed(self, birth: Birth) -> Deed | None:
        """The installed package, with its line, whose code called the function; None where the user's own did."""
        place = birth.place
        return deed_of(self.packages, [place, *birth.called]) if place is not None else None

    def operand(self, birth: Birth) -> str:
        """The source text of what the function was given: ``1 - p`` of ``torch.log(1 - p)``; empty if not plain."""
        node = parsed(self.code(birth))
        found = operand_of(node, birth.operation) if node is not None else None
        return " ".join(ast.unparse(found).split()) if found is not None else ""

    def name(self, birth: Birth) -> str:
        """The function's name as the program calls it, else the operator's."""
        return name_of(parsed(self.code(birth))) or birth.operation

    def point(self, birth: Birth) -> Singular | None:
        """What is known of the function's singular points; one that writes nan itself there is known by its name."""
        if birth.kind != "constant" or birth.shows != "nan":
            return singular_point(birth.operation)
        return singular_point(name_of(parsed(self.code(birth))))

    def code(self, birth: Birth) -> str:
        """The source text of the expression, on one line; the package's own where it stands in one."""
        deed = self.deed(birth)
        if deed is not None:
            return " ".join(code_at({deed.frame.file: deed.package.text(deed.frame.file)}, deed.frame).split())
        return " ".join(code_at(self.sources, birth.place).split())


def trouble_of(
    signs: list[Sign], sources: SourceTexts, raised: Raised | None, packages: list[Package]
) -> Trouble | None:
    """The story of a run whose second run has found one, or None."""
    for sign in signs:
        look = sign.facts.get("look") if sign.kind == KIND else None
        if isinstance(look, dict):
            return Trouble(sources, raised, sign, look, packages)
    return None


def _meant(birth: Birth) -> bool:
    """Whether infinities are the program's own: a fill, or a mask that came from elsewhere."""
    if birth.kind == "constant":
        return birth.shows == "inf"
    return (
        birth.kind == "given"
        and birth.shows == "inf"
        and all(not i.count("nan") and i.count("minus_inf") == i.count("inf") for i in birth.inputs)
    )
