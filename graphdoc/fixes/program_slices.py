"""Statements of a block: those that a value goes through up to its backward call, and those that another may pass."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Set
from dataclasses import dataclass
from typing import TypeVar

from graphdoc.fixes.fix_kind import Args, CannotFix, Sources, required, statement
from graphdoc.source.effects import opaque_calls
from graphdoc.source.module import Function, Loop, Source, each, is_method_call, is_within, walked
from graphdoc.source.paths import is_read, is_set, key, last_word, targets_of
from graphdoc.source.scopes import bound_names, parameters, scope_of

Assigned = ast.Assign | ast.AnnAssign | ast.AugAssign
_Statement = TypeVar("_Statement", bound=ast.stmt)


@dataclass
class Stretch:
    """A run of one block's statements: ``seeds`` compute the value, ``anchor`` is the last before it is needed again.

    ``following`` are the statements that run behind the anchor, in order, those at the head of a loop's next iteration
    last. ``branched``: from some statement on ``block`` goes on in a branch, which need not be taken; what stands above
    it is wanted without it too.
    """

    block: list[ast.stmt]
    seeds: list[int]
    anchor: int
    following: list[ast.stmt]
    branched: bool = False

    def behind(self, node: ast.stmt) -> list[ast.stmt]:
        """The statements between one and the anchor."""
        return self.block[self.block.index(node) + 1 : self.anchor]


def seeds_of(sources: Sources, args: Args, source: Source, step: ast.stmt) -> list[ast.stmt]:
    """The statements at ``places``, all in the function of the step."""
    found = [statement(sources, at) for at in required(args, "places")]
    if any(s is not source or source.node_function(n) is not source.node_function(step) for s, n in found):
        raise CannotFix("the forward and the step stand in different functions")
    return [n for _, n in found]


def stretch(source: Source, seeds: list[ast.stmt], anchor: ast.stmt, backward: ast.stmt | None = None) -> Stretch:
    """Find the block that holds the anchor (or what it stands in) and all seeds.

    Where the anchor stands deeper than the seeds, in a branch that also holds the ``backward`` call behind it, the
    block goes on in the branch up to its end: what is computed behind the whole of the branch comes too late.
    """
    at: ast.AST = anchor
    while isinstance(at, ast.stmt):
        block, index = source.node_block(at)
        lifted = [lift(source, s, block) for s in seeds]
        if all(i is not None for i in lifted):
            places = sorted({i for i in lifted if i is not None})
            if places[-1] >= index:
                raise CannotFix("the value is computed after the write already")
            inner = _into_branch(source, at, anchor, backward)
            if inner is not None:
                deep, above = inner
                return Stretch([*block[:index], *deep], places, index + above, _following(source, anchor), True)
            return Stretch(block, places, index, _following(source, at))
        at = source.parents.get(at, source.tree)
        if isinstance(at, ast.FunctionDef | ast.AsyncFunctionDef):
            break
    raise CannotFix("the value and the write stand in different blocks")


def _into_branch(
    source: Source, outer: ast.stmt, anchor: ast.stmt, backward: ast.stmt | None
) -> tuple[list[ast.stmt], int] | None:
    """What runs inside of ``outer`` up to the end of the anchor's block, and at which index of it the anchor stands.

    None unless only branches lie between the two, and the backward call stands behind the anchor in its block.
    """
    block, above = source.node_block(anchor)
    if outer is anchor or backward is None or not any(is_within(backward, s) for s in block[above + 1 :]):
        return None
    run, at = block, anchor
    while (parent := source.parents.get(at)) is not outer:
        if not isinstance(parent, ast.If | ast.With):
            return None
        block, index = source.node_block(parent)
        run, at, above = [*block[:index], *run], parent, above + index
    return (run, above) if isinstance(outer, ast.If | ast.With) else None


def lift(source: Source, node: ast.AST, block: list[ast.stmt]) -> int | None:
    """The index in a block of the statement that a node stands in; None where it stands in none of them."""
    for i, s in enumerate(block):
        if s is node or any(a is s for a in source.node_ancestors(node)):
            return i
    return None


def _following(source: Source, at: ast.stmt) -> list[ast.stmt]:
    out: list[ast.stmt] = []
    node: ast.AST = at
    while isinstance(node, ast.stmt) and not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        block, index = source.node_block(node)
        out += block[index + 1 :]
        above = source.parents.get(node)
        if isinstance(above, Loop) and block is above.body:
            out += block[: index + 1]
        if above is None:
            break
        node = above
    return out


def reads(node: ast.AST) -> set[str]:
    """Every name and dotted path that is read, ``x`` of ``x += 1`` too; for ``a.b.c`` also ``a.b`` and ``a``."""
    found: set[str] = set()
    for n in walked(node):
        if isinstance(n, ast.AugAssign):
            found.add(key(n.target))
        elif isinstance(n, ast.Name | ast.Attribute) and is_read(n):
            found.add(key(n))
    return found


def binds(node: ast.stmt) -> set[str]:
    """What a plain assignment binds anew."""
    if isinstance(node, ast.Assign | ast.AnnAssign):
        return {key(t) for t in targets_of(node)}
    return set()


def bound(node: ast.stmt) -> set[str]:
    """What an assignment binds, ``x`` of ``x += 1`` too."""
    return {key(node.target)} if isinstance(node, ast.AugAssign) else binds(node)


def assignments(source: Source, node: ast.AST) -> list[Assigned]:
    """All of the function, or of the module, in which a node stands, in order."""
    return sorted(
        each(scope_of(source, node), ast.Assign, ast.AnnAssign, ast.AugAssign), key=lambda n: source.span(n)[0]
    )


def made_of(run: Iterable[_Statement], names: Set[str], through: Set[str] | None = None) -> list[_Statement]:
    """The assignments of a run of statements that give these names the values that they have behind it, in order.

    ``through``: optional; only what these names are made of counts in turn.
    """
    found: list[_Statement] = []
    live = set(names)
    for node in reversed([*run]):
        if bound(node) & live:
            found.insert(0, node)
            read = reads(node)
            live = (live - binds(node)) | (read if through is None else read & through)
    return found


def changes(node: ast.stmt) -> set[str]:
    """Every name and dotted path that a statement may bind or write into, in whatever block of it."""
    found: set[str] = set()
    for n in walked(node):
        if isinstance(n, ast.Name | ast.Attribute) and is_set(n):
            found.add(key(n))
        elif isinstance(n, ast.Subscript) and is_set(n):
            found.add(key(n.value).split("[")[0])
        elif is_method_call(n) and n.func.attr.endswith("_"):
            found.add(key(n.func.value))
    return found


def check_passed(
    passed: Iterable[ast.stmt],
    used: Set[str],
    made: Set[str] = frozenset(),
    gradients: Set[str] = frozenset(),
    keepers: Set[str] | None = None,
    known: Set[str] = frozenset(),
    objects: Set[str] = frozenset(),
) -> None:
    """Statements that use some names and set others may run on the other side of those that they pass.

    ``keepers``, where given, are first names by which a call may reach what they change; ``known`` and ``objects`` as
    in ``opaque_calls``.
    """
    for node in passed:
        text = ast.unparse(node).split("\n")[0]
        if _leaves(node):
            raise CannotFix(f"not every way leads past `{text}`")
        if gradients & {last_word(n) for n in walked(node)}:
            raise CannotFix(f"`{text}` stands between, and takes part in an update")
        if clash := changes(node) & (used | made) or reads(node) & made:
            raise CannotFix(f"{min(clash)} would have another value at `{text}`")
        if keepers is not None and (unknown := opaque_calls(node, keepers, known, objects)):
            raise may_use(unknown[0])


def may_use(node: ast.AST) -> CannotFix:
    """The refusal to pass an expression of which it is not known what it uses."""
    text = ast.unparse(node).split("\n")[0]
    return CannotFix(f"`{text}` stands between, and may use what the step changes")


def _leaves(node: ast.AST, inside: bool = False) -> bool:
    """Whether a statement may end its block; ``inside`` of a loop of its own, ``break`` and ``continue`` do not."""
    if isinstance(node, Function | ast.Lambda | ast.ClassDef):
        return False
    if isinstance(node, ast.Break | ast.Continue):
        return not inside
    if isinstance(node, ast.Return | ast.Raise | ast.Yield | ast.YieldFrom | ast.Await):
        return True
    return any(_leaves(n, inside or isinstance(node, Loop)) for n in ast.iter_child_nodes(node))


def bound_within(node: ast.stmt) -> set[str]:
    """What the assignments inside of a branch, a loop or a ``with`` bind; of those of inner functions nothing."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return set()
    inner = list(each(node, ast.Assign, ast.AnnAssign, ast.AugAssign))
    return {name for n in inner for name in bound(n)}


def _up_to(following: list[ast.stmt], backward: ast.stmt) -> list[ast.stmt]:
    """The statements up to the one that a backward call stands in; none where it stands in none of them."""
    return following[: next((i + 1 for i, s in enumerate(following) if is_within(backward, s)), 0)]


def wanted_behind(following: list[ast.stmt], backward: ast.stmt | None, names: set[str]) -> set[str]:
    """Those of the names that are read behind the anchor before they are bound anew, for the backward call's sake."""
    if backward is not None and (steps := _up_to(following, backward)):
        return _behind(steps, backward) & names
    live: set[str] = set()
    undecided = set(names)
    for s in following:
        read = reads(s) & undecided
        live |= read
        undecided -= read | binds(s)
    return live


def _behind(steps: list[ast.stmt], backward: ast.stmt) -> set[str]:
    """Back from the call, which stands in the last of these statements: only what its loss is made of."""
    last = steps[-1]
    live = reads(last)
    if last is not backward and isinstance(last, ast.If | ast.With):
        # What stands behind the call in this branch, or in the other one, needs nothing for its sake.
        heads = [last.test] if isinstance(last, ast.If) else [i.context_expr for i in last.items]
        blocks = [last.body, *([last.orelse] if isinstance(last, ast.If) else [])]
        block = next((b for b in blocks if any(is_within(backward, s) for s in b)), None)
        if block is not None:
            live = _behind(_up_to(block, backward), backward).union(*(reads(h) for h in heads))
    for s in reversed(steps[:-1]):
        if bound(s) & live:
            live = (live - binds(s)) | reads(s)
        elif bound_within(s) & live:
            live |= reads(s)  # a branch or loop: it may bind the name, or leave it as it was
    return live


# What another function may read.


def check_known(
    source: Source, names: Set[str], here: Function | None, there: Function | None, but: Set[str] = frozenset()
) -> None:
    """What is read by these names in one function is the same in another, but for what is bound there on purpose."""
    if here is there:
        return
    around = [there, *source.node_ancestors(there)] if there is not None else []
    scopes = [here, *source.node_ancestors(here)] if here is not None else []
    hidden = set().union(*(bound_names(f) for f in scopes if isinstance(f, Function) and f not in around))
    own = bound_names(there) - but if there is not None else set()
    first = [(source.parents.get(f), parameters(f)[:1]) for f in (here, there) if f is not None]
    one_class = len(first) == 2 and first[0] == first[1] and isinstance(first[0][0], ast.ClassDef)
    where = there.name if there is not None else "the module"
    for name in sorted(names - {*(first[0][1] if one_class else ())}):
        if name in own:
            raise CannotFix(f"{name} is another variable in {where}")
        if name in hidden:
            raise CannotFix(f"{name} is not known in {where}")
