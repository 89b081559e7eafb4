"""When optimizers step, how often their losses are differentiated, and whole updates made before a forward pass."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass

from graphdoc.fixes.fix_kind import Args, CannotFix, Sources, call, kind, plain_backward, required, statement
from graphdoc.fixes.program_slices import changes, check_passed, lift, made_of, may_use, reads, seeds_of, stretch
from graphdoc.fixes.summing import in_own_loop
from graphdoc.source.edits import below, copied, delete, insert_after, insert_before, set_keyword, without_flag, written
from graphdoc.source.effects import READS_GRADIENTS, Touching, built_objects, is_bare_call, method_of, opaque_calls
from graphdoc.source.module import Function, Source, each, has, is_method_call, is_within, walked
from graphdoc.source.paths import bare_call, is_attribute, is_name, is_path, key, last_word, targets_of
from graphdoc.source.places import Edit, Text


def own_inputs(source: Source, call: ast.Call, optimizers: Sequence[str], frozen: bool) -> list[Edit]:
    """Tell a call to give gradient to what these optimizers hold; where some of that is ``frozen``, to the rest: what
    requires no gradient is refused as an input (torch/autograd/__init__.py)."""
    if not is_method_call(call, "backward") or call.args:
        raise CannotFix("the backward call has a gradient of its own")
    if any(k.arg == "inputs" for k in call.keywords):
        return []
    one = len(optimizers) == 1
    groups = f"g in {optimizers[0]}.param_groups"
    several = f"o in ({', '.join(optimizers)}) for g in o.param_groups"
    asked = " if p.requires_grad" if frozen else ""
    return set_keyword(source, call, "inputs", f'[p for {groups if one else several} for p in g["params"]{asked}]')


_ORDER = frozenset({"step", "zero_grad"})


@kind("backward_once", keeps_numbers=True)
def backward_once(sources: Sources, args: Args) -> list[Edit]:
    """Differentiate a loss once for the steps of several optimizers: the second call of ``backward`` goes.

    What sets gradients to zero between the two calls is moved before the first, so that each step uses what that one
    call gave. Nothing else may stand between them that reads or changes gradients, and the loss must be the same.

    Args:
        stays: the call of ``backward`` that stays; ``retain_graph`` is taken out of it.
        goes: the one that goes.
    """
    source, one, first = plain_backward(sources, required(args, "stays"))
    _, other, second = plain_backward(sources, required(args, "goes"))
    loss = one.func.value
    if key(loss) != key(other.func.value):
        raise CannotFix("the two calls are of different losses")
    passed = source.node_between(first, second)
    if passed is None:
        raise CannotFix("the two calls do not stand one after the other in one block")
    check_passed(passed, reads(loss), gradients=READS_GRADIENTS, keepers=frozenset(), known=_ORDER)
    moved = [s for s in passed if method_of(s)[0] == "zero_grad"]
    zeroed, stepped = ({_optimizer(s) for s in passed if method_of(s)[0] == name} for name in ("zero_grad", "step"))
    if again := zeroed & stepped:
        raise CannotFix(f"{min(again)} steps once with each of the two gradients")
    if not moved and not stepped:
        raise CannotFix("the second gradient is added to the first")
    edits = insert_before(source, first, [copied(source, s) for s in moved])
    for gone in (*moved, second):
        edits += delete(source, gone)
    return [*edits, *without_flag(source, one)]


def _optimizer(node: ast.stmt) -> str:
    """What a bare call statement calls a method on; empty for any other statement."""
    on = method_of(node)[1]
    return key(on) if on is not None else ""


_OF_UPDATES = frozenset({"zero_grad", "backward", "step"})


@kind("steps_last", keeps_numbers=True)
def steps_last(sources: Sources, args: Args) -> list[Edit]:
    """Step when both losses have been differentiated: a step between two backward calls is moved behind the second.

    The second call is told which parameters it is for, so that what the first one gave to the optimizer that now steps
    later stays as it is. Both losses are then differentiated with the weights of their own forward pass.

    Args:
        step: the ``step()`` that comes too early.
        others: more of them, of other optimizers; each stays under the condition under which it was made.
        backward: the call of ``backward`` that needs the weights from before them.
        behind: the statement of the steps' function that leads to that call, where it is made in a helper; each of
            them.
        through: the lines of the helpers that lead there, that of the call last.
        apart: where the failing loss takes up nothing of what the steps wrote, as the graph shows: the parts of the
            names of the stepped parameters. What names none of them, in the functions that it calls neither, may then
            be computed before the steps.
        optimizers: last names of the optimizers of the run, for ``apart``.
        inputs: False leaves the second call as it is (it reaches none of the parameters that are stepped too early).
        learners: how many optimizers step with the second call's gradient; each step has to stand behind it.
        frozen: True where some of what the optimizers hold requires no gradient, and can be no input.
        keepers: first names by which the stepped parameters can be reached.
    """
    at, node = call(sources, required(args, "backward"))
    other, owner = statement(sources, args["behind"]) if "behind" in args else (at, at.node_owner(node))
    found = [_early(sources, p, other, owner) for p in (required(args, "step"), *args.get("others", ()))]
    early = sorted(found, key=lambda e: e.moved.lineno)
    assert owner is not None  # _early has refused
    touching = None
    if args.get("apart"):
        trees = [s.tree for s in sources.values()]
        touching = Touching(trees, frozenset(args["apart"]), frozenset(args.get("optimizers") or ()))
    helpers = [_helper(sources, p) for p in args.get("through", ())] if "behind" in args else []
    keepers, free = frozenset(args.get("keepers") or ()), getattr(owner, "value", None) if helpers else None
    for e in early:
        _check_conditions(e)
        _check_crossed(other, e, e.crossed, keepers, touching, free)
        for source, function in helpers:
            # What stands behind its backward call as well: all of it runs before the step now.
            _check_crossed(source, e, function.body, keepers, touching)
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


def _helper(sources: Sources, at: object) -> tuple[Source, Function]:
    source, inside = statement(sources, at)
    function = source.node_function(inside)
    if function is None:
        raise CannotFix("the helper that calls backward is not at hand")
    return source, function


def _is_of_self(owner: ast.stmt, helpers: list[tuple[Source, Function]]) -> bool:
    """Whether the statement calls one method on ``self``, which calls backward itself: both know ``self.optimizer``."""
    _, on = method_of(owner)
    return len(helpers) == 1 and is_name(on, "self")


@dataclass(frozen=True)
class _Early:
    """A step that comes too early: what moves, under which condition, and the statements that it is moved over."""

    optimizer: ast.expr
    moved: ast.stmt
    under: ast.expr | None
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
    parent = source.parents.get(moved)
    crossed: list[ast.stmt] = []
    for top in (moved, parent) if isinstance(parent, ast.If) and moved in parent.body else (moved,):
        block, index = source.node_block(top)
        anchor = lift(source, owner, block)
        crossed += block[index + 1 : None if anchor is None else anchor + 1]
        if anchor is not None and anchor > index:
            under = top.test if isinstance(top, ast.If) and top is not moved else None
            return _Early(optimizer, moved, under, block[anchor], crossed)
    raise CannotFix("the step does not stand before the backward call in one block")


def _whole(source: Source, step: ast.stmt) -> ast.stmt:
    """The step, or the loop or branch that does nothing else than step."""
    above = source.parents.get(step)
    while isinstance(above, ast.For | ast.If) and len(above.body) == 1 and not above.orelse:
        step, above = above, source.parents.get(above)
    return step


def _text(source: Source, early: _Early) -> Text:
    moved = copied(source, early.moved)
    return moved if early.under is None else below(written(source, "if {test}:", test=early.under), [moved])


def _check_conditions(early: _Early) -> None:
    """The conditions that are asked later than they were have the same answer then."""
    conditions = [n.test for n in each(early.moved, ast.If)]
    conditions += [early.under] if early.under is not None else []
    if any(has(c, ast.Call, ast.NamedExpr, ast.Await) for c in conditions):
        raise CannotFix("the condition of the step may have another answer after the backward call")
    check_passed(early.crossed, set().union(*map(reads, (*conditions, early.optimizer))))


def _check_crossed(
    source: Source,
    early: _Early,
    crossed: list[ast.stmt],
    keepers: frozenset[str],
    touching: Touching | None,
    free: ast.AST | None = None,
) -> None:
    """Nothing that the step is moved over reads what it writes, or writes what it reads.

    ``keepers`` as in the arguments of this kind; ``touching`` tells what else may be crossed, where that is known.
    ``free`` is the call of a helper that calls backward: it is looked at for itself.
    """
    roots = keepers | {key(n).split(".")[0] for n in each(early.optimizer, ast.Name)}
    mine, objects = key(early.optimizer), built_objects(source.tree)
    for top in crossed:
        if any(is_attribute(n, *READS_GRADIENTS) for n in walked(top)):
            raise CannotFix("gradients are read after the step")
        own = (s for s in each(top, ast.stmt) if method_of(s)[0] in _ORDER and _optimizer(s) == mine)
        if (found := next(own, None)) is not None:
            raise CannotFix(f"`{ast.unparse(found)}` stands between the step and the backward call")
        unknown: ast.AST | None = next(
            (c for c in opaque_calls(top, roots, _OF_UPDATES, objects) if c is not free), None
        )
        if touching is not None:
            unknown = touching.update(top) or (touching.first(top, free) if unknown is not None else None)
        if unknown is not None:
            raise may_use(unknown)


def _inputs(
    at: Source, node: ast.Call, source: Source, owner: ast.stmt, learners: int, root: str, frozen: bool
) -> list[Edit]:
    """``inputs=`` with the parameters of the optimizers that step behind the statement that makes this call.

    ``root`` is the one name by which the function of the call knows them, too; empty where it is the same function.
    """
    block, index = source.node_block(owner)
    stepping: list[str] = []
    for later in block[index + 1 :]:
        method, optimizer = method_of(later)
        if method == "backward":
            break
        if method == "step" and optimizer is not None and is_path(optimizer):
            if root and key(optimizer).split(".")[0] != root:
                break
            stepping.append(source.segment(optimizer))
    if len(stepping) < learners and not any(k.arg == "inputs" for k in node.keywords):
        raise CannotFix("which optimizers step with this loss's gradient cannot be seen there")
    return own_inputs(at, node, stepping[:learners], frozen)


CLIPS = frozenset({"clip_grad_norm_", "clip_grad_value_"})


def stepping_loop(sources: Sources, args: Args) -> tuple[Source, ast.For, ast.stmt, ast.expr, ast.Call, ast.stmt]:
    """The loop whose body holds ``args["step"]`` behind the call ``args["backward"]``.

    Returns:
        The source, the loop, the step's statement, its optimizer, the backward call, and the statement of the loop's
        body in which that stands.
    """
    source, step = statement(sources, required(args, "step"))
    other, node = call(sources, required(args, "backward"))
    loop = source.parents.get(step)
    method, optimizer = method_of(step)
    if method != "step" or optimizer is None:
        raise CannotFix("the step is part of a larger statement")
    if not isinstance(loop, ast.For) or loop.orelse or other is not source or loop not in source.node_ancestors(node):
        raise CannotFix("the step and the backward call do not stand in one loop")
    own = next((s for s in loop.body if is_within(node, s)), None)
    if own is None or source.node_loop(node) is not loop or loop.body.index(own) >= loop.body.index(step):
        raise CannotFix("the step does not stand after the backward call in the body of the loop")
    return source, loop, step, optimizer, node, own


@kind("step_behind_loop")
def step_behind_loop(sources: Sources, args: Args) -> list[Edit]:
    """Step once behind a loop that differentiates parts of one forward pass, instead of in each of its rounds.

    The rounds' gradients add up, each with the weights of that forward pass; what clears them comes before the loop.

    Args:
        step: the ``step()`` in the loop's body.
        backward: the call of ``backward`` in the same loop.
    """
    source, loop, step, _, _, own = stepping_loop(sources, args)
    before = [s for s in loop.body[: loop.body.index(own)] if method_of(s)[0] == "zero_grad"]
    behind = [s for s in loop.body[loop.body.index(own) + 1 :] if s is step or method_of(s)[0] in {"zero_grad", *CLIPS}]
    moved = [*before, *behind]
    used = set().union(*map(reads, moved))
    if given := used & {key(t) for t in targets_of(loop)}:
        raise CannotFix(f"{min(given)} is another one in each round of the loop")
    staying = [s for s in loop.body if s not in moved]
    check_passed(staying, used, gradients=READS_GRADIENTS | {"step", "zero_grad", "update"})
    edits = [e for s in moved for e in delete(source, s)]
    edits += insert_before(source, loop, [copied(source, s) for s in before])
    return edits + insert_after(source, loop, [copied(source, s) for s in behind])


_OF_ROUNDS = frozenset({"zero_grad", "backward", "step", "parameters", *CLIPS})


@kind("steps_behind_rounds", keeps_numbers=True)
def steps_behind_rounds(sources: Sources, args: Args) -> list[Edit]:
    """Step in a loop of its own, where each round differentiates one loss and steps one optimizer, and a later round's
    loss still needs the weights that an earlier round has stepped.

    Each call is told which parameters it is for, so that no loss adds to the gradient of an optimizer that steps later.
    All losses are then differentiated with the weights of their own forward pass.

    Args:
        step: the ``step()`` in the loop's body.
        backward: the call of ``backward`` in the same loop.
        inputs: False leaves the call as it is (it reaches none of the parameters that are stepped too early).
        frozen: True where some of what the round's optimizer holds requires no gradient, and can be no input.
        keepers: first names by which the stepped parameters can be reached.
    """
    source, loop, step, optimizer, node, _ = stepping_loop(sources, args)
    targets = {key(n) for t in targets_of(loop) for n in each(t, ast.Name)}
    if key(optimizer).split(".")[0].split("[")[0] not in targets:
        raise CannotFix("what a round steps is no variable of its loop")
    behind = in_own_loop(source, loop, [step])
    _check_rounds(source, loop, step, optimizer, targets, frozenset(args.get("keepers") or ()))
    edits = [*delete(source, step), *insert_after(source, loop, [behind])]
    if args.get("inputs", True):
        edits += own_inputs(source, node, [source.segment(optimizer)], bool(args.get("frozen")))
    return edits


def limited_again(source: Source, step: ast.stmt) -> bool:
    """Whether each round limits gradients of more than its own optimizer: those of earlier rounds are there, too."""
    loop = source.node_loop(step)
    if not isinstance(loop, ast.For):
        return False
    names = {n.id for t in targets_of(loop) for n in each(t, ast.Name)}
    clips = [n for n in each(loop, ast.Call) if last_word(n.func) in CLIPS]
    return any(not names & {n.id for a in c.args[:1] for n in each(a, ast.Name)} for c in clips)


def _check_rounds(
    source: Source, loop: ast.For, step: ast.stmt, optimizer: ast.expr, targets: set[str], keepers: frozenset[str]
) -> None:
    """Nothing that stays in the loop acts on what the steps of earlier rounds use or change."""
    staying = [s for s in loop.body if s is not step]
    for top in staying:
        if method_of(top)[0] in _ORDER and _optimizer(top) != key(optimizer):
            raise CannotFix(f"`{source.segment(top)}` would come before the steps of earlier rounds")
    objects = built_objects(source.tree)
    used = {*targets, key(optimizer)}
    check_passed(staying, used, frozenset(), READS_GRADIENTS - CLIPS, keepers | targets, _OF_ROUNDS, objects)


# Make a whole update before a forward pass, so that the later loss uses the weights of now.


_OF_WHOLE_UPDATES = READS_GRADIENTS | frozenset({"backward", "step", "zero_grad", "update", "scale", "unscale_"})


@kind("update_before")
def update_before(sources: Sources, args: Args) -> list[Edit]:
    """Make a whole update before a forward pass, so that the later loss uses the weights of now.

    The update is the backward call of the other loss, the calls up to the step, and a clearing of the same gradients
    beside them; statements behind the forward that this loss is made of come along. What lies between stays and is
    crossed: it must do nothing that the update uses, and use nothing but weights that the update changes.

    Args:
        places: the statements that ran with the old weights.
        steps: the steps that change these weights, each of an update of its own.
        busy: lines of this file at which backward calls, steps and clearings were made in the run.
    """
    steps = [statement(sources, p) for p in required(args, "steps")]
    source, step = steps[-1]
    found = stretch(source, seeds_of(sources, args, source, step), step)
    block, first = found.block, found.seeds[0]
    own = sorted({i for _, s in steps for i in _update(block, s)})
    if own[0] <= first:
        raise CannotFix("the update's own backward call stands before the forward already")
    update = [block[i] for i in own]
    along = made_of(block[first : own[0]], {n for s in update for n in reads(s)})
    if any(block[i] in along for i in found.seeds):
        raise CannotFix("the other loss is made of the same forward pass")
    moved = [*along, *update]
    _check(moved, [s for s in block[first : own[-1]] if s not in moved], frozenset(args.get("busy") or ()))
    edits = insert_before(source, block[first], [copied(source, s) for s in moved])
    return edits + [e for s in moved for e in delete(source, s)]


def _update(block: list[ast.stmt], step: ast.stmt) -> list[int]:
    """The statements from the backward call (and the clearing before it) to the step (and the clearing behind it)."""
    if step not in block:
        raise CannotFix("the step is in a branch or a loop of its own")
    end = block.index(step)
    mine = _optimizer(block[end])
    if not mine:
        raise CannotFix("the step is part of a larger statement")
    start = end
    while start > 0 and method_of(block[start])[0] != "backward":
        start -= 1
        if not is_bare_call(block[start]):
            raise CannotFix("the backward call and the step of the other loss do not stand together")
    if method_of(block[start])[0] != "backward":
        raise CannotFix("no backward call stands before the step")
    while start > 0 and method_of(block[start - 1])[0] == "zero_grad":
        start -= 1
    if end + 1 < len(block) and method_of(block[end + 1])[0] == "zero_grad" and _optimizer(block[end + 1]) == mine:
        end += 1
    return list(range(start, end + 1))


def _check(moved: list[ast.stmt], crossed: list[ast.stmt], busy: frozenset[int]) -> None:
    """Neither uses what the other writes, but for the weights and gradients that the update is there for."""
    used = {n for s in moved for n in reads(s)}
    check_passed(crossed, used, {n for s in moved for n in changes(s)}, _OF_WHOLE_UPDATES)
    for node in crossed:
        text = ast.unparse(node).split("\n")[0]
        if busy & {*range(node.lineno, (node.end_lineno or node.lineno) + 1)}:
            raise CannotFix(f"`{text}` takes part in an update, and would come after this one")
        if is_bare_call(node) and not _only_tells(node, used):
            raise CannotFix(f"`{text}` stands between, and may change what the update uses")


def _only_tells(node: ast.stmt, used: set[str]) -> bool:
    """Whether a call that stands alone prints, or puts into a list that the update has no use for."""
    method, on = method_of(node)
    if on is not None:
        return method in ("append", "extend", "update") and key(on) not in used
    call = bare_call(node)
    return call is not None and is_name(call.func, "print")
