"""One of several losses takes a value as a constant, or computes it once more from constants."""

from __future__ import annotations

import ast
from collections import Counter
from dataclasses import dataclass

from graphdoc.fixes.detaching import convert
from graphdoc.fixes.fix_kind import Args, CannotFix, Sources, kind, required, statement
from graphdoc.fixes.program_slices import assignments, binds, bound, made_of, reads
from graphdoc.source.edits import copied, write
from graphdoc.source.module import Source, each
from graphdoc.source.paths import is_attribute, is_read, key, stands_at
from graphdoc.source.places import Copied, Edit, Place
from graphdoc.source.scopes import computes

# What is read off a tensor and carries no graph.
_PLAIN = frozenset({"shape", "size", "dtype", "device", "ndim", "dim", "numel", "item", "detach", "data", "tolist"})


def detach_reads(source: Source, statement: ast.stmt, names: set[str]) -> list[Edit]:
    """Put ``.detach()`` behind each of the names, with the attributes and items read off it, in a statement's value.

    ``names`` are dotted paths: of ``{"out"}``, ``score(out["image"])`` becomes ``score(out["image"].detach())``.
    """
    value = getattr(statement, "value", None)
    if not isinstance(value, ast.expr):
        raise CannotFix("the statement that is to run again has no value")
    if _rooted(value, names) and any(isinstance(t, ast.Tuple | ast.List) for t in getattr(statement, "targets", ())):
        raise CannotFix(f"{ast.unparse(value)} is taken apart, it is no tensor")
    return [write(source, n, "{tensor}.detach()", tensor=n) for n in _tensors(value, names)]


def _tensors(node: ast.AST, names: set[str], called: bool = False) -> list[ast.expr]:
    """The outermost expressions that are one of the names, or something read off it."""
    if isinstance(node, ast.Name | ast.Attribute | ast.Subscript) and _rooted(node, names):
        if called and (not isinstance(node, ast.Attribute) or key(node) in names):
            raise CannotFix(f"{ast.unparse(node)} is called, it is no tensor")
        if is_attribute(node, *_PLAIN) and key(node) not in names:
            return []
        return [node.value if called and isinstance(node, ast.Attribute) else node]
    found: list[ast.expr] = []
    for child in ast.iter_child_nodes(node):
        found += _tensors(child, names, isinstance(node, ast.Call) and child is node.func)
    return found


def _rooted(node: ast.expr, names: set[str]) -> bool:
    """Whether the expression is one of the names, or an attribute or item of it."""
    while not (isinstance(node, ast.Name | ast.Attribute) and key(node) in names):
        if not isinstance(node, ast.Attribute | ast.Subscript):
            return False
        node = node.value
    return True


@kind("detach_between")
def detach_between(sources: Sources, args: Args) -> list[Edit]:
    """Detach a value where one of several losses of a block uses it.

    Args:
        places: the statements that compute the value.
        backward: the backward call of the loss that takes it as a constant.
        others: places of the other backward calls, whose losses keep the gradient.
        ways: optional; the lines, each a pair (first, last), at which the graph was made between the loss and the
            value. A statement without any of them passes names on, and no graph of its own.
        plain: optional; names of tensors that have no graph when the call fails. Without ``ways`` this counts for those
            alone that one statement binds: another may have had a graph when the loss took it up.
    """
    edits: list[Edit] = []
    for at, operands in entries(sources, args):
        edits += convert(sources, {"place": at, "operands": operands}, "detach")
    return edits


def entries(sources: Sources, args: Args) -> list[tuple[Place, list[str]]]:
    """The expressions in which the loss takes the value up, and as what: those that no other loss goes through."""
    source, backward = statement(sources, required(args, "backward"))
    seeds = [statement(sources, p)[1] for p in required(args, "places")]
    others = [statement(sources, p)[1] for p in args.get("others") or ()]
    mine = _slice(source, backward)
    theirs = {id(n) for o in others for n in _slice(source, o)}
    ways = args.get("ways")
    plain = _plain(source, backward, args)
    tainted: set[str] = set()
    shared: set[str] = set()
    for node in mine:
        seed = node in seeds
        if seed or reads(node) & tainted:
            given = bound(node) - plain
            tainted |= given
            if seed or id(node) in theirs or not _on_a_way(node, ways):
                shared |= given
    found: list[tuple[Place, list[str]]] = []
    for node in mine:
        if node in seeds or id(node) in theirs or node is backward or not _on_a_way(node, ways):
            continue
        if bound(node) and bound(node) <= plain:
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
    times = Counter(name for n in assignments(source, backward) for name in bound(n))
    return {name for name in plain if times[name] == 1}


def _on_a_way(node: ast.stmt, ways: list[tuple[int, int]] | None) -> bool:
    """Whether the graph that connects the loss to the value was made in this statement, as far as that is known."""
    return ways is None or stands_at(node, ways)


def _slice(source: Source, backward: ast.stmt) -> list[ast.stmt]:
    """The assignments before a backward call that its loss is made of, in order; the call itself last."""
    before = [n for n in assignments(source, backward) if source.span(n)[0] < source.span(backward)[0]]
    return [*made_of(before, reads(backward)), backward]


@dataclass(frozen=True)
class _Made:
    """A statement that computes a name from the constants by a call, and its place in the tuple that the call gives."""

    statement: ast.Assign
    item: int | None = None


@kind("score_detached")
def score_detached(sources: Sources, args: Args) -> list[Edit]:
    """Compute a value once more where one of several losses uses it, on a detached input: ``loss(D(fake.detach()))``.

    For a value that both losses share and that came through a network which this loss trains: cut behind that network,
    the loss would teach it nothing.

    Args:
        places: the statements that compute the input.
        backward: the backward call of the loss that takes the input as a constant.
        others: places of the other backward calls, whose losses keep the gradient.
        through: optional; the lines of this function below which the loss takes up the parameters that it is to train,
            as the graph has it. What is computed from the input by a call at another line is a constant as well.
        ways, plain: as in ``detach_between``.
    """
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
    for later in assignments(source, statement(sources, required(args, "backward"))[1]):
        if isinstance(later, ast.Assign) and reads(later.value) & behind:
            behind |= binds(later)
    return bool(taken & behind)


def _made(sources: Sources, args: Args) -> tuple[Source, dict[str, list[_Made]], set[str]]:
    """Of the names that a call computes from the constants, the statements that do, and all the constants."""
    source, backward = statement(sources, required(args, "backward"))
    seeds = [statement(sources, p)[1] for p in required(args, "places")]
    constants = {n for s in seeds for n in binds(s)}
    lines = args.get("through")
    found: dict[str, list[_Made]] = {}
    first = min(s.lineno for s in seeds)
    for node in assignments(source, backward):
        if not isinstance(node, ast.Assign) or node in seeds or node.lineno < first:
            continue
        if not reads(node.value) & constants:
            continue
        value = node.value
        if isinstance(value, ast.Name | ast.Attribute):  # the same tensor under another name
            constants |= binds(node)
            continue
        if not isinstance(value, ast.Call) or not _may_be_network(source, value, constants):
            continue
        if lines is not None and not stands_at(node, lines):
            constants |= binds(node)
            continue
        for name, item in _targets(node):
            found.setdefault(name, []).append(_Made(node, item))
    return source, found, constants


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


def _may_be_network(source: Source, call: ast.Call, constants: set[str]) -> bool:
    """A library's function gives no value that a parameter takes part in, but for those that are given to it."""
    root: ast.expr = call.func
    while isinstance(root, ast.Attribute | ast.Subscript) and key(root) not in constants:
        root = root.value
    return key(root) not in constants and not computes(source, root)


def _again(source: Source, made: _Made, constants: set[str]) -> Copied:
    edits = detach_reads(source, made.statement, constants)
    if not edits:
        raise CannotFix("what is computed again does not read the constant by its name")
    return copied(source, made.statement.value, edits)


def _reads_of(source: Source, at: Place, name: str) -> list[ast.expr]:
    """Where the expression at a place reads the name."""
    value = source.node_expression(at)
    found = list(each(value, ast.Name, ast.Attribute))
    return [n for n in found if is_read(n) and key(n) == name]
