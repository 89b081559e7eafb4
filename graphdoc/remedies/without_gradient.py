"""What may be done about a gradient that is None where it is read."""

from __future__ import annotations

from graphdoc.evidence import Frame, SourceTexts
from graphdoc.finding import Remedy
from graphdoc.program.observed import Program
from graphdoc.program.spans import in_function, innermost_user, place
from graphdoc.program.unset_gradients import Unset, Why
from graphdoc.source.gradient_uses import Use, is_one_of_many, use_of
from graphdoc.source.module import Source
from graphdoc.source.places import Place

_TITLES = {
    Use.VALUE: "count `{read}` as zero where it is None",
    Use.SCALED: "leave out what has no gradient here",
    Use.GIVEN: "let `{read}` be zeros where it is None",
}
_NOTES = {
    Use.VALUE: "a parameter without a gradient counts with zeros; all others count as they do now",
    Use.SCALED: "only what has a gradient is changed here",
    Use.GIVEN: "the gradient is then what is put into it here, as it is for the others",
}


def remedies_for(program: Program, unset: Unset) -> tuple[Remedy, ...]:
    """Best first. None hides a gradient that was computed and thrown away."""
    source = Source(unset.read.file, program.sources.get(unset.read.file, ""))
    node = source.node_expression(Place.of(unset.read))
    use = use_of(source, node) if node is not None else None
    if unset.why is Why.CLEARED:
        return _cleared_to_zeros(unset) if use is Use.GIVEN else _read_first(program, unset)
    if use is None or node is None:
        return ()
    # Where one tensor is asked for by its name, and nothing steps it, its gradient is what the program is after.
    wanted = not unset.parameter.owners and not is_one_of_many(source, node)
    if use is Use.VALUE and (unset.why is Why.UNCALLED or wanted):
        return ()
    if unset.why is Why.TAKEN and unset.last is unset.calls[-1]:
        return ()
    words = {"read": f"{unset.name}.grad"}
    args = {"place": place(unset.read)}
    first = Remedy("grad_if_any", _TITLES[use].format(**words), "safe", _NOTES[use], args)
    return (first, *_zeros(unset))


def _cleared_to_zeros(unset: Unset) -> tuple[Remedy, ...]:
    """What is added to the gradient is for the step: it needs zeros to be added to, which the clearing left once."""
    note = "the gradients are zeros then, as they were before PyTorch 2.0, and what is added to them here is theirs"
    return _filled(unset, "clear the gradients to zeros instead of None", note)


def _read_first(program: Program, unset: Unset) -> tuple[Remedy, ...]:
    """Clear behind what reads the gradient, where both stand in one function."""
    clear = innermost_user(unset.clear.stack) if unset.clear is not None else None
    reader = in_function(program.raised.stack if program.raised else [], clear) if clear is not None else None
    if clear is None or reader is None:
        return ()
    at = _beside(program.sources, clear, reader)
    if at is None:
        return ()
    args = {"place": place(clear), "after": vars(at)}
    note = "the gradients stay until they have been read; the next backward call finds them cleared, as before"
    return (Remedy("move_statement", "clear the gradients after they have been read", "unsafe", note, args),)


def _beside(sources: SourceTexts, clear: Frame, reader: Frame) -> Place | None:
    """The statement around the reader that stands in the block of the clearing, behind it."""
    source = Source(clear.file, sources.get(clear.file, ""))
    own, at = source.node_statement(Place.of(clear)), source.node_statement(Place.of(reader))
    found = source.node_block(own) if own is not None else None
    if at is None or found is None:
        return None
    behind = found[0][found[1] + 1 :]
    return next((source.place(s) for s in (at, *source.node_ancestors(at)) if s in behind), None)


def _zeros(unset: Unset) -> tuple[Remedy, ...]:
    """Zeros instead of None, as ``zero_grad`` left them before PyTorch 2.0; they are only there after a gradient."""
    if unset.last is None or unset.why is not Why.LEFT_OUT:
        return ()
    note = (
        "the optimizer then steps what the loss does not reach by a gradient of zero: momentum and weight decay move it"
    )
    return _filled(unset, "let zero_grad() fill the gradients with zeros", note)


def _filled(unset: Unset, title: str, note: str) -> tuple[Remedy, ...]:
    """The call that cleared the gradient fills it with zeros; none where no call of the user's did."""
    clear = innermost_user(unset.clear.stack) if unset.clear is not None else None
    if clear is None:
        return ()
    args = {"place": place(clear), "name": "set_to_none", "value": "False"}
    return (Remedy("set_keyword", title, "unsafe", note, args),)
