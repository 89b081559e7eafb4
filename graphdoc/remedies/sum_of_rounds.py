"""Sums and states that go from one update into the next: started anew or cut behind each, and whom that leaves."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from graphdoc.evidence import Frame, SourceTexts
from graphdoc.finding import Remedy, remedy_at, together
from graphdoc.program import bindings
from graphdoc.program.bindings import function_around, source_at, tree
from graphdoc.program.container_entries import statements
from graphdoc.program.observed import Program
from graphdoc.program.reuse import Reuse
from graphdoc.program.spans import in_function, loop_of, place, user_line, where
from graphdoc.source.module import each
from graphdoc.source.paths import covers, is_read, key, plain_names, targets_of
from graphdoc.source.places import Place
from graphdoc.source.scopes import imported_as, scope_of
from graphdoc.story.wording import folded


def start_before(sources: SourceTexts, loop: Frame, name: str) -> ast.Assign | None:
    """The last assignment before a loop, in its function, that gives the name its value."""
    before = [s for s in statements(bindings.scope_at(sources, loop)) if s.lineno < loop.line]
    found = [s for s in before if isinstance(s, ast.Assign) and name in map(key, targets_of(s))]
    return found[-1] if found else None


def started_after_update(program: Program, call: Frame, name: str, value: ast.expr) -> list[Remedy]:
    """Start a number to which several rounds of a loop add again after the update that is made of it, in a branch.

    Not where anything else reads it, or the branch reads the number of the round beside it: a mean over all rounds.
    """
    source, statement = source_at(program.sources, call), bindings.statement_at(program.sources, call)
    loop = source.node_loop(statement) if statement is not None else None
    branches = [s for s in (loop.body if loop is not None else ()) if isinstance(s, ast.If)]
    branch = next((s for s in branches if any(covers(b, call.line) for b in s.body)), None)
    if loop is None or branch is None or not isinstance(getattr(value, "value", None), int | float):
        return []
    reads = [n for n in each(scope_of(source, loop), ast.Name) if n.id == name and is_read(n)]
    within = [n for n in reads if covers(branch, n.lineno)]
    owners = [source.node_owner(n) for n in reads if n not in within]
    adding = [s for s in owners if isinstance(s, ast.Assign) and covers(loop, s.lineno)]
    if len(set(adding)) < len(owners) or any([key(t) for t in targets_of(s)] != [name] for s in adding):
        return []
    rounds = plain_names(loop.target) if isinstance(loop, ast.For) else set()
    if any(rounds & plain_names(source.node_owner(n) or n) for n in within):
        return []
    steps = [n.lineno for n in each(branch, ast.Attribute) if n.attr == "step"]
    last = max([call.line, *steps, *(n.lineno for n in within)])
    behind = next(s for s in branch.body[::-1] if s.lineno <= last)
    title = f"start `{name}` again after each update, after {where(replace(call, line=last))}"
    note = "The sum then holds the terms of one update only, without those of earlier updates."
    args = {"place": vars(source.place(behind)), "statement": f"{name} = {key(value)}"}
    return [Remedy("add_statement", title, "unsafe", note, args)]


# Whom a cut leaves without gradient: what a loss reaches through its older part alone.


def stops_there(reuse: Reuse, which: str = "", unit: str = "iteration") -> str:
    """The effect of a cut between two iterations on those that are trained, as far as the graph of the loss tells."""
    text = f"The values are carried into the next {unit}, gradients are not{which}"
    missing = reuse.lost
    # Where this pass has made its own anew, they may well learn through that: its use is not told apart from the old's.
    anew = any(c.remade or c.recurrent for c in reuse.carries)
    if missing and not anew:
        return f"{text}: {folded(missing, 2)} {'gets' if len(missing) == 1 else 'get'} none through anything else."
    if reuse.own - reuse.fresh or not reuse.meant_known:
        return f"{text}."
    return f"{text}; what this loss trains still gets its gradient from the current {unit}."


def detach_carried(
    reuse: Reuse, paths: Sequence[Sequence[Any]], at: Sequence[Frame], when: str, side: str = "after", **effect: str
) -> list[Remedy]:
    """Give each of the paths its detached value after (or before) these statements; ``when`` ends the title."""
    shown = ", ".join(f"`{path}`" for path, *_ in paths[:4])
    edits = [{"kind": "detach_after", "args": {side: place(f), "paths": [list(p) for p in paths]}} for f in at]
    return together(edits, f"detach {shown} {when}", "unsafe", stops_there(reuse, **effect))


# A state that another pass renews between an update's step and the next update: cut behind that pass.

_RENEWED = " (also those through other passes between two updates)"


def renewed_outside(reuse: Reuse, call: Frame) -> bool:
    """Whether a pass that this function does not run (an evaluation in between) has renewed the value since the update
    that this function did run: behind its step it has no graph yet, and at the next update it has one again."""
    return any(in_function(c.making, call) and not in_function(c.using, call) for c in reuse.carries)


def renewed_by_others(program: Program, reuse: Reuse, call: Frame) -> bool:
    """Whether other functions, too, make the call that renews the value, in grad mode: an evaluation that the run has
    not come to yet leaves a graph in it."""
    for c in reuse.carries:
        here = in_function(c.using, call)
        made = bindings.call_at(program.sources, here) if here is not None and here is not c.using[0] else None
        name = bindings.text_of(made.func).rpartition(".")[2] if made is not None else ""
        for other in bindings.calls_named(program.sources, name) if name else ():
            scope = bindings.function_at(program.sources, other)
            own = scope is None or (other.file == call.file and scope.name == call.function.rpartition(".")[2])
            if not own and not bindings.contexts_around(program.sources, [other]):
                return True
    return False


def detach_before_use(program: Program, reuse: Reuse, call: Frame, paths: list[tuple[str, Any]]) -> list[Remedy]:
    """Cut in front of the forward that takes the value up: whatever renewed it since the last update is cut off."""
    source = source_at(program.sources, call)
    backward = source.node_statement(Place.of(call))
    if backward is None or not paths or not all("." in path for path, _ in paths):
        return []
    chain = [backward, *(n for n in source.node_ancestors(backward) if isinstance(n, ast.stmt))]
    level = [s for n in chain for s in source.node_block(n)[0] if s not in chain]
    uses = [in_function(c.using[::-1], call) for c in reuse.carries]
    taken = [source.node_in(Place.of(f), level) for f in uses if f is not None]
    found = [s for s in taken if s is not None]
    if not found or len(found) < len(uses):
        return []
    first = min(found, key=lambda s: s.lineno)
    at = bindings.frame_of(program.sources, call, first)
    return detach_carried(reuse, paths, [at], f"before each update, at {where(at)}", "before", which=_RENEWED)


def detach_behind_renewal(
    program: Program, reuse: Reuse, call: Frame, anchor: Frame, paths: list[tuple[str, Any]]
) -> list[Remedy]:
    """Cut where the pass in between has ended; behind the update as well where that pass may be left out."""
    source = source_at(program.sources, call)
    update = source.node_statement(Place.of(anchor))
    behind: list[Frame] = []
    for c in reuse.carries:
        frame = in_function(c.using[::-1], call)
        if frame is not None and frame.line not in (call.line, *(f.line for f in behind)):
            behind.append(frame)
    if not behind or update is None:
        return []
    block = source.node_block(update)[0]
    renewals = [source.node_statement(Place.of(f)) for f in behind]
    always = all(r in block for r in renewals)
    places = behind if always else [anchor, *behind]
    when = f"after the call at {' and '.join(where(f) for f in places)}"
    return detach_carried(reuse, paths, places, when, which=" (also those through the pass between two updates)")


# A sum that a loop of one pass makes, and that an attribute keeps for the next pass: start it anew in each.


def sum_started_anew(program: Program, reuse: Reuse) -> list[Remedy]:
    """Set the sum back before its loop, where nothing but the sum itself reads it in there.

    What the next round of the loop computes from it is a state, and goes on.
    """
    for c in reuse.values:
        frame = user_line(c.made)
        loop = loop_of(program.sources, frame) if frame is not None else None
        path = _summed_at(program.sources, frame, loop) if frame is not None and loop is not None else ""
        call = reuse.failing.stack if reuse.failing is not None else []
        if not path or loop is None or any(f.in_function_of(loop) and f.on_lines_of(loop) for f in call):
            continue
        title = f"start `{path}` again in each pass, before the loop at {where(loop)}"
        note = "The sum then holds the terms of one pass only, without those of earlier passes."
        zero = f"{path} = {_zero_of(program.sources, loop, path)}"
        return [*remedy_at(loop, "add_statement", title, "unsafe", note, statement=zero, before=True)]
    return []


def _summed_at(sources: SourceTexts, frame: Frame, loop: Frame) -> str:
    """The attribute that the statement at a place of a loop adds to, where it is a plain sum of that loop."""
    statement = bindings.statement_at(sources, frame)
    if not isinstance(statement, ast.AugAssign) or not isinstance(statement.op, ast.Add):
        return ""
    function = function_around(tree(sources, frame.file), frame.line)
    if function is None or not isinstance(statement.target, ast.Attribute):
        return ""
    path = key(statement.target)
    read = [n for n in each(function, ast.Attribute) if is_read(n)]
    inside = [n for n in read if key(n) == path and loop.line <= n.lineno <= loop.end_line]
    given = [n for n in each(function, ast.Assign) if path in {key(t) for t in targets_of(n)}]
    return "" if inside or given or not covers(function, loop.line) else path


def _zero_of(sources: SourceTexts, loop: Frame, path: str) -> str:
    """A start value: of the sum's own shape where the file has torch at hand, which a buffer asks for."""
    torch = imported_as(source_at(sources, loop), "torch")
    return f"{torch}.zeros_like({path})" if torch else "0"
