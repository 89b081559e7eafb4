"""GD612: a CTC loss that is infinite."""

from __future__ import annotations

from graphdoc.causes.base import Page
from graphdoc.evidence import Frame
from graphdoc.finding import remedy_at
from graphdoc.program.bad_values import Birth, Trouble
from graphdoc.program.bindings import call_at
from graphdoc.program.library_calls import library_calls
from graphdoc.source.paths import last_word, only
from graphdoc.story.first_bad_value import Words, amount, explained, function

PAGE = Page(
    code="GD612",
    title="A CTC loss has no path from its input to its target",
    families=("silent", "invalid-gradient"),
    what_happened="""\
CTC sums over all ways to lay the target out over the frames of the input. Where the target has more symbols than the
input has frames (a repeated symbol needs one more, for the blank in between) there is no way: the probability is
zero, the loss is infinite and its gradient nan.""",
    why="""\
It happens with short recordings, with an encoder that keeps one frame in four, with wrong lengths, and with batches
in which a single sample is so. One sample is enough for the mean.""",
    example="loss = F.ctc_loss(log_probs, targets, input_lengths, target_lengths)",
    use_instead="loss = F.ctc_loss(log_probs, targets, input_lengths, target_lengths, zero_infinity=True)",
    fix_safety="""\
Unsafe: `zero_infinity=True` leaves out samples that have no path, loss and gradient. If there are many, the lengths
are wrong: `input_lengths` must count frames *after* the encoder's own subsampling.""",
    not_this="- The log-probabilities hold nan already: the report then names what made them.",
    references=("torch.nn.CTCLoss",),
)


@explained("nan-ctc-infeasible")
def recognise(trouble: Trouble, birth: Birth) -> Words:
    """The first bad value is a CTC loss."""
    title = "a CTC target is longer than its input allows, so the loss is infinite"
    label = "this input has too few frames for its target"
    because = amount(birth.output, "inf", "the loss of each sample")
    fix = "Leave out samples whose target does not fit"
    note = "Their loss and gradient count as zero; all other samples stay as they are."
    remedies = remedy_at(
        _taking_the_flag(trouble, birth), "set_keyword", fix, "unsafe", note, name="zero_infinity", value="True"
    )
    return Words(title, label, because, f"{function(trouble, birth)} finds no alignment for some sample.", remedies)


def _taking_the_flag(trouble: Trouble, birth: Birth) -> Frame | None:
    """The call of ``F.ctc_loss``, or the one that makes ``nn.CTCLoss``."""
    called = call_at(trouble.sources, birth.place)
    if called is None or last_word(called.func) == "ctc_loss":
        return birth.place
    return only(library_calls(trouble.sources, "CTCLoss"))
