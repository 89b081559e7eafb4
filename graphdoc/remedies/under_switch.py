"""What else stands under a switch that keeps a loss from being recorded: it may be what the switch was meant for."""

from __future__ import annotations

import ast
from collections.abc import Collection, Sequence

from graphdoc.evidence import Frame, SourceTexts
from graphdoc.program.bindings import function_around, tree
from graphdoc.program.container_entries import statements
from graphdoc.remedies.left_open import open_at_calls
from graphdoc.source.paths import covers, is_path, key, names_read, names_written
from graphdoc.story.wording import listing

_FILLING = frozenset({"append", "appendleft", "extend", "insert", "add"})
_Def = ast.FunctionDef | ast.AsyncFunctionDef


def meant_for_one(
    sources: SourceTexts, cut: Sequence[Frame], failing: Sequence[Frame], switch: Frame, parameters: Collection[str]
) -> str:
    """What no run tells of a switch that is taken away, as the end of a sentence; empty where it covers one value.

    A block under which several statements make what the loss is made of may be meant for some of them (a target), so
    may one that calls several modules with parameters (a frozen backbone, a head), and so may one in a function, or the
    decorator of one, that is called at several places.

    Args:
        cut: the stack of the operation that was not recorded.
        failing: the stack of the failing call.
        switch: the place of the block's item, or of the decorator.
        parameters: the names of the program's parameters.
    """
    root = tree(sources, switch.file)
    for node in ast.walk(root) if root is not None else ():
        if isinstance(node, ast.With | ast.AsyncWith) and any(covers(i.context_expr, switch.line) for i in node.items):
            values = _values_of(root, node, [f.line for f in failing if f.user and f.file == switch.file])
            values = values if len(values) > 1 else _modules_of(node, parameters)
            if len(values) > 1:
                return f"which of {listing(values)} the block is meant for, no run tells"
            around = function_around(root, node.lineno) if root is not None else None
            return open_at_calls(sources, cut, switch.file, around) if around is not None else ""
        if isinstance(node, _Def) and any(covers(d, switch.line) for d in node.decorator_list):
            return open_at_calls(sources, cut, switch.file, node)
    return ""


def _values_of(root: ast.AST | None, block: ast.With | ast.AsyncWith, failing: list[int]) -> list[str]:
    """One name for each statement of the block that makes a part of the loss, or of what the function returns."""
    scope = function_around(root, block.lineno) if isinstance(root, ast.Module) else None
    every = sorted(statements(scope or root), key=lambda s: s.lineno) if root is not None else []
    end = block.end_lineno or block.lineno
    wanted: set[str] = set()
    for s in reversed(every):
        if not (s.lineno > end or covers(block, s.lineno)) or isinstance(s, ast.With | ast.For | ast.While | ast.If):
            continue
        ends = isinstance(s, ast.Return) or any(covers(s, line) for line in failing)
        if (s.lineno > end and (ends or wanted & {*_filled(s)})) or (isinstance(s, ast.Return) and s.lineno <= end):
            wanted |= names_read(s)
    made = [s for s in every if covers(block, s.lineno) and s is not block and wanted & {*_filled(s)}]
    return [f"`{next(n for n in _filled(s) if n in wanted)}`" for s in made]


def _filled(statement: ast.AST) -> list[str]:
    """What a statement binds or writes into, and the list that it appends to."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr in _FILLING:
        return [key(call.func.value)]
    return names_written(statement)


def _modules_of(block: ast.With | ast.AsyncWith, parameters: Collection[str]) -> list[str]:
    """The modules with parameters that a block calls by name, each once, in their order."""
    steps = {step for name in parameters for step in name.split(".")[:-1]}
    calls = [n for s in block.body for n in ast.walk(s) if isinstance(n, ast.Call)]
    named = sorted((c for c in calls if is_path(c.func)), key=lambda c: (c.lineno, c.col_offset))
    return list(dict.fromkeys(f"`{key(c.func)}`" for c in named if key(c.func).rpartition(".")[2] in steps))
