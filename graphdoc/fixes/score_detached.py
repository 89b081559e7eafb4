"""Compute a value once more where one of several losses uses it, on a detached input: ``loss(D(fake.detach()))``.

For a value that both losses share and that came through a network which this loss trains: cut behind that network, the
loss would teach it nothing.

Args:
    places: the statements that compute the input.
    backward: the backward call of the loss that takes the input as a constant.
    others: places of the other backward calls, whose losses keep the gradient.
    trained: names of the parameters that this loss is to train; where they are known, what is computed from the input
        by a call that is none of their modules is a constant as well.
    through: optional; the lines of this function below which the loss takes up those parameters, as the graph has it.
        Where they are known, a call at any other line is none of their modules.
    ways, plain: as in ``detach_between``.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass

from graphdoc.fixes.detach_between import entries
from graphdoc.fixes.detached_reads import detach_reads
from graphdoc.fixes.fix_kind import Args, CannotFix, Sources, required, statement
from graphdoc.fixes.program_slices import binds, reads
from graphdoc.source.edits import copied, write
from graphdoc.source.module import Source
from graphdoc.source.paths import key, stands_at
from graphdoc.source.places import Copied, Edit, Place

KIND = "score_detached"
# Functions of these give no value that a parameter of the program takes part in, but for those given to them.
_LIBRARIES = frozenset({"torch", "F", "functional", "math", "np", "numpy"})


@dataclass(frozen=True)
class _Made:
    """A statement that computes a name from the constants by a call, and its place in the tuple that the call gives."""

    statement: ast.Assign
    item: int | None = None


def edit(sources: Sources, args: Args) -> list[Edit]:
    source, made, constants = _made(sources, args)
    edits: list[Edit] = []
    for at, operands in entries(sources, args):
        for name in sorted(set(operands) - constants):
            if name not in made:
                raise CannotFix(f"{name} is not computed from the constant in one statement")
            if len(made[name]) > 1:
                raise CannotFix(f"{name} is computed at several places")
            again, item = _again(source, made[name][0], constants), made[name][0].item
            template = "{again}" if item is None else f"{{again}}[{item}]"
            edits += [write(source, n, template, again=again) for n in _reads_of(source, at, name)]
    if not edits:
        raise CannotFix("the loss takes the constant itself")
    return edits


def through_network(sources: Sources, args: Args) -> bool:
    """Whether the loss takes the value up behind a call which may be that of a network."""
    try:
        source, made, _ = _made(sources, args)
        taken = {name for _, operands in entries(sources, args) for name in operands}
    except CannotFix:
        return False
    behind = set(made)
    for later in _assignments(source, statement(sources, required(args, "backward"))[1]):
        if reads(later.value) & behind:
            behind |= binds(later)
    return bool(taken & behind)


def _made(sources: Sources, args: Args) -> tuple[Source, dict[str, list[_Made]], set[str]]:
    """Of the names that a call computes from the constants, the statements that do, and all the constants."""
    source, backward = statement(sources, required(args, "backward"))
    seeds = [statement(sources, p)[1] for p in required(args, "places")]
    constants = {n for s in seeds for n in binds(s)}
    trained = {part for name in args.get("trained") or () for part in re.findall(r"\w+", str(name))}
    lines = args.get("through")
    found: dict[str, list[_Made]] = {}
    first = min(s.lineno for s in seeds)
    for node in _assignments(source, backward):
        if node in seeds or node.lineno < first or not reads(node.value) & constants:
            continue
        value = node.value
        if isinstance(value, ast.Name | ast.Attribute):  # the same tensor under another name
            constants |= binds(node)
            continue
        if not isinstance(value, ast.Call) or not _may_be_network(value, constants):
            continue
        if trained and not (_may_train(value, trained) if lines is None else stands_at(node, lines)):
            constants |= binds(node)
            continue
        for name, item in _targets(node):
            found.setdefault(name, []).append(_Made(node, item))
    return source, found, constants


def _assignments(source: Source, backward: ast.stmt) -> list[ast.Assign]:
    """Those of the function that makes the backward call, in order."""
    function = source.node_function(backward)
    scope = function if function is not None else source.tree or backward
    return sorted((n for n in ast.walk(scope) if isinstance(n, ast.Assign)), key=lambda n: n.lineno)


def _targets(node: ast.Assign) -> list[tuple[str, int | None]]:
    """The names that a statement binds, each with its place in the one flat tuple that it takes apart."""
    names = binds(node)
    if len(names) == 1 and not isinstance(node.targets[0], ast.Tuple | ast.List):
        return [(name, None) for name in names]
    target = node.targets[0]
    if len(node.targets) > 1 or not isinstance(target, ast.Tuple | ast.List):
        return []
    if not all(isinstance(e, ast.Name | ast.Attribute) for e in target.elts):
        return []
    return [(key(e), i) for i, e in enumerate(target.elts)]


def _may_train(call: ast.Call, trained: set[str]) -> bool:
    """Whether a call may be that of a module which holds any of the parameters, going by the parts of their names.

    Of a module in a container, ``self.nets["critic"](x)``, the key tells which one.
    """
    items = [n.slice for n in ast.walk(call.func) if isinstance(n, ast.Subscript)]
    keys = {str(i.value) for i in items if isinstance(i, ast.Constant)}
    if keys:
        return bool(keys & trained)
    parts = {n.attr for n in ast.walk(call.func) if isinstance(n, ast.Attribute)}
    parts |= {n.id for n in ast.walk(call.func) if isinstance(n, ast.Name)}
    return bool((parts - {"self"}) & trained)


def _may_be_network(call: ast.Call, constants: set[str]) -> bool:
    root: ast.expr = call.func
    while isinstance(root, ast.Attribute | ast.Subscript) and key(root) not in constants:
        root = root.value
    return key(root) not in constants | _LIBRARIES


def _again(source: Source, made: _Made, constants: set[str]) -> Copied:
    edits = detach_reads(source, made.statement, constants)
    if not edits:
        raise CannotFix("what is computed again does not read the constant by its name")
    return copied(source, made.statement.value, edits)


def _reads_of(source: Source, at: Place, name: str) -> list[ast.expr]:
    """Where the expression at a place reads the name."""
    value = source.node_expression(at)
    found = [n for n in ast.walk(value) if isinstance(n, ast.Name | ast.Attribute)] if value is not None else []
    return [n for n in found if isinstance(n.ctx, ast.Load) and key(n) == name]
