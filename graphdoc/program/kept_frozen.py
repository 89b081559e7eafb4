"""Parameters that the failing loss trained before, frozen since for another loss and not let go: by which statement."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from graphdoc.evidence import Event, Frame, SourceTexts
from graphdoc.program import bindings
from graphdoc.program.calls_in_order import site
from graphdoc.program.observed import Program
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
    """A statement that freezes, and the one line that does the opposite; ``names`` are those that it names."""

    at: Frame
    opposite: str
    names: frozenset[str]


def kept_frozen(program: Program) -> KeptFrozen | None:
    """What the failing call reached the last time, where none of it requires gradients any more; None where some does.

    For the first call of its place, behind one for another loss: what the optimizers that step for it hold, where all
    of that is frozen.
    """
    events = program.evidence.events
    failing = program.failing or next((e for e in reversed(events) if e.kind == "backward"), None)
    if failing is None or failing.reaches or any(e.kind == "backward" for e in events if e.index > failing.index):
        return None
    if program.raised_at != _innermost(failing):
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


def _innermost(event: Event) -> Frame | None:
    return next((f for f in reversed(event.stack) if f.user), None)


def freezing_of(sources: SourceTexts, names: Sequence[str]) -> Iterator[Freezing]:
    """The statements that freeze what has these names, themselves or by a function of the program that is told to."""
    owners = {part for name in names for part in name.split(".")[:-1]}
    setters = {n.name: n for file in sources for n in _nodes(sources, file) if isinstance(n, _Def) and _flag_of(n)}
    for file in sources:
        loops = [n for n in _nodes(sources, file) if isinstance(n, ast.For)]
        for node in _nodes(sources, file):
            found = _frozen_by(node, loops, setters)
            if found is None:
                continue
            statement, what, opposite = found
            named = frozenset(p for w in what for p in w.split(".")) - {"self"}
            if named & owners:
                yield Freezing(bindings.frame_of(sources, file, statement), opposite, named)


def _nodes(sources: SourceTexts, file: str) -> Iterator[ast.AST]:
    return ast.walk(bindings.tree(sources, file) or ast.Module([], []))


def _frozen_by(node: ast.AST, loops: list[ast.For], setters: dict[str, _Def]) -> tuple[ast.stmt, list[str], str] | None:
    """The statement, the names of what it freezes, and the line that does the opposite."""
    if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Attribute):
        target, value = node.targets[0], node.value
        if target.attr != "requires_grad" or not _is_false(value):
            return None
        module = _module_of(node, target.value, loops)
        if module is not None:
            loop, text = module
            return loop, [text], f"{text}.requires_grad_(True)"
        text = bindings.dotted(target.value)
        return (node, [text], f"{text}.requires_grad = True") if text else None
    call = node.value if isinstance(node, ast.Expr) else None
    if not isinstance(node, ast.Expr) or not isinstance(call, ast.Call):
        return None
    if isinstance(call.func, ast.Attribute) and call.func.attr == "requires_grad_":
        text = bindings.dotted(call.func.value)
        if not _is_false(bindings.argument(call, 0, "requires_grad")):
            return None
        module = _module_of(node, call.func.value, loops)
        if module is not None:
            return module[0], [module[1]], f"{module[1]}.requires_grad_(True)"
        return (node, [text], f"{text}.requires_grad_(True)") if text else None
    setter = setters.get(last_word(call.func))
    flag = next((a for a in [*call.args, *(k.value for k in call.keywords)] if _is_false(a)), None)
    if setter is None or flag is None:
        return None
    what = [n for a in call.args if a is not flag for n in bindings.names_in(a)]
    other = ast.parse(ast.unparse(node)).body[0]
    for n in ast.walk(other):
        if _is_false(n):
            n.value = True  # type: ignore[attr-defined]
    return node, what, ast.unparse(other)


def _module_of(node: ast.AST, target: ast.expr, loops: list[ast.For]) -> tuple[ast.For, str] | None:
    """The loop over ``net.parameters()`` whose variable this is and that does nothing else, and ``net``."""
    for loop in loops:
        over = loop.iter.func if isinstance(loop.iter, ast.Call) and not loop.iter.args else None
        own = isinstance(target, ast.Name) and isinstance(loop.target, ast.Name) and loop.target.id == target.id
        if own and len(loop.body) == 1 and loop.body[0] is node and isinstance(over, ast.Attribute):
            text = bindings.dotted(over.value)
            return (loop, text) if over.attr == "parameters" and text else None
    return None


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


def _is_false(node: ast.AST | None) -> bool:
    return isinstance(node, ast.Constant) and node.value is False


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
