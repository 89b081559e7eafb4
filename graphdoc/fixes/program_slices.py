"""Statements of a block: those a value goes through up to its backward, those another may pass, how they run again."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass
from itertools import groupby
from typing import TypeVar

from graphdoc.fixes.fix_kind import Args, CannotFix, Sources, required, statement
from graphdoc.source.edits import below, copied, delete, rename, written
from graphdoc.source.effects import DRAWS, TAKES, functions_named, opaque_calls
from graphdoc.source.module import Function, Loop, Source, each, is_method_call, is_within, walked
from graphdoc.source.paths import is_read, is_set, key, last_word, plain_names, targets_of
from graphdoc.source.places import Copied, Edit, Text
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


# How statements run again: what they draw and bind, what stays behind, and blocks that only set a mode.


_SAMPLES = frozenset({"sample", "sample_n", "rsample", "multinomial", "bernoulli", "choice", "choices"})
"""Draws from a distribution that the program may have computed; the noise of a layer is drawn anew in each pass."""
_ENDS_GRAPH = _SAMPLES - {"rsample"}


def kept_as_drawn(
    sources: Sources, source: Source, found: Stretch, again: list[ast.stmt], backward: ast.stmt | None
) -> set[ast.stmt]:
    """Those of the statements to be run again that keep what they have drawn: plain numbers, of which something that
    does not run again was made for this loss, as a reward is of an action.
    """
    kept: set[ast.stmt] = set()
    for node in again:
        taking = next((c for c in each(node, ast.Call) if last_word(c.func) in TAKES | {"step"}), None)
        if taking is not None:
            raise CannotFix(f"`{_shown(source, taking)}` would be run a second time")
        if _samples(sources, node) and _acted_upon(found, again, node, backward):
            value = getattr(node, "value", None)
            if not isinstance(value, ast.Call) or last_word(value.func) not in _ENDS_GRAPH:
                raise CannotFix(f"`{_shown(source, node)}` would draw another one than the loss is about")
            kept.add(node)
    return kept


def _shown(source: Source, node: ast.stmt | ast.expr) -> str:
    """The first line of it."""
    return source.segment(node).partition("\n")[0]


def _samples(sources: Sources, node: ast.stmt) -> bool:
    """Whether a statement samples, by itself or in a function of the program's that it calls."""
    calls = list(each(node, ast.Call))
    if any(last_word(c.func) in _SAMPLES for c in calls):
        return True
    names = {last_word(c.func) for c in calls} - {""}
    called = functions_named((s.tree for s in sources.values()), names)
    return any(last_word(c.func) in _SAMPLES for f in called for c in each(f, ast.Call))


def _acted_upon(found: Stretch, again: list[ast.stmt], node: ast.stmt, backward: ast.stmt | None) -> bool:
    """Whether the loss takes what a statement that does not run again has made of what was drawn."""
    drawn = binds(node)
    made: set[str] = set()
    for s in found.behind(node):
        if s not in again and reads(s) & (drawn | made):
            made |= changes(s)
    made -= drawn
    taken = set().union(*map(reads, again))
    return bool(wanted_behind(found.following, backward, made) | (taken & made))


_ALONE = (TAKES - {"popitem"}) | {*("randn", "rand", "randint", "randperm", "randn_like", "rand_like", "randint_like")}
"""Calls that give a value without a graph, whatever they are given."""
_LATER = (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.IfExp, ast.BoolOp)
"""What evaluates a part of it later, several times or not at all."""


def taking_calls(node: ast.AST) -> list[ast.Call]:
    """The calls that take something and can be made once, beforehand."""
    return [c for c in each(node, ast.Call) if last_word(c.func) in _ALONE]


def runs_later(source: Source, call: ast.Call) -> bool:
    """Whether a call is made later than the statement around it, several times or not at all."""
    return any(isinstance(n, _LATER) for n in source.node_ancestors(call))


def drawn_once(source: Source, statement: ast.stmt) -> ast.Call | None:
    """The one call by which a statement takes something; None where it takes none, or more than can be told apart."""
    found = taking_calls(statement)
    if len(found) != 1 or runs_later(source, found[0]):
        return None
    inside = set(walked(found[0]))
    others = (c for c in each(statement, ast.Call) if c not in inside)
    return None if any(last_word(c.func) in DRAWS | TAKES for c in others) else found[0]


def translates(tree: ast.AST) -> bool:
    """Whether ``_`` is read in a program, so that it is no place for what nobody wants."""
    return "_" in plain_names(tree, ast.Load)


def unbound(source: Source, node: ast.stmt, names: set[str]) -> list[Edit]:
    """Put ``_`` in place of some of the names that a statement unpacks into."""
    if not isinstance(node, ast.Assign) or len(node.targets) != 1 or not isinstance(node.targets[0], ast.Tuple):
        return []
    return [rename(source, n, "_") for n in node.targets[0].elts if isinstance(n, ast.Name) and n.id in names]


def made_of_old(chosen: Sequence[ast.stmt], between: Sequence[ast.stmt], loop: ast.stmt, graphs: frozenset[str]) -> str:
    """The name without a graph that the ``chosen`` give anew, and of which a statement that stays has made what the
    loop goes on to read: the labels of a batch, the rewards of actions. Empty where there is none.

    Values with a graph are not asked about: what is made of them and has none is a constant that may well be of then.
    """
    for name in sorted({n for s in chosen for n in binds(s)} - graphs if graphs else ()):
        old = {name}
        for node in between:
            if node in chosen:
                continue
            if reads(node) & old:
                old |= changes(node) - graphs
            elif isinstance(node, ast.Assign):
                old -= binds(node)
        if wanted_behind(getattr(loop, "body", []), None, old - {name}):
            return name
    return ""


Within = dict[ast.stmt, ast.With]
"""For each statement of such a block the block."""

_MODES = frozenset(
    {"autocast", "enable_grad", "no_grad", "set_grad_enabled", "inference_mode", "nullcontext", "record_function"}
)


def opened(source: Source, found: Stretch, seeds: Sequence[ast.stmt]) -> tuple[Stretch, Within]:
    """The same stretch with what stands in such blocks before the anchor in the place of these blocks."""
    block: list[ast.stmt] = []
    within: Within = {}
    anchor = found.anchor
    for i, node in enumerate(found.block):
        if i < found.anchor and isinstance(node, ast.With) and _sets_a_mode(node):
            block += node.body
            within.update(dict.fromkeys(node.body, node))
            anchor += len(node.body) - 1
        else:
            block.append(node)
    places = sorted({at for seed in seeds if (at := lift(source, seed, block)) is not None})
    return Stretch(block, places, anchor, found.following, found.branched), within


def regrouped(source: Source, texts: Sequence[tuple[ast.stmt, Copied]], within: Within) -> list[Text]:
    """Statements as they are to run again, those of one block under its header."""
    out: list[Text] = []
    for block, group in groupby(texts, key=lambda one: within.get(one[0])):
        inner = [text for _, text in group]
        if block is None:
            out += inner
            continue
        modes = {f"mode{i}": copied(source, item.context_expr) for i, item in enumerate(block.items)}
        header = f"with {', '.join(f'{{{name}}}' for name in modes)}:"
        out.append(below(written(source, header, **modes), inner))
    return out


def taken_away(source: Source, gone: Sequence[ast.stmt], within: Within) -> list[Edit]:
    """The edits that remove statements, and a block of which nothing is left."""
    empty = [b for b in dict.fromkeys(within.values()) if all(s in gone for s in b.body)]
    left = [s for s in gone if within.get(s) not in empty]
    return [edit for statement in (*left, *empty) for edit in delete(source, statement)]


def _sets_a_mode(node: ast.With) -> bool:
    return all(
        i.optional_vars is None and isinstance(i.context_expr, ast.Call) and last_word(i.context_expr.func) in _MODES
        for i in node.items
    )
