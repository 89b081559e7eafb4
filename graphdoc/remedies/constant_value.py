"""Ways to take a value as a constant: at its use, where it is computed or stored, or in an earlier loss."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from graphdoc.evidence import Event, Evidence, Folded, Frame, Holder, Node, OlderEdge, SourceTexts
from graphdoc.finding import Remedy, together
from graphdoc.program import carried_names, overwrites
from graphdoc.program.bindings import (
    assignments,
    expression_at,
    frame_of,
    function_at,
    names_in,
    source_at,
    statement_at,
    tree,
)
from graphdoc.program.container_entries import FILLING, entry_of, given, kept_at, putting, statements, user_frames
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
from graphdoc.program.reuse import Reuse
from graphdoc.program.spans import code_at, once_a_batch, place, where, within_a_loop
from graphdoc.remedies.recording import open_at_loop
from graphdoc.source.module import each, is_method_call, walked
from graphdoc.source.paths import bare_call, covers, is_name, is_read, key, pairs
from graphdoc.story.older_graph import distinct_carries, earlier_uses, paths_of
from graphdoc.story.wording import folded, listing

OF_THIS_LOSS = "a constant for this loss"
"""In a note on what becomes of a value that one loss takes as it is: others go on to train what lies behind."""


def constant_at_use(
    program: Program,
    carries: Iterable[OlderEdge],
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
    at_use: list[dict[str, Any]] = []
    at_making: list[dict[str, Any]] = []
    each: list[Frame] = []
    again: list[Frame] = []
    blocks: list[dict[str, Any]] = []
    computed: list[Frame] = []
    shown = ""
    for c in distinct_carries(program.nodes, carries):
        producer, consumer = program.node(c.producer), program.node(c.consumer)
        if producer is None or consumer is None:
            continue
        pair = carried_names.handing_on(producer, consumer, c.tensor.holders)
        if pair is None:
            continue
        made, used = pair
        edit, name = _edit_at_use(program, c, (producer, consumer), made, used)
        if edit is not None and not alone and overwrites.is_the_loss_itself(program.evidence.folded, [c]):
            return []
        if edit is not None and edit not in at_use:
            at_use.append(edit)
            if carried_names.beside_the_new(program.sources, c, made, used):
                each += within_a_loop(program.sources, _below_the_call(program.failing, consumer), used)
        shown = shown or name
        own = not use_only and _begins_with_call(program.failing, producer)
        source = _source(program, producer, consumer, made) if own else None
        if source is None:
            continue
        frame, structure = source
        computed.append(frame)
        edit = _where_made(program, c, frame, structure)
        if edit not in at_making:
            at_making.append(edit)
            again += within_a_loop(program.sources, _below_the_call(program.failing, producer), frame)
        edit = {"kind": "no_grad_block", "args": {"place": place(frame)}}
        if edit not in blocks and not trains_below(program.sources, program.evidence.events, frame):
            blocks.append(edit)
    out: list[Remedy] = []
    if at_use:
        at_use, shown = _whole_expressions(program.sources, at_use, shown)
        loss = "the earlier loss" if use_only else "this loss"
        title = f"detach `{shown}` where {loss} uses it"
        out += [replace(r, open=open_at_loop(each)) for r in together(at_use, title, "unsafe", note)]
    if alone or not leaves_nothing(program, computed):
        whole = _made_constant(program.evidence.fresh_reaches, carries, note)
        out += _where_computed(at_making, blocks, whole, open_at_loop(again))
    return out


def _where_computed(
    at_making: list[dict[str, Any]], blocks: list[dict[str, Any]], whole: str, left: str
) -> list[Remedy]:
    """A detach of the values where they are computed, or no recording there at all."""
    out: list[Remedy] = []
    if at_making:
        are = "it is" if len(at_making) == 1 else "they are"
        title = f"detach {_values(at_making)} where {are} computed, at {_places(at_making)}"
        out += [replace(r, open=left) for r in together(at_making, title, "unsafe", whole)]
    if blocks:
        whole = f"{whole} The operations that compute it are not recorded at all."
        title = f"compute {_values(blocks)} under torch.no_grad(), at {_places(blocks)}"
        out += together(blocks, title, "unsafe", whole)
    return out


def _edit_at_use(
    program: Program, c: OlderEdge, nodes: tuple[Node, Node], made: Frame, used: Frame
) -> tuple[dict[str, Any] | None, str]:
    """The cut where the loss takes up what the first of two nodes has made, and what it takes up in words."""
    producer, consumer = nodes
    use = _use(program, c, producer, consumer.stack, made, _inwards(consumer, used))
    if use is not None:
        args = {"place": place(use[0]), "operands": [[use[1], use[2]]]}
        return {"kind": "detach_expression", "args": args}, use[1]
    whole = _whole_use(program, consumer, used)
    return whole, code_at(program.sources, used) if whole is not None else ""


def _ends_learning(program: Program, carries: list[OlderEdge], otherwise: Iterable[str], alone: bool) -> bool:
    """Whether the failing loss would reach nothing that it is to train."""
    evidence, trained = program.evidence, program.trained
    if overwrites.is_needed([*evidence.fresh_reaches, *otherwise], evidence.earlier_edges, carries, trained):
        return True
    if any(c in evidence.earlier_edges for c in carries):
        return False  # the graph that is known is not that of the loss which takes them in so
    left = overwrites.reached_without_nodes(evidence.folded, [c.producer for c in carries])
    return not alone and bool(trained) and left is not None and not {*(trained or ())} & left


def leaves_nothing(program: Program, computed: Sequence[Frame]) -> bool:
    """Whether the failing loss reaches what it is to train through these expressions alone: cut there, what this pass
    computes has no gradient either."""
    left = overwrites.reached_without_values(program.evidence.folded, computed)
    return left is not None and not (left & program.trained if program.trained else left)


def _made_constant(fresh: list[str], carries: list[OlderEdge], note: str) -> str:
    """What a cut where the value is made takes from whom: of a note on this loss alone, what holds for every loss."""
    if OF_THIS_LOSS not in note:
        return note
    behind = folded({name for c in carries for name in c.behind}, beside=fresh)
    whose = (
        f"no gradient reaches {behind} through it"
        if behind
        else "nothing that it was computed from gets gradient through it"
    )
    return f"It becomes a constant for every loss that uses it: {whose}."


def _where_made(program: Program, c: OlderEdge, frame: Frame, structure: Any) -> dict[str, Any]:
    """A detach of what the expression gave; of several values that it gave, the one that is taken up."""
    bound = carried_names.bound_names(program.sources, frame)
    taken = [n for n in carried_names.names_taken_up(program.evidence, c) if n in bound]
    if isinstance(structure, dict) and "tuple" in structure and 0 < len(taken) < len(bound):
        return {"kind": "detach_assigned", "args": {"place": place(frame), "targets": [[n, "tensor"] for n in taken]}}
    return {"kind": "detach_expression", "args": {"place": place(frame), "structure": structure}}


def _values(edits: list[dict[str, Any]]) -> str:
    return "the value" if len(edits) == 1 else "the values"


def _places(edits: list[dict[str, Any]]) -> str:
    """``train.py:94 and train.py:97``."""
    frames = [frame_at(edit["args"]["place"]) for edit in edits]
    return listing(where(f) for f in sorted(frames, key=lambda f: f.start))


def _inwards(node: Node, frame: Frame) -> list[Frame]:
    """The user's frames of a node's stack from this one inwards."""
    frames = user_frames(node.stack)[::-1]
    start = next((i for i, f in enumerate(frames) if f is frame), len(frames))
    return frames[start:]


def _use(
    program: Program, c: OlderEdge, producer: Node, taking: list[Frame], made: Frame, levels: list[Frame]
) -> tuple[Frame, str, Any] | None:
    """Where the loss takes up the value under a name that holds a tensor (or a known nest): place, name, structure."""
    for level, frame in enumerate(levels):
        if place(frame) == place(made) and not once_a_batch(program.driver, program.sources, taking, frame):
            continue  # in a loop over time it would cut within the pass, too
        if level == 0 and (kept_on := carried_names.beside_the_new(program.sources, c, made, frame)):
            return frame, kept_on, "tensor"
        bound = carried_names.names_taken_up(program.evidence, c) if level == 0 else []
        local = carried_names.local_names_of(program.sources, frame, bound) if level == 0 else []
        kept = carried_names.attributes_of_one_object(program.sources, frame, c.tensor.holders)
        paths = [p for p in paths_of(c) if p not in _of_others(c, frame)]
        read = carried_names.operands_in(program.sources, frame, [*bound, *local, *paths])
        parts = carried_names.slices_in(program.sources, frame, [*kept, *bound, *paths])
        for name in dict.fromkeys([*read, *parts]):
            structure = known(program, frame.file, frame.function, name)
            if name in parts and name not in (*read, *kept) and structure != "tensor":
                continue  # an entry of a list, and not a part of a tensor
            if structure is UNKNOWN and name in (*bound, *local):
                structure = named_value_at(program, producer.stack, made, name) if len(bound) == 1 else UNKNOWN
            if structure is UNKNOWN and name in kept:
                structure = "tensor"
            if structure is not None and structure is not UNKNOWN:
                return frame, name, structure
    return None


def _of_others(c: OlderEdge, frame: Frame) -> set[str]:
    """The paths by which other functions know a value where this one knows it by one of its own: what bears such a name
    here is something else (``learn(other, mine)`` of ``def learn(self, mine, other)``)."""
    here = {p for h in c.tensor.holders if carried_names.is_local(h, frame) for p in (h.path, h.base)}
    there = {p for h in c.tensor.holders if not carried_names.is_local(h, frame) for p in (h.path, h.base)}
    return {p for p in there - here if not p.startswith(("self.", "cls."))} if here else set()


def _whole_use(program: Program, consumer: Node, used: Frame) -> dict[str, Any] | None:
    """A detach of what the loss first makes of values that no name holds, where it takes nothing else: of
    ``torch.stack(rows)``. Only a call gives a tensor whatever it is given; what an operator takes may be a number the
    first time."""
    at = user_frames(consumer.stack)
    if not isinstance(expression_at(program.sources, used), ast.Call):
        return None
    if not at or at[0] is not used or not overwrites.takes_only_older(program.evidence.folded, consumer.id):
        return None
    if value_at(program, consumer.stack, used) != "tensor":
        return None
    return {"kind": "detach_expression", "args": {"place": place(used)}}


def _begins_with_call(failing: Event | None, producer: Node) -> bool:
    """Whether the value was made in the thread of the failing call: its stack then begins in the same function.

    Of another thread's the stack begins there, in what may be a helper that runs the whole forward: which calls are of
    this pass and which of an older one it does not tell.
    """
    made = user_frames(producer.stack)
    call = user_frames(failing.stack) if failing is not None else []
    return not made or not call or made[-1].in_function_of(call[-1])


def _below_the_call(failing: Event | None, producer: Node) -> list[Frame]:
    """The user's frames of a node's stack in functions that the failing call does not stand in, outermost first."""
    functions = {(f.file, f.function) for f in (failing.stack if failing is not None else [])}
    return [f for f in user_frames(producer.stack)[::-1] if (f.file, f.function) not in functions]


def _source(program: Program, producer: Node, consumer: Node, made: Frame) -> tuple[Frame, Any] | None:
    """The outermost expression, from the function in which the value is made and used inwards, that gave the tensor.

    Further in, the same line may compute what the failing pass itself needs: a function that this pass calls too is
    left alone.
    """
    known_functions = {(f.file, f.function) for f in producer.stack}
    own = [f for f in user_frames(consumer.stack) if (f.file, f.function) not in known_functions]
    for frame in _inwards(producer, made):
        if frame is not made and calls_into(program.sources, own, frame.function):
            return None
        structure = value_at(program, producer.stack, frame)
        if structure is not None:
            return frame, structure
    return None


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


def in_earlier_loss(run: Evidence, reuse: Reuse, note: str) -> list[Remedy]:
    """The same where only the source shows how the earlier loss used the value."""
    uses = earlier_uses(run, reuse)
    edits: list[dict[str, Any]] = [
        {"kind": "detach_expression", "args": {"place": place(frame), "operands": [[name, "tensor"]]}}
        for frame, name in uses
    ]
    return together(edits, f"detach `{uses[0][1]}` where the earlier loss uses it", "unsafe", note) if edits else []


def frame_at(at: dict[str, Any]) -> Frame:
    return Frame(str(at["file"]), int(at["line"]), int(at.get("column") or 0))


# A loss that takes the older one of two values that bear one name: ``self.score`` of the other update, with ``score``
# computed for this one beside it.


def value_computed_anew(sources: SourceTexts, cut: Remedy) -> list[Remedy]:
    """In place of a cut where the loss uses values: the values that the same function has computed in their place.

    Told where every value that is cut is an attribute, a statement above the loss binds its last name by a call of the
    same function on the same arguments but for their ``detach()``, and nothing that runs with it reads that name.
    """
    edits = cut.parts
    changed: list[dict[str, Any]] = []
    for edit in edits:
        operands = edit["args"].get("operands") if edit["kind"] == "detach_expression" else None
        if not operands or len(operands) != 1:
            return []
        at, path = edit["args"]["place"], str(operands[0][0])
        name = _twin(sources, frame_at(at), path)
        if not name:
            return []
        new = {"kind": "use_instead", "args": {"place": at, "operand": path, "name": name}}
        changed += [new] if new not in changed and not _same_statement(sources, changed, new) else []
    names = {edit["args"]["name"]: edit["args"]["operand"] for edit in changed}
    if len(names) != 1:
        return []
    ((name, path),) = names.items()
    note = (
        f"The loss then uses the value of this update, with its own graph; so far nothing reads `{name}`. `{path}` is "
        "that of the earlier update."
    )
    return together(changed, f"use `{name}`, computed again for this loss, in place of `{path}`", "unsafe", note)


def value_with_its_graph(program: Program, reuse: Reuse, cut: Remedy) -> list[Remedy]:
    """In place of a cut that leaves a term of the loss a constant: the value once more, without the ``detach()`` by
    which it was computed for the other loss, where what was detached has a graph of this pass."""
    operands = cut.args.get("operands") if cut.kind == "detach_expression" else None
    if not operands or len(operands) != 1 or not reuse.carries or not all(c.term for c in reuse.carries):
        return []
    at, name = frame_at(cut.args["place"]), str(operands[0][0])
    made = assignments(program.sources, at, name)
    value = made[0][1] if made and name.isidentifier() else None
    freed = [p for n in walked(value) if (p := _detached(n))] if isinstance(value, ast.Call) else []
    taken = program.node(reuse.carries[0].consumer)
    around = _in_line(taken.stack, at) if taken is not None else None
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
    args = {"place": cut.args["place"], "operand": name, "name": text}
    return [
        Remedy(
            "use_instead", f"compute `{name}` again for this loss, from {paths} with its graph", "unsafe", note, args
        )
    ]


def _in_line(stack: Sequence[Frame], at: Frame) -> Frame | None:
    """The frame of a stack that stands on the line of a place; it knows the function."""
    return next((f for f in stack if (f.file, f.line) == (at.file, at.line)), None)


def _detached(node: ast.AST) -> str:
    """``x`` of ``x.detach()``; empty for anything else."""
    if is_method_call(node, "detach"):
        return key(node.func.value)
    return ""


def _twin(sources: SourceTexts, frame: Frame, path: str) -> str:
    """The name that is assigned again above a loss; empty where there is none."""
    scope = function_at(sources, frame)
    holder, _, name = path.rpartition(".")
    used = statement_around(scope, frame) if scope is not None else None
    if scope is None or used is None or not holder or not name.isidentifier():
        return ""
    reads = [n for n in each(scope, ast.Name) if n.id == name and is_read(n)]
    if not all(_apart(scope, used, n) for n in reads):
        return ""
    bound = [s for s in statements(scope) if any(is_name(t, name) for t, _ in pairs(s))]
    if len(bound) != 1 or bound[0] not in scope.body or bound[0].lineno >= used.lineno:
        return ""
    fresh = next(value for t, value in pairs(bound[0]) if is_name(t, name))
    kept = [
        value
        for s in each(tree(sources, frame.file), ast.Assign)
        if not (scope.lineno <= s.lineno <= (scope.end_lineno or s.lineno))
        for t, value in pairs(s)
        if ast.unparse(t) == path
    ]
    return name if kept and all(_same_call(fresh, value) for value in kept) else ""


def _apart(scope: ast.AST, one: ast.AST, other: ast.AST) -> bool:
    """Whether two parts of a function stand in different arms of one branch, so that only one of them runs."""
    for branch in each(scope, ast.If):
        arms = [{id(n) for s in arm for n in walked(s)} for arm in (branch.body, branch.orelse)]
        if any(id(one) in a and id(other) in b for a, b in (arms, arms[::-1])):
            return True
    return False


def _same_call(new: ast.expr, old: ast.expr) -> bool:
    """Whether the new value is the old one without a ``detach()`` in its arguments."""
    if not (isinstance(new, ast.Call) and isinstance(old, ast.Call)):
        return False
    written = ast.unparse(old)
    return written != ast.unparse(new) and written.replace(".detach()", "") == ast.unparse(new)


def statement_around(scope: ast.AST, frame: Frame) -> ast.stmt | None:
    """The innermost statement around a place."""
    found = [s for s in statements(scope) if covers(s, frame.line)]
    return max(found, key=lambda s: (s.lineno, -(s.end_lineno or s.lineno)), default=None)


def _same_statement(sources: SourceTexts, changed: list[dict[str, Any]], new: dict[str, Any]) -> bool:
    """Whether one of the changes is made in the same statement, where it replaces every such operand."""
    frames = [frame_at(e["args"]["place"]) for e in (*changed, new)]
    scope = function_at(sources, frames[-1])
    if scope is None:
        return False
    last = statement_around(scope, frames[-1])
    return any(f.file == frames[-1].file and statement_around(scope, f) is last for f in frames[:-1])


# A store that a function fills: each entry without its graph as it is stored, or the function without gradients.

DATA = "What is stored is data for the updates; no gradient goes through it."


def tuple_of(kind: str) -> Any:
    return {"tuple": ["tensor", "tensor"]} if kind == "tuple" else {"list": "tensor"} if kind == "list" else None


def stored(run: Evidence, reuse: Reuse) -> list[Remedy]:
    """Cut at the expression that goes into the store: an argument of the call that keeps it."""
    edits: list[dict[str, Any]] = []
    for c in distinct_carries(run.nodes, reuse.carries):
        producer = run.node(c.producer)
        frames = user_frames(producer.stack) if producer is not None else []
        seen: set[tuple[str, str, str]] = set()
        for holder in c.tensor.holders:
            entry = entry_of(holder)
            if entry is None or (told := (entry.container, entry.type, entry.field.key if entry.field else "")) in seen:
                continue
            seen.add(told)
            structure = "tensor" if not entry.rest else None
            if len(entry.rest) == 1 and entry.field is not None:
                structure = tuple_of(entry.field.type)
            found = putting(run.sources, frames, entry) if structure is not None else []
            if not found and producer is not None and structure is not None:
                found = _elsewhere(run, holder, producer)
            for frame, statement in found:
                value = given(run.sources, statement, entry)
                if value is None or isinstance(value, ast.Constant):
                    continue
                at = frame_of(run.sources, frame.file, value, frame.function)
                edit = {"kind": "detach_expression", "args": {"place": place(at), "structure": structure}}
                if edit not in edits:
                    edits.append(edit)
    if not edits:
        return []
    line = where(frame_at(edits[0]["args"]["place"]))
    return together(edits, f"store it detached, at {line}", "unsafe", DATA)


def _elsewhere(run: Evidence, holder: Holder, producer: Node) -> list[tuple[Frame, ast.stmt]]:
    """The one statement that puts a value into its store, where no function that was under way when it was made does
    so: that of a hook."""
    kept = kept_at(run, [holder], producer, failing=False)
    statement = statement_at(run.sources, kept[0] if kept else None)
    call = bare_call(statement)
    puts = is_method_call(call) and call.func.attr in FILLING
    return [(kept[0], statement)] if len(kept) == 1 and statement is not None and puts else []


def no_grad_over_maker(program: Program, reuse: Reuse) -> list[Remedy]:
    """The whole function that filled the store, without gradients.

    Left out: functions in which the training itself runs, those that the update calls too (they compute what it
    trains), and constructors.
    """
    for c in distinct_carries(program.nodes, reuse.carries)[:1]:
        producer, consumer = program.node(c.producer), program.node(c.consumer)
        made = user_frames(producer.stack if producer else [])
        known = {(f.file, f.function) for f in made}
        updating = [f for f in user_frames(consumer.stack if consumer else []) if (f.file, f.function) not in known]
        for frame in made:
            if (
                frame.function == "<module>"
                or frame.function.endswith("__init__")
                or in_training(program.evidence.events, frame)
            ):
                continue
            if calls_into(program.sources, updating, frame.function) or _runs_in(
                program.evidence.folded, updating, frame
            ):
                continue
            return [
                Remedy(
                    "no_grad_decorator",
                    f"fill the store without gradients: @torch.no_grad() on {frame.function}",
                    "unsafe",
                    f"What {frame.function} gives has no graph then; what the updates compute themselves is trained as "
                    "before.",
                    {"place": place(frame)},
                )
            ]
    return []


def _runs_in(folded: Folded | None, updating: list[Frame], maker: Frame) -> bool:
    """Whether the failing graph has a part made in a function below one of these: the update computes with it."""
    above = {(f.file, f.function) for f in updating}
    for part in folded.parts if folded is not None else ():
        path = [(f.file, f.function) for f in part.stack]
        if (maker.file, maker.function) in path and above & set(path[: path.index((maker.file, maker.function))]):
            return True
    return False
