"""Ways to keep the numbers of a carried or stored value without its graph."""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from typing import Any

from graphdoc.evidence import Frame, Holder, Node, OlderEdge, SourceTexts
from graphdoc.finding import Remedy
from graphdoc.program.bindings import frame_of, function_around, tree
from graphdoc.program.carried_names import carrier_of, could_carry, is_local, stored_on
from graphdoc.program.expression_values import UNKNOWN, known, value_at
from graphdoc.program.keeping_statements import kept_name
from graphdoc.program.kept_containers import is_one_container
from graphdoc.program.loop_owner import inside, is_at
from graphdoc.program.observed import Program
from graphdoc.program.resets import resets_of
from graphdoc.program.reuse import Reuse
from graphdoc.program.roles import Role
from graphdoc.program.rounds_of_step import of_one_step
from graphdoc.program.spans import code_at, in_function, place, where
from graphdoc.program.step_blocks import behind_the_step, started_again
from graphdoc.program.stored_values import element_of, kept_at, user_frames
from graphdoc.program.value_reads import bound_names, read_behind
from graphdoc.remedies.begun_anew import begun_anew
from graphdoc.remedies.constant_value import constant_at_use, frame_at, leaves_nothing
from graphdoc.remedies.copied_data import copy_of_entry
from graphdoc.remedies.fed_back import detach_fed_back
from graphdoc.remedies.filled_store import tuple_of
from graphdoc.remedies.generator_state import detach_behind_yield
from graphdoc.remedies.kept_in_modules import FEW, detach_in_entries, detach_in_modules
from graphdoc.remedies.lost_gradient import stops_there
from graphdoc.remedies.merged_backward import merge
from graphdoc.remedies.renewed_state import detach_before_use, detach_behind_renewal, renewed_by_others, renewed_outside
from graphdoc.remedies.reset_in_place import detach_at_reset
from graphdoc.remedies.sum_of_one_pass import sum_started_anew
from graphdoc.remedies.sum_of_rounds import sum_of_rounds
from graphdoc.source.paths import covers
from graphdoc.story.older_graph import distinct_carries


def from_carrying(program: Program, reuse: Reuse, constant: str) -> list[Remedy]:
    """For a value that goes from one iteration to the next: cut once in each, behind the step where that can be."""
    if resets := resets_of(program.sources, program.nodes, reuse.carries, reuse.failing):
        return detach_at_reset(resets, detach_behind_step(program, reuse))
    kept = detach_where_kept(program, reuse)
    read = any(_read_on(program.sources, edit) for r in kept for edit in r.args["edits"])
    at_use = constant_at_use(program, reuse.carries, constant)
    # What the pass itself reads on under the name that keeps it loses its gradient where it is kept.
    ways = [
        *(merge(reuse) if of_one_step(program, reuse) else []),
        *sum_started_anew(program, reuse),
        *sum_of_rounds(program, reuse),
        *copy_of_entry(program.sources, program.nodes, reuse),
        *detach_behind_step(program, reuse),
        *detach_fed_back(program, reuse),
        *detach_behind_yield(program, reuse),
        *([*at_use, *kept] if read else [*kept, *at_use]),
    ]
    if reuse.role is Role.REFERENCE and reuse.fitted:
        ways = [replace(r, open="the loss then learns through its target alone") for r in ways]
    return ways


def _read_on(sources: SourceTexts, edit: dict[str, Any]) -> bool:
    """Whether the function that keeps a value goes on to compute with it under that name."""
    at = frame_at(edit["args"]["place"])
    return any(read_behind(sources, at, path) for path, _ in edit["args"]["targets"])


def detach_behind_step(program: Program, reuse: Reuse) -> list[Remedy]:
    """Cut everything that is carried once, behind the step, in the innermost function that can name all of it."""
    out: list[Remedy] = []
    line = program.driver
    between = False
    for call in user_frames(reuse.failing.stack if reuse.failing else []):
        if line is not None and is_at(call, line):
            # Behind this line all batches are done: what is called for each of them is the place.
            return [*out, *_detach_in_batch(program, reuse)]
        if renewed_outside(program.nodes, reuse, call):
            between = True
            continue
        paths = _paths_in(program, reuse, call)
        anchor, step = behind_the_step(program.sources, program.evidence.events, call)
        if len(paths) > FEW or not paths:
            for in_one_loop in (detach_in_modules, detach_in_entries) if not between else ():
                out += in_one_loop(program, reuse, call, anchor, step)
        if not paths:
            continue
        paths += [p for p in _held_in(program, call, paths) if p not in paths]
        if any(started_again(program.sources, call, anchor, p) for p, _ in paths):
            continue
        made = [program.node(c.producer) for c in reuse.carries if c.consumer < 0]
        if any(n is not None and ((at := in_function(n.stack, call)) is None or at.line > anchor.line) for n in made):
            continue  # made behind the step: it is cut where it is kept
        holders = [h for c in reuse.carries for h in c.tensor.holders]
        if all(_carrier(program.sources, call, h) == h.base for h in holders):
            out += begun_anew(program, reuse, call, [p for p, _ in paths])
        shown = ", ".join(f"`{p}`" for p, _ in paths[:4])
        if between:
            out += detach_behind_renewal(program, reuse, call, anchor, paths)
            continue
        if renewed_by_others(program, reuse, call):
            out += detach_before_use(program, reuse, call, paths)
        out.append(
            Remedy(
                "detach_after",
                f"detach {shown} once each iteration, after {_verb(program.sources, anchor, call)} at {where(step)}",
                "unsafe",
                stops_there(program.evidence.fresh_reaches, reuse),
                {"after": place(anchor), "paths": [_in_its_container(program.sources, call.file, *p) for p in paths]},
            )
        )
    return out


def _in_its_container(sources: SourceTexts, file: str, path: str, structure: Any) -> list[Any]:
    """A path with what is carried there; the third is True where the container has to stay the one that it is."""
    kept = isinstance(structure, dict) and bool({"list", "dict"} & set(structure))
    return [path, structure, True] if kept and is_one_container(sources, file, path) else [path, structure]


def _detach_in_batch(program: Program, reuse: Reuse) -> list[Remedy]:
    """Cut behind the forward, in the function of the user's that a package calls for each batch, where it can name it.

    The loss is computed by then and keeps its graph; what the function returns must not be made by that statement.
    """
    paths: list[list[Any]] = []
    anchor: Frame | None = None
    for c in distinct_carries(program.nodes, reuse.carries):
        producer, consumer = program.node(c.producer), program.node(c.consumer)
        frames = inside(program.driver, consumer.stack) if consumer is not None else []
        if producer is None or not frames or len(frames) < 2:
            return []  # computed in the batch's function itself: it is cut where it is kept
        root = tree(program.sources, frames[0].file)
        scope = function_around(root, frames[0].line) if root is not None else None
        owner = next((s for s in scope.body if covers(s, frames[0].line)), None) if scope is not None else None
        if owner is None or scope is None or isinstance(owner, ast.Return) or owner is scope.body[-1]:
            return []
        found = next(
            (
                edit["args"]["targets"][0]
                for holder in c.tensor.holders
                for frame in kept_at(program.sources, program.nodes, program.raised, [holder], producer)[:1]
                if frame.function.rpartition(".")[0] == frames[0].function.rpartition(".")[0]
                and (edit := _assignment(program.sources, frame, holder)) is not None
            ),
            None,
        )
        if found is None or not found[0].startswith("self."):
            return []
        if found not in paths:
            paths.append(found)
        at = frame_of(program.sources, frames[0].file, owner, frames[0].function)
        anchor = at if anchor is None or at.line > anchor.line else anchor
    if anchor is None:
        return []
    shown = ", ".join(f"`{p}`" for p, _ in paths[:4])
    return [
        Remedy(
            "detach_after",
            f"detach {shown} once each batch, in `{anchor.function}` after {where(anchor)}",
            "unsafe",
            stops_there(program.evidence.fresh_reaches, reuse, unit="batch"),
            {"after": place(anchor), "paths": paths},
        )
    ]


def _verb(sources: SourceTexts, anchor: Frame, call: Frame) -> str:
    """What the line does after which the cut comes; a call of the user's own is just that."""
    code = code_at(sources, anchor)
    if anchor is call:
        return "the backward call" if "backward(" in code or "grad(" in code else "the call"
    return "the optimizer step" if ".step(" in code else "the call"


def _paths_in(program: Program, reuse: Reuse, call: Frame) -> list[tuple[str, Any]]:
    paths: list[tuple[str, Any]] = []
    for c in reuse.carries:
        holders = could_carry(program.sources, program.nodes, c)  # what merely looks on would be cut in vain
        here = [h for h in holders if program.reaches_in(h, call) and h.structure is not None]
        if not here:
            found = _carried_in(program, reuse.carrying(c), call)
            if found is None:
                return []
            paths += [found] if found not in paths else []
            continue
        # The function's own names before globals; what is kept on an object before a plain name; then the shortest.
        best = min(here, key=lambda h: (h.function != call.function, "." not in h.base, len(h.base)))
        # Of a list of layers, all of which keep a state under this name, none is the only one.
        alike = [best] if best.exact else [h for h in here if _kind_of(h.base) == _kind_of(best.base)]
        for h in sorted(alike, key=lambda h: (len(h.base), h.base)):
            base = _carrier(program.sources, call, h)
            if (base, h.structure) not in paths:
                paths.append((base, h.structure))
    return paths


def _carrier(sources: SourceTexts, call: Frame, holder: Holder) -> str:
    """What goes on to the next round of what a holder holds, by name."""
    plain = is_local(holder, call) and len(holder.steps) == 1
    return carrier_of(sources, call, holder.base) if plain else holder.base


def _carried_in(program: Program, found: tuple[Frame, str] | None, call: Frame) -> tuple[str, Any] | None:
    """The name under which the function of the call carries a value on, and what the name holds."""
    if found is None or (found[0].file, found[0].function) != (call.file, call.function):
        return None
    structure = known(program, call.file, call.function, found[1])
    return (found[1], structure) if structure is not None and structure is not UNKNOWN else None


def _held_in(program: Program, call: Frame, paths: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
    """What the same object, or its sibling in a list of layers, keeps besides with a graph from before: the next
    to fail."""
    owners = {_owner(p) for p, _ in paths if "." in p}
    out: list[tuple[str, Any]] = []
    for tensor in program.evidence.held_tensors:
        for h in tensor.holders:
            if (
                program.reaches_in(h, call)
                and h.structure is not None
                and _owner(h.base) in owners
                and (h.base, h.structure) not in out
            ):
                out.append((h.base, h.structure))
    return out


def _owner(path: str) -> str:
    """What an attribute belongs to; the same for all entries of one list of objects."""
    return _kind_of(path.rpartition(".")[0])


def _kind_of(path: str) -> str:
    """A path without its positions: the same for all entries of one list of objects."""
    return re.sub(r"\.\d+(?=\.|$)|\[\d+\]", ".*", path)


def detach_where_kept(program: Program, reuse: Reuse) -> list[Remedy]:
    """Cut where the value is assigned or stored."""
    edits: list[dict[str, Any]] = []
    whole: list[Frame] = []
    for c in distinct_carries(program.nodes, reuse.carries):
        producer = program.node(c.producer)
        if producer is None:
            continue
        found = (
            (edit, frame)
            for holder in c.tensor.holders
            for frame in kept_at(program.sources, program.nodes, program.raised, [holder], producer)[:1]
            if (edit := _assignment(program.sources, frame, holder)) is not None
        )
        edit, frame = next(found, None) or _where_stored(program, c, producer)
        if edit is not None and edit not in edits:
            edits.append(edit)
            whole += [frame] if _binds_no_more(program.sources, edit, frame) else []
    if not edits or leaves_nothing(program, whole):
        return []
    shown = where(frame_at(edits[0]["args"]["place"]))
    return [
        Remedy(
            "several",
            f"detach the value where it is kept, at {shown}",
            "unsafe",
            "What is kept has the numbers only; the pass that computed it is unchanged as far as it uses the value "
            "under another name.",
            {"edits": edits},
        )
    ]


def _binds_no_more(sources: SourceTexts, edit: dict[str, Any], at: Frame) -> bool:
    """Whether all that an assignment binds is cut by this edit of it."""
    return {name for name, *_ in edit["args"]["targets"]} == {*bound_names(sources, at)}


def _where_stored(program: Program, carry: OlderEdge, producer: Node) -> tuple[dict[str, Any] | None, Frame]:
    """For a value that nothing holds any more: the statement that stored it under the name by which it was taken up."""
    stored = stored_on(program.sources, program.nodes, carry)
    made = next((f for f in user_frames(producer.stack) if stored and f.function == stored[0].function), None)
    structure = value_at(program, producer.stack, made) if made is not None else None
    if stored is None or structure is None:
        return None, Frame("", 0)
    edit = {"kind": "detach_assigned", "args": {"place": place(stored[0]), "targets": [[stored[1], structure]]}}
    return edit, stored[0]


def _assignment(sources: SourceTexts, frame: Frame, holder: Holder) -> dict[str, Any] | None:
    last = kept_name(holder)
    names = bound_names(sources, frame)
    target = next((n for n in names if n.split("[")[0].rsplit(".", 1)[-1] == last), None)
    structure = _structure_at(holder, target, last) if target is not None else None
    if structure is None:
        return None
    return {"kind": "detach_assigned", "args": {"place": place(frame), "targets": [[target, structure]]}}


def _structure_at(holder: Holder, target: str, last: str) -> Any:
    """What an assignment to this target binds, as far as the path of the held tensor tells; None where it does not."""
    steps = holder.steps
    at = max((i for i, s in enumerate(steps) if s.key == last and s.kind in ("name", "attribute")), default=-1)
    if at < 0:
        return None
    inner = target.count("[")
    rest = steps[at + 1 + inner :]
    if not rest:
        return "tensor" if len(steps) >= at + 1 + inner else None
    base = next((i for i, s in enumerate(steps) if s.kind not in ("name", "attribute")), len(steps))
    if at + 1 == base:
        return element_of(holder.structure, inner)
    return tuple_of(steps[at + inner].type) if all(s.kind == "index" for s in rest) and len(rest) == 1 else None
