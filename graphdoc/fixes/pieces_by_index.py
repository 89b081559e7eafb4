"""Take the pieces of a tensor one by one, by their index, where a loop over the tensor writes into them.

``for row in weights:`` takes all pieces in one call, and into none of these may be written; one that is taken by its
index may be: ``for row in (weights[i] for i in range(len(weights))):`` (CreationMeta::MULTI_OUTPUT_NODE of
torch/csrc/autograd/variable.h). The tensor itself is written, as before.

Args:
    place: the write; it stands in the body of the loop that binds what it writes into.
"""

from __future__ import annotations

import ast

from graphdoc.fixes.fix_kind import Args, CannotFix, Sources, required, statement
from graphdoc.fixes.join_pieces import pieces_at
from graphdoc.source.edits import write
from graphdoc.source.effects import binds_any, functions_named
from graphdoc.source.loop_variables import iterated
from graphdoc.source.paths import is_path, key, last_word
from graphdoc.source.places import Edit

KIND = "pieces_by_index"
KEEPS_NUMBERS = True


def edit(sources: Sources, args: Args) -> list[Edit]:
    source, owner = statement(sources, required(args, "place"))
    found = pieces_at(source, owner)
    given = iterated(found.loop.target, found.loop.iter, found.name) if found is not None else None
    if found is None or given is None or not is_path(given):
        raise CannotFix("no loop over a named tensor stands around that place")
    base = key(given)
    if isinstance(given, ast.Attribute) and _is_property(sources, given.attr):
        raise CannotFix(f"{base} is computed anew each time that it is read")
    if bound := binds_any(found.loop.body, {base, *_owners(base)}):
        raise CannotFix(f"{bound} is bound anew in the loop")
    names = {n.id for n in ast.walk(given) if isinstance(n, ast.Name)}
    index = next(n for n in ("i", "j", "k", "index") if n not in names)
    return [write(source, given, f"({{whole}}[{index}] for {index} in range(len({{whole}})))", whole=given)]


def _is_property(sources: Sources, name: str) -> bool:
    found = functions_named((s.tree for s in sources.values() if s.tree is not None), {name})
    return any(last_word(d) in ("property", "cached_property") for f in found for d in f.decorator_list)


def _owners(path: str) -> set[str]:
    """``a.b`` and ``a`` of ``a.b.c``."""
    parts = path.split(".")
    return {".".join(parts[:n]) for n in range(1, len(parts))}
