"""Scoping a switch: where ``set_grad_enabled(False)`` was thrown as a statement, which computations it was meant for.

The run tells what was computed from parameters while it was in force (``extras["unrecorded"]``). Of that, what lies in
the code around the statement is what its author had in mind; what leads to the failing backward is not.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from typing import Any

from graphdoc.evidence import Cut, Frame, SourceTexts
from graphdoc.finding import Remedy
from graphdoc.program import bindings
from graphdoc.program.observed import Program
from graphdoc.program.spans import place
from graphdoc.program.tensors import frames
from graphdoc.remedies.fix_places import remedy_at
from graphdoc.source.paths import covers

_NOTE = "Recording is off there alone, and what the switch turned off besides is recorded again."
_Def = ast.FunctionDef | ast.AsyncFunctionDef


def scoped(program: Program, cut: Cut, switch: Frame) -> tuple[Remedy, ...]:
    """The remedies that keep recording off only where the statement at ``switch`` was meant to; none for a block.

    The statements that follow it in its block go under ``with torch.no_grad():`` if they compute; otherwise the
    functions beside it that compute (methods of the same class, functions of the same file) get ``@torch.no_grad()``.
    """
    root = bindings.tree(program.sources, switch.file)
    found = _statement(root, switch) if root is not None else None
    if root is None or found is None:
        return ()
    statement, following = found
    work = [w for w in (_own(program.sources, stack) for stack in _unrecorded(program.evidence.extras)) if w]
    trained = _trained_paths(program, cut)
    drop = {
        "kind": "delete_statement",
        "args": {"place": place(bindings.frame_of(program.sources, switch.file, statement))},
    }
    if following and _computes(work, switch.file, following) and not _computes(trained, switch.file, following):
        first, last = (bindings.frame_of(program.sources, switch.file, s) for s in (following[0], following[-1]))
        block = {"kind": "no_grad_block", "args": {"place": place(first), "last": place(last)}}
        return remedy_at(
            switch,
            "several",
            "Switch recording off for the lines that follow only: `with torch.no_grad():`",
            "unsafe",
            _NOTE,
            edits=[drop, block],
        )
    functions = [f for f in _beside(root, statement) if not _computes(trained, switch.file, [f])]
    entered = _entered(work, switch.file, functions)
    if not entered:
        return ()
    shown = ", ".join(f"`{f.name}`" for f in entered[:3])
    decorate = [
        {
            "kind": "no_grad_decorator",
            "args": {"place": place(bindings.frame_of(program.sources, switch.file, f.body[0]))},
        }
        for f in entered
    ]
    return remedy_at(
        switch,
        "several",
        f"Switch recording off where this helper computes only: `@torch.no_grad()` on {shown}",
        "unsafe",
        _NOTE,
        edits=[drop, *decorate],
    )


def _statement(root: ast.Module, switch: Frame) -> tuple[ast.stmt, list[ast.stmt]] | None:
    """The statement at the switch, if it is nothing but the call, and those behind it in its block."""
    for node in ast.walk(root):
        for part in ("body", "orelse", "finalbody"):
            given = getattr(node, part, None)
            block: list[ast.stmt] = given if isinstance(given, list) else []
            for index, s in enumerate(block):
                if isinstance(s, ast.Expr) and isinstance(s.value, ast.Call) and s.lineno == switch.line:
                    return s, block[index + 1 :]
    return None


def _beside(root: ast.Module, statement: ast.stmt) -> list[_Def]:
    """The methods of the class that the statement lies in; outside of classes, the functions of the file."""
    scope: ast.AST = bindings.class_around(root, statement.lineno) or root
    return [n for n in bindings.shallow(scope) if isinstance(n, _Def)]


def _unrecorded(extras: dict[str, Any]) -> list[list[Frame]]:
    told = extras.get("unrecorded")
    return [frames(e.get("stack")) for e in (told if isinstance(told, list) else []) if isinstance(e, dict)]


def _own(sources: SourceTexts, stack: Sequence[Frame]) -> list[Frame]:
    return [f for f in stack if f.user and f.file in sources]


def _trained_paths(program: Program, cut: Cut) -> list[list[Frame]]:
    """The calls that have to be recorded: those to the failing backward, to the cut, and to what is trained by it."""
    owned = {name for o in program.optimizers for name in o.parameters}
    raised = program.raised.stack if program.raised else []
    more = [c.stack for c in program.cuts if owned & set(c.behind)]
    return [_own(program.sources, stack) for stack in (raised, cut.stack, *more)]


def _computes(stacks: Iterable[Sequence[Frame]], file: str, parts: Sequence[ast.stmt]) -> bool:
    """Whether one of these calls goes through one of these statements."""
    return any(f.file == file and covers(p, f.line) for stack in stacks for f in stack for p in parts)


def _entered(work: list[list[Frame]], file: str, functions: Sequence[_Def]) -> list[_Def]:
    """By which of these functions the work was entered: the outermost ones."""
    found: dict[int, _Def] = {}
    for stack in work:
        outermost = next((f for frame in stack if frame.file == file for f in functions if covers(f, frame.line)), None)
        if outermost is not None:
            found[outermost.lineno] = outermost
    return list(found.values())
