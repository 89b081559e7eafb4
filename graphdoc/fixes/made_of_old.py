"""What stays before a loop although it is made of what a statement computes anew in each of its rounds."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from graphdoc.fixes.program_slices import binds, changes, reads, wanted_behind


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
