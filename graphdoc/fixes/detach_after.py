"""Detach where state is carried: behind a statement, give each carried path its detached value.

Args:
    after: the place of the statement (``loss.backward()``, ``optimizer.step()``).
    paths: list of ``[path, structure]`` (or of paths alone, for tensors), such as ``["self.state", {"tuple":
        ["tensor", "tensor"]}]``. The statements come in this order, in the block of the statement.
"""

from __future__ import annotations

import ast

from graphdoc.fixes.base import Args, CannotFix, Sources, required, statement
from graphdoc.fixes.structures import rebinding
from graphdoc.source.blocks import insert_after
from graphdoc.source.paths import key
from graphdoc.source.places import Edit

KIND = "detach_after"


def edit(sources: Sources, args: Args) -> list[Edit]:
    source, anchor = statement(sources, required(args, "after"))
    if isinstance(anchor, ast.Return | ast.Raise | ast.Break | ast.Continue):
        raise CannotFix("nothing behind that statement is ever reached")
    texts: list[str] = []
    edits: list[Edit] = []
    for entry in required(args, "paths"):
        path, structure = (entry, "tensor") if isinstance(entry, str) else (entry[0], entry[1])
        more, needed = rebinding(source, anchor, path, structure)
        texts += [t for t in more if t not in texts]
        edits += needed
    if not texts:
        raise CannotFix("no carried value was named")
    found = source.node_block(anchor)
    if found is not None:
        following = {key(s) for s in found[0][found[1] + 1 : found[1] + 1 + len(texts)]}
        texts = [t for t in texts if t not in following]
    if not texts:
        raise CannotFix("the values are already detached there")
    return [*insert_after(source, anchor, texts), *edits]
