"""A store that nobody empties: what an update has used up is let go of behind its step."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from graphdoc.evidence import Frame, SourceTexts
from graphdoc.finding import Remedy
from graphdoc.program.bindings import dotted, function_around, tree
from graphdoc.program.container_entries import entry_of
from graphdoc.program.observed import Program
from graphdoc.program.reuse import Reuse
from graphdoc.program.spans import place, where
from graphdoc.program.step_blocks import behind_the_step
from graphdoc.program.stored_values import user_frames

_TAKING = frozenset({"clear", "pop", "popleft", "remove", "popitem"})
"""Methods that take something out of a list."""


def emptied_behind_step(program: Program, reuse: Reuse) -> list[Remedy]:
    """Empty the lists that the update reads behind its step, where the program only ever appends to them.

    Told where the failing loss takes in every old entry that is still held, and entries made since beside them: what is
    drawn from a memory, or used for several updates, is not to be thrown away.
    """
    for frame, paths in _grown(program, reuse):
        anchor, step = behind_the_step(program.sources, program.evidence.events, frame)
        return [] if step is frame else [_remedy(paths, anchor, step)]  # without a step what is called is no update
    return []


def only_grows(program: Program, reuse: Reuse) -> bool:
    """Whether the failing loss takes in all of a list that the program only ever appends to."""
    return any(True for _ in _grown(program, reuse))


def _grown(program: Program, reuse: Reuse) -> Iterator[tuple[Frame, list[str]]]:
    """The functions of the failing call that read such lists, and their paths there."""
    if not any(c.remade or c.recurrent for c in reuse.carries):
        return
    names = [{e.container for h in c.tensor.holders if (e := entry_of(h)) is not None} for c in reuse.carries]
    common = set.intersection(*names) if names else set()
    taken = {h.path for c in reuse.carries for h in c.tensor.holders}
    held = [h for t in program.evidence.held_tensors for h in t.holders]
    if any(h.path not in taken for h in held if (e := entry_of(h)) is not None and e.container in common):
        return
    for frame in user_frames(reuse.failing.stack if reuse.failing else []):
        root = tree(program.sources, frame.file)
        scope = (function_around(root, frame.line) or root) if root is not None else None
        read = next((p for p in _lists_read(scope) if p.rpartition(".")[2] in common), "") if scope is not None else ""
        if scope is None or not read or not _only_grows(program.sources, read):
            continue
        owner = read.rpartition(".")[0]
        others = (p for p in _lists_read(scope) if p.rpartition(".")[0] == owner and p != read)
        yield frame, [read, *dict.fromkeys(p for p in others if _only_grows(program.sources, p))]


def _remedy(paths: list[str], anchor: Frame, step: Frame) -> Remedy:
    named = " and ".join(f"`{p}`" for p in paths)
    return Remedy(
        "clear_lists",
        f"empty {named} once each update, after the optimizer step at {where(step)}",
        "unsafe",
        "Each update learns from what was stored since the one before; so far nothing empties them.",
        {"place": place(anchor), "paths": paths},
    )


def _lists_read(scope: ast.AST) -> Iterator[str]:
    """The names and dotted names that a function reads, other than to call a method of theirs."""
    called = {id(n.value) for n in ast.walk(scope) if isinstance(n, ast.Attribute)}
    for n in ast.walk(scope):
        if isinstance(n, ast.Name | ast.Attribute) and isinstance(n.ctx, ast.Load) and id(n) not in called:
            path = dotted(n)
            if path:
                yield path


def _only_grows(sources: SourceTexts, path: str) -> bool:
    """Whether the program appends to a list of this last name, and never takes from it, nor binds the name anew but at
    the start: in ``__init__``, or at the top of a file or function outside of its loops."""
    owner, _, name = path.rpartition(".")
    grows = False
    for file in sources:
        root = tree(sources, file)
        for n in ast.walk(root) if root is not None else ():
            if isinstance(n, ast.Attribute) and _is(n.value, name, owner):
                grows = grows or n.attr == "append"
                if n.attr in _TAKING:
                    return False
            if isinstance(n, ast.Delete) and any(_is(_base(t), name, owner) for t in n.targets):
                return False
        if root is not None and any(_is(t, name, owner) for t in _bound_late(root)):
            return False
    return grows


def _is(node: ast.expr, name: str, owner: str) -> bool:
    return node.attr == name if isinstance(node, ast.Attribute) else not owner and getattr(node, "id", "") == name


def _base(node: ast.expr) -> ast.expr:
    return node.value if isinstance(node, ast.Subscript) else node


def _bound_late(root: ast.AST) -> Iterator[ast.expr]:
    """What is assigned inside of loops, or as an attribute elsewhere than in ``__init__``."""
    for node in ast.walk(root):
        if isinstance(node, ast.For | ast.While):
            for n in ast.walk(node):
                yield from _targets(n)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name != "__init__":
            for n in ast.walk(node):
                yield from (t for t in _targets(n) if isinstance(t, ast.Attribute))


def _targets(node: ast.AST) -> Iterator[ast.expr]:
    for target in node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]:
        for t in target.elts if isinstance(target, ast.Tuple | ast.List) else [target]:
            if isinstance(t, ast.expr):
                yield _base(t)
