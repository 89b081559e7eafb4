"""Where to bound the gradient's norm: where it is complete, behind unscaling, in front of the step."""

from __future__ import annotations

import ast
from typing import Any

from graphdoc.evidence import Event, Frame, Sign, SourceTexts
from graphdoc.finding import Remedy, edit_at, together
from graphdoc.program import bindings
from graphdoc.program.bad_values import Trouble
from graphdoc.program.bindings import source_at
from graphdoc.program.observed import Program
from graphdoc.program.spans import code_at, innermost_at, innermost_user, level_of, place, user_line
from graphdoc.source.effects import calls_method
from graphdoc.source.module import each, is_method_call, is_within, walked
from graphdoc.source.paths import last_word, parse_expression, plain_names
from graphdoc.source.places import Place
from graphdoc.source.scopes import imported_as

USUAL = "1.0"
_UPDATES = ("step", "backward", "zero_grad")


def backward_of(events: list[Event], trouble: Trouble) -> Frame | None:
    """The backward call whose gradients nothing bounds: the one that met the bad value, or the last before it."""
    if trouble.what in ("loss", "gradient"):
        return innermost_user(trouble.call)
    return user_line(_last(events, "backward"))


def step_behind(events: list[Event], trouble: Trouble) -> Frame | None:
    """The step of the optimizer that uses them."""
    return user_line(_step(events, trouble))


def _step(events: list[Event], trouble: Trouble) -> Event | None:
    """The last step where the gradient that grew most is used; None where several optimizers step and none is known to
    have grown."""
    at = innermost_user(trouble.grown_step)
    if at is None and len({e.optimizer for e in events if e.kind == "step"}) > 1:
        return None
    return _last(events, "step", at)


def clipping(program: Program, trouble: Trouble) -> tuple[Remedy, ...]:
    """``clip_grad_norm_`` between the two, behind ``unscale_`` where there is a scaler."""
    last = _step(program.evidence.events, trouble)
    step = user_line(last)
    if last is None or step is None:
        return ()
    parameters = parameters_of(program, step, last.optimizer)
    if not parameters:
        return ()
    scaler = _scaler(program.sources, program.evidence.extras)
    texts = [f"{_utils(program.sources, step)}.clip_grad_norm_({parameters}, {USUAL})"]
    if scaler:
        texts.insert(0, f"{scaler[0]}.unscale_({scaler[1]})")
    edits: list[dict[str, Any]] = [edit_at("add_statement", step, statement=t, before=True) for t in texts]
    note = "The direction of each step's gradient is kept, its length is bounded."
    title = "Clip the norm of the gradients before the step"
    return tuple(together(edits, title, "unsafe", note))


def clip_beside(sources: SourceTexts, sign: Sign) -> Frame | None:
    """The call that bounds the gradients: in the function of the call it has to change places with, where it goes
    through helpers of the program that do nothing else to them, and whose value nothing takes; else its innermost
    place."""
    inner, other = innermost_user(sign.stack), innermost_user(sign.other)
    level = level_of(sign.stack, sign.other)
    if inner is None or level is None or level[1] != other or other in sign.stack:
        return inner  # one line of the program leads to both: a package calls them
    users = [f for f in sign.stack if f.user]
    helpers = [bindings.function_at(sources, f) for f in users[users.index(level[0]) + 1 :]]
    alone = not helpers or isinstance(bindings.statement_at(sources, level[0]), ast.Expr)
    return level[0] if alone and all(h is not None and not calls_method(h, *_UPDATES) for h in helpers) else inner


def moved_with(sources: SourceTexts, clip: Frame, other: Frame) -> dict[str, object]:
    """The place of the statement that has to move for the clipping to move beside ``other``: the call's own, or the
    ``if`` around it that asks whether to clip at all.
    """
    source = source_at(sources, clip)
    node, anchor = source.node_statement(Place.of(clip)), source.node_statement(Place.of(other))
    beside = source.node_block(anchor)[0] if anchor is not None and clip.file == other.file else None
    while beside is not None and node is not None and source.node_block(node)[0] is not beside:
        above = source.parents.get(node)
        if not isinstance(above, ast.If) or above.orelse or any(calls_method(s, *_UPDATES) for s in above.body):
            return place(clip)
        node = above
    return vars(source.place(node)) if isinstance(node, ast.If) else place(clip)


def _last(events: list[Event], kind: str, at: Frame | None = None) -> Event | None:
    """The last event of this kind in the user's code; at this place, where one is given."""
    found = ((innermost_user(e.stack), e) for e in reversed(events) if e.kind == kind)
    return next((e for frame, e in found if frame is not None and at in (None, frame)), None)


def parameters_of(program: Program, step: Frame, optimizer: int) -> str:
    """How the program names the parameters in the function that steps: those of one module that it knows there, if
    the optimizer holds just these; else all that the optimizer holds.
    """
    held = program.evidence.optimizer(optimizer)
    owner = {name.partition(".")[0] for name in held.parameters} if held is not None else set()
    if held is not None and len(owner) == 1:
        name = owner.pop()
        every = {p.name for p in program.parameters if p.name.startswith(f"{name}.") and not p.buffer}
        if every and every == set(held.parameters) and _knows(program.sources, step, name):
            return f"{name}.parameters()"
    name = _optimizer_name(program.sources, step)
    return f"[p for group in {name}.param_groups for p in group['params']]" if name else ""


def _knows(sources: SourceTexts, step: Frame, name: str) -> bool:
    """Whether the function that steps reads this name, and it is no class: what no name leads to goes by its class."""
    whole, scope = bindings.tree(sources, step.file), bindings.scope_at(sources, step)
    if any(name in _classes(n) for n in walked(whole)):
        return False
    return name in plain_names(scope)


def _classes(node: ast.AST) -> set[str]:
    """What a statement defines or imports."""
    if isinstance(node, ast.ClassDef):
        return {node.name}
    if isinstance(node, ast.Import | ast.ImportFrom):
        return {(a.asname or a.name).partition(".")[0] for a in node.names}
    return set()


def _utils(sources: SourceTexts, step: Frame) -> str:
    """``torch.nn.utils`` as this file can say it."""
    source = source_at(sources, step)
    torch = imported_as(source, "torch")
    return f"{torch}.nn.utils" if torch else imported_as(source, "torch.nn.utils") or "torch.nn.utils"


def _optimizer_name(sources: SourceTexts, step: Frame) -> str:
    """``optimizer`` of ``optimizer.step()``."""
    node = parse_expression(code_at(sources, step))
    if not is_method_call(node, "step"):
        return ""
    if node.args and isinstance(node.args[0], ast.Name | ast.Attribute):
        return ast.unparse(node.args[0])  # scaler.step(optimizer)
    return ast.unparse(node.func.value)


def _scaler(sources: SourceTexts, extras: dict[str, Any]) -> tuple[str, str] | None:
    """The scaler and the optimizer of ``scaler.step(optimizer)``, where gradients have not been unscaled before it."""
    calls = extras.get("scaler") or []
    kinds = [c.get("kind") for c in calls]
    if "step" not in kinds:
        return None
    frame = _users_frame(calls[kinds.index("step")])
    # ``step`` calls ``unscale_`` by itself where nobody has: that comes too late for a bound.
    if any(c.get("kind") == "unscale_" and _users_frame(c) != frame for c in calls):
        return None
    node = parse_expression(code_at(sources, frame)) if frame is not None else None
    if is_method_call(node) and node.args:
        return ast.unparse(node.func.value), ast.unparse(node.args[0])
    return None


def _users_frame(call: dict[str, Any]) -> Frame | None:
    return innermost_at([f for f in call["stack"] if f.get("user")])


# Where a gradient is complete: behind what changes it after the backward call, in front of what throws it away.

_CHANGES = frozenset({"clip_grad_norm_", "clip_grad_value_", "clip_grad_norm", "unscale_"})
"""What is called on a gradient before it is used."""
_ENDS = frozenset({"backward", "zero_grad", "step"})


def step_place(sources: SourceTexts, backward: Frame, cleared: Frame | None) -> tuple[Place, bool]:
    """The statement beside which a step belongs, and whether it goes in front of it.

    Gradients that are added up over several calls are thrown away under a condition of its own: they are complete in
    front of that. Otherwise they are behind the call, and behind what clips or scales them there.
    """
    source = source_at(sources, backward)
    call = source.node_statement(Place.of(backward))
    if call is None:
        return Place.of(backward), False
    block, at = source.node_block(call)
    thrown = source.node_statement(Place.of(cleared)) if cleared is not None and cleared.file == backward.file else None
    anchor = call
    for later in block[at + 1 :]:
        if thrown is not None and thrown is not later and is_within(thrown, later):
            return source.place(thrown), True
        called = {last_word(n.func) for n in each(later, ast.Call)}
        if called & _ENDS:
            break
        anchor = later if called & _CHANGES else anchor
    return (source.place(anchor), False) if anchor is not call else (Place.of(backward), False)
