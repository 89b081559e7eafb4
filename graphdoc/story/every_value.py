"""What ``--nan all`` has seen where no cause tells it: the operation that was first, or that there was none."""

from __future__ import annotations

from typing import Any

from graphdoc.evidence import Sign
from graphdoc.program.bad_values import KIND, Birth, Trouble
from graphdoc.program.spans import where
from graphdoc.story.first_bad_value import amount, function

NONE_MET = "nan-all-none"
"""Of the extras: the second run went to its end as the first did, and no operation's result was to be told."""


def is_asked(signs: list[Sign]) -> bool:
    """Whether the user wants the values of every operation."""
    return any(s.kind == KIND and s.facts.get("all") for s in signs)


def every_value(signs: list[Sign], extras: dict[str, Any], trouble: Trouble | None) -> list[str]:
    """A note on what was seen, where the user has asked and nothing else is told."""
    if not is_asked(signs):
        return []
    if trouble is not None:
        birth = trouble.first
        return [_first(trouble, birth)] if birth is not None and birth.place is not None else []
    if extras.get(NONE_MET):
        return [
            "--nan all: a second run looked at the result of every operation that PyTorch ran one by one; none was "
            "nan, and none made inf of finite numbers"
        ]
    return [] if extras.get("second_run") else ["--nan all looks in a second run, and there was none"]


def _first(trouble: Trouble, birth: Birth) -> str:
    assert birth.place is not None
    name = birth.op or "an operation"
    of = function(trouble, birth, f"`{name}`")
    verb = "made" if birth.kind in ("birth", "turn") else "met"
    told = [f"--nan all: {of} at {where(birth.place)} was the first that {verb} {birth.shows} ({name}"]
    shape = birth.output.facts.get("shape")
    told[0] += f", its result of shape {shape})" if shape else ")"
    told.append(what_went_in(birth))
    if birth.kind == "birth" and birth.overflows:
        return "; ".join(t for t in told if t) + f". The result is too large for {birth.output.dtype}."
    return "; ".join(t for t in told if t) + ". No cause that is known explains it."


def what_went_in(birth: Birth) -> str:
    """How much of an operation's result is not finite, and how far the finite numbers reach that it was given."""
    bounds = [b for i in birth.inputs if (b := i.bounds) is not None]
    taken = [f"{low:.3g}" if low == high else f"{low:.3g} to {high:.3g}" for low, high in bounds]
    given = f"of finite numbers {' and '.join(dict.fromkeys(taken[:3]))} went in" if taken else ""
    return "; ".join(t for t in (amount(birth.output, birth.shows), given) if t)
