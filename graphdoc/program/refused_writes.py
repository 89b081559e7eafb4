"""An in-place write that autograd refused at once: the user's line, what it writes into, what it calls for it."""

from __future__ import annotations

import ast
from dataclasses import dataclass, replace

from graphdoc.evidence import Frame, SourceTexts
from graphdoc.program.bindings import argument, call_at, position_of_argument
from graphdoc.program.flagged_builders import builders
from graphdoc.program.in_place_writes import Target, is_statement, target_of
from graphdoc.program.observed import Program
from graphdoc.program.spans import innermost_user
from graphdoc.program.written_leaves import entry_added_to, entry_written
from graphdoc.source.module import Source
from graphdoc.source.paths import without_subscripts
from graphdoc.source.places import Place


@dataclass(frozen=True)
class Handed:
    """What a function was handed to write into: ``statement`` calls it and drops what it returns, ``name`` is the
    caller's."""

    statement: Frame
    name: str


@dataclass(frozen=True)
class RefusedWrite:
    """``message`` is the id of what PyTorch said. ``visible``: the write stands at ``frame`` itself; else something
    that is called there writes, and ``built`` are the calls that told it to, where they were found. What is written
    is the argument of that call only where nothing lies between: a network gives its layers what it has computed.
    ``handed`` is told where the function around is called for this write."""

    message: str
    frame: Frame
    target: Target
    visible: bool
    built: list[Frame]
    handed: Handed | None = None


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
    handed = _handed(program.sources, stack, target) if visible else None
    target = replace(target, path=entry) if entry else target
    added = entry_added_to(program.sources, frame) if said.id == "leaf-inplace" and target.path else ""
    if added:
        target, handed = Target(added, kept=True, whole=True), None
    return RefusedWrite(said.id, frame, target, visible, built, handed)


def _handed(sources: SourceTexts, stack: list[Frame], target: Target) -> Handed | None:
    """What the function that writes was handed by a caller that drops what it returns: it wants the write alone."""
    own = [i for i, f in enumerate(stack) if f.user]
    if len(own) < 2 or own[-1] - own[-2] != 1 or not target.parameter or target.local:
        return None
    frame, caller = stack[own[-1]], stack[own[-2]]
    position = position_of_argument(sources, frame, target.path)
    call = call_at(sources, caller)
    statement = Source(caller.file, sources.get(caller.file, "")).node_statement(Place.of(caller))
    if position is None or call is None or not isinstance(statement, ast.Expr):
        return None
    if ast.unparse(statement.value) != ast.unparse(call):
        return None
    given = argument(call, position, target.path)
    written = without_subscripts(given) if given is not None else None
    return Handed(caller, written.id) if isinstance(written, ast.Name) else None


def _of_one_module(stack: list[Frame]) -> bool:
    """Whether the user's line calls the very module that writes: one ``forward`` at most lies below it."""
    own = innermost_user(stack)
    below = stack[stack.index(own) + 1 :] if own is not None else []
    return sum(f.function.rpartition(".")[2] == "forward" for f in below) <= 1
