"""Ways to take a value as a constant: at its use, where it is computed or stored, or in an earlier loss."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from graphdoc.evidence import Event, Frame, Holder, SourceTexts
from graphdoc.finding import Remedy, each_once, edit_at, remedy_at, together
from graphdoc.program import carried_names, overwrites
from graphdoc.program.bindings import (
    assignments,
    expression_at,
    frame_of,
    function_at,
    names_in,
    source_at,
    statement_at,
)
from graphdoc.program.carried_names import Carried, by_places
from graphdoc.program.container_entries import FILLING, entry_of, given, kept_at, putting, user_frames
from graphdoc.program.expression_values import (
    UNKNOWN,
    calls_into,
    in_training,
    known,
    named_value_at,
    trains_below,
    value_at,
)
from graphdoc.program.observed import Program
from graphdoc.program.reuse import Reuse, Role
from graphdoc.program.spans import code_at, once_a_batch, place, where, within_a_loop
from graphdoc.remedies.fix_places import frame_at
from graphdoc.remedies.recording import open_at_loop
from graphdoc.source.module import is_method_call, walked
from graphdoc.source.paths import bare_call, key
from graphdoc.story.older_graph import earlier_uses
from graphdoc.story.wording import folded, listing

OF_THIS_LOSS = "a constant for this loss"
"""In a note on what becomes of a value that one loss takes as it is: others go on to train what lies behind."""


def constant_note(reuse: Reuse) -> str:
    """What a detach takes from whom."""
    whose = folded(reuse.behind, beside=reuse.fresh)
    if reuse.role is Role.DATA:
        owners = reuse.journal.owners
        idle = not any(o.steps for o in owners.optimizers if o.id in owners.holding(reuse.behind))
        unstepped = ", and no optimizer steps them here" if idle else " through it"
        return f"It becomes a constant: {whose} get no gradient{unstepped}."
    if not whose:
        return f"It becomes {OF_THIS_LOSS}; nothing that it was computed from gets gradient."
    one = len(reuse.behind) == 1
    kept = f", and keep{'s' if one else ''} what {'its' if one else 'their'} own loss gives {'it' if one else 'them'}"
    # Only where another loss trains them: in their own one they may well get gradient through this value alone.
    beside = kept if reuse.role is Role.TARGET or reuse.coupling is not None else ""
    return f"It becomes {OF_THIS_LOSS}: {whose} get{'s' if one else ''} no gradient from it{beside}."


def constant_at_use(
    program: Program,
    carries: Iterable[Carried],
    note: str,
    *,
    use_only: bool = False,
    otherwise: Iterable[str] = (),
    alone: bool = False,
) -> list[Remedy]:
    """Take the value as a constant where the failing (or the earlier) loss uses it; the ways in order of reach.

    None where all that the failing loss is to train lies behind it: then the connection is needed. With ``use_only``
    the other loss trains what lies behind through the same value: cut where it is computed, it would teach nothing.
    ``otherwise`` are parameters that the failing loss is known to reach without the value. ``alone``: also where
    the loss learns from the value alone.
    """
    carries = list(carries)
    if _ends_learning(program, carries, otherwise, alone):
        return []
    sources, failing = program.sources, program.failing
    values = [(c, *c.handing_on) for c in by_places(carries) if c.handing_on is not None]
    uses = [(c, made, used, *_edit_at_use(program, c, made, used)) for c, made, used in values]
    cut = [(c, made, used, edit) for c, made, used, edit, _ in uses if edit is not None]
    if not alone and any(overwrites.is_the_loss_itself(program.evidence.folded, [c]) for c, *_ in cut):
        return []
    out: list[Remedy] = []
    if cut:
        shown = next((name for *_, name in uses if name), "")
        at_use, shown = _whole_expressions(sources, each_once([edit for *_, edit in cut]), shown)
        beside = [(_below_the_call(failing, c.using), used) for c, made, used, _ in cut if c.beside_the_new(made, used)]
        loops = [loop for chain, used in beside for loop in within_a_loop(sources, chain, used)]
        loss = "the earlier loss" if use_only else "this loss"
        title = f"detach `{shown}` where {loss} uses it"
        out += [replace(r, open=open_at_loop(loops)) for r in together(at_use, title, "unsafe", note)]
    own = [(c, made) for c, made, _ in values if not use_only and _begins_with_call(failing, c.making)]
    computed = [(c, *source) for c, made in own if (source := _source(program, c, made)) is not None]
    if alone or not ends_a_way(program, [frame for _, frame, _ in computed]):
        out += _where_computed(program, computed, _made_constant(program.evidence.fresh_reaches, carries, note))
    return out


def _where_computed(program: Program, computed: list[tuple[Carried, Frame, Any]], whole: str) -> list[Remedy]:
    """A detach of the values where they are computed, or no recording there at all."""
    out: list[Remedy] = []
    sources, events = program.sources, program.evidence.events
    if at_making := each_once([_where_made(program, *one) for one in computed]):
        chains = [(_below_the_call(program.failing, c.making), frame) for c, frame, _ in computed]
        left = open_at_loop([loop for chain, frame in chains for loop in within_a_loop(sources, chain, frame)])
        value, are = ("value", "it is") if len(at_making) == 1 else ("values", "they are")
        title = f"detach the {value} where {are} computed, at {_places(at_making)}"
        out += [replace(r, open=left) for r in together(at_making, title, "unsafe", whole)]
    if blocks := each_once(
        [edit_at("no_grad_block", f) for _, f, _ in computed if not trains_below(sources, events, f)]
    ):
        whole = f"{whole} The operations that compute it are not recorded at all."
        title = f"compute the value{'s' * (len(blocks) > 1)} under torch.no_grad(), at {_places(blocks)}"
        out += together(blocks, title, "unsafe", whole)
    return out


def _edit_at_use(program: Program, c: Carried, made: Frame, used: Frame) -> tuple[dict[str, Any] | None, str]:
    """The cut where the loss takes up the value, and what it takes up in words."""
    use = _use(program, c, made, _inwards(c.using, used))
    if use is not None:
        return edit_at("detach_expression", use[0], operands=[[use[1], use[2]]]), use[1]
    whole = _whole_use(program, c, used)
    return whole, code_at(program.sources, used) if whole is not None else ""


def _ends_learning(program: Program, carries: list[Carried], otherwise: Iterable[str], alone: bool) -> bool:
    """Whether the failing loss would reach nothing that it is to train."""
    evidence, trained = program.evidence, program.trained
    if overwrites.is_needed([*evidence.fresh_reaches, *otherwise], carries, trained):
        return True
    if any(c.is_of_earlier_loss for c in carries):
        return False  # the graph that is known is not that of the loss which takes them in so
    left = overwrites.reached_without_nodes(evidence.folded, [c.producer for c in carries])
    return not alone and bool(trained) and left is not None and not {*(trained or ())} & left


def ends_a_way(program: Program, computed: Sequence[Frame]) -> bool:
    """Whether the failing loss reaches something that it is to train, by what was computed since the latest backward
    call, through these places alone: cut there, this pass trains that no more. Where it is not known what the loss is
    to train, whether it would reach nothing at all."""
    left = overwrites.reached_without_values(program.evidence.folded, computed)
    if left is None or program.trained is None:
        return left is not None and not left
    return not left & program.trained or not left >= program.trained & {*program.evidence.fresh_reaches}


def _made_constant(fresh: list[str], carries: list[Carried], note: str) -> str:
    """What a cut where the value is made takes from whom: of a note on this loss alone, what holds for every loss."""
    if OF_THIS_LOSS not in note:
        return note
    behind = folded({name for c in carries for name in c.behind}, beside=fresh)
    whose = "nothing that it was computed from gets gradient through it"
    if behind:
        whose = f"no gradient reaches {behind} through it"
    return f"It becomes a constant for every loss that uses it: {whose}."


def _where_made(program: Program, c: Carried, frame: Frame, structure: Any) -> dict[str, Any]:
    """A detach of what the expression gave; of several values that it gave, the one that is taken up."""
    bound = carried_names.bound_names(program.sources, frame)
    taken = [n for n in c.names_taken_up if n in bound]
    if isinstance(structure, dict) and "tuple" in structure and 0 < len(taken) < len(bound):
        return edit_at("detach_assigned", frame, targets=[[n, "tensor"] for n in taken])
    return edit_at("detach_expression", frame, structure=structure)


def _places(edits: list[dict[str, Any]]) -> str:
    """``train.py:94 and train.py:97``."""
    frames = map(frame_at, edits)
    return listing(where(f) for f in sorted(frames, key=lambda f: f.start))


def _inwards(frames: list[Frame], frame: Frame) -> list[Frame]:
    """Of the user's frames of a node, innermost first, those from one inwards, the outermost first."""
    start = next((i for i, f in enumerate(frames) if f is frame), -1)
    return frames[: start + 1][::-1]


def _use(program: Program, c: Carried, made: Frame, levels: list[Frame]) -> tuple[Frame, str, Any] | None:
    """Where the loss takes up the value under a name that holds a tensor (or a known nest): place, name, structure."""
    for level, frame in enumerate(levels):
        if place(frame) == place(made) and not once_a_batch(program.driver, program.sources, c.using[::-1], frame):
            continue  # in a loop over time it would cut within the pass, too
        if level == 0 and (kept_on := c.beside_the_new(made, frame)):
            return frame, kept_on, "tensor"
        bound = c.names_taken_up if level == 0 else []
        local = carried_names.local_names_of(program.sources, frame, bound) if level == 0 else []
        kept = carried_names.attributes_of_one_object(program.sources, frame, c.holders)
        paths = [p for p in c.paths if p not in _of_others(c, frame)]
        read = carried_names.operands_in(program.sources, frame, [*bound, *local, *paths])
        parts = carried_names.slices_in(program.sources, frame, [*kept, *bound, *paths])
        for name in dict.fromkeys([*read, *parts]):
            structure = known(program, frame.file, frame.function, name)
            if name in parts and name not in (*read, *kept) and structure != "tensor":
                continue  # an entry of a list, and not a part of a tensor
            if structure is UNKNOWN and name in (*bound, *local):
                structure = named_value_at(program, c.made.stack, made, name) if len(bound) == 1 else UNKNOWN
            if structure is UNKNOWN and name in kept:
                structure = "tensor"
            if structure is not None and structure is not UNKNOWN:
                return frame, name, structure
    return None


def _of_others(c: Carried, frame: Frame) -> set[str]:
    """The paths by which other functions know a value where this one knows it by one of its own: what bears such a name
    here is something else (``learn(other, mine)`` of ``def learn(self, mine, other)``)."""
    here = {p for h in c.holders if carried_names.is_local(h, frame) for p in (h.path, h.base)}
    there = {p for h in c.holders if not carried_names.is_local(h, frame) for p in (h.path, h.base)}
    return {p for p in there - here if not p.startswith(("self.", "cls."))} if here else set()


def _whole_use(program: Program, c: Carried, used: Frame) -> dict[str, Any] | None:
    """A detach of what the loss first makes of values that no name holds, where it takes nothing else: of
    ``torch.stack(rows)``. Only a call gives a tensor whatever it is given; what an operator takes may be a number the
    first time."""
    if not isinstance(expression_at(program.sources, used), ast.Call) or c.taken is None or c.using[0] is not used:
        return None
    if not overwrites.takes_only_older(program.evidence.folded, c.consumer):
        return None
    if value_at(program, c.taken.stack, used) != "tensor":
        return None
    return edit_at("detach_expression", used)


def _begins_with_call(failing: Event | None, made: list[Frame]) -> bool:
    """Whether the value was made in the thread of the failing call: its stack then begins in the same function.

    Of another thread's the stack begins there, in what may be a helper that runs the whole forward: which calls are of
    this pass and which of an older one it does not tell.
    """
    call = user_frames(failing.stack) if failing is not None else []
    return not made or not call or made[-1].in_function_of(call[-1])


def _below_the_call(failing: Event | None, frames: list[Frame]) -> list[Frame]:
    """Of the user's frames of a node those in functions that the failing call does not stand in, outermost first."""
    functions = {(f.file, f.function) for f in (failing.stack if failing is not None else [])}
    return [f for f in frames[::-1] if (f.file, f.function) not in functions]


def _source(program: Program, c: Carried, made: Frame) -> tuple[Frame, Any] | None:
    """The outermost expression, from the function in which the value is made and used inwards, that gave the tensor.

    Further in, the same line may compute what the failing pass itself needs: a function that this pass calls too is
    left alone.
    """
    for frame in _inwards(c.making, made):
        if frame is not made and calls_into(program.sources, _pass_alone(c), frame.function):
            return None
        structure = value_at(program, c.made.stack, frame)
        if structure is not None:
            return frame, structure
    return None


def _pass_alone(c: Carried) -> list[Frame]:
    """The user's frames of the value's use in functions that were not under way when it was made."""
    known = {(f.file, f.function) for f in c.made.stack}
    return [f for f in c.using if (f.file, f.function) not in known]


def _whole_expressions(
    sources: SourceTexts, edits: list[dict[str, Any]], shown: str
) -> tuple[list[dict[str, Any]], str]:
    """One detach of ``(a - b)`` for those of ``a`` and ``b``, where the expression is made of nothing else."""
    by_place: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for edit in edits:
        by_place.setdefault(tuple(edit["args"]["place"].values()), []).append(edit)
    out: list[dict[str, Any]] = []
    for group in by_place.values():
        at = group[0]["args"]["place"]
        names = {operand[0] for edit in group for operand in edit["args"].get("operands", ())}
        frame = Frame(**at)
        source, found = source_at(sources, frame), expression_at(sources, frame)
        if len(names) > 1 and isinstance(found, ast.BinOp) and names.issuperset(source.operands(at)):
            out.append({"kind": "detach_expression", "args": {"place": at}})
            bound = carried_names.bound_names(sources, frame)
            shown = bound[0] if bound else source.segment(found)
        else:
            out += group
    return out, shown


def in_earlier_loss(reuse: Reuse, note: str) -> list[Remedy]:
    """The same where only the source shows how the earlier loss used the value."""
    uses = earlier_uses(reuse)
    edits = [edit_at("detach_expression", frame, operands=[[name, "tensor"]]) for frame, name in uses]
    return together(edits, f"detach `{uses[0][1]}` where the earlier loss uses it", "unsafe", note) if edits else []


def value_with_its_graph(program: Program, reuse: Reuse, cut: Remedy) -> list[Remedy]:
    """In place of a cut that leaves a term of the loss a constant: the value once more, without the ``detach()`` by
    which it was computed for the other loss, where what was detached has a graph of this pass."""
    operands = cut.args.get("operands") if cut.kind == "detach_expression" else None
    if not operands or len(operands) != 1 or not reuse.carries or not all(c.term for c in reuse.carries):
        return []
    at, name = frame_at(cut.parts[0]), str(operands[0][0])
    made = assignments(program.sources, at, name)
    value = made[0][1] if made and name.isidentifier() else None
    freed = [p for n in walked(value) if (p := _detached(n))] if isinstance(value, ast.Call) else []
    around = next((f for f in reuse.carries[0].using if f.start[:2] == at.start[:2]), None)
    known = {t.path: t for t in reversed(program.tensors) if around is not None and t.function == around.function}
    if value is None or not freed or not all(p in known and known[p].requires_grad for p in freed):
        return []
    read = {n for n in names_in(value) if n.isidentifier()}
    between = [f for n in read for f, _ in assignments(program.sources, at, n) if made[0][0].line < f.line < at.line]
    if between:
        return []
    text = ast.unparse(value).replace(".detach()", "")
    whose, paths = folded(reuse.behind), listing(f"`{p}`" for p in dict.fromkeys(freed))
    note = (
        f"`{name}` was computed from {paths} detached: detached as well, it would leave this term without a gradient. "
        f"Computed again it trains what {paths} came from; {whose} get gradient from it as well, which their own "
        "update has to clear."
    )
    title = f"compute `{name}` again for this loss, from {paths} with its graph"
    return [*remedy_at(at, "use_instead", title, "unsafe", note, operand=name, name=text)]


def _detached(node: ast.AST) -> str:
    """``x`` of ``x.detach()``; empty for anything else."""
    if is_method_call(node, "detach"):
        return key(node.func.value)
    return ""


# A store that a function fills: each entry without its graph as it is stored, or the function without gradients.

DATA = "What is stored is data for the updates; no gradient goes through it."


def tuple_of(kind: str) -> Any:
    return {"tuple": ["tensor", "tensor"]} if kind == "tuple" else {"list": "tensor"} if kind == "list" else None


def stored(reuse: Reuse) -> list[Remedy]:
    """Cut at the expression that goes into the store: an argument of the call that keeps it."""
    edits: list[dict[str, Any]] = []
    sources = reuse.sources
    for c in reuse.values:
        seen: set[tuple[str, str, str]] = set()
        for holder in c.holders:
            entry = entry_of(holder)
            if entry is None or (told := (entry.container, entry.type, entry.field.key if entry.field else "")) in seen:
                continue
            seen.add(told)
            structure = "tensor" if not entry.rest else None
            if len(entry.rest) == 1 and entry.field is not None:
                structure = tuple_of(entry.field.type)
            found = putting(sources, c.making, entry) if structure is not None else []
            if not found and structure is not None:
                found = _elsewhere(c, holder)
            for frame, statement in found:
                value = given(sources, statement, entry)
                if value is None or isinstance(value, ast.Constant):
                    continue
                at = frame_of(sources, frame, value)
                edits.append(edit_at("detach_expression", at, structure=structure))
    return stored_detached(edits)


def stored_detached(cuts: list[dict[str, Any]]) -> list[Remedy]:
    """These cuts of what goes into a store, told by the first of them."""
    line = ", ".join(where(frame_at(cut)) for cut in cuts[:1])
    return together(cuts, f"store it detached, at {line}", "unsafe", DATA)


def _elsewhere(c: Carried, holder: Holder) -> list[tuple[Frame, ast.stmt]]:
    """The one statement that puts a value into its store, where no function that was under way when it was made does
    so: that of a hook."""
    kept = kept_at(c.run, [holder], c.made, failing=False)
    statement = statement_at(c.run.sources, kept[0] if kept else None)
    call = bare_call(statement)
    puts = is_method_call(call) and call.func.attr in FILLING
    return [(kept[0], statement)] if len(kept) == 1 and statement is not None and puts else []


def no_grad_over_maker(program: Program, reuse: Reuse) -> list[Remedy]:
    """The whole function that filled the store, without gradients.

    Left out: functions in which the training itself runs, those that the update calls too (they compute what it
    trains), and constructors.
    """
    for c in reuse.values[:1]:
        updating = _pass_alone(c)
        for frame in c.making:
            builds = frame.function == "<module>" or frame.function.endswith("__init__")
            if builds or in_training(program.evidence.events, frame):
                continue
            body = function_at(program.sources, frame)
            below = [frame_of(program.sources, frame, body)] if body is not None else []
            if calls_into(program.sources, updating, frame.function) or ends_a_way(program, below):
                continue
            title = f"fill the store without gradients: @torch.no_grad() on {frame.function}"
            note = f"What {frame.function} gives has no graph then; what the updates compute themselves is trained as "
            return [*remedy_at(frame, "no_grad_decorator", title, "unsafe", f"{note}before.")]
    return []
