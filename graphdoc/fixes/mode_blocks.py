"""Blocks that do no more than set a mode (``with autocast():``): their statements are as movable as any beside them."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from itertools import groupby

from graphdoc.fixes.program_slices import Stretch, lift
from graphdoc.source.edits import below, copied, delete, written
from graphdoc.source.module import Source
from graphdoc.source.paths import last_word
from graphdoc.source.places import Copied, Edit, Text

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
