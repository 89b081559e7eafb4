"""Where a program makes an optimizer, and which statement behind that gives the model other parameters."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from graphdoc.evidence import Frame, SourceTexts
from graphdoc.program import bindings
from graphdoc.source.paths import without_subscripts

Block = list[ast.stmt]


@dataclass(frozen=True)
class Made:
    """The statement that makes an optimizer, with the statements behind it in its block."""

    file: str
    statement: ast.Assign
    behind: Block

    def frame(self, sources: SourceTexts) -> Frame:
        """Its place."""
        return bindings.frame_of(sources, self.file, self.statement)


def made(sources: SourceTexts, name: str) -> Made | None:
    """The one statement that binds this optimizer to a call; None where there is none or there are several.

    ``trainer.optimizer`` may be bound as ``self.optimizer``.
    """
    alike = {name} if "." not in name else {name, f"self.{name.rpartition('.')[2]}"}
    found = [
        Made(file, statement, block[i + 1 :])
        for file in sources
        for block in _blocks(bindings.tree(sources, file) or ast.Module([], []))
        for i, statement in enumerate(block)
        if isinstance(statement, ast.Assign)
        and isinstance(statement.value, ast.Call)
        and any(bindings.text_of(t) in alike for t in statement.targets)
    ]
    return found[0] if len(found) == 1 else None


def returned(sources: SourceTexts, making: Made) -> tuple[Frame, ast.expr] | None:
    """Where a function of the program's own makes and returns the optimizer, ``optimizer = build(net)``: the place and
    the value of its one ``return``; None for any other call."""
    call = making.statement.value
    name = call.func.id if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) else ""
    found = [
        (file, n)
        for file in sources
        for n in ast.walk(bindings.tree(sources, file) or ast.Module([], []))
        if isinstance(n, ast.FunctionDef) and n.name == name
    ]
    if len(found) != 1:
        return None
    file, function = found[0]
    returns = [n for n in bindings.shallow(function) if isinstance(n, ast.Return)]
    if len(returns) != 1 or returns[0].value is None:
        return None
    return bindings.frame_of(sources, file, returns[0], function.name), returns[0].value


def replacing(sources: SourceTexts, making: Made, names: list[str]) -> ast.stmt | None:
    """The first statement behind, in the same block, that replaces what these parameters belong to; or None."""
    owners = {".".join(parts[:n]) for name in names for parts in (name.split("."),) for n in range(1, len(parts))}
    owners.discard("self")
    return next((s for s in making.behind if any(_replaces(sources, n, owners) for n in ast.walk(s))), None)


def untying(sources: SourceTexts, making: Made, names: list[str]) -> tuple[ast.Assign, list[str]] | None:
    """The first statement behind, in the same block, that assigns one of these parameters, or a layer with it, which
    the program ties to another; and the names that it assigns."""
    for statement in making.behind:
        if not isinstance(statement, ast.Assign):
            continue
        for target in statement.targets:
            owner = _base(target)
            mine = [n for n in names if "." in owner and (n == owner or n.startswith(owner + "."))]
            if any(_is_tied(sources, n) for n in mine):
                return statement, mine
    return None


def _is_tied(sources: SourceTexts, name: str) -> bool:
    """Whether the program makes this parameter one with another: ``self.head.weight = self.table.weight``."""
    tail = "." + ".".join(name.split(".")[-2:])
    for file in sources:
        for n in ast.walk(bindings.tree(sources, file) or ast.Module([], [])):
            if isinstance(n, ast.Assign) and isinstance(n.value, ast.Attribute):
                sides = [*n.targets, n.value]
                alike = all(isinstance(s, ast.Attribute) and s.attr == n.value.attr for s in sides)
                if alike and any(bindings.text_of(s).endswith(tail) for s in sides):
                    return True
    return False


def binding_behind(making: Made, name: str) -> ast.stmt | None:
    """The statement of the same block, behind, that binds ``name``."""
    for statement in making.behind:
        if isinstance(statement, ast.Assign) and any(bindings.text_of(t) == name for t in statement.targets):
            return statement
    return None


def _replaces(sources: SourceTexts, node: ast.AST, owners: set[str]) -> bool:
    if isinstance(node, ast.Assign):
        return any(_base(t) in owners for t in node.targets)
    if not isinstance(node, ast.Call):
        return False
    given = [bindings.text_of(a) for a in node.args]
    if bindings.text_of(node.func) == "setattr":
        return bool(given) and given[0] in owners
    return isinstance(node.func, ast.Name) and any(
        text in owners and _replaces_in(sources, node.func.id, at) for at, text in enumerate(given)
    )


def _replaces_in(sources: SourceTexts, function: str, at: int) -> bool:
    """Whether a function of the program assigns to an attribute of its argument at this position."""
    for file in sources:
        for found in ast.walk(bindings.tree(sources, file) or ast.Module([], [])):
            if not isinstance(found, ast.FunctionDef) or found.name != function or len(found.args.args) <= at:
                continue
            name = found.args.args[at].arg
            for n in ast.walk(found):
                if isinstance(n, ast.Assign) and any(_is_inside(t, name) for t in n.targets):
                    return True
                if isinstance(n, ast.Call) and bindings.text_of(n.func) == "setattr" and n.args:
                    return _base(n.args[0]) == name
    return False


def _is_inside(target: ast.expr, name: str) -> bool:
    return isinstance(target, ast.Attribute | ast.Subscript) and _base(target.value).split(".")[0] == name


def _base(node: ast.expr) -> str:
    """What an assignment changes: ``model.fc`` for itself, ``model.layers`` for ``model.layers[0]``."""
    return bindings.text_of(without_subscripts(node))


def _blocks(root: ast.AST) -> Iterator[Block]:
    for node in ast.walk(root):
        for field in ("body", "orelse", "finalbody"):
            block = getattr(node, field, None)
            if isinstance(block, list) and block and isinstance(block[0], ast.stmt):
                yield block
