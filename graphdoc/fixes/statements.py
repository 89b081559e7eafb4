"""Add, remove, move or repeat a statement."""

from __future__ import annotations

import ast

from graphdoc.fixes.fix_kind import Args, CannotFix, Sources, expression, kind, path_in, required, statement
from graphdoc.fixes.program_slices import changes, check_passed, reads
from graphdoc.source.edits import copied, delete, insert_after, insert_before, instead, write, written
from graphdoc.source.effects import built_objects, calls_method, method_of
from graphdoc.source.expressions import NOT_A_WRITE
from graphdoc.source.layout import is_compound
from graphdoc.source.module import Source, each, is_within, parsed
from graphdoc.source.places import Edit


def only_forgets(args: Args) -> bool:
    """Whether the statement only lets go of a value that the next forward sets anew (``model.hidden = None``).

    No graph is cut by that; a gradient is lost only where it is ``.grad`` itself that is let go of.
    """
    match parsed(str(args.get("statement", ""))).body:
        case [ast.Assign(targets=targets, value=ast.Constant(value=None))]:
            return all(isinstance(t, ast.Attribute) and t.attr != "grad" for t in targets)
    return False


def clears(args: Args) -> bool:
    """Whether the statement clears gradients."""
    return str(args.get("statement", "")).endswith(".zero_grad()")


@kind("add_statement", statement, only_forgets=only_forgets, clears=clears)
def add_statement(source: Source, node: ast.stmt, args: Args) -> list[Edit]:
    """Add a statement beside another one: ``optimizer.step()`` behind ``loss.backward()``.

    Args:
        place: the statement beside which it is put.
        statement: its Python source, one line.
        before: True to put it in front instead of behind.
    """
    text = str(required(args, "statement"))
    if len(parsed(text).body) != 1:
        raise CannotFix(f"{text} is not one statement")
    return (insert_before if args.get("before") else insert_after)(source, node, [text])


@kind("equals_zero", expression)
def equals_zero(source: Source, node: ast.expr, _: Args) -> list[Edit]:
    """Compare a remainder with 0: ``if i % n:`` → ``if i % n == 0:``, ``if i % n != 0:`` likewise.

    Args:
        place: the condition.
    """
    remainder = node.left if isinstance(node, ast.Compare) else node
    return [write(source, node, "{remainder} == 0", remainder=remainder)]


def _did_nothing(args: Args) -> bool:
    """As who asks for it says: the statement did nothing but raise."""
    return bool(args.get("refused"))


@kind("delete_statement", statement, only_records=_did_nothing)
def delete_statement(source: Source, node: ast.stmt, _: Args) -> list[Edit]:
    """Remove a statement: a repeated backward, ``loss.requires_grad = True``, a forgotten ``set_grad_enabled(False)``.

    Args:
        place: the statement, or an expression in it.
        refused: True where PyTorch refuses the statement, so that the program has never had its effect.
    """
    if is_compound(node):
        raise CannotFix("a whole block is not removed")
    return delete(source, node)


_CLEARS = frozenset({"zero_grad", "zero_"})


def _same_loss(args: Args) -> bool:
    return bool(args.get("same_loss"))


@kind("move_statement", keeps_loss=_same_loss)
def move_statement(sources: Sources, args: Args) -> list[Edit]:
    """Move a statement to right behind or before another one of the same block, or of one around its ``with``.

    Out of an ``if`` or a loop nothing is moved: it would run at other times. Name the place of the ``if`` to move it
    whole.

    Args:
        place: the statement to move; the innermost one there.
        after, before: the place of the other statement; exactly one of the two.
        for_value: True where the move is made for the value that the other statement gives to what this one reads.
        same_loss: True where the failing loss is to keep its value: nothing that it is made of waits for the statement.
        untouched: optional; parts of the names of what the statement changes: nothing that it is moved over may name
            them, or call what may use them.
    """
    source, node = statement(sources, required(args, "place"))
    after = args.get("after") is not None
    other, anchor = statement(sources, args["after"] if after else required(args, "before"))
    if other is not source or source.node_function(anchor) is not source.node_function(node):
        raise CannotFix("the two statements stand in different functions")
    if anchor is node or any(a is node for a in source.node_ancestors(anchor)):
        raise CannotFix("a statement cannot move to its own place")
    block, index = source.node_block(anchor)
    if not _reaches(source, node, block):
        raise CannotFix("the other statement is in another block")
    neighbour = index + 1 if after else index - 1
    if 0 <= neighbour < len(block) and block[neighbour] is node:
        raise CannotFix("the statement already stands there")
    crossed = _crossed(source, node, block, index, after)
    _check(node, crossed, anchor if args.get("for_value") else None)
    if parts := frozenset(args.get("untouched") or ()):
        others = [s for s in crossed if s is not anchor]
        check_passed(others, set(), set(), parts, parts | {"self"}, _CLEARS, built_objects(source.tree))
    insert = insert_after if after else insert_before
    return [*delete(source, node), *insert(source, anchor, [copied(source, node)])]


def _crossed(source: Source, node: ast.stmt, block: list[ast.stmt], index: int, after: bool) -> list[ast.stmt]:
    """The statements of the block that the moved one changes places with."""
    own = next((i for i, s in enumerate(block) if is_within(node, s)), None)
    if own is None:
        return []
    crossed = block[own + 1 : index + after] if own < index else block[index + after : own]
    inner, at = source.node_block(node)
    return [*inner[at + 1 :], *crossed] if inner is not block and after else crossed


def _check(node: ast.stmt, crossed: list[ast.stmt], giving: ast.stmt | None) -> None:
    """Nothing with effects changes places with what it reads or writes, but what is to give it another value."""
    read = reads(node)
    made = set() if _flags(node) else changes(node)
    for other in crossed:
        # What a function that is defined there writes into its own arguments has only their names.
        own = {a.arg for a in each(other, ast.arg)} if isinstance(other, ast.FunctionDef) else ()
        used = {name for name in read if name.split(".")[0] not in own}
        check_passed([other], set() if _flags(other) or other is giving else used, made)
        if all(calls_method(n, "step", "zero_grad") for n in (node, other)):
            raise CannotFix("a step or a `zero_grad()` in between would change places with it")


def _flags(node: ast.stmt) -> bool:
    """Whether a statement only sets a flag (``x.requires_grad_()``), and writes nothing."""
    return method_of(node)[0] in NOT_A_WRITE


def _reaches(source: Source, node: ast.stmt, block: list[ast.stmt]) -> bool:
    """Whether the block is the statement's own, or one around it that runs it exactly as often."""
    at: ast.AST = node
    while isinstance(at, ast.stmt):
        if source.node_block(at)[0] is block:
            return True
        at = source.parents.get(at, block[0])
        if not isinstance(at, ast.With | ast.AsyncWith):
            return False
    return False


@kind("reset_accumulator")
def reset_accumulator(sources: Sources, args: Args) -> list[Edit]:
    """Start an accumulator anew: ``total = 0`` before or behind a statement.

    Args:
        place: the statement (a loop) before which it is set.
        after: instead of ``place``: the statement (a step) behind which it is set.
        name: the accumulator's name or attribute path.
        value: Python source of the start value, ``"0"`` by default.
    """
    after = args.get("after") is not None
    source, node = statement(sources, args["after"] if after else required(args, "place"))
    name, value = str(required(args, "name")), str(args.get("value", "0"))
    path_in(name)
    text = f"{name} = {value}"
    if after:
        return insert_after(source, node, [text])
    block, index = source.node_block(node)
    if index and ast.unparse(block[index - 1]) == ast.unparse(ast.parse(text)):
        raise CannotFix(f"{name} is already set there")
    return insert_before(source, node, [text])


@kind("clear_lists", statement)
def clear_lists(source: Source, node: ast.stmt, args: Args) -> list[Edit]:
    """Empty lists behind a statement: ``log_probs.clear()`` and ``rewards.clear()`` behind the step that has used them.

    Args:
        place: the statement behind which they are emptied.
        paths: the lists as they are written there.
    """
    paths = [str(p) for p in required(args, "paths")]
    for path in paths:
        path_in(path)
    if not paths:
        raise CannotFix("no list is named")
    return insert_after(source, node, [f"{path}.clear()" for path in paths])


@kind("write_into")
def write_into(sources: Sources, args: Args) -> list[Edit]:
    """Write into the tensor that a name stands for, instead of binding the name: ``p = new`` →
    ``p.detach().copy_(new)``.

    Args:
        place: the assignment.
    """
    source, node = statement(sources, required(args, "place"))
    target = node.targets[0] if isinstance(node, ast.Assign) and len(node.targets) == 1 else None
    if not isinstance(node, ast.Assign) or not isinstance(target, ast.Name):
        raise CannotFix("no single name is bound there")
    return instead(source, node, [written(source, f"{target.id}.detach().copy_({{value}})", value=node.value)])
