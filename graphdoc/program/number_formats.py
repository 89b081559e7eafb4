"""Where the source gives numbers fewer bits: a model that is turned into 16 bits."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from graphdoc.evidence import Frame, SourceTexts
from graphdoc.program import bindings
from graphdoc.source.module import is_method_call, values_of
from graphdoc.source.paths import only

SHORT = frozenset({"bfloat16", "float16", "half"})
_TURNS = frozenset({"to", "type", "bfloat16", "half"})


def shortened(sources: SourceTexts, names: Iterable[str]) -> Frame | None:
    """The one call that turns what holds these parameters into 16 bits: ``model.to(torch.bfloat16)``, ``Net().half()``,
    ``Net(dtype=torch.bfloat16)``; None where there is none or there are several."""
    holders = {part for name in names for part in name.split(".")[:-1]}
    found = [
        bindings.frame_of(sources, file, call)
        for file, statement in bindings.everywhere(sources, ast.Assign, ast.Expr)
        if isinstance(statement.value, ast.Call)
        for call in _turning(sources, file, statement.value)
        if not holders.isdisjoint(_bound(statement) | _receiver(call))
    ]
    return only(found)


def _turning(sources: SourceTexts, file: str, value: ast.Call) -> list[ast.Call]:
    """The calls of a chain, ``Net().to(device).half()``, that say 16 bits; the first of them alone."""
    out: list[ast.Call] = []
    call: ast.expr = value
    while isinstance(call, ast.Call):
        given = [*call.args, *(k.value for k in call.keywords)]
        name = call.func.attr if is_method_call(call) else ""
        asked = name in SHORT and name in _TURNS
        named = [k.value for k in call.keywords if k.arg is not None and k.arg.endswith("dtype")]
        if asked or any(_says(sources, file, a) for a in (given if name in _TURNS else named)):
            out = [call]
        call = call.func.value if is_method_call(call) else call.func
    return out


def _says(sources: SourceTexts, file: str, given: ast.expr) -> bool:
    """Whether an argument is a format of 16 bits, a name that is bound to nothing else, or called a ``dtype``: what
    was turned has 16 bits."""
    name = bindings.dotted(given)
    last = name.rpartition(".")[2]
    if last in SHORT or last.endswith("dtype"):
        return True
    root = bindings.tree(sources, file)
    if root is None or not isinstance(given, ast.Name):
        return False
    bound = values_of(root, name)
    return bool(bound) and all(bindings.dotted(v).rpartition(".")[2] in SHORT for v in bound)


def _bound(statement: ast.Assign | ast.Expr) -> set[str]:
    """The last part of each name that the statement binds."""
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    return {bindings.text_of(t).rpartition(".")[2] for t in targets}


def _receiver(call: ast.Call) -> set[str]:
    """The last part of the name that a method is called on."""
    return {bindings.dotted(call.func.value).rpartition(".")[2]} if is_method_call(call) else set()
