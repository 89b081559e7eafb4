"""Compute a value once more where one of several losses uses it, on a detached input: ``loss(D(fake.detach()))``.

For a value that both losses share and that came through a network which this loss trains: cut behind that network, the
loss would teach it nothing.

Args:
    places: the statements that compute the input.
    backward: the backward call of the loss that takes the input as a constant.
    others: places of the other backward calls, whose losses keep the gradient.
"""

from __future__ import annotations

import ast

from graphdoc.fixes.base import Args, CannotFix, Sources, required, statement
from graphdoc.fixes.detach_between import entries
from graphdoc.fixes.detached_reads import detach_reads
from graphdoc.fixes.program_slices import binds, reads
from graphdoc.source.blocks import text_of
from graphdoc.source.module import Source
from graphdoc.source.paths import key
from graphdoc.source.places import Edit, Place

KIND = "score_detached"
# Functions of these give no value that a parameter of the program takes part in, but for those given to them.
_LIBRARIES = frozenset({"torch", "F", "functional", "math", "np", "numpy"})


def edit(sources: Sources, args: Args) -> list[Edit]:
    source, made = _made(sources, args)
    constants = {n for p in required(args, "places") for n in binds(statement(sources, p)[1])}
    edits: list[Edit] = []
    for at, operands in entries(sources, args):
        for name in sorted(set(operands) - constants):
            if name not in made:
                raise CannotFix(f"{name} is not computed from the constant in one statement")
            text = _again(source, made[name], constants)
            edits += [Edit(source.file, *source.span(n), text) for n in _reads_of(source, at, name)]
    if not edits:
        raise CannotFix("the loss takes the constant itself")
    return edits


def through_network(sources: Sources, args: Args) -> bool:
    """Whether the loss takes the value up behind a call which may be that of a network."""
    try:
        source, made = _made(sources, args)
        taken = {name for _, operands in entries(sources, args) for name in operands}
    except CannotFix:
        return False
    behind = set(made)
    node = statement(sources, required(args, "backward"))[1]
    function = source.node_function(node)
    scope = function if function is not None else source.tree or node
    for later in sorted((n for n in ast.walk(scope) if isinstance(n, ast.Assign)), key=lambda n: n.lineno):
        if reads(later.value) & behind:
            behind |= binds(later)
    return bool(taken & behind)


def _made(sources: Sources, args: Args) -> tuple[Source, dict[str, ast.Assign]]:
    """Of the names that a call computes from the constants in a statement of its own, that statement."""
    source, backward = statement(sources, required(args, "backward"))
    seeds = [statement(sources, p)[1] for p in required(args, "places")]
    constants = {n for s in seeds for n in binds(s)}
    function = source.node_function(backward)
    found: dict[str, ast.Assign] = {}
    for node in ast.walk(function if function is not None else source.tree or backward):
        if isinstance(node, ast.Assign) and node not in seeds and reads(node.value) & constants:
            value = node.value
            if isinstance(value, ast.Call) and _may_be_network(value, constants):
                for name in binds(node) if len(binds(node)) == 1 else ():
                    if name in found:
                        raise CannotFix(f"{name} is computed at several places")
                    found[name] = node
    return source, found


def _may_be_network(call: ast.Call, constants: set[str]) -> bool:
    root: ast.expr = call.func
    while isinstance(root, ast.Attribute | ast.Subscript) and key(root) not in constants:
        root = root.value
    return key(root) not in constants | _LIBRARIES


def _again(source: Source, made: ast.Assign, constants: set[str]) -> str:
    text = detach_reads(text_of(source, made, ""), constants)
    if text == text_of(source, made, ""):
        raise CannotFix("what is computed again does not read the constant by its name")
    value = ast.parse(text).body[0]
    assert isinstance(value, ast.Assign)
    again = ast.get_source_segment(text, value.value)
    if again is None or "\n" in again:
        raise CannotFix("what is to be computed again stands on several lines")
    return again


def _reads_of(source: Source, at: Place, name: str) -> list[ast.expr]:
    """Where the expression at a place reads the name."""
    value = source.node_expression(at)
    found = [n for n in ast.walk(value) if isinstance(n, ast.Name | ast.Attribute)] if value is not None else []
    return [n for n in found if isinstance(n.ctx, ast.Load) and key(n) == name]
