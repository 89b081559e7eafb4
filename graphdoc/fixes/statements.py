"""Add, remove, move or repeat a statement, or write code of one pattern again by a template."""

from __future__ import annotations

import ast
import re

from graphdoc.fixes.fix_kind import Args, CannotFix, Sources, expression, kind, required, statement
from graphdoc.fixes.program_slices import changes, check_passed, reads
from graphdoc.source.edits import copied, delete, insert_after, insert_before, instead, where_bound, write, written
from graphdoc.source.effects import built_objects, calls_method, method_of
from graphdoc.source.expressions import NOT_A_WRITE
from graphdoc.source.layout import is_compound
from graphdoc.source.module import Source, each, is_within, parsed
from graphdoc.source.paths import key, parse_expression, same
from graphdoc.source.places import Edit
from graphdoc.source.scopes import name_for

# Code of one pattern written again by a template: what most edits of a single expression or statement are.


_HOLE = "part_of_pattern_"


@kind("rewrite")
def rewrite(sources: Sources, args: Args) -> list[Edit]:
    """Write code anew by a template: ``x`` → ``list(x)``, ``p = new`` → ``p.detach().copy_(new)``.

    Args:
        place: the expression, or the statement where a pattern or its template is one.
        pairs: list of ``[pattern, template]``; the first pattern that fits decides. Each ``{name}`` of a pattern is an
            expression, the same one wherever it stands again, and ``{_}`` any. In a template ``{copy.deepcopy}`` is
            written as the file imports it.
    """
    for pattern, template in required(args, "pairs"):
        plain = all(parse_expression(_with_holes(text)) is not None for text in (pattern, template))
        source, node = (expression if plain else statement)(sources, required(args, "place"))
        found: dict[str, ast.AST] = {}
        if not _fits(parsed(_with_holes(pattern)).body[0], node, found):
            continue
        template, edits = named(source, template, node)
        parts = {k: n for k, n in found.items() if f"{{{k}}}" in template and isinstance(n, ast.expr)}
        if isinstance(node, ast.stmt):
            return [*instead(source, node, [written(source, template, **parts)]), *edits]
        return [write(source, node, template, **parts), *edits]
    raise CannotFix("the code there is written in another way")


def named(source: Source, text: str, at: ast.AST) -> tuple[str, list[Edit]]:
    """A text whose ``{torch.is_tensor}`` are written as the file imports them, and the imports that it needs."""
    edits: list[Edit] = []
    for dotted in re.findall(r"\{((?:torch|copy)(?:\.\w+)+)\}", text):  # others may be of an f-string of the program's
        name = name_for(source, dotted, at)
        text = text.replace(f"{{{dotted}}}", name.text)
        edits += name.edits
    return text, edits


def _with_holes(text: str) -> str:
    """A pattern or template as code, with a name for each of its parts."""
    return re.sub(r"\{([\w.]+)\}", lambda m: _HOLE + m[1].replace(".", "_"), text)


def _fits(pattern: ast.AST, node: ast.AST, found: dict[str, ast.AST]) -> bool:
    """Whether code is of this pattern; what stands for each of its names is ``found`` then."""
    if isinstance(pattern, ast.Expr) and isinstance(node, ast.expr):
        pattern = pattern.value
    if isinstance(pattern, ast.Name) and pattern.id.startswith(_HOLE):
        name = pattern.id.removeprefix(_HOLE)
        return isinstance(node, ast.expr) and (name == "_" or same(found.setdefault(name, node), node))
    if type(pattern) is not type(node):
        return False
    for field, wanted in ast.iter_fields(pattern):
        if field in ("ctx", "kind", "type_comment"):
            continue
        ones, others = ([*v] if isinstance(v, list) else [v] for v in (wanted, getattr(node, field)))
        if len(ones) != len(others):
            return False
        for one, other in zip(ones, others, strict=True):
            both = isinstance(one, ast.AST) and isinstance(other, ast.AST)
            if not (_fits(one, other, found) if both else one == other):
                return False
    return True


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


def _keeps_gradient(args: Args) -> bool:
    """Whether the statement asks for a gradient that backward computes anyway."""
    return str(args.get("statement", "")).endswith(".retain_grad()")


@kind("add_statement", statement, only_forgets=only_forgets, clears=clears, only_records=_keeps_gradient)
def add_statement(source: Source, node: ast.stmt, args: Args) -> list[Edit]:
    """Add a statement beside another one: ``optimizer.step()`` behind ``loss.backward()``.

    Args:
        place: the statement beside which it is put.
        statement: its Python source, in which ``{torch.is_tensor}`` is written as the file imports it.
        before: True to put it in front instead of behind.
        bound: True to put it where what the other one binds is there: of a loop or a ``with`` first in the body.
    """
    text, edits = named(source, str(required(args, "statement")), node)
    before = bool(args.get("before"))
    tree = parsed(text).body
    if len(tree) != 1:
        raise CannotFix(f"{text} is not one statement")
    if not before and isinstance(node, ast.Return | ast.Raise | ast.Break | ast.Continue):
        raise CannotFix("nothing after that statement is ever reached")
    block, index = source.node_block(node)
    beside = block[max(index - 1, 0) : index] if before else block[index + 1 : index + 2]
    if any(key(s) == key(tree[0]) for s in beside):
        raise CannotFix(f"`{text}` stands there already")
    insert = insert_before if before else where_bound if args.get("bound") else insert_after
    return [*insert(source, node, [text]), *edits]


@kind("delete_statement", statement, only_records=lambda args: bool(args.get("refused")))
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


@kind("move_statement", keeps_loss=lambda args: bool(args.get("same_loss")))
def move_statement(sources: Sources, args: Args) -> list[Edit]:
    """Move a statement to right behind or before another one of the same block, or of one around its ``with``.

    Out of an ``if`` or a loop nothing is moved: it would run at other times. Name the place of the ``if`` to move it
    whole.

    Args:
        place: the statement to move; the innermost one there.
        after, before: the place of the other statement; exactly one of the two.
        for_value: True where the move is made for the value that the other statement gives to what this one reads.
        old_value: True where what it is moved over is to read the value that its name had before.
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
    _check(node, crossed, anchor if args.get("for_value") else None, bool(args.get("old_value")))
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


def _check(node: ast.stmt, crossed: list[ast.stmt], giving: ast.stmt | None, old: bool = False) -> None:
    """Nothing with effects changes places with what it reads or writes, but what is to give it another value."""
    read = reads(node)
    made = set() if old or _flags(node) else changes(node)
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
