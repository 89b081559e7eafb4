"""Forward passes that later writes do not reach: on clones of parameters, as a constant, or anew after the write."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from graphdoc.evidence import Evidence, Frame, SourceTexts, Stale
from graphdoc.finding import Remedy, edit_at, together
from graphdoc.fixes.program_slices import lift, made_of, reads
from graphdoc.program.bindings import source_at, text_of
from graphdoc.program.carried_names import bound_names
from graphdoc.program.in_place_writes import operands_named
from graphdoc.program.observed import Program
from graphdoc.program.overwrites import Overwrite, reached_without_line
from graphdoc.program.reuse import Reuse
from graphdoc.program.spans import depth, in_function, innermost_user, shared_levels, where
from graphdoc.program.update_function import Scene, scene, stale_forwards
from graphdoc.remedies.fix_places import again_behind, applies, listed_lines
from graphdoc.source.effects import another_each_time
from graphdoc.source.module import Source
from graphdoc.source.paths import covers, names_read, names_written, plain_names
from graphdoc.source.places import Place
from graphdoc.story.wording import listing

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
    note = (
        "This loss then takes that value as a constant, since its optimizer trains nothing that it was computed from. "
    )
    note += "The rest is computed with the updated weights."
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


# A loss that takes what was computed before a step, or for an earlier loss, where the same call stands again behind
# that, and nothing reads what it gives: a name that was meant to be the new one.


def behind_step(sources: SourceTexts, at: Scene | None) -> list[Remedy]:
    """For forwards before a step and a loss behind it."""
    return _unread(sources, at.lines, at.write, at.backward) if at is not None else []


def behind_call(program: Program, reuse: Reuse) -> list[Remedy]:
    """For values of a graph that an earlier call has used up, which another call than the failing one made."""
    makers = [c.made for c in reuse.carries]
    if reuse.calls is None or reuse.same_line or not makers or None in makers:
        return []
    freeing, failing = reuse.calls
    for backward in reversed([f for f in failing.stack if f.user]):
        earlier = in_function(freeing.stack, backward)
        made = [f for n in makers if n is not None and (f := in_function(n.stack, backward)) is not None]
        if earlier is not None and len(made) == len(makers):
            return _unread(program.sources, list({f.line: f for f in made}.values()), earlier, backward)
    return []


def _unread(sources: SourceTexts, forwards: list[Frame], after: Frame, backward: Frame) -> list[Remedy]:
    """Read the new values instead, wherever the failing loss is made of the old ones behind a line."""
    source = source_at(sources, backward)
    call = source.node_statement(Place.of(backward))
    if call is None:
        return []
    function = _Function(source, call, after.line)
    pairs = [function.twin(f) for f in forwards]
    known = [p for p in pairs if p is not None]
    if not known or len(known) != len(pairs):
        return []
    taken = [(name, new, read) for name, new, made in known for read in function.reads(name, made)]
    if {name for name, _, _ in taken} != {name for name, _, _ in known}:
        return []
    edits = [
        {"kind": "use_instead", "args": {"place": vars(source.place(r)), "operand": n, "name": t}} for n, t, r in taken
    ]
    old, new = listing(f"`{name}`" for name, _, _ in known), listing(f"`{twin}`" for _, twin, _ in known)
    it = "it" if len(known) == 1 else "them"
    note = (
        f"{new} {'is' if len(known) == 1 else 'are'} computed by the same call after {where(after)}, and nothing "
        f"reads {it}. The loss then gives its gradient to what this call has computed."
    )
    return together(edits, f"use {new}, computed again for this loss, in place of {old}", "unsafe", note)


class _Function:
    """A function with a line behind which something is computed again, and the backward call that fails."""

    def __init__(self, source: Source, call: ast.stmt, after: int) -> None:
        self.source, self.call, self.after = source, call, after
        self.node = source.node_function(call)
        self.every = [s for s in source.node_statements() if source.node_function(s) is self.node]

    def twin(self, forward: Frame) -> tuple[str, str, ast.stmt] | None:
        """The name of what a forward gave, the one that the same call gives its value behind the line and that nothing
        reads, and the statement of that."""
        made = [s for s in self.every if covers(s, forward.line) and _bound(s)]
        if len(made) != 1 or another_each_time(made[0]):
            return None
        name = _bound(made[0])
        loads = plain_names(self.node or self.source.tree, ast.Load)
        later = [s for s in self.every if self.after < s.lineno < self.call.lineno and _value(s) == _value(made[0])]
        unread = [s for s in later if _bound(s) not in {"", name, *loads}]
        twins = [s for s in unread if self._always_runs(s) and self._same(made[0], s)]
        return (name, _bound(twins[0]), twins[0]) if len(twins) == 1 else None

    def _always_runs(self, statement: ast.stmt) -> bool:
        """Whether the statement runs whenever the backward call behind it does."""
        return lift(self.source, self.call, self.source.node_block(statement)[0]) is not None

    def _same(self, made: ast.stmt, again: ast.stmt) -> bool:
        """Whether what the call is made of is the same both times, or bound by the same expression in between."""
        read = names_read(made)
        for s in self.every:
            if not made.lineno < s.lineno < again.lineno:
                continue
            for path in {*names_written(s)} & read:
                last = [o for o in self.every if o.lineno < made.lineno and _bound(o) == path]
                if not last or _value(s) != _value(last[-1]):
                    return False
        return True

    def reads(self, name: str, behind: ast.stmt) -> list[ast.stmt]:
        """The plain statements behind one that make the failing loss of a name; none where it is set again there."""
        last = [s for s in self.every if behind.lineno < s.lineno <= self.call.lineno]
        if any(name in names_written(s) for s in last) or not isinstance(self.call, ast.Expr):
            return []
        return [s for s in [*made_of(last, reads(self.call)), self.call] if name in reads(s)]


def _value(statement: ast.stmt) -> str:
    value = getattr(statement, "value", None)
    return text_of(value) if isinstance(value, ast.expr) else ""


def _bound(statement: ast.stmt) -> str:
    """The one name to which a statement binds the result of a call; empty for any other."""
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return ""
    target = statement.targets[0]
    return target.id if isinstance(statement.value, ast.Call) and isinstance(target, ast.Name) else ""
