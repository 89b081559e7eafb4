"""A forward pass that is data for the loss which fails: taken detached, and only what follows it runs again."""

from __future__ import annotations

from collections.abc import Sequence

from graphdoc.evidence import Frame, SourceTexts
from graphdoc.finding import Remedy
from graphdoc.program.connections import reached_without_line
from graphdoc.program.observed import Program
from graphdoc.program.overwrites import Overwrite
from graphdoc.program.spans import place, where
from graphdoc.program.stack_levels import level_of
from graphdoc.program.update_function import Scene
from graphdoc.program.value_reads import bound_names
from graphdoc.remedies.written_fixes import applies
from graphdoc.source.module import Source
from graphdoc.source.places import Place


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
    rest = [f for f in at.forwards if f not in constants]
    lines = ", ".join(dict.fromkeys(where(f) for f in constants[:3]))
    remedy = Remedy(
        "recompute_after",
        f"detach what {lines} computes, and run what follows again for this loss, after {where(at.write)}",
        "unsafe",
        "No optimizer of this loss holds what lies behind that value, so it is a constant here; what follows uses the "
        "weights as they are then.",
        {
            "places": [place(f) for f in [*constants, *rest]],
            "after": place(at.write),
            "backward": place(at.backward),
            "constants": [place(f) for f in constants],
        },
    )
    return [remedy] if applies(program.sources, remedy) else []


def _foreign(program: Program, found: Overwrite, at: Scene) -> list[Frame]:
    """The stale forwards behind which the failing loss is surely not meant to train anything, while it is elsewhere."""
    trained = found.trained
    if not trained or not trained & set(program.evidence.reaches) or found.failing is None:
        return []
    write = found.writers[0]
    behind: dict[tuple[int, int], set[str]] = {}
    for stale in found.stales:
        node = program.node(stale.node)
        level = level_of(node.stack, write.stack, found.failing.stack) if node is not None else None
        if level is not None:
            behind.setdefault((level[0].line, level[0].column), set()).update(stale.behind)
    foreign = [f for f in at.forwards if (names := behind.get((f.line, f.column))) and not names & trained]
    # What a statement gives besides may be what the loss learns from.
    left = [(f, reached_without_line(program.evidence.folded, f)) for f in foreign]
    return [f for f, names in left if (_gives_one(program.sources, f) if names is None else names & trained)]


def _gives_one(sources: SourceTexts, line: Frame) -> bool:
    """Whether a statement binds one name."""
    return len(bound_names(sources, line)) == 1


def _of_whole_statements(sources: SourceTexts, forwards: Sequence[Frame], foreign: list[Frame]) -> list[Frame]:
    """Those of the foreign forwards whose statement computes nothing but them."""
    if not foreign:
        return []
    source = Source(foreign[0].file, sources.get(foreign[0].file, ""))
    found: list[Frame] = []
    for f in foreign:
        own = source.node_statement(Place.of(f))
        value = getattr(own, "value", None)
        beside = [other for other in forwards if source.node_statement(Place.of(other)) is own]
        whole = value is not None and any(source.place(value) == Place.of(b) for b in beside)
        if whole and all(b in foreign for b in beside):
            found.append(f)
    return found
