"""Statements that run again: what they draw and bind, what stays behind, and blocks that only set a mode."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from itertools import groupby

from graphdoc.fixes.fix_kind import CannotFix, Sources
from graphdoc.fixes.program_slices import Stretch, binds, changes, lift, reads, wanted_behind
from graphdoc.source.edits import below, copied, delete, rename, written
from graphdoc.source.effects import DRAWS, TAKES, functions_named
from graphdoc.source.module import Source, each, walked
from graphdoc.source.paths import last_word, plain_names
from graphdoc.source.places import Copied, Edit, Text

_SAMPLES = frozenset({"sample", "sample_n", "rsample", "multinomial", "bernoulli", "choice", "choices"})
"""Draws from a distribution that the program may have computed; the noise of a layer is drawn anew in each pass."""
_ENDS_GRAPH = _SAMPLES - {"rsample"}


def kept_as_drawn(
    sources: Sources, source: Source, found: Stretch, copied: list[ast.stmt], backward: ast.stmt | None
) -> set[ast.stmt]:
    """Those of the statements to be run again that keep what they have drawn: plain numbers, of which something that
    does not run again was made for this loss, as a reward is of an action.
    """
    kept: set[ast.stmt] = set()
    for node in copied:
        taking = next((c for c in each(node, ast.Call) if last_word(c.func) in TAKES | {"step"}), None)
        if taking is not None:
            raise CannotFix(f"`{_shown(source, taking)}` would be run a second time")
        if _samples(sources, node) and _acted_upon(found, copied, node, backward):
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


def _acted_upon(found: Stretch, copied: list[ast.stmt], node: ast.stmt, backward: ast.stmt | None) -> bool:
    """Whether the loss takes what a statement that does not run again has made of what was drawn."""
    drawn = binds(node)
    made: set[str] = set()
    for s in found.behind(node):
        if s not in copied and reads(s) & (drawn | made):
            made |= changes(s)
    made -= drawn
    again = set().union(*map(reads, copied))
    return bool(wanted_behind(found.following, backward, made) | (again & made))


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
