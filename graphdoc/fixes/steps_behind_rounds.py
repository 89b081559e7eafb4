"""Step in a loop of its own, where each round differentiates one loss and steps one optimizer, and a later round's loss
still needs the weights that an earlier round has stepped.

Each call is told which parameters it is for, so that no loss adds to the gradient of an optimizer that steps later.
All losses are then differentiated with the weights of their own forward pass.

Args:
    step: the ``step()`` in the loop's body.
    backward: the call of ``backward`` in the same loop.
    inputs: False leaves the call as it is (it reaches none of the parameters that are stepped too early).
    frozen: True where some of what the round's optimizer holds requires no gradient, and can be no input.
    keepers: first names by which the stepped parameters can be reached.
"""

from __future__ import annotations

import ast

from graphdoc.fixes.fix_kind import Args, CannotFix, Sources
from graphdoc.fixes.own_inputs import has_inputs, own_inputs, refuse_weighed
from graphdoc.fixes.stepping_loops import CLIPS, stepping_loop
from graphdoc.fixes.summing import repeatable
from graphdoc.source.edits import below, copied, delete, insert_after, written
from graphdoc.source.effects import READS_GRADIENTS, binds_any, built_objects, method_of, opaque_calls
from graphdoc.source.module import Source
from graphdoc.source.paths import key, last_word, targets_of
from graphdoc.source.places import Edit

KIND = "steps_behind_rounds"
KEEPS_NUMBERS = True

_KNOWN = frozenset({"zero_grad", "backward", "step", "parameters", *CLIPS})


def edit(sources: Sources, args: Args) -> list[Edit]:
    source, loop, step, optimizer, node, _ = stepping_loop(sources, args)
    targets = {key(n) for t in targets_of(loop) for n in ast.walk(t) if isinstance(n, ast.Name)}
    if key(optimizer).split(".")[0].split("[")[0] not in targets:
        raise CannotFix("what a round steps is no variable of its loop")
    if not repeatable(source, loop, loop.iter):
        raise CannotFix("what the loop goes through may not give the same a second time")
    _check(source, loop, step, optimizer, targets, frozenset(args.get("keepers") or ()))
    header = written(source, "for {target} in {group}:", target=loop.target, group=loop.iter)
    edits = [*delete(source, step), *insert_after(source, loop, [below(header, [copied(source, step)])])]
    if args.get("inputs", True):
        refuse_weighed(node)
        if not has_inputs(node):
            edits += own_inputs(source, node, [source.segment(optimizer)], bool(args.get("frozen")))
    return edits


def limited_again(source: Source, step: ast.stmt) -> bool:
    """Whether each round limits gradients of more than its own optimizer: those of earlier rounds are there, too."""
    loop = source.node_loop(step)
    if not isinstance(loop, ast.For):
        return False
    names = {n.id for t in targets_of(loop) for n in ast.walk(t) if isinstance(n, ast.Name)}
    clips = [n for n in ast.walk(loop) if isinstance(n, ast.Call) and last_word(n.func) in CLIPS]
    return any(not names & {n.id for a in c.args[:1] for n in ast.walk(a) if isinstance(n, ast.Name)} for c in clips)


def _check(
    source: Source, loop: ast.For, step: ast.stmt, optimizer: ast.expr, targets: set[str], keepers: frozenset[str]
) -> None:
    """Nothing that stays in the loop acts on what the steps of earlier rounds use or change."""
    staying = [s for s in loop.body if s is not step]
    if bound := binds_any(staying, {*targets, key(optimizer)}):
        raise CannotFix(f"{bound} is bound anew in the loop")
    objects = built_objects(source.tree) if source.tree is not None else frozenset()
    roots = keepers | targets
    for top in staying:
        method, on = method_of(top)
        if method in ("zero_grad", "step") and (on is None or key(on) != key(optimizer)):
            raise CannotFix(f"`{source.segment(top)}` would come before the steps of earlier rounds")
        for node in ast.walk(top):
            if isinstance(node, ast.Return | ast.Break | ast.Continue | ast.Raise | ast.Yield | ast.YieldFrom):
                raise CannotFix("not every way leads from the backward call to behind the loop")
            if last_word(node) in READS_GRADIENTS - CLIPS:
                raise CannotFix("gradients are read in the loop")
        unknown = opaque_calls(top, roots, _KNOWN, objects)
        if unknown:
            text = source.segment(unknown[0]).split("\n")[0]
            raise CannotFix(f"`{text}` is called in the loop, and may use what the steps change")
