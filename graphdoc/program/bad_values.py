"""Where the first value that is not finite came from, and which kind of fault made it."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from graphdoc.evidence import Frame, Package, Raised, Sign, SourceTexts
from graphdoc.growth import grew_steadily
from graphdoc.program.bindings import source_at
from graphdoc.program.installed import Deed, deed_of
from graphdoc.program.number_limits import POINT, Numbers, Singular, base, number_of, singular_point
from graphdoc.program.spans import code_at, frames, innermost_at
from graphdoc.source.expressions import factor_of, name_of, operand_of, position_of
from graphdoc.source.paths import parse_expression

KIND = "nonfinite"
HUGE = 1e12
"""Magnitudes from which on a product or a sum is called an overflow in single and double precision."""
HALF = ("float16", "bfloat16")

_GROUPS = {
    "norm": (
        "linalg_vector_norm norm _cdist_forward _cdist_backward _euclidean_dist",
        r"VectorNorm|^Norm|Cdist|EuclideanDist|Dist|^Hypot",
    ),
    "log": (
        "log log2 log10 log1p logit xlogy special_xlog1py special_entr",
        r"^(Log(2|10|1P|it)?|Xlogy|SpecialXlog1Py|SpecialEntr)Backward",
    ),
    "sqrt": ("sqrt rsqrt", r"^R?[sS]qrtBackward"),
    "division": (
        "div reciprocal true_divide mean nll_loss_forward nll_loss2d_forward remainder fmod floor_divide addcdiv",
        r"^(Div|Reciprocal|Mean|NllLoss|NllLoss2D|Addcdiv)Backward",
    ),
    "std": ("std var std_mean var_mean", r"^(Std|Var)(Mean)?Backward"),
    "exp": (
        "exp exp2 expm1 sinh cosh softplus logaddexp special_expm1 i0 special_i1 special_erfcx linalg_matrix_exp",
        r"^(Exp|Exp2|Expm1|Sinh|Cosh|Softplus|I0|SpecialI1)Backward",
    ),
    "pow": ("pow float_power", r"^Pow|FloatPower"),
    "arc": ("acos asin acosh atanh erfinv special_ndtri", r"^(Acos|Asin|Acosh|Atanh|Erfinv)Backward"),
    "ctc": ("_ctc_loss _cudnn_ctc_loss", r"Ctc"),
    "softmax": (
        "_softmax _log_softmax _safe_softmax logsumexp _logcumsumexp",
        r"(LogSoftmax|Softmax|Logsumexp|ScaledDotProduct\w*)Backward",
    ),
    "eigen": ("linalg_eigh _linalg_eigh linalg_svd _linalg_svd linalg_eig _linalg_eigvals", r"Eig|Svd|Symeig"),
}
"""Groups of operators by the name that PyTorch's dispatcher gives them, in-place ones without their underscore, and by
a pattern of the graph node's; the first whose pattern fits."""


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
    def in_step(self) -> bool:
        """An optimizer's step was under way."""
        return bool(self.facts.get("in_step"))

    @property
    def inner(self) -> bool:
        """Python code of the user's ran in the backward pass: a custom Function or a hook."""
        return bool(self.facts.get("inner"))

    @property
    def place(self) -> Frame | None:
        """The user's expression: where the operation was called, in backward where its forward was."""
        made = innermost_at(self.facts.get("made")) if self.node and not self.inner else None
        return made or innermost_at(self.facts.get("stack"))

    @property
    def stack(self) -> list[Frame]:
        return frames(self.facts.get("made" if self.node and not self.inner else "stack"))

    @property
    def called(self) -> list[Frame]:
        """The frames of libraries that the user's expression called, down to the operation."""
        return frames(self.facts.get("called"))

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
            return next((g for g, (_, pattern) in _GROUPS.items() if re.search(pattern, self.node)), "")
        name = self.op.removesuffix("_").removeprefix("_foreach_")
        known = next((g for g, (names, _) in _GROUPS.items() if name in names.split()), "")
        return "softmax" if "scaled_dot_product" in name else known

    @property
    def chosen(self) -> Frame | None:
        """The ``torch.where`` (or the like) that leaves this result out of the loss; backward only."""
        return next((f for f in (innermost_at(c.get("stack")) for c in self.facts.get("chosen") or ()) if f), None)

    @property
    def overflows(self) -> bool:
        """Whether it is a result too large for its type, of numbers that were large already."""
        if (self.shows != "inf" and not self.node) or self.group in ("log", "sqrt", "arc", "std", "ctc", "eigen"):
            return False
        if self.group == "division" and not self._is_divided_by_much:
            return False
        limit = 100.0 if self.output.dtype == "float16" else HUGE
        return any(i.largest >= limit for i in self.inputs)

    @property
    def _is_divided_by_much(self) -> bool:
        """Whether a quotient is infinite by what was divided, more than by the divisor: by their sum, of an average."""
        summed, divided = self.op.startswith(("mean", "nll_loss")), self.op.strip("_") in ("div", "true_divide")
        if self.node or any(not i.n for i in self.inputs) or not (summed or (divided and self.inputs)):
            return False
        if summed or len(self.inputs) == 1:
            return summed or self.inputs[0].largest >= HUGE  # by a number
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
    def of_own_update(self) -> bool:
        """Whether an optimizer of the program's own has made it of what a finite loss gave: no closure of a step's."""
        born = self.born
        return self.what in ("parameter", "gradient") and born is not None and born.in_step and _in_own_code(born)

    @property
    def iteration(self) -> int:
        """Backward calls until then, the one that met it counted, from 1; 0 where that is not known."""
        value = self.look.get("calls", 0)
        return value if isinstance(value, int) else 0

    @property
    def is_first(self) -> bool:
        """Whether no backward call before has reached the parameters of this one."""
        return self.iteration == 1 or len(self.history) == 1

    @property
    def call(self) -> list[Frame]:
        """The backward call or step at which it was met."""
        return frames(self.look.get("call"))

    @property
    def names(self) -> list[str]:
        """The parameters that were not finite first, or whose gradient was not."""
        return [str(n) for n in self.look.get("names") or () if n]

    @property
    def history(self) -> list[tuple[int, float, float]]:
        """(backward call, loss, norm of the gradient) of the steps until then; -1 where a number was not seen."""
        steps = self.look.get("history") or ()
        return [(int(h.get("call", 0)), number_of(h.get("loss")), number_of(h.get("norm"))) for h in steps]

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
        return frames(self._most.get("step"))

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
        node = parse_expression(self.code(birth))
        if node is None or self.is_inside(birth):
            return ""
        found = operand_of(source_at(self.sources, birth.place), node, birth.operation)
        return " ".join(ast.unparse(found).split()) if found is not None else ""

    def is_inside(self, birth: Birth) -> bool:
        """Whether the function runs inside of a method of an object of a library's, a distribution's ``log_prob``: what
        it is given there need not be what the call names."""
        node = parse_expression(self.code(birth))
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or not birth.called:
            return False
        of_object = "." in birth.called[0].function and not birth.called[0].function.startswith(("Tensor.", "Module."))
        return of_object and birth.called[0].function.rpartition(".")[2] == node.func.attr

    def factor(self, birth: Birth, side: int) -> str:
        """The source text of a product's left or right factor; empty where no product is written there."""
        found = factor_of(parse_expression(self.code(birth)), side)
        return " ".join(ast.unparse(found).split()) if found is not None else ""

    def name(self, birth: Birth) -> str:
        """The function's name as the program calls it, else the operator's."""
        return name_of(parse_expression(self.code(birth))) or birth.operation

    def point(self, birth: Birth) -> Singular | None:
        """What is known of the function's singular points; one that writes nan itself there is known by its name."""
        written = birth.kind == "constant" and birth.shows == "nan"
        return singular_point(name_of(parse_expression(self.code(birth))) if written else birth.operation)

    def code(self, birth: Birth) -> str:
        """The source text of the expression, on one line; the package's own where it stands in one."""
        deed = self.deed(birth)
        sources = self.sources if deed is None else {deed.frame.file: deed.package.text(deed.frame.file)}
        return " ".join(code_at(sources, birth.place if deed is None else deed.frame).split())


def trouble_of(
    signs: list[Sign], sources: SourceTexts, raised: Raised | None, packages: list[Package]
) -> Trouble | None:
    """The story of a run whose second run has found one, or None."""
    looks = ((s, s.facts.get("look")) for s in signs if s.kind == KIND)
    return next((Trouble(sources, raised, s, look, packages) for s, look in looks if isinstance(look, dict)), None)


def _meant(birth: Birth) -> bool:
    """Whether infinities are the program's own: a fill, or a mask that came from elsewhere."""
    masks = (not i.count("nan") and i.count("minus_inf") == i.count("inf") for i in birth.inputs)
    return birth.shows == "inf" and (birth.kind == "constant" or (birth.kind == "given" and all(masks)))


# Which kind of fault made the first value that is not finite: one answer, so that no two causes claim it.

_NORMS = ("linalg_vector_norm", "norm", "_cdist_forward", "linalg_norm", "_linalg_check_errors")
_SINGULAR = {
    "log": "nan-log-of-zero",
    "sqrt": "nan-sqrt-at-zero",
    "arc": "nan-acos-boundary",
    "ctc": "nan-ctc-infeasible",
    "std": "nan-std-of-one",
    "eigen": "nan-repeated-eigenvalues",
    "norm": "nan-norm-at-zero",
}
_UNWRITTEN = "nan-uninitialised-parameter"
GROWN = 100.0
"""How many times its usual size a gradient's norm has reached where it is called exploding."""


def kind_of(trouble: Trouble) -> str:
    """The slug of the cause, or an empty string where the record does not tell."""
    born = trouble.born
    if born is None:
        return _of_constants(trouble)
    point = trouble.point(born)
    origins = {
        "received": "",  # another process made it
        "empty": _UNWRITTEN,
        "unwritten": _UNWRITTEN,
        "given": _UNWRITTEN if any(i.parameter for i in born.inputs) else "nan-input-data",
        "constant": point.cause if point is not None else "nan-input-data",
    }
    if born.kind in origins:
        return origins[born.kind]
    of_place = _of_mask(trouble, born) or _of_growth(trouble, born) or _of_point(born, point)
    return of_place or _of_function(born) or _of_size(trouble, born)


def _of_mask(trouble: Trouble, born: Birth) -> str:
    """What it is told by that another value leaves some of it out."""
    if any(abs(n) == float("inf") for n in born.facts.get("numbers") or ()):
        return "nan-masked-softmax"  # a mask multiplied with -inf
    masked = _of_constants(trouble) if born is trouble.turned else ""  # whether or not the loss leaves these rows out
    return masked or ("nan-where-branch" if _left_out(trouble, born) else "")


def _of_growth(trouble: Trouble, born: Birth) -> str:
    """What a step tells, or gradients that grew up to it."""
    if born.facts.get("in_step") and not _in_own_code(born):
        return "exploding-gradients" if _exploded(born) else "nan-optimizer-update"
    # No value at what was given to it, which had grown out of all bounds.
    return "exploding-gradients" if trouble.grew_steadily else ""


def _of_point(born: Birth, point: Singular | None) -> str:
    """What the function's singular points tell."""
    if _of_nothing(born):
        return ""
    huge = point is not None and point.cause == POINT and _largest(born) >= HUGE
    return _SINGULAR.get(born.group) or (point.cause if point is not None and not huge else "")


def _of_function(born: Birth) -> str:
    """What the function itself tells: it has no value at what it was given."""
    if _of_nothing(born):
        return "nan-division-by-zero"  # the mean of nothing
    if born.group == "division" and not born.overflows:
        return _of_division(born)
    masked = any(i.count("minus_inf") or i.facts.get("true") == 0 for i in born.inputs)
    if born.group == "softmax":
        return "nan-masked-softmax" if masked else ""
    return "nan-pow" if born.group == "pow" and _bad_base(born) else ""


def _of_nothing(born: Birth) -> bool:
    return born.shows == "nan" and not born.node and any(not i.n for i in born.inputs)


def _of_size(trouble: Trouble, born: Birth) -> str:
    """What the size of the numbers tells: the result has no place in its type."""
    if born.output.dtype == "float16" and born.shows == "inf" and _largest(born) < 3e38:
        return "nan-half-overflow"
    if born.group == "exp":
        return "exploding-gradients" if _grew(trouble) and _largest(born) > HUGE else "nan-exp-overflow"
    # Of no loss or gradient: gradients would have to be seen growing. Of the first loss: none has been used yet.
    calm = not _grew(trouble) if trouble.what == "value" else trouble.what == "loss" and trouble.is_first
    return "exploding-gradients" if not calm and _exploded(born) and not _flat(trouble) else ""


def _of_constants(trouble: Trouble) -> str:
    """Infinities that the program has written itself became nan."""
    turned = trouble.turned
    masked = turned and (turned.group == "softmax" or turned.facts.get("rows_out") or turned.op == "mul")
    return "nan-masked-softmax" if masked else ""


def _left_out(trouble: Trouble, born: Birth) -> bool:
    """Whether the forward pass does not use the result: the loss is finite, and a choice stands between them."""
    if born.node and not born.inner:
        hit = born.facts.get("zero_there") or any(b.facts.get("zero_there") for b in trouble.chain[1:])
        return _is_chosen(born) and bool(hit) and not _used(trouble, born)
    return trouble.what == "gradient" and not born.node and not _of_gradients(born)


def _used(trouble: Trouble, born: Birth) -> bool:
    """Whether a gradient that was not zero came to a bad element: infinite times zero is nan, times any other number
    infinite. Told by the last record of the node, which has multiplied with what came.
    """
    same = [b for b in trouble.chain if b.node == born.node and b.place == born.place and b.output.n]
    return bool(same) and same[-1].output.count("inf") > 0


def _is_chosen(born: Birth) -> bool:
    """Whether a choice of the program's leaves it out; one in the same expression is PyTorch's own, in the derivative
    of a derivative.
    """
    chosen, own = born.chosen, born.place
    return chosen is not None and (own is None or chosen.extent != own.extent)


def _of_gradients(born: Birth) -> bool:
    """Whether gradients were computed with behind the backward call: no loss is made of that."""
    return bool(born.facts.get("in_step")) or any(i.held.endswith(".grad") for i in born.inputs)


def _in_own_code(born: Birth) -> bool:
    """Whether an optimizer of the program's own has computed it, in a function of the program's that has not called
    the step of a library's.
    """
    own = bool(born.stack) and born.stack[-1].user and not born.stack[-1].function.startswith("<")
    return own and not any("/torch/optim/" in f.file.replace("\\", "/") for f in born.called)


def _of_division(born: Birth) -> str:
    divisor = divisor_of(born)
    if divisor is not None and is_norm(divisor):
        return "nan-norm-at-zero"
    if divisor is not None and divisor.made_by("std", "var", "std_mean", "var_mean", within=2) and divisor.count("nan"):
        return "nan-std-of-one"
    return "nan-division-by-zero"


def divisor_of(born: Birth) -> Numbers | None:
    """What was divided by, as far as it was a tensor."""
    kept = born.saved("other") if born.node and not born.inner else None
    return kept or next((i for i in reversed(born.inputs) if i.count("zeros")), None)


def is_norm(value: Numbers) -> bool:
    """Whether a value is the length of a vector: by PyTorch's function, or as the root of a sum of squares."""
    ops = [op for op, _ in value.makers[:5]]
    squares = "sqrt" in ops[:2] and "sum" in ops and not {"pow", "mul", "square"}.isdisjoint(ops)
    return squares or not set(_NORMS).isdisjoint(ops[:3])


def _bad_base(born: Birth) -> bool:
    """Whether a power has a base at or below zero."""
    base = born.saved("self") if born.node and not born.inner else next(iter(born.inputs), None)
    return base is not None and bool(base.count("zeros") or (base.count("negative") and born.shows == "nan"))


def _exploded(born: Birth) -> bool:
    """Whether numbers had grown out of all bounds before: what overflowed was large already."""
    return (_largest(born) >= HUGE or born.overflows) and born.output.dtype != "float16"


def _flat(trouble: Trouble) -> bool:
    """Whether the steps until then were seen to have had small gradients that did not grow: nothing exploded."""
    norms = [norm for _, _, norm in trouble.history if 0 <= norm < float("inf")]
    return len(norms) > 1 and max(norms) <= 1.0 and not _grew(trouble)


def _grew(trouble: Trouble) -> bool:
    norms = [norm for _, _, norm in trouble.history if norm > 0 and norm < float("inf")]
    early = sorted(norms[: max(3, len(norms) // 3)])
    return len(norms) >= 3 and norms[-1] > GROWN * early[len(early) // 2]


def _largest(born: Birth) -> float:
    kept = [v for v in (born.saved("self", "result", "other"),) if v is not None]
    return max((i.largest for i in (*born.inputs, *kept)), default=0.0)
