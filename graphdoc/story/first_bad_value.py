"""Telling where the first value that is not finite came from, what ``--nan all`` has seen, and how a number grew."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any

from graphdoc.evidence import Frame, Sign
from graphdoc.finding import Finding, Remedy
from graphdoc.model import Confidence, Span
from graphdoc.program.bad_values import KIND, Birth, Trouble, kind_of
from graphdoc.program.exception import raised_span
from graphdoc.program.number_limits import BELOW_ONE, Numbers
from graphdoc.program.observed import Program
from graphdoc.program.proof import Proof
from graphdoc.program.spans import innermost_at, innermost_user, span, span_of, where

STRENGTH = 0.94
LONGEST = 60


@dataclass(frozen=True)
class Words:
    """What a cause says of the first bad value, and what helps.

    ``label`` stands at the expression to change, which is ``at`` where it is another one than the operation ``of``
    which this is told, the one that began it. With ``placed`` the explanation is of that expression, and begins with
    its place. With ``makers`` the line in which its bad input was made is shown. Certain where ``because`` gives the
    numbers by which the function must fail, unless the cause says otherwise.
    """

    title: str
    label: str
    because: str
    explanation: str
    remedies: tuple[Remedy, ...] = ()
    confidence: Confidence | None = None
    of: Birth | None = None
    at: Frame | None = None
    more: tuple[Span, ...] = ()
    makers: bool = True
    placed: bool = True
    facts: tuple[str, ...] = ()


Told = Callable[[Trouble, Birth], Words | None]
"""What a cause says of the story and of the record that began it; None where it is not this cause."""


def explained(slug: str) -> Callable[[Told], Callable[[Program], Finding | None]]:
    """The test of a cause that explains the first bad value: it is asked for its words where this is the cause."""

    def test_of(told: Told) -> Callable[[Program], Finding | None]:
        return wraps(told)(lambda program: told_by(program.trouble, slug, told))

    return test_of


def told_by(trouble: Trouble | None, slug: str, told: Told) -> Finding | None:
    """What the cause with this slug tells, where it explains the first bad value."""
    if trouble is None or kind_of(trouble) != slug:
        return None
    birth = trouble.born or trouble.turned
    words = told(trouble, birth) if birth is not None and birth.place is not None else None
    return tell(trouble, birth, words) if birth is not None and words is not None else None


def called(trouble: Trouble, birth: Birth, otherwise: str = "the input") -> str:
    """The operand of the function in the user's words, in code quotes; ``otherwise`` where it is not plain or long."""
    text = trouble.operand(birth)
    return f"`{text}`" if text and len(text) <= LONGEST else otherwise


def function(trouble: Trouble, birth: Birth, otherwise: str = "the function") -> str:
    """The whole expression in code quotes, where it is short."""
    text = trouble.code(birth)
    return f"`{text}`" if text and len(text) <= LONGEST else otherwise


def amount(numbers: Numbers | None, what: str, name: str = "") -> str:
    """``1 of 64 elements are zero, the first at (51)``; what is counted is a key of ``Numbers.count``."""
    if numbers is None or not numbers.count(what):
        return ""
    words = {"zeros": "zero", "negative": "negative", "nan": "nan", "inf": "infinite", "minus_inf": "-inf"}
    count, at = numbers.count(what), numbers.first(what)
    if numbers.n == 1:
        return f"{name or 'it'} is {words.get(what, what)}"
    verb = "is" if count == 1 else "are"
    place = f", the first at {at}" if at and count > 1 else f", at {at}" if at else ""
    of = f" of {name}" if name else ""
    return f"{count} of {numbers.n} elements{of} {verb} {words.get(what, what)}{place}"


def coarse(numbers: Numbers | None) -> str:
    """That numbers of this type end far from 1, as the end of a sentence; empty for single and double precision."""
    below = BELOW_ONE.get(numbers.dtype) if numbers is not None else None
    return f"; in {numbers.dtype} no number lies between {below} and 1" if numbers is not None and below else ""


def met(trouble: Trouble) -> str:
    """What was not finite first, as half a sentence: ``the loss of backward call 34``."""
    number = trouble.iteration
    if trouble.what == "loss":
        return f"the loss of backward call {number}"
    if trouble.what == "gradient":
        names = trouble.names
        whose = f"`{names[0]}`" + (f" and {len(names) - 1} more" if len(names) > 1 else "") if names else "a parameter"
        if _by_a_step(trouble):
            return f"the gradient of {whose}, made by the step after backward call {number}"
        return f"the gradient of {whose} in backward call {number}, while its loss was still finite"
    if trouble.what == "parameter":
        names = trouble.names
        return f"{f'`{names[0]}`' if names else 'a parameter'} after step {number}"
    held = next((str(h) for h in trouble.look.get("holders") or ()), "")
    return f"`{held}`" if held else "a value"


def tell(trouble: Trouble, birth: Birth, words: Words) -> Finding:
    """The finding: the expression to change first, where its input came from, where nan first showed."""
    birth = words.of or birth
    place = words.at or birth.place
    assert place is not None
    made = _makers(trouble, birth, place) if words.makers else ()
    spans = [span("cause", place, words.label), *words.more, *made]
    turned = trouble.turned
    if turned is not None and turned is not birth and turned.place is not None and turned.place.line != place.line:
        spans.append(span("related", turned.place, "turns the infinity into nan"))
    call = innermost_user(trouble.call)
    if call is not None and trouble.raised is None and not _by_a_step(trouble):
        spans.append(span("failed", call, f"first seen here: {met(trouble)}"))
    spans += raised_span(trouble.raised, "noticed here")
    spans += starved_spans(trouble.sign)
    told = words.explanation
    return Finding(
        STRENGTH,
        words.confidence or Proof.BIRTH.where(bool(words.because)),
        f"{words.title}, in the optimizer's update" if trouble.of_own_update else words.title,
        f"The first nan or inf seen is {met(trouble)}. "
        + (f"It comes from {where(place)}: {told}" if words.placed else told),
        tuple(spans),
        words.facts,
        words.remedies,
        because=words.because
        or "a second run looked at every operation, and this is the first whose result is not finite",
    )


def _by_a_step(trouble: Trouble) -> bool:
    """Whether an optimizer's step has computed the gradient that is not finite."""
    return trouble.what == "gradient" and trouble.born is not None and trouble.born.in_step


def _makers(trouble: Trouble, birth: Birth, place: Frame) -> list[Span]:
    """The line in which the bad input was made, where it is another one. Where a backward call has made it, what lies
    before that call is no input of this operation."""
    call = innermost_user(trouble.call)
    own, end = ((f.file, f.line) if f is not None else None for f in (place, call))
    wanted = ("zeros", "negative", "nan", "inf")
    inputs = [i for i in birth.inputs if any(i.count(w) for w in wanted)]
    kept = birth.saved("self", "other", "result")
    for numbers in ([kept] if kept is not None else []) + inputs:
        for _, frame in numbers.makers[:6]:
            at = (frame.file, frame.line) if frame is not None else own
            if at == end and at != own:
                break
            if frame is not None and at != own:
                return [span("created", frame, "its input is computed here")]
    return []


def starved_spans(sign: Sign) -> tuple[Span, ...]:
    """The step that a GradScaler leaves out again and again, where it does."""
    at = innermost_at((sign.facts.get("scaler") or {}).get("stack"))
    return span_of("related", at, starved(sign))


def starved(sign: Sign) -> str:
    """What a GradScaler does with gradients that no scale can make finite; empty where it does not."""
    scaler = sign.facts.get("scaler")
    if not scaler:
        return ""
    return f"the last {scaler['skipped']} steps were all left out, while the scale fell to {scaler['scale']:.3g}"


def latest_norms(trouble: Trouble) -> tuple[str, ...]:
    """The norms of the gradient at the latest steps, as a fact; none where there are fewer than two."""
    finite = [norm for _, _, norm in trouble.history if norm >= 0]
    last = ", ".join(f"{norm:.3g}" for norm in finite[-5:])
    return (f"norm of the gradient at the latest steps: {last}",) if len(finite) > 1 else ()


# What ``--nan all`` has seen where no cause tells it: the operation that was first, or that there was none.

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
    given = f"its inputs were finite: {' and '.join(dict.fromkeys(taken[:3]))}" if taken else ""
    return "; ".join(t for t in (amount(birth.output, birth.shows, "the result"), given) if t)


# The history of a number on one line: a bar for each step, as high as the number has digits.

_BARS = "▁▂▃▄▅▆▇█"
WIDTH = 36
"""Bars at most; of a longer history each stands for several steps."""
_TINY = 1e-30


def plot(title: str, history: Sequence[tuple[int, float]], marked: int | None = None) -> str:
    """``gradient norm, calls 1 to 36: ▁▁▁▁▂│▃▅▆▇█ 0.3 to 2e+17``, with ``│`` in front of the step at
    ``marked``. Heights are logarithms; a bar that stands for several steps shows the largest of them.

    Args:
        history: (number of the call from 0, size), finite and in order; at least one.
    """
    each = math.ceil(len(history) / WIDTH)
    groups = [history[i : i + each] for i in range(0, len(history), each)]
    logs = [max(math.log10(max(size, _TINY)) for _, size in group) for group in groups]
    low, high = min(logs), max(logs)
    bars = ""
    for group, value in zip(groups, logs, strict=True):
        if marked is not None and group[0][0] <= marked <= group[-1][0] and bars:
            bars += "│"
        bars += _BARS[round((value - low) / (high - low) * 7) if high > low else 0]
    sizes = [size for _, size in history]
    calls = f"calls {history[0][0] + 1} to {history[-1][0] + 1}"
    return f"{title}, {calls}: {bars} {min(sizes):.2g} to {max(sizes):.2g}"
