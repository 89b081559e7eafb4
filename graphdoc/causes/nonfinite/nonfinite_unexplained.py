"""GD619: a loss or gradient that is not finite, by no cause that is known."""

from __future__ import annotations

from graphdoc.causes.base import Page
from graphdoc.evidence import Event, Sign
from graphdoc.finding import Finding
from graphdoc.program.bad_values import KIND, Birth, Trouble, kind_of
from graphdoc.program.observed import Program
from graphdoc.program.proof import Proof, first_sign, likely
from graphdoc.program.spans import innermost_user, span, where
from graphdoc.story.first_bad_value import Words, function, tell, what_went_in

PAGE = Page(
    code="GD619",
    title="A loss or a gradient is not finite, and no cause that is known explains it",
    families=("silent", "invalid-gradient"),
    what_happened="""\
The loss, or a gradient, is nan or infinite, and training has gone on with it. Where a second run has met it again, the
report names the operation that made it of finite numbers, or a result that is too large for its type. Where there was
no second run, or it went another way, the report names the backward call alone.""",
    why="""\
PyTorch raises nothing for a value that is not finite. The loss that is printed is wrong from then on, and with the
gradient every parameter that it reaches.""",
    example="""\
loss = my_extension(x).mean()   # nan of finite numbers
loss.backward()""",
    use_instead="""\
y = my_extension(x)
assert y.isfinite().all()   # see first for which numbers it has no value""",
    fix_safety="Display only: nothing is proposed, for what the function can take is for its author to say.",
    not_this="- The function is one that graphdoc knows the singular points of: the other causes of this group.",
    references=("torch.isfinite",),
)
STRENGTH = 0.5


def recognise(program: Program) -> Finding | None:
    """A loss, gradient or parameter was not finite, and the operation that began it is none of those known."""
    trouble, sign = program.trouble, first_sign(program.signs, KIND)
    if sign is None or sign.facts.get("scaler"):
        return None  # steps that a GradScaler leaves out are a cause of their own
    if trouble is not None and trouble.what != "value" and not kind_of(trouble) and trouble.first is not None:
        return tell(trouble, trouble.first, _made_by(trouble, trouble.first))
    call = program.evidence.event(sign.event) if trouble is None and sign.facts.get("roots") else None
    return _met_at(sign, call) if call is not None else None


def _made_by(trouble: Trouble, birth: Birth) -> Words:
    name = trouble.name(birth) or "an operation"
    of = function(trouble, birth, f"`{name}`")
    value = "infinite" if birth.shows == "inf" else "nan"
    made = birth.kind in ("birth", "turn")
    if birth.kind == "birth" and birth.overflows:
        return _overflow(birth, of)
    verb = "has a gradient that is" if birth.node else "is"
    title = (
        f"{of} {verb} {value}, for a reason that graphdoc does not know" if made else f"{of} brings in {birth.shows}"
    )
    label = f"{'makes' if made else 'is the first that meets'} {birth.shows}"
    facts = tuple(fact for fact in (what_went_in(birth),) if fact)
    return Words(title, label, "", "this is the first place where it was seen.", confidence="likely", facts=facts)


def _overflow(birth: Birth, of: str) -> Words:
    largest = max((i.largest for i in birth.inputs), default=0.0)
    title = f"The result of {of} is too large for {birth.output.dtype}"
    label = f"larger than {birth.output.dtype} can hold"
    because = f"its input is as large as {largest:.4g}"
    text = "its type cannot hold the result, which becomes infinite."
    return Words(title, label, because, text, confidence=Proof.BIRTH.where(birth.shows == "inf" and not birth.node))


def _met_at(sign: Sign, call: Event) -> Finding | None:
    place = innermost_user(call.stack)
    if place is None:
        return None
    again = f", and that of {sign.count - 1} more calls" if sign.count > 1 else ""
    title = "The loss is not finite, and what made it so was not seen"
    text = f"The loss of the backward call at {where(place)} was nan or infinite{again}. `graphdoc run` finds the "
    text += "operation in a second run, where there is one that goes the same way."
    spans = (span("cause", place, "the loss that arrives here is nan or infinite"),)
    because = f"the loss of this backward call was nan or infinite{again}"
    return Finding(*likely(STRENGTH), title, text, spans, because=because)
