"""Move a statement to right behind or before another one of the same block, or of one around its ``with``.

Out of an ``if`` or a loop nothing is moved: it would run at other times. Name the place of the ``if`` to move it whole.

Args:
    place: the statement to move; the innermost one there.
    after, before: the place of the other statement; exactly one of the two.
    same_loss: True where the failing loss is to keep its value: nothing that it is made of waits for the statement.
"""

from __future__ import annotations

import ast

from graphdoc.fixes.fix_kind import Args, CannotFix, Sources, required, statement
from graphdoc.fixes.program_slices import changes
from graphdoc.source.edits import copied, delete, insert_after, insert_before
from graphdoc.source.effects import binds_any, method_of
from graphdoc.source.in_place_names import NOT_A_WRITE
from graphdoc.source.module import Source
from graphdoc.source.paths import key, names_read, targets_of
from graphdoc.source.places import Edit

KIND = "move_statement"


def keeps_loss(args: Args) -> bool:
    return bool(args.get("same_loss"))


def edit(sources: Sources, args: Args) -> list[Edit]:
    source, node = statement(sources, required(args, "place"))
    after = args.get("after") is not None
    other, anchor = statement(sources, args["after"] if after else required(args, "before"))
    if other is not source or source.node_function(anchor) is not source.node_function(node):
        raise CannotFix("the two statements stand in different functions")
    if anchor is node or any(a is node for a in source.node_ancestors(anchor)):
        raise CannotFix("a statement cannot move to its own place")
    found = source.node_block(anchor)
    if found is None or not _reaches(source, node, found[0]):
        raise CannotFix("the other statement stands in another block")
    block, index = found
    neighbour = index + 1 if after else index - 1
    if 0 <= neighbour < len(block) and block[neighbour] is node:
        raise CannotFix("the statement already stands there")
    _check(node, _crossed(source, node, block, index, after))
    insert = insert_after if after else insert_before
    return [*delete(source, node), *insert(source, anchor, [copied(source, node)])]


def _crossed(source: Source, node: ast.stmt, block: list[ast.stmt], index: int, after: bool) -> list[ast.stmt]:
    """The statements of the block that the moved one changes places with."""
    own = next((i for i, s in enumerate(block) if s is node or node in ast.walk(s)), None)
    if own is None:
        return []
    crossed = block[own + 1 : index + 1] if after else block[index:own]
    inside = source.node_block(node)
    behind = inside[0][inside[1] + 1 :] if inside is not None and inside[0] is not block and after else []
    return [*behind, *crossed]


def _check(node: ast.stmt, crossed: list[ast.stmt]) -> None:
    """Nothing with effects changes places with what it reads or writes."""
    bound = {key(t).split("[")[0] for n in (node, *ast.walk(node)) for t in targets_of(n)} | _written(node)
    used = names_read(node)
    if name := binds_any(crossed, used):
        raise CannotFix(f"{name}, which the statement uses, is bound in between")
    for other in crossed:
        if taken := _written(other) & used:
            raise CannotFix(f"{min(taken)}, which the statement uses, is written in between")
        read = {key(n) for n in ast.walk(other) if isinstance(n, ast.Name | ast.Attribute)}
        if taken := bound & read:
            raise CannotFix(f"{min(taken)}, which the statement binds or writes, is used in between")
        if _updates(node) and _updates(other):
            raise CannotFix("a step or a clearing of gradients stands between, and would change places with it")


def _written(node: ast.stmt) -> set[str]:
    """What a statement may write into; one that only sets a flag (``x.requires_grad_()``) writes nothing."""
    return set() if method_of(node)[0] in NOT_A_WRITE else changes(node)


def _updates(node: ast.stmt) -> bool:
    """Whether a statement steps an optimizer or clears gradients."""
    return any(
        isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute) and n.func.attr in ("step", "zero_grad")
        for n in ast.walk(node)
    )


def _reaches(source: Source, node: ast.stmt, block: list[ast.stmt]) -> bool:
    """Whether the block is the statement's own, or one around it that runs it exactly as often."""
    at: ast.AST = node
    while isinstance(at, ast.stmt):
        found = source.node_block(at)
        if found is not None and found[0] is block:
            return True
        at = source.parents.get(at, block[0])
        if not isinstance(at, ast.With | ast.AsyncWith):
            return False
    return False
