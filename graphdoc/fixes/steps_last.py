"""Step when both losses have been differentiated: a step between two backward calls is moved behind the second.

The second call is told which parameters it is for, so that what the first one gave to the optimizer that now steps
later stays as it is. Both losses are then differentiated with the weights of their own forward pass.

Args:
    step: the ``step()`` that comes too early.
    backward: the call of ``backward`` that needs the weights from before it.
    inputs: False leaves the second call as it is (it reaches none of the first optimizer's parameters).
    keepers: first names by which the stepped parameters can be reached.
"""

from __future__ import annotations

import ast

from graphdoc.fixes.base import Args, CannotFix, Sources, call, required, statement
from graphdoc.fixes.summing import READS_GRADIENTS
from graphdoc.source.arguments import set_keyword
from graphdoc.source.blocks import delete, indent_of, place_text, text_of
from graphdoc.source.effects import binds_any, built_objects, is_bare_call, method_of, opaque_calls
from graphdoc.source.module import Source
from graphdoc.source.paths import is_path, key
from graphdoc.source.places import Edit

KIND = "steps_last"
KEEPS_NUMBERS = True

_KNOWN = frozenset({"zero_grad", "backward", "step"})


def edit(sources: Sources, args: Args) -> list[Edit]:
    source, step = statement(sources, required(args, "step"))
    other, node = call(sources, required(args, "backward"))
    owner = other.node_owner(node)
    if other is not source or owner is None or source.node_function(owner) is not source.node_function(step):
        raise CannotFix("the step and the backward call stand in different functions")
    method, optimizer = method_of(step)
    if method != "step" or optimizer is None:
        raise CannotFix("the step is part of a larger statement")
    moved = _whole(source, step)
    found = source.node_block(moved)
    anchor = next((a for a in (owner, *source.node_ancestors(owner)) if found is not None and a in found[0]), None)
    if found is None or not isinstance(anchor, ast.stmt) or found[0].index(anchor) <= found[1]:
        raise CannotFix("the step does not stand before the backward call in the block of both")
    crossed = found[0][found[1] + 1 : found[0].index(anchor) + 1]
    _check(source, optimizer, crossed, frozenset(args.get("keepers") or ()))
    edits = place_text(source, anchor, [text_of(source, moved, indent_of(source, anchor))], after=True)
    edits += delete(source, moved)
    if args.get("inputs", True):
        edits += _inputs(source, node, owner)
    return edits


def _whole(source: Source, step: ast.stmt) -> ast.stmt:
    """The step, or the loop that does nothing else than step."""
    above = source.parents.get(step)
    while isinstance(above, ast.For) and len(above.body) == 1 and not above.orelse:
        step, above = above, source.parents.get(above)
    return step


def _check(source: Source, optimizer: ast.expr, crossed: list[ast.stmt], keepers: frozenset[str]) -> None:
    """Nothing that the step crosses reads what it writes, or writes what it reads."""
    names = {key(n) for n in ast.walk(optimizer) if isinstance(n, ast.Name | ast.Attribute)}
    if bound := binds_any(crossed, names):
        raise CannotFix(f"{bound} is another one behind the backward call")
    mine = key(optimizer)
    roots = keepers | {n.split(".")[0] for n in names}
    objects = built_objects(source.tree) if source.tree is not None else frozenset()
    for top in crossed:
        for node in ast.walk(top):
            if isinstance(node, ast.Return | ast.Break | ast.Continue | ast.Raise | ast.Yield | ast.YieldFrom):
                raise CannotFix("not every way leads from the step to behind the backward call")
            if isinstance(node, ast.Attribute) and node.attr in READS_GRADIENTS:
                raise CannotFix("gradients are read behind the step")
            if isinstance(node, ast.stmt) and is_bare_call(node):
                name, on = method_of(node)
                if name in ("zero_grad", "step") and on is not None and key(on) == mine:
                    raise CannotFix(f"{mine}.{name}() stands between the step and the backward call")
        unknown = opaque_calls(top, roots, _KNOWN, objects)
        if unknown:
            text = source.segment(unknown[0]).split("\n")[0]
            raise CannotFix(f"`{text}` stands between, and may use what the step changes")


def _inputs(source: Source, node: ast.Call, owner: ast.stmt) -> list[Edit]:
    """``inputs=`` with the parameters of the optimizer that steps behind this call."""
    if not isinstance(node.func, ast.Attribute) or node.func.attr != "backward" or node.args:
        raise CannotFix("the backward call has a gradient of its own")
    if any(k.arg == "inputs" for k in node.keywords):
        return []
    found = source.node_block(owner)
    for later in found[0][found[1] + 1 :] if found is not None else ():
        method, optimizer = method_of(later)
        if method == "backward":
            break
        if method == "step" and optimizer is not None and is_path(optimizer):
            text = f'[p for g in {source.segment(optimizer)}.param_groups for p in g["params"]]'
            return set_keyword(source, node, "inputs", text)
    raise CannotFix("which optimizer steps with this loss's gradient cannot be seen there")
