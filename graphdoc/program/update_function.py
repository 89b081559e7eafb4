"""The function in which a forward, a write and a failing backward all stand, and in which order they run there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from graphdoc.evidence import Frame, SourceTexts, Stale
from graphdoc.program.bindings import expression_at, source_at
from graphdoc.program.observed import Program
from graphdoc.program.overwrites import Overwrite
from graphdoc.program.spans import is_at, level_of, loops_around

MOST_FORWARDS = 8


@dataclass(frozen=True)
class Scene:
    """The innermost function in which the stale forwards, the write and the failing backward are all under way.

    ``order``: "straight" (forward, write, backward), "within" (one call does both, forward and write), "below" (one
    call behind the forward does both, write and backward), "late" (the write and the forward repeat in a loop, and
    backward comes behind it) or "carried" (the forward serves the next iteration's backward). ``write`` is the last of
    ``writes`` in the text.
    """

    forwards: tuple[Frame, ...]
    write: Frame
    backward: Frame
    order: str
    writes: tuple[Frame, ...] = ()
    writes_itself: bool = False
    """Whether the forward runs the function that has written: to run it again would be to write again."""

    @property
    def lines(self) -> list[Frame]:
        """One forward for each line."""
        return list({f.line: f for f in reversed(self.forwards)}.values())[::-1]


def scene(program: Program, found: Overwrite) -> Scene | None:
    """Where the three meet; None where they share no function, or nothing is known of one of them."""
    write = found.writers[0] if found.writers else None
    if write is None or found.failing is None:
        return None
    at = level_of(found.node.stack, write.stack, found.failing.stack)
    line = program.driver
    if at is None or (line is not None and all(is_at(line, f) for f in at)):
        return None  # all three below one line that runs the loop: nothing can be put between them there
    forward, _, backward = at
    writes = sorted(_writes(found, forward), key=lambda f: (f.line, f.column))
    last = writes[-1]
    below = [{(f.file, f.function) for f in found.node.stack if f.user}, {(f.file, f.function) for f in write.stack}]
    above = {(f.file, f.function) for f in found.failing.stack}
    forwards: dict[tuple[int, int], Frame] = {}
    for _, made in stale_forwards(program, found):
        if made.in_function_of(forward):
            forwards.setdefault((made.line, made.column), made)
    return Scene(
        tuple(sorted(forwards.values(), key=lambda f: (f.line, f.column)))[:MOST_FORWARDS],
        last,
        backward,
        _order(program.sources, forward, last, backward),
        tuple({(f.line, f.column): f for f in writes}.values()),
        bool(below[0] & below[1] - above),
    )


def stale_forwards(program: Program, found: Overwrite) -> Iterator[tuple[Stale, Frame]]:
    """What was overwritten, each with the line that computed it in the function of the first write and the call."""
    assert found.failing is not None
    for stale in found.stales:
        node = program.node(stale.node)
        level = level_of(node.stack, found.writers[0].stack, found.failing.stack) if node is not None else None
        if level is not None:
            yield stale, level[0]


def _writes(found: Overwrite, forward: Frame) -> list[Frame]:
    """The writes as this function has them, of all that wrote."""
    assert found.failing is not None
    levels = (level_of(found.node.stack, w.stack, found.failing.stack) for w in found.writers)
    return [at[1] for at in levels if at is not None and at[1].in_function_of(forward)]


def _order(sources: SourceTexts, forward: Frame, write: Frame, backward: Frame) -> str:
    loops = [loops_around(sources, f) for f in (forward, write, backward)]
    if any(loop in loops[1] and loop not in loops[2] for loop in loops[0]):
        return "late"
    if forward.extent == write.extent:
        # Of a comprehension's rounds a later one may have written what an earlier one saved.
        node = expression_at(sources, forward)
        above = source_at(sources, forward).node_ancestors(node) if node is not None else ()
        return "late" if any(hasattr(a, "generators") for a in above) else "within"
    if write.extent == backward.extent and (forward.end_line, forward.end_column) <= (write.end_line, write.end_column):
        return "below"  # in front of the call, or among its arguments
    return "straight" if forward.line < write.line < backward.line else "carried"
