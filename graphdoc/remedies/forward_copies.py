"""Forward passes that later writes do not reach: on clones of parameters, as a constant, or anew after the write."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from graphdoc.evidence import Evidence, Frame, SourceTexts, Stale
from graphdoc.finding import Remedy, edit_at, together
from graphdoc.program.bindings import source_at
from graphdoc.program.carried_names import bound_names
from graphdoc.program.in_place_writes import operands_named
from graphdoc.program.observed import Program
from graphdoc.program.overwrites import Overwrite, reached_without_line
from graphdoc.program.spans import depth, innermost_user, shared_levels, where
from graphdoc.program.update_function import Scene, scene, stale_forwards
from graphdoc.remedies.fix_places import again_behind, applies, listed_lines
from graphdoc.source.places import Place

# A forward on clones of the parameters, which later writes do not touch: its graph keeps the values it ran with.


def clone_forward(program: Program, found: Overwrite) -> list[Remedy]:
    """Give each stale forward clones of the parameters, which later writes do not touch."""
    edits: list[dict[str, Any]] = []
    shown: list[str] = []
    write = found.writers[0] if found.writers else None
    at = scene(program, found)
    # A module of two names would keep the clone: PyTorch replaces it twice, and gives back what it found last.
    untied = {"untied": True} if any(p.several_names for p in program.parameters) else {}
    for stale in found.stales:
        node = program.node(stale.node)
        above = 0
        if node is not None and write is not None and found.failing is not None:
            above = depth(node.stack, write.stack, found.failing.stack)
            if at is not None and at.order == "within":
                # The write would go into the clones as well, if the call that does both ran on them.
                above = max(above, shared_levels(node.stack, write.stack))
        edit, frame = _clone_edit(program.evidence, stale, above, untied)
        if edit is not None and edit not in edits:
            edits.append(edit)
            shown.append(where(frame))
    title = f"run the forward at {', '.join(dict.fromkeys(shown[:3]))} on clones of the parameters"
    note = "The gradient is that of the weights of the forward, and flows through the clones into the parameters and "
    note += "everything below. It costs a copy of them."
    return together(edits, title, "unsafe", note)


def _clone_edit(
    run: Evidence, stale: Stale, above: int, untied: dict[str, Any]
) -> tuple[dict[str, Any] | None, Frame | None]:
    """The outermost module call below the function in which the steps are made; else the parameter at its use."""
    node = run.node(stale.node)
    stack = node.stack if node is not None else []
    users = 0
    of_module = "." in stale.tensor.name  # a tensor by itself is no module's to be exchanged
    for frame, inner in pairwise(stack if of_module else ()):
        users += frame.user
        if frame.user and users > above and not inner.user and "_call_impl" in inner.function:
            return edit_at("clone_parameters", frame, **untied), frame
    frame_ = innermost_user(stack)
    names = operands_named(run.sources, frame_, stale.tensor.name)
    if frame_ is None or not names:
        return None, None
    return edit_at("clone_expression", frame_, operands=names), frame_


# A forward pass that is data for the loss which fails: taken detached, and only what follows it runs again.


def scored_again(program: Program, found: Overwrite, at: Scene | None) -> list[Remedy]:
    """Run again, behind the step, what the loss learns from, on what another network gave as it was.

    A discriminator that learns from scores of images whose generator has been stepped: its optimizer holds nothing of
    what lies behind the images, and all that it trains lies between them and the loss. The images stay, detached;
    they are scored again.
    """
    if at is None or at.order != "straight" or found.same_loss:
        return []
    constants = _of_whole_statements(program.sources, at.forwards, _foreign(program, found, at))
    if not constants:
        return []
    behind = f"after {where(at.write)}"
    title = f"detach what {listed_lines(constants)} computes, and run what follows again for this loss, {behind}"
    note = "This loss then takes that value as a constant, since its optimizer trains nothing that it was computed "
    note += "from. The rest is computed with the updated weights."
    every = [*constants, *(f for f in at.forwards if f not in constants)]
    remedy = again_behind(every, at.write, at.backward, title, note, constants)
    return [remedy] if applies(program.sources, remedy) else []


def _foreign(program: Program, found: Overwrite, at: Scene) -> list[Frame]:
    """The stale forwards behind which the failing loss is surely not meant to train anything, while it is elsewhere."""
    trained = found.trained
    if not trained or not trained & set(program.evidence.reaches) or found.failing is None:
        return []
    behind: dict[tuple[int, int], set[str]] = {}
    for stale, level in stale_forwards(program, found):
        behind.setdefault((level.line, level.column), set()).update(stale.behind)
    foreign = [f for f in at.forwards if (names := behind.get((f.line, f.column))) and not names & trained]
    # What a statement gives besides may be what the loss learns from.
    left = [(f, reached_without_line(program.evidence.folded, f)) for f in foreign]
    return [f for f, names in left if (len(bound_names(program.sources, f)) == 1 if names is None else names & trained)]


def _of_whole_statements(sources: SourceTexts, forwards: Sequence[Frame], foreign: list[Frame]) -> list[Frame]:
    """Those of the foreign forwards whose statement computes nothing but them."""
    if not foreign:
        return []
    source = source_at(sources, foreign[0])
    found: list[Frame] = []
    for f in foreign:
        own = source.node_statement(Place.of(f))
        value = getattr(own, "value", None)
        beside = [other for other in forwards if source.node_statement(Place.of(other)) is own]
        whole = value is not None and any(source.place(value) == Place.of(b) for b in beside)
        if whole and all(b in foreign for b in beside):
            found.append(f)
    return found
