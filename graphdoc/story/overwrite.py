"""The story of a version error: who wrote, which view or leaf, at which version it was saved, who noticed."""

from __future__ import annotations

from collections.abc import Iterable

from graphdoc.evidence import Evidence, Frame, Node, SourceTexts, Stale
from graphdoc.finding import Finding, Remedy, distinct, remedy_at
from graphdoc.model import Confidence, Span
from graphdoc.program.exception import raised_span
from graphdoc.program.installed import deed_of
from graphdoc.program.observed import Program
from graphdoc.program.overwrites import Overwrite
from graphdoc.program.proof import Proof
from graphdoc.program.refused_writes import RefusedWrite, Unpacked
from graphdoc.program.spans import code_at, moment, place, span, span_of, where
from graphdoc.program.writers import By, Writer, writer_of
from graphdoc.story.wording import listing

MOST_CAUSES = 3
MOST_FACTS = 4
MOST_WRITERS = 6


def called(stale: Stale) -> str:
    """What the stale tensor is to the user: its name, else its kind and shape."""
    if stale.tensor.name:
        return stale.tensor.name
    shape = "×".join(str(n) for n in stale.tensor.shape) or "scalar"
    kind = stale.tensor.kind if stale.tensor.kind in ("parameter", "buffer") else "tensor"
    return f"the {shape} {kind}"


def named(found: Overwrite, stale: Stale) -> str:
    """The same in the words of the function that writes: what another function calls ``out`` may be its ``x``, and what
    no name led to any more when the run failed has the one that is written by."""
    path, name = found.target.path, stale.tensor.name
    if not name and stale is found.stale and stale.tensor.kind == "activation" and found.written_as:
        return found.target.item or found.written_as
    plain = name.isidentifier() and stale.tensor.kind == "activation"
    return (found.target.item or path) if plain and found.may_be(path) else called(stale)


def quoted(found: Overwrite, stale: Stale | None = None) -> str:
    """What backward met first, or another stale tensor, in a sentence: a name as code, a description as it is."""
    of = stale or found.stale
    name = named(found, of)
    return name if name == called(of) and not of.tensor.name else f"`{name}`"


def saved_by(node: Node) -> str:
    """``ReluBackward0`` → ``ReLU``: the operation that saved, as the user wrote it."""
    name = node.op.rsplit("::", 1)[-1].rstrip("0123456789")
    name = name.removesuffix("Backward").removesuffix("WithIndices").replace("Relu", "ReLU")
    return name or node.op


def write_spans(found: Overwrite) -> tuple[Span, ...]:
    """Every place that wrote, in the order of the writes."""
    out = []
    for w in found.writers[:MOST_WRITERS]:
        if w.frame is not None:
            text = f"{quoted(found, w.stale)} is changed here{_through(w)}"
            out.append(span("mutated", w.frame, text, when=moment(found.made_by(w))))
    return distinct(out)


def readable(writer: Writer) -> str:
    """How a write is called in a sentence; an operator of the engine goes by its own name."""
    name = writer.op.rsplit("::", 1)[-1]
    if name == "CopySlices" or name.endswith(("Backward0", "Backward")):
        return "an in-place write"
    return f"`{name}`" if name.endswith(")") else f"`{name}()`"


def first_writer(found: Overwrite) -> str:
    """The first write as the beginning of a sentence: what wrote, and where."""
    writer = found.writers[0] if found.writers else None
    return f"{readable(writer)} at {where(writer.frame)}" if writer is not None and writer.frame else "A write"


def _through(writer: Writer) -> str:
    text = readable(writer)
    return "" if text == "an in-place write" or writer.by is By.LINE else f", by {text}"


def saved_spans(found: Overwrite) -> tuple[Span, ...]:
    """Where the tensor was saved for backward, with the version that it had then."""
    s = found.stale
    label = f"{saved_by(found.node)} saves {quoted(found, s)} for backward"
    return span_of("consumed", found.node.stack, label, moment(found.node))


def failed_spans(run: Evidence, found: Overwrite) -> tuple[Span, ...]:
    """The backward call that noticed."""
    s = found.stale
    label = f"needs {quoted(found, s)} as it was then"
    if found.failing is not None:
        return span_of("failed", found.failing.stack, label, moment(found.failing))
    return raised_span(run.raised, label)


def facts_of(program: Program, found: Overwrite) -> tuple[str, ...]:
    """``net.weight at version 20, 19 expected: +1 by Adam.step() at train.py:88``, for each stale tensor."""
    out: dict[str, str] = {}
    for s in found.stales:
        out.setdefault(
            named(found, s), f"{named(found, s)} at version {s.current}, {s.expected} expected: {_by(program, s)}"
        )
    told = list(out.values())[:MOST_FACTS]
    more = len(found.stales) - len(told)
    if more > 0:
        told.append(
            f"{more} more tensor{'s' if more > 1 else ''} that backward needs {'have' if more > 1 else 'has'} changed"
        )
    return tuple(told)


def reason(program: Program, found: Overwrite) -> str:
    """Who changed what backward met first. The arithmetic of version counters is left to the facts."""
    by = list(writes_of(program, found.stale))
    return f"{quoted(found)} was changed by {listing(by[:3]) if by else 'a write that was not seen'} after it was saved"


def writes_of(program: Program, stale: Stale) -> dict[str, int]:
    """The writes to a stale tensor since it was saved, each with its place, and how often each one was made."""
    parts: dict[str, int] = {}
    for w in stale.writes:
        writer = writer_of(program.evidence.sources, program.evidence.events, program.evidence.optimizers, w)
        deed = deed_of(program.packages, w.stack) if writer.by is not By.STEP else None
        at = f"{deed.place} of {deed.package.told}" if deed is not None else where(writer.frame)
        text = f"{readable(writer)} at {at}" if at else readable(writer)
        parts[text] = parts.get(text, 0) + w.count
    return parts


def _by(program: Program, stale: Stale) -> str:
    parts = {text.replace("`", ""): n for text, n in writes_of(program, stale).items()}
    gap = stale.current - stale.expected
    if not parts:
        return f"+{gap} by a write that was not seen"
    if len(parts) == 1:
        return f"+{gap} by {next(iter(parts))}"
    told = [f"{text} ({n}×)" if n > 1 else text for text, n in parts.items()]
    more = f" and {len(told) - 3} more" if len(told) > 3 else ""
    return f"written by {', '.join(told[:3])}{more}"


def trust(found: Overwrite, most: float) -> tuple[float, Confidence]:
    """Strength and confidence: certain where the writers account for every version."""
    if found.exact:
        return most, Proof.WRITERS.confidence
    return (most - 0.03, "likely") if found.writers else (most - 0.12, "possible")


def story(run: Evidence, found: Overwrite, causes: Iterable[Span]) -> tuple[Span, ...]:
    """Causes (at most three), every write, where it was saved, and the call that failed."""
    causes = distinct(causes)[:MOST_CAUSES]
    return distinct((*causes, *write_spans(found), *saved_spans(found), *failed_spans(run, found)))


def finding(
    program: Program,
    found: Overwrite,
    most: float,
    title: str,
    text: str,
    causes: Iterable[Span],
    remedies: tuple[Remedy, ...],
) -> Finding:
    """What all causes of an overwritten tensor tell alike, beside their own words, places and remedies."""
    spans, because = story(program.evidence, found, causes), reason(program, found)
    return Finding(*trust(found, most), title, text, spans, facts_of(program, found), remedies, because=because)


def steps_of(found: Overwrite) -> list[Writer]:
    """The steps that wrote, one for each optimizer, that of what backward met first in front."""
    out: dict[int, Writer] = {}
    for writer in found.writers:
        if writer.by is By.STEP and writer.frame is not None:
            out.setdefault(writer.event.optimizer if writer.event is not None else -1, writer)
    return list(out.values())


def stepped_and_before(
    found: Overwrite, forwards: Iterable[Frame], most: int = MOST_CAUSES
) -> tuple[list[Span], list[Span]]:
    """The steps that wrote, and the forwards that had run before them, first that of the tensor that backward met:
    ``most`` places at most, both among them.
    """
    own = {f.start for f in found.node.stack}
    before = sorted(forwards, key=lambda f: f.start not in own)
    step: list[Span] = []
    for writer in steps_of(found)[: most - bool(before)]:
        assert writer.frame is not None  # of a place that was seen
        text = f"`{writer.op}` changes {quoted(found, writer.stale)} in place"
        step.append(span("cause", writer.frame, text, moment(writer.event)))
    return step, forwards_before(found, before)[: most - len(step)]


def forwards_before(
    found: Overwrite, forwards: Iterable[Frame], before: str = "the weights from before the step"
) -> list[Span]:
    """The forwards that ran before the write, each at its own time."""
    label = f"this forward ran with {before}"
    times = [(frame, next(iter(found.ran_in(frame)), found.node)) for frame in forwards]
    return [span("cause", _apart(found, frame, node), label, moment(node)) for frame, node in times]


def _apart(found: Overwrite, frame: Frame, node: Node) -> Frame:
    """The place of a forward; where the call there makes the write as well, the one below it that does not."""
    wrote = {f.start for w in found.writers for f in w.stack}
    at = next((i for i, f in enumerate(node.stack) if f.start == frame.start), len(node.stack))
    below = [f for f in node.stack[at:] if f.user]
    return next((f for f in below if f.start not in wrote), frame)


# Telling of one of several views that a backward call needs, and that was written since it was taken out.


def told_unpacked(sources: SourceTexts, found: Unpacked, failed: Frame, title: str) -> Finding:
    """The finding with this title, where it is known which view the backward call needs, and of what it is one."""
    name, whole = " or ".join(f"`{n}`" for n in found.names), f"`{code_at(sources, found.whole)}`"
    spans = (
        span("cause", found.whole, f"{name} is one of several views of this"),
        span("consumed", found.used, f"{name} is saved here for backward"),
        span("failed", failed, f"needs {name}; {whole} was written in place since"),
    )
    note = "What is taken apart is a copy then: no later write reaches it, and none is to be seen through it."
    text = f"{name}, saved at {where(found.used)}, is one of several views (`unbind`, `chunk`, `split`) of {whole}. "
    text += f"Since then the memory of {whole} was changed in place, and autograd cannot tell what the views are now."
    remedies = (
        Remedy(
            "clone_expression",
            f"take the parts of a copy, at {where(found.whole)}",
            "unsafe",
            note,
            {"place": place(found.whole), "structure": "tensor"},
            "whether what is written is to be seen through the parts, no run tells" * found.held,
        ),
    )
    because = f"{where(found.used)} has saved {name}, and the engine refuses it as a view whose base was written"
    return Finding(*Proof.RAISED.at(0.96, found.alone), title, text, spans, remedies=remedies, because=because)


# Telling of a write that is refused because its result is assigned to itself through ``[:]`` once more.


def told_written_back(write: RefusedWrite) -> Finding:
    """The finding where the tensor that PyTorch's message calls a leaf is none."""
    what, at = f"`{write.target.path}`", where(write.frame)
    title = f"a slice of {what} is assigned to itself, which PyTorch refuses"
    text = f"{what} is no leaf: it was computed. `+=` through `[:]` adds to the slice, and then assigns the sum to the "
    text += "slice again. PyTorch refuses this second write: leave out the `[:]`."
    spans = (span("cause", write.frame, f"adds through `[:]` to a part of {what}, and assigns it back"),)
    note = "The same elements are added to; the numbers and the gradients are those that were meant."
    remedies = remedy_at(write.frame, "drop_full_slice", f"add without the `[:]`, at {at}", "safe", note)
    because = f"{what} had a history when {at} failed, and the message speaks of a leaf"
    return Finding(*Proof.RAISED.at(0.96), title, text, spans, remedies=remedies, because=because)
