"""What a forward has drawn and the program has acted upon: run again, it would draw another than the loss is about."""

from __future__ import annotations

import ast

from graphdoc.fixes.fix_kind import CannotFix, Sources
from graphdoc.fixes.program_slices import Stretch, binds, changes, reads, wanted_behind
from graphdoc.source.effects import TAKES, calls_of, functions_named
from graphdoc.source.module import Source
from graphdoc.source.paths import last_word

_SAMPLES = frozenset({"sample", "sample_n", "rsample", "multinomial", "bernoulli", "choice", "choices"})
"""Draws from a distribution that the program may have computed; the noise of a layer is drawn anew in each pass."""
_ENDS_GRAPH = _SAMPLES - {"rsample"}


def kept_as_drawn(
    sources: Sources, source: Source, found: Stretch, copied: list[int], backward: ast.stmt | None
) -> set[int]:
    """Those of the statements to be run again that keep what they have drawn: plain numbers, of which something that
    does not run again was made for this loss, as a reward is of an action.

    Raises:
        CannotFix: what was drawn so carries a graph, or is drawn inside of a function; or a statement does more.
    """
    kept: set[int] = set()
    for i in copied:
        node = found.block[i]
        taking = next((c for c in calls_of(node) if last_word(c.func) in TAKES | {"step"}), None)
        if taking is not None:
            raise CannotFix(f"`{_shown(source, taking)}` would be run a second time")
        if _samples(sources, node) and _acted_upon(found, copied, i, backward):
            if not _is_plain_draw(node):
                raise CannotFix(f"`{_shown(source, node)}` would draw another one than the loss is about")
            kept.add(i)
    return kept


def _shown(source: Source, node: ast.stmt | ast.expr) -> str:
    """The first line of it."""
    return source.segment(node).partition("\n")[0]


def _samples(sources: Sources, node: ast.stmt) -> bool:
    """Whether a statement samples, by itself or in a function of the program's that it calls."""
    calls = calls_of(node)
    if any(last_word(c.func) in _SAMPLES for c in calls):
        return True
    names = {last_word(c.func) for c in calls} - {""}
    called = functions_named((s.tree for s in sources.values() if s.tree is not None), names)
    return any(last_word(c.func) in _SAMPLES for f in called for c in calls_of(f))


def _acted_upon(found: Stretch, copied: list[int], index: int, backward: ast.stmt | None) -> bool:
    """Whether the loss takes what a statement that does not run again has made of what was drawn."""
    drawn = binds(found.block[index])
    made: set[str] = set()
    for j in range(index + 1, found.anchor):
        if j not in copied and reads(found.block[j]) & (drawn | made):
            made |= changes(found.block[j])
    made -= drawn
    again = set().union(*(reads(found.block[j]) for j in copied))
    return bool(wanted_behind(found.following, backward, made) | (again & made))


def _is_plain_draw(node: ast.stmt) -> bool:
    value = getattr(node, "value", None)
    return isinstance(value, ast.Call) and last_word(value.func) in _ENDS_GRAPH
