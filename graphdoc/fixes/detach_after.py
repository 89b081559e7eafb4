"""Detach where state is carried: behind a statement, or in front of one, give each carried path its detached value.

Args:
    after: the place of the statement (``loss.backward()``, ``optimizer.step()``).
    before: in place of it, the statement in front of which it is done (the forward that takes the value up).
    paths: list of ``[path, structure]`` (or of paths alone, for tensors), such as ``["self.state", {"tuple":
        ["tensor", "tensor"]}]``. The statements come in this order, in the block of the statement. A third element that
        is true keeps the list or dictionary: others hold the same one.
"""

from __future__ import annotations

from graphdoc.fixes.fix_kind import Args, CannotFix, Sources, anchored, required
from graphdoc.fixes.structures import rebinding
from graphdoc.source.edits import insert_after, insert_before
from graphdoc.source.paths import key
from graphdoc.source.places import Edit

KIND = "detach_after"


def edit(sources: Sources, args: Args) -> list[Edit]:
    source, anchor, behind = anchored(sources, args)
    texts: list[str] = []
    edits: list[Edit] = []
    for entry in required(args, "paths"):
        path, structure, *kept = (entry, "tensor") if isinstance(entry, str) else entry
        more, needed = rebinding(source, anchor, path, structure, same=bool(kept and kept[0]))
        texts += [t for t in more if t not in texts]
        edits += needed
    if not texts:
        raise CannotFix("no carried value was named")
    found = source.node_block(anchor)
    if found is not None:
        block, at = found
        near = block[at + 1 : at + 1 + len(texts)] if behind else block[max(at - len(texts), 0) : at]
        following = {key(s) for s in near}
        texts = [t for t in texts if t not in following]
    if not texts:
        raise CannotFix("the values are already detached there")
    return [*(insert_after if behind else insert_before)(source, anchor, texts), *edits]
