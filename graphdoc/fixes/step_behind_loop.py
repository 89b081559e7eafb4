"""Step once behind a loop that differentiates parts of one forward pass, instead of in each of its rounds.

The rounds' gradients add up, each with the weights of that forward pass; what clears them comes before the loop.

Args:
    step: the ``step()`` in the loop's body.
    backward: the call of ``backward`` in the same loop.
"""

from __future__ import annotations

import ast

from graphdoc.fixes.fix_kind import Args, CannotFix, Sources
from graphdoc.fixes.stepping_loops import CLIPS, stepping_loop
from graphdoc.source.edits import copied, delete, insert_after, insert_before
from graphdoc.source.effects import READS_GRADIENTS, binds_any, method_of
from graphdoc.source.module import Source
from graphdoc.source.paths import key
from graphdoc.source.places import Edit

KIND = "step_behind_loop"


def edit(sources: Sources, args: Args) -> list[Edit]:
    source, loop, step, _, _, own = stepping_loop(sources, args)
    before = [s for s in loop.body[: loop.body.index(own)] if method_of(s)[0] == "zero_grad"]
    behind = [s for s in loop.body[loop.body.index(own) + 1 :] if s is step or method_of(s)[0] in {"zero_grad", *CLIPS}]
    _check(source, loop, [*before, *behind], own)
    edits = [e for s in (*before, *behind) for e in delete(source, s)]
    edits += insert_before(source, loop, [copied(source, s) for s in before])
    return edits + insert_after(source, loop, [copied(source, s) for s in behind])


def _check(source: Source, loop: ast.For, moved: list[ast.stmt], own: ast.stmt) -> None:
    """What moves out of the loop means the same there, and nothing that stays reads or changes gradients or weights."""
    used = {key(n) for s in moved for n in ast.walk(s) if isinstance(n, ast.Name | ast.Attribute)}
    if bound := binds_any([loop], used):
        raise CannotFix(f"{bound} is another one in each round of the loop")
    if all(s in moved or s is own for s in loop.body) and len(loop.body) == len(moved):
        raise CannotFix("nothing would be left in the loop")
    gone = {n for s in moved for n in ast.walk(s)}
    for node in ast.walk(loop):
        if isinstance(node, ast.Break | ast.Continue | ast.Return | ast.Raise | ast.Yield | ast.YieldFrom):
            raise CannotFix("not every way leads from the backward call to behind the loop")
        if not isinstance(node, ast.Attribute) or node in gone:
            continue
        if node.attr in READS_GRADIENTS:
            raise CannotFix("gradients are read in the loop")
        if node.attr in ("step", "zero_grad", "update"):
            raise CannotFix(f"`{source.segment(node)}` is called in the loop too")
