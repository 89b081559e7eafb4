"""Which kind of fault made the first value that is not finite: one answer, so that no two causes claim it."""

from __future__ import annotations

from graphdoc.program.bad_numbers import Numbers
from graphdoc.program.bad_values import HUGE, Birth, Trouble
from graphdoc.program.singular_points import POINT

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
GROWN = 100.0
"""How many times its usual size a gradient's norm has reached where it is called exploding."""


def kind_of(trouble: Trouble) -> str:
    """The slug of the cause, or an empty string where the record does not tell."""
    born = trouble.born
    if born is None:
        return _of_constants(trouble)
    if born.kind == "received":
        return ""  # another process made it
    if born.kind == "empty":
        return "nan-uninitialised-parameter"
    if born.kind == "given":
        return _of_given(born)
    point = trouble.point(born)
    if born.kind == "constant":
        return point.cause if point is not None else "nan-input-data"
    if any(abs(n) == float("inf") for n in born.facts.get("numbers") or ()):
        return "nan-masked-softmax"  # a mask multiplied with -inf
    if _left_out(trouble, born):
        return "nan-where-branch"
    if born.facts.get("in_step") and not _in_own_code(born):
        return "exploding-gradients" if _exploded(born) else "nan-optimizer-update"
    if trouble.grew_steadily:
        return "exploding-gradients"  # no value at what was given to it, which had grown out of all bounds
    if born.group in _SINGULAR and not _of_nothing(born):
        return _SINGULAR[born.group]
    if point is not None and not _of_nothing(born) and not (point.cause == POINT and _largest(born) >= HUGE):
        return point.cause
    return _of_function(born) or _of_size(trouble, born)


def _of_function(born: Birth) -> str:
    """What the function itself tells: it has no value at what it was given."""
    if _of_nothing(born):
        return "nan-division-by-zero"  # the mean of nothing
    if born.group == "division" and not born.overflows:
        return _of_division(born)
    if born.group == "softmax" and any(i.count("minus_inf") or i.facts.get("true") == 0 for i in born.inputs):
        return "nan-masked-softmax"
    return "nan-pow" if born.group == "pow" and _bad_base(born) else ""


def _of_nothing(born: Birth) -> bool:
    return born.shows == "nan" and not born.node and any(not i.n for i in born.inputs)


def _of_size(trouble: Trouble, born: Birth) -> str:
    """What the size of the numbers tells: the result has no place in its type."""
    if born.output.dtype == "float16" and born.shows == "inf" and _largest(born) < 3e38:
        return "nan-half-overflow"
    if born.group == "exp":
        return "exploding-gradients" if _grew(trouble) and _largest(born) > HUGE else "nan-exp-overflow"
    if trouble.what == "value" and not _grew(trouble):
        return ""  # of no loss or gradient: gradients would have to be seen growing
    if trouble.what == "loss" and trouble.iteration == 1:
        return ""  # no gradient has been used yet
    return "exploding-gradients" if _exploded(born) and not _flat(trouble) else ""


def _of_constants(trouble: Trouble) -> str:
    """Infinities that the program has written itself became nan."""
    turned = trouble.turned
    if turned is None:
        return ""
    masked = turned.group == "softmax" or turned.facts.get("rows_out")
    return "nan-masked-softmax" if masked or turned.op == "mul" else ""


def _of_given(born: Birth) -> str:
    return "nan-uninitialised-parameter" if any(i.parameter for i in born.inputs) else "nan-input-data"


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
    if chosen is None or own is None:
        return chosen is not None
    return (chosen.file, chosen.line, chosen.column, chosen.end_column) != (
        own.file,
        own.line,
        own.column,
        own.end_column,
    )


def _of_gradients(born: Birth) -> bool:
    """Whether gradients were computed with behind the backward call: no loss is made of that."""
    return bool(born.facts.get("in_step")) or any(i.held.endswith(".grad") for i in born.inputs)


def _in_own_code(born: Birth) -> bool:
    """Whether an optimizer of the program's own has computed it, in a function of the program's."""
    return bool(born.stack) and born.stack[-1].user and not born.stack[-1].function.startswith("<")


def _of_division(born: Birth) -> str:
    divisor = divisor_of(born)
    if divisor is not None and is_norm(divisor):
        return "nan-norm-at-zero"
    if divisor is not None and divisor.made_by("std", "var", "std_mean", "var_mean", within=2) and divisor.count("nan"):
        return "nan-std-of-one"
    return "nan-division-by-zero"


def divisor_of(born: Birth) -> Numbers | None:
    """What was divided by, as far as it was a tensor."""
    if born.node and not born.inner:
        kept = born.saved("other")
        if kept is not None:
            return kept
    return next((i for i in reversed(born.inputs) if i.count("zeros")), None)


def is_norm(value: Numbers) -> bool:
    """Whether a value is the length of a vector: by PyTorch's function, or as the root of a sum of squares."""
    ops = [op for op, _ in value.makers[:5]]
    if any(op in _NORMS for op in ops[:3]):
        return True
    return "sqrt" in ops[:2] and "sum" in ops and any(op in ("pow", "mul", "square") for op in ops)


def _bad_base(born: Birth) -> bool:
    """Whether a power has a base at or below zero."""
    base = born.saved("self") if born.node and not born.inner else next(iter(born.inputs), None)
    return base is not None and bool(base.count("zeros") or (base.count("negative") and born.shows == "nan"))


def _exploded(born: Birth) -> bool:
    """Whether numbers had grown out of all bounds before: what overflowed was large already."""
    large = _largest(born) >= HUGE or born.overflows
    return large and born.output.dtype != "float16"


def _flat(trouble: Trouble) -> bool:
    """Whether the steps until then were seen to have had small gradients that did not grow: nothing exploded."""
    norms = [norm for _, _, norm in trouble.history if 0 <= norm < float("inf")]
    return len(norms) > 1 and max(norms) <= 1.0 and not _grew(trouble)


def _grew(trouble: Trouble) -> bool:
    norms = [norm for _, _, norm in trouble.history if norm > 0 and norm < float("inf")]
    if len(norms) < 3:
        return False
    early = sorted(norms[: max(3, len(norms) // 3)])
    return norms[-1] > GROWN * early[len(early) // 2]


def _largest(born: Birth) -> float:
    kept = [v for v in (born.saved("self", "result", "other"),) if v is not None]
    return max((i.largest for i in (*born.inputs, *kept)), default=0.0)
