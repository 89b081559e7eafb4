"""A loss that takes what was computed before a step, or for an earlier loss, where the same call stands again behind
that, and nothing reads what it gives: a name that was meant to be the new one."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from graphdoc.evidence import Frame, SourceTexts
from graphdoc.finding import Remedy
from graphdoc.program.bindings import function_around, text_of
from graphdoc.program.observed import Program
from graphdoc.program.reuse import Reuse
from graphdoc.program.spans import in_function, where
from graphdoc.program.update_function import Scene
from graphdoc.remedies.constant_value import together
from graphdoc.source.effects import another_each_time
from graphdoc.source.module import Source
from graphdoc.source.paths import covers, names_read, names_written
from graphdoc.story.wording import listing


def behind_step(sources: SourceTexts, at: Scene | None) -> list[Remedy]:
    """For forwards before a step and a loss behind it."""
    return _unread(sources, at.lines, at.write, at.backward) if at is not None else []


def behind_call(program: Program, reuse: Reuse) -> list[Remedy]:
    """For values of a graph that an earlier call has used up, which another call than the failing one made."""
    makers = [program.node(c.producer) for c in reuse.carries]
    if reuse.calls is None or reuse.same_line or not makers or None in makers:
        return []
    freeing, failing = reuse.calls
    for backward in reversed([f for f in failing.stack if f.user]):
        earlier = in_function(freeing.stack, backward)
        made = [f for n in makers if n is not None and (f := in_function(n.stack, backward)) is not None]
        if earlier is not None and len(made) == len(makers):
            return _unread(program.sources, list({f.line: f for f in made}.values()), earlier, backward)
    return []


def _unread(sources: SourceTexts, forwards: list[Frame], after: Frame, backward: Frame) -> list[Remedy]:
    """Read the new values instead, wherever the failing loss is made of the old ones behind a line."""
    source = Source(backward.file, sources.get(backward.file, ""))
    if source.tree is None:
        return []
    scope = _Scope(source, function_around(source.tree, backward.line) or source.tree, after, backward)
    pairs = [scope.twin(f) for f in forwards]
    known = [p for p in pairs if p is not None]
    if not known or len(known) != len(pairs):
        return []
    taken = [(name, new, read) for name, new, made in known for read in scope.reads(name, made)]
    if {name for name, _, _ in taken} != {name for name, _, _ in known}:
        return []
    edits = [
        {"kind": "use_instead", "args": {"place": vars(source.place(r)), "operand": n, "name": t}} for n, t, r in taken
    ]
    old, new = listing(f"`{name}`" for name, _, _ in known), listing(f"`{twin}`" for _, twin, _ in known)
    it = "it" if len(known) == 1 else "them"
    note = (
        f"{new} {'is' if len(known) == 1 else 'are'} computed by the same call behind {where(after)}, and nothing "
        f"reads {it}. The loss then gives its gradient to what this call has computed."
    )
    return [together(edits, f"use {new}, computed anew for this loss, in place of {old}", note)]


@dataclass
class _Scope:
    """A function with a line behind which something is computed again, and the backward call that fails."""

    source: Source
    node: ast.AST
    after: Frame
    backward: Frame

    def __post_init__(self) -> None:
        inside = [s for s in self.source.node_statements() if self._is_inside(s)]
        self.every = sorted(inside, key=lambda s: (s.lineno, s.col_offset))
        covering = [s for s in self.every if covers(s, self.backward.line)]
        self.around = set(covering)
        """The statements around the backward call, itself included."""

    def _is_inside(self, statement: ast.stmt) -> bool:
        function = self.source.node_function(statement)
        return function is self.node or (function is None and isinstance(self.node, ast.Module))

    def twin(self, forward: Frame) -> tuple[str, str, ast.stmt] | None:
        """The name of what a forward gave, the one that the same call gives its value behind the line and that nothing
        reads, and the statement of that."""
        made = [s for s in self.every if covers(s, forward.line) and _bound(s)]
        if len(made) != 1 or another_each_time(made[0]):
            return None
        name = _bound(made[0])
        loads = {n.id for n in ast.walk(self.node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
        twins = [
            s
            for s in self.every
            if self.after.line < s.lineno < self.backward.line and _bound(s) not in {"", name, *loads}
            if _value(s) == _value(made[0]) and self._always_runs(s) and self._same(made[0], s)
        ]
        return (name, _bound(twins[0]), twins[0]) if len(twins) == 1 else None

    def _always_runs(self, statement: ast.stmt) -> bool:
        """Whether nothing stands around a statement that does not stand around the backward call as well."""
        above = [a for a in self.source.node_ancestors(statement) if isinstance(a, ast.stmt)]
        return all(a in self.around or a is self.node for a in above if a in self.every)

    def _same(self, made: ast.stmt, again: ast.stmt) -> bool:
        """Whether what the call is made of is the same both times, or bound by the same expression in between."""
        read = names_read(made)
        for s in self.every:
            if not made.lineno < s.lineno < again.lineno:
                continue
            for path in {*names_written(s)} & read:
                if not path.isidentifier() or _value(s) != self._last(path, made):
                    return False
        return True

    def _last(self, name: str, before: ast.stmt) -> str:
        """What was bound to a name before a statement."""
        found = [s for s in self.every if s.lineno < before.lineno and _bound(s) == name]
        return _value(found[-1]) if found else ""

    def reads(self, name: str, behind: ast.stmt) -> list[ast.stmt]:
        """The plain statements behind one that make the failing loss of a name; none where it is bound anew there."""
        last = [s for s in self.every if behind.lineno < s.lineno <= self.backward.line]
        if any(name in {*names_written(s)} for s in last):
            return []
        wanted: set[str] = set()
        found: list[ast.stmt] = []
        for s in reversed(last):
            plain = isinstance(s, ast.Assign | ast.AnnAssign | ast.AugAssign)
            if not (covers(s, self.backward.line) and isinstance(s, ast.Expr)) and not (
                plain and {*names_written(s)} & wanted
            ):
                continue
            wanted |= names_read(s)
            found += [s] if name in names_read(s) else []
        return found


def _value(statement: ast.stmt) -> str:
    value = getattr(statement, "value", None)
    return text_of(value) if isinstance(value, ast.expr) else ""


def _bound(statement: ast.stmt) -> str:
    """The one name to which a statement binds the result of a call; empty for any other."""
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return ""
    target = statement.targets[0]
    return target.id if isinstance(statement.value, ast.Call) and isinstance(target, ast.Name) else ""
