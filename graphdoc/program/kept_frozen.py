"""Parameters that the failing loss trained before, frozen since for another loss and not let go: by which statement."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from graphdoc.evidence import Event, Frame, SourceTexts
from graphdoc.program import bindings
from graphdoc.program.calls_in_order import site
from graphdoc.program.freezing import switched
from graphdoc.program.observed import Program
from graphdoc.program.spans import innermost_user
from graphdoc.source.paths import covers, last_word

_Def = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class KeptFrozen:
    """``earlier`` is the last call of this place, which had reached all of ``names``; they are frozen now. None where
    the failing call is the first of its place: the ``names`` are then all that the optimizer holds which steps for it.
    """

    names: frozenset[str]
    earlier: Event | None
    failing: Event
    between: tuple[Event, ...]


@dataclass(frozen=True)
class Freezing:
    """A statement that freezes, and the one line that does the opposite."""

    at: Frame
    opposite: str


def kept_frozen(program: Program) -> KeptFrozen | None:
    """What the failing call reached the last time, where none of it requires gradients any more; None where some does.

    For the first call of its place, behind one for another loss: what the optimizers that step for it hold, where all
    of that is frozen.
    """
    events = program.evidence.events
    failing = program.failing or next((e for e in reversed(events) if e.kind == "backward"), None)
    if failing is None or failing.reaches or any(e.kind == "backward" for e in events if e.index > failing.index):
        return None
    if program.raised_at != innermost_user(failing.stack):
        return None
    mine = site(failing.stack)
    before = [e for e in events if e.index < failing.index and site(e.stack) == mine and not e.failed]
    works = program.journal.works_for(failing) if not before else frozenset()
    names = frozenset(program.journal.reaches(before[-1])) if before else program.owners.parameters(works)
    frozen = {p.name for p in program.parameters if not p.requires_grad}
    if not names or not names <= frozen:
        return None
    first = before[-1].index if before else -1
    between = tuple(e for e in events if first < e.index < failing.index)
    if not before and not any(e.kind == "backward" for e in between):
        return None  # no other loss for which they could have been frozen
    return KeptFrozen(frozenset(names), before[-1] if before else None, failing, between)


def freezing_of(sources: SourceTexts, names: Sequence[str]) -> Iterator[Freezing]:
    """The statements that freeze what has these names, themselves or by a function of the program that is told to."""
    owners = {part for name in names for part in name.split(".")[:-1]}
    setters = {n.name for file in sources for n in _nodes(sources, file) if isinstance(n, _Def) and _flag_of(n)}
    for file in sources:
        for node in _nodes(sources, file):
            what, opposite = _undone(node, setters) if isinstance(node, ast.stmt) else ([], "")
            if owners & {part for name in what for part in name.split(".")} - {"self"}:
                yield Freezing(bindings.frame_of(sources, file, node), opposite)


def _nodes(sources: SourceTexts, file: str) -> Iterator[ast.AST]:
    return ast.walk(bindings.tree(sources, file) or ast.Module([], []))


def _undone(statement: ast.stmt, setters: Collection[str]) -> tuple[list[str], str]:
    """The names of what a statement freezes, by itself or by one of the functions ``setters``, and the line that does
    the opposite; empty where it freezes nothing."""
    if owner := switched(statement, False):
        flag = ".requires_grad = True" if isinstance(statement, ast.Assign) else ".requires_grad_(True)"
        return [owner], owner + flag
    call = statement.value if isinstance(statement, ast.Expr) else None
    if not isinstance(call, ast.Call) or last_word(call.func) not in setters:
        return [], ""
    other = ast.parse(ast.unparse(statement))
    flags = [n for n in ast.walk(other) if isinstance(n, ast.Constant) and n.value is False]
    for flag_given in flags:
        flag_given.value = True
    return [n for a in call.args for n in bindings.names_in(a)] if flags else [], ast.unparse(other)


def _flag_of(function: _Def) -> bool:
    """Whether a function sets ``requires_grad`` to what it is given."""
    given = {a.arg for a in (*function.args.args, *function.args.kwonlyargs)}
    values = [
        v
        for n in ast.walk(function)
        for v in (
            [n.value] * any(isinstance(t, ast.Attribute) and t.attr == "requires_grad" for t in n.targets)
            if isinstance(n, ast.Assign)
            else n.args * (last_word(n.func) == "requires_grad_")
            if isinstance(n, ast.Call)
            else []
        )
    ]
    return any(isinstance(v, ast.Name) and v.id in given for v in values)


def released_behind(sources: SourceTexts, freezing: Freezing, between: Sequence[Event]) -> Frame | None:
    """The last statement of the freezing one's function, behind it, below which one of these calls was made: whatever
    the freezing was for is done there. None where none was."""
    root = bindings.tree(sources, freezing.at.file)
    around = bindings.function_around(root, freezing.at.line) if root is not None else None
    lines = [
        f
        for e in between
        for f in e.stack
        if f.user and f.file == freezing.at.file and f.line > max(freezing.at.line, freezing.at.end_line)
        if (covers(around, f.line) if around is not None else f.function == "<module>")
    ]
    return max(lines, key=lambda f: (f.line, f.column), default=None)
