"""A loss that takes what was computed before a step, or for an earlier loss, where the same call stands again behind
that, and nothing reads what it gives: a name that was meant to be the new one."""

from __future__ import annotations

import ast

from graphdoc.evidence import Frame
from graphdoc.finding import Remedy
from graphdoc.program.bindings import function_around, text_of, tree
from graphdoc.program.container_entries import statements
from graphdoc.program.observed import Program
from graphdoc.program.reuse import Reuse
from graphdoc.program.spans import in_function, place, where
from graphdoc.program.update_function import Scene
from graphdoc.remedies.constant_value import together
from graphdoc.remedies.unread_value import reads
from graphdoc.source.paths import covers
from graphdoc.story.wording import listing


def behind_step(program: Program, at: Scene | None) -> list[Remedy]:
    """For forwards before a step and a loss behind it."""
    return _unread(program, at.lines, at.write, at.backward) if at is not None else []


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
            return _unread(program, list({f.line: f for f in made}.values()), earlier, backward)
    return []


def _unread(program: Program, forwards: list[Frame], after: Frame, backward: Frame) -> list[Remedy]:
    """Read the new values instead, wherever the failing loss reads the old ones behind a line."""
    root = tree(program.sources, backward.file)
    scope = (function_around(root, backward.line) or root) if root is not None else None
    pairs = [_twin(scope, f, after, backward) for f in forwards] if scope is not None else []
    known = [p for p in pairs if p is not None]
    if scope is None or not known or len(known) != len(pairs):
        return []
    taken = [
        (name, twin, read)
        for name, twin, line in known
        for read in reads(program.sources, backward.file, scope, name)
        if line < read.line <= backward.line
    ]
    if {name for name, _, _ in taken} != {name for name, _, _ in known}:
        return []
    edits = [{"kind": "use_instead", "args": {"place": place(r), "operand": n, "name": t}} for n, t, r in taken]
    old, new = listing(f"`{name}`" for name, _, _ in known), listing(f"`{twin}`" for _, twin, _ in known)
    it = "it" if len(known) == 1 else "them"
    note = (
        f"{new} {'is' if len(known) == 1 else 'are'} computed by the same call behind {where(after)}, and nothing "
        f"reads {it}. The loss then gives its gradient to what this call has computed."
    )
    return [together(edits, f"use {new}, computed anew for this loss, in place of {old}", note)]


def _twin(scope: ast.AST, forward: Frame, after: Frame, backward: Frame) -> tuple[str, str, int] | None:
    """The name of what a forward gave, the one that the same call gives its value behind the write and that nothing
    reads, and the line of that."""
    every = [s for s in statements(scope) if isinstance(s, ast.Assign)]
    made = [s for s in every if covers(s, forward.line) and _bound(s)]
    if len(made) != 1:
        return None
    name = _bound(made[0])
    loads = {n.id for n in ast.walk(scope) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
    twins = [
        s
        for s in every
        if after.line < s.lineno < backward.line
        if _bound(s) not in {"", name, *loads}
        if text_of(s.value) == text_of(made[0].value)
    ]
    return (name, _bound(twins[0]), twins[0].lineno) if len(twins) == 1 else None


def _bound(statement: ast.Assign) -> str:
    """The one name to which a statement binds the result of a call; empty for any other."""
    (target, *others) = statement.targets
    one = isinstance(statement.value, ast.Call) and not others
    return target.id if one and isinstance(target, ast.Name) else ""
