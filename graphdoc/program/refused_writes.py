"""An in-place write that autograd refused at once: the user's line, what it writes into, what it calls for it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from graphdoc.evidence import Frame
from graphdoc.program.flagged_builders import builders
from graphdoc.program.in_place_writes import Target, is_statement, target_of
from graphdoc.program.observed import Program
from graphdoc.program.spans import innermost_user
from graphdoc.program.written_leaves import entry_written


@dataclass(frozen=True)
class RefusedWrite:
    """``message`` is the id of what PyTorch said. ``visible``: the write stands at ``frame`` itself; else something
    that is called there writes, and ``built`` are the calls that told it to, where they were found. What is written
    is the argument of that call only where nothing lies between: a network gives its layers what it has computed."""

    message: str
    frame: Frame
    target: Target
    visible: bool
    built: list[Frame]


def refused_write(program: Program, *messages: str) -> RefusedWrite | None:
    """The write that one of these messages is about; None where only its text is known, or no place."""
    frame, said = program.raised_at, program.message(*messages)
    if program.evidence.from_text or frame is None or not frame.column or said is None:
        return None
    visible = is_statement(program.sources, frame)
    stack = program.raised.stack if program.raised is not None else []
    built = [] if visible else builders(program.sources, frame, stack)
    target = target_of(program.sources, program.raised, frame) if visible or _of_one_module(stack) else Target()
    entry = entry_written(program.sources, frame) if target.path else ""
    return RefusedWrite(said.id, frame, replace(target, path=entry) if entry else target, visible, built)


def _of_one_module(stack: list[Frame]) -> bool:
    """Whether the user's line calls the very module that writes: one ``forward`` at most lies below it."""
    own = innermost_user(stack)
    below = stack[stack.index(own) + 1 :] if own is not None else []
    return sum(f.function.rpartition(".")[2] == "forward" for f in below) <= 1
