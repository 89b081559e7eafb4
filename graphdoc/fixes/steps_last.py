"""Step when both losses have been differentiated: a step between two backward calls is moved behind the second.

The second call is told which parameters it is for, so that what the first one gave to the optimizer that now steps
later stays as it is. Both losses are then differentiated with the weights of their own forward pass.

Args:
    step: the ``step()`` that comes too early.
    others: more of them, of other optimizers; each stays under the condition under which it was made.
    backward: the call of ``backward`` that needs the weights from before them.
    behind: the statement of the steps' function that leads to that call, where it is made in a helper; each of them.
    through: the lines of the helpers that lead there, that of the call last.
    apart: where the failing loss takes up nothing of what the steps wrote, as the graph shows: the parts of the names
        of the stepped parameters. What names none of them, in the functions that it calls neither, may then be computed
        before the steps.
    optimizers: last names of the optimizers of the run, for ``apart``.
    inputs: False leaves the second call as it is (it reaches none of the parameters that are stepped too early).
    learners: how many optimizers step with the second call's gradient; each step has to stand behind it.
    frozen: True where some of what the optimizers hold requires no gradient, and can be no input.
    keepers: first names by which the stepped parameters can be reached.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass

from graphdoc.fixes.fix_kind import Args, CannotFix, Sources, call, required, statement
from graphdoc.fixes.own_inputs import has_inputs, own_inputs, refuse_weighed
from graphdoc.source.edits import below, copied, delete, insert_after, written
from graphdoc.source.effects import READS_GRADIENTS, binds_any, built_objects, is_bare_call, method_of, opaque_calls
from graphdoc.source.module import Source
from graphdoc.source.paths import is_path, key
from graphdoc.source.places import Edit, Text
from graphdoc.source.touched_names import Touching

KIND = "steps_last"
KEEPS_NUMBERS = True

_KNOWN = frozenset({"zero_grad", "backward", "step"})


def edit(sources: Sources, args: Args) -> list[Edit]:
    at, node = call(sources, required(args, "backward"))
    other, owner = statement(sources, args["behind"]) if "behind" in args else (at, at.node_owner(node))
    found = [_early(sources, p, other, owner) for p in (required(args, "step"), *args.get("others", ()))]
    early = sorted(found, key=lambda e: e.step.lineno)
    assert owner is not None  # _early has refused
    touching = None
    if args.get("apart"):
        trees = [s.tree for s in sources.values() if s.tree is not None]
        touching = Touching(trees, frozenset(args["apart"]), frozenset(args.get("optimizers") or ()))
    crossing = _Crossing(frozenset(args.get("keepers") or ()), touching)
    helpers = [_helper(sources, p) for p in args.get("through", ())] if "behind" in args else []
    for e in early:
        crossing.check(other, e, owner if helpers else None)
        for source, function in helpers:
            crossing.check_helper(source, function, e)
    anchor = early[0].anchor
    if any(e.anchor is not anchor for e in early):
        raise CannotFix("the steps stand in different blocks")
    edits = insert_after(other, anchor, [_text(other, e) for e in early])
    for e in early:
        edits += delete(other, e.moved)
    if args.get("inputs", True):
        if helpers and not _is_of_self(owner, helpers):
            raise CannotFix("the helper that calls backward may not know the optimizers by the same names")
        root, learners = "self" if helpers else "", int(args.get("learners", 1))
        edits += _inputs(at, node, other, owner, learners, root, bool(args.get("frozen")))
    return edits


def _helper(sources: Sources, at: object) -> tuple[Source, ast.AST]:
    source, inside = statement(sources, at)
    function = source.node_function(inside)
    if function is None:
        raise CannotFix("the helper that calls backward is not at hand")
    return source, function


def _is_of_self(owner: ast.stmt, helpers: list[tuple[Source, ast.AST]]) -> bool:
    """Whether the statement calls one method on ``self``, which calls backward itself: both know ``self.optimizer``."""
    _, on = method_of(owner)
    return len(helpers) == 1 and isinstance(on, ast.Name) and on.id == "self"


@dataclass(frozen=True)
class _Early:
    """A step that comes too early: what moves, under which condition, and the statements that it is moved over."""

    step: ast.stmt
    optimizer: ast.expr
    moved: ast.stmt
    under: ast.If | None
    anchor: ast.stmt
    crossed: list[ast.stmt]


def _early(sources: Sources, place: object, other: Source, owner: ast.stmt | None) -> _Early:
    source, step = statement(sources, place)
    if other is not source or owner is None or source.node_function(owner) is not source.node_function(step):
        raise CannotFix("the step and the backward call stand in different functions")
    method, optimizer = method_of(step)
    if method != "step" or optimizer is None:
        raise CannotFix("the step is part of a larger statement")
    moved = _whole(source, step)
    around, crossed, under = moved, [], None
    anchor = _in_block(source, moved, owner)
    parent = source.parents.get(moved)
    if anchor is None and isinstance(parent, ast.If) and moved in parent.body:
        under, around = parent, parent
        crossed = parent.body[parent.body.index(moved) + 1 :]
        anchor = _in_block(source, parent, owner)
    block = source.node_block(around)
    if block is None or anchor is None or block[0].index(anchor) <= block[1]:
        raise CannotFix("the step does not stand before the backward call in the block of both")
    crossed = [*crossed, *block[0][block[1] + 1 : block[0].index(anchor) + 1]]
    return _Early(step, optimizer, moved, under, anchor, crossed)


def _in_block(source: Source, node: ast.stmt, owner: ast.stmt) -> ast.stmt | None:
    """The statement around the backward call that stands in the block of a node."""
    found = source.node_block(node)
    above = (a for a in (owner, *source.node_ancestors(owner)) if found is not None and a in found[0])
    return next((a for a in above if isinstance(a, ast.stmt)), None)


def _whole(source: Source, step: ast.stmt) -> ast.stmt:
    """The step, or the loop or branch that does nothing else than step."""
    above = source.parents.get(step)
    while isinstance(above, ast.For | ast.If) and len(above.body) == 1 and not above.orelse:
        step, above = above, source.parents.get(above)
    return step


def _text(source: Source, early: _Early) -> Text:
    moved = copied(source, early.moved)
    return moved if early.under is None else below(written(source, "if {test}:", test=early.under.test), [moved])


def _conditions(early: _Early) -> list[ast.expr]:
    """The conditions that are asked later than they were."""
    inside = [n.test for n in ast.walk(early.moved) if isinstance(n, ast.If)]
    return [*inside, early.under.test] if early.under is not None else inside


@dataclass(frozen=True)
class _Crossing:
    """What the steps are moved over: nothing that reads what they write, or writes what they read.

    ``keepers`` as in the arguments of this kind; ``touching`` tells what else may be crossed, where that is known.
    """

    keepers: frozenset[str]
    touching: Touching | None

    def check(self, source: Source, early: _Early, leads: ast.stmt | None) -> None:
        """``leads`` is the statement whose helper calls backward, if any: the helpers are looked at for themselves."""
        conditions = _conditions(early)
        if any(isinstance(n, ast.Call | ast.NamedExpr | ast.Await) for c in conditions for n in ast.walk(c)):
            raise CannotFix("the condition of the step may have another answer behind the backward call")
        asked = {key(n) for c in conditions for n in ast.walk(c) if isinstance(n, ast.Name | ast.Attribute)}
        names = {key(n) for n in ast.walk(early.optimizer) if isinstance(n, ast.Name | ast.Attribute)}
        if bound := binds_any(early.crossed, names | asked):
            raise CannotFix(f"{bound} is another one behind the backward call")
        for top in early.crossed:
            for node in ast.walk(top):
                if isinstance(node, ast.Return | ast.Break | ast.Continue | ast.Raise | ast.Yield | ast.YieldFrom):
                    raise CannotFix("not every way leads from the step to behind the backward call")
            self._check(source, early, top, leads)

    def check_helper(self, source: Source, function: ast.AST, early: _Early) -> None:
        """The whole of a helper, what stands behind its backward call included: all of it runs before the step now."""
        for top in getattr(function, "body", []):
            self._check(source, early, top, None)

    def _check(self, source: Source, early: _Early, top: ast.stmt, leads: ast.stmt | None) -> None:
        mine = key(early.optimizer)
        for node in ast.walk(top):
            if isinstance(node, ast.Attribute) and node.attr in READS_GRADIENTS:
                raise CannotFix("gradients are read behind the step")
            if isinstance(node, ast.stmt) and is_bare_call(node):
                name, on = method_of(node)
                if name in ("zero_grad", "step") and on is not None and key(on) == mine:
                    raise CannotFix(f"{mine}.{name}() stands between the step and the backward call")
        roots = self.keepers | {key(n).split(".")[0] for n in ast.walk(early.optimizer) if isinstance(n, ast.Name)}
        unknown = self._unknown(source, top, roots, leads)
        if unknown is not None:
            text = ast.unparse(unknown).split("\n")[0]
            raise CannotFix(f"`{text}` stands between, and may use what the step changes")

    def _unknown(self, source: Source, top: ast.stmt, roots: frozenset[str], leads: ast.stmt | None) -> ast.AST | None:
        """The first expression of a statement that may read or change what the step writes."""
        free = leads.value if isinstance(leads, ast.Expr) and leads is top else None
        objects = built_objects(source.tree) if source.tree is not None else frozenset()
        opaque = next((c for c in opaque_calls(top, roots, _KNOWN, objects) if c is not free), None)
        if self.touching is None:
            return opaque
        return self.touching.update(top) or (self.touching.first(top, free) if opaque is not None else None)


def _inputs(
    at: Source, node: ast.Call, source: Source, owner: ast.stmt, learners: int, root: str, frozen: bool
) -> list[Edit]:
    """``inputs=`` with the parameters of the optimizers that step behind the statement that makes this call.

    ``root`` is the one name by which the function of the call knows them, too; empty where it is the same function.
    """
    refuse_weighed(node)
    if has_inputs(node):
        return []
    found = source.node_block(owner)
    stepping: list[str] = []
    for later in found[0][found[1] + 1 :] if found is not None else ():
        method, optimizer = method_of(later)
        if method == "backward":
            break
        if method == "step" and optimizer is not None and is_path(optimizer):
            if root and key(optimizer).split(".")[0] != root:
                break
            stepping.append(source.segment(optimizer))
    if len(stepping) < learners:
        raise CannotFix("which optimizers step with this loss's gradient cannot be seen there")
    return own_inputs(at, node, stepping[:learners], frozen)
