"""Detach a value where one of several losses of a block uses it.

Args:
    places: the statements that compute the value.
    backward: the backward call of the loss that takes it as a constant.
    others: places of the other backward calls, whose losses keep the gradient.
    ways: optional; the lines, each a pair (first, last), at which the graph was made between the loss and the value. A
        statement without any of them passes names on, and no graph of its own.
    plain: optional; names of tensors that have no graph when the call fails. Without ``ways`` this counts for those
        alone that one statement binds: another may have had a graph when the loss took it up.
"""

from __future__ import annotations

import ast
from collections import Counter

from graphdoc.fixes.detach_expression import convert
from graphdoc.fixes.fix_kind import Args, CannotFix, Sources, required, statement
from graphdoc.fixes.program_slices import binds, reads
from graphdoc.source.module import Source
from graphdoc.source.paths import key, stands_at
from graphdoc.source.places import Edit, Place

KIND = "detach_between"

Assigned = ast.Assign | ast.AnnAssign | ast.AugAssign


def edit(sources: Sources, args: Args) -> list[Edit]:
    edits: list[Edit] = []
    for at, operands in entries(sources, args):
        edits += convert(sources, {"place": at, "operands": operands}, "detach")
    return edits


def entries(sources: Sources, args: Args) -> list[tuple[Place, list[str]]]:
    """The expressions in which the loss takes the value up, and as what: those that no other loss goes through.

    Raises:
        CannotFix: there is none.
    """
    source, backward = statement(sources, required(args, "backward"))
    seeds = [statement(sources, p) for p in required(args, "places")]
    if any(s is not source for s, _ in seeds):
        raise CannotFix("the value and the loss stand in different files")
    others = [statement(sources, p)[1] for p in args.get("others") or ()]
    mine = _slice(source, backward)
    theirs = {id(n) for o in others for n in _slice(source, o)}
    ways = args.get("ways")
    plain = _plain(source, backward, args)
    tainted: set[str] = set()
    shared: set[str] = set()
    for node in mine:
        seed = any(node is s for _, s in seeds)
        if seed or reads(node) & tainted:
            bound = _bound(node) - plain
            tainted |= bound
            if seed or id(node) in theirs or not _on_a_way(node, ways):
                shared |= bound
    found: list[tuple[Place, list[str]]] = []
    for node in mine:
        if any(node is s for _, s in seeds) or id(node) in theirs or node is backward or not _on_a_way(node, ways):
            continue
        if _bound(node) and _bound(node) <= plain:
            continue
        used = sorted(reads(node) & shared)
        value = getattr(node, "value", None)
        if used and isinstance(value, ast.expr):
            found.append((source.place(value), used))
    if not found:
        raise CannotFix("the loss does not use the value in a statement of its own")
    return found


def _plain(source: Source, backward: ast.stmt, args: Args) -> set[str]:
    """The names that never have a graph in this function, as far as that is known."""
    plain = set(args.get("plain") or ())
    if args.get("ways") is not None:
        return plain
    bound = Counter(name for n in _assignments(source, backward) for name in _bound(n))
    return {name for name in plain if bound[name] == 1}


def _on_a_way(node: ast.stmt, ways: list[tuple[int, int]] | None) -> bool:
    """Whether the graph that connects the loss to the value was made in this statement, as far as that is known."""
    return ways is None or stands_at(node, ways)


def _slice(source: Source, backward: ast.stmt) -> list[ast.stmt]:
    """The assignments before a backward call that its loss is made of, in order; the call itself last."""
    start = source.span(backward)[0]
    before = [n for n in _assignments(source, backward) if source.span(n)[0] < start]
    before.sort(key=lambda n: source.span(n)[0])
    live = reads(backward)
    found: list[ast.stmt] = [backward]
    for node in reversed(before):
        if _bound(node) & live:
            found.insert(0, node)
            if not isinstance(node, ast.AugAssign):
                live -= _bound(node)
            live |= reads(node)
    return found


def _assignments(source: Source, backward: ast.stmt) -> list[Assigned]:
    """All of the function, or of the module, in which a statement stands."""
    function = source.node_function(backward)
    scope: ast.AST = function if function is not None else source.tree or backward
    return [n for n in ast.walk(scope) if isinstance(n, Assigned)]


def _bound(node: ast.stmt) -> set[str]:
    return {key(node.target)} if isinstance(node, ast.AugAssign) else binds(node)
