"""Who wrote into a tensor: a step, load_state_dict, a library below the user's line, or the line itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum

from graphdoc.evidence import Event, Frame, Node, Optimizer, SourceTexts, Stale, Write
from graphdoc.evidence.lookup import event_with, node_with, optimizer_with
from graphdoc.program.spans import Moment, innermost_user, moment
from graphdoc.program.step_closures import is_around, is_optimizers, own_step


class By(Enum):
    """Whose deed a write is."""

    STEP = "an optimizer's step"
    LOAD = "load_state_dict"
    LIBRARY = "code inside what the user's line calls"
    LINE = "the user's line itself"


@dataclass(frozen=True)
class Writer:
    """One place that wrote. ``frame`` is the user's line; ``op`` how the write is called (``Adam.step()``, ``add_``).

    ``event`` is the step, where one wrote; ``stale`` the first tensor that it is known to have written.
    """

    op: str
    frame: Frame | None
    stack: tuple[Frame, ...]
    by: By
    count: int
    version: int
    grad_mode: bool
    event: Event | None
    stale: Stale | None = None


def is_accumulation(writer: Writer) -> bool:
    """Whether the engine wrote, below no code of the user's: it adds to the ``.grad`` of a leaf in place, where one is
    there already (``AccumulateGrad``, torch/csrc/autograd/functions/accumulate_grad.h)."""
    below = [i for i, f in enumerate(writer.stack) if "_engine_run_backward" in f.function]
    return writer.op == "add_" and bool(below) and not any(f.user for f in writer.stack[below[-1] :])


def writers_of(
    sources: SourceTexts, events: list[Event], optimizers: list[Optimizer], stales: Sequence[Stale]
) -> list[Writer]:
    """The distinct places that wrote, those of the first stale tensor first, each set in the order of the writes."""
    out: list[Writer] = []
    seen: set[tuple[object, ...]] = set()
    for stale in stales:
        for w in sorted(stale.writes, key=lambda w: w.version):
            writer = writer_of(sources, events, optimizers, w)
            at = writer.frame
            key = (at.file, at.line, at.column, writer.by) if at else (writer.op,)
            if key not in seen:
                seen.add(key)
                out.append(replace(writer, stale=stale))
    return out


def writer_of(sources: SourceTexts, events: list[Event], optimizers: list[Optimizer], write: Write) -> Writer:
    """A write of the evidence with the user's line, and whether an optimizer or a library did it there."""
    stack = write.stack
    if write.op.endswith(".step") or (at := own_step(sources, stack)) >= 0:
        # An optimizer of the user's own steps inside PyTorch's wrapper: its caller is the line to show.
        outside = stack if write.op.endswith(".step") else stack[:at]
        frame = innermost_user(outside) or innermost_user(stack)
        op = write.op if write.op.endswith(".step") else _optimizer_type(events, optimizers, stack, frame)
        return _writer(events, write, f"{op}()", frame, By.STEP)
    frame = innermost_user(stack)
    functions = [f.function for f in stack if not f.user]
    if any("load_state_dict" in f for f in functions):
        return _writer(events, write, "load_state_dict()", frame, By.LOAD)
    inside = bool(stack) and frame is not None and any(_does_work(f) for f in stack[stack.index(frame) + 1 :])
    return _writer(events, write, write.op, frame, By.LIBRARY if inside else By.LINE)


def written(nodes: list[Node], writer: Writer) -> Moment | None:
    """When a write was made: with its step, else as early as it can be, behind the node that had saved the tensor."""
    saving = node_with(nodes, writer.stale.node) if writer.stale is not None else None
    at = moment(saving) if writer.event is None else moment(writer.event)
    return (at[0], at[1] + 1 + max(writer.version, 0)) if at is not None and writer.event is None else at


def _does_work(frame: Frame) -> bool:
    """Whether a library's frame is more than what PyTorch puts around every operator in a second run."""
    return not frame.user and not is_around(frame)


def _optimizer_type(
    events: list[Event], optimizers: list[Optimizer], stack: Sequence[Frame], frame: Frame | None
) -> str:
    named = next((f.function for f in reversed(stack) if is_optimizers(f) and f.function.endswith(".step")), "")
    event = _step_at(events, frame)
    known = optimizer_with(optimizers, event.optimizer) if event is not None else None
    return f"{known.type}.step" if known is not None else named or "Optimizer.step"


def _step_at(events: list[Event], frame: Frame | None) -> Event | None:
    for e in reversed(events):
        at = innermost_user(e.stack) if e.kind == "step" else None
        if at is None or frame is None:
            continue
        if at.start == frame.start:
            return e
    return None


def _writer(events: list[Event], write: Write, op: str, frame: Frame | None, by: By) -> Writer:
    event = event_with(events, write.event) if write.event >= 0 else None
    if by is By.STEP and event is None:
        event = _step_at(events, frame)
    return Writer(op, frame, tuple(write.stack), by, write.count, write.version, write.grad_mode, event)


def wrote_again(stale: Stale) -> bool:
    """Whether one place wrote the tensor more than once since it was saved."""
    times: Counter[tuple[str, int] | None] = Counter()
    for write in stale.writes:
        at = innermost_user(write.stack)
        times[(at.file, at.line) if at is not None else None] += write.count
    return any(n > 1 for n in times.values())
