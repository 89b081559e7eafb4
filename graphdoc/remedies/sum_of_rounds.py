"""A sum of the rounds of one update, that goes on into the next: start it anew behind each update."""

from __future__ import annotations

import ast
from dataclasses import replace

from graphdoc.evidence import Frame
from graphdoc.finding import Remedy
from graphdoc.program.observed import Program
from graphdoc.program.reuse import Reuse
from graphdoc.program.spans import innermost_user, where
from graphdoc.program.value_reads import bound_names, grows_at
from graphdoc.source.module import Loop, Source
from graphdoc.source.paths import covers, key, targets_of
from graphdoc.source.places import Place
from graphdoc.story.older_graph import distinct_carries


def sum_of_rounds(program: Program, reuse: Reuse) -> list[Remedy]:
    """Set a sum of several rounds back behind the update that is made of it.

    Such a sum starts as a number, and nothing reads it but what adds to it and the branch that makes the update. A cut
    would keep what the rounds before came to: in the value, and in every derivative that depends on it.
    """
    call = innermost_user(reuse.failing.stack) if reuse.failing is not None else None
    if call is None:
        return []
    source = Source(call.file, program.sources[call.file])
    statement = source.node_statement(Place.of(call))
    loop = source.node_loop(statement) if statement is not None else None
    if loop is None:
        return []
    branch = _branch(loop, call)
    for name in _summed(program, reuse, call, loop):
        start = _start(source, loop, name)
        if branch is None or not start or not _only_added(source, loop, branch, name):
            continue
        steps = [n.lineno for n in ast.walk(branch) if isinstance(n, ast.Attribute) and n.attr == "step"]
        last = max([call.line, *steps, *(n.lineno for n in _reads(branch, name))])
        behind = [s for s in branch.body if covers(s, last)][-1:]
        if not behind:
            continue
        return [
            Remedy(
                "reset_accumulator",
                f"start `{name}` anew behind each update, after {where(replace(call, line=last))}",
                "unsafe",
                "The sum holds the terms of one update only; so far it went on from what those before came to.",
                {"after": vars(source.place(behind[0])), "name": name, "value": start},
            )
        ]
    return []


def _branch(loop: Loop, call: Frame) -> ast.If | None:
    """The outermost ``if`` of the loop that the call stands in: the update is made in some rounds only."""
    return next((s for s in loop.body if isinstance(s, ast.If) and any(covers(b, call.line) for b in s.body)), None)


def _summed(program: Program, reuse: Reuse, call: Frame, loop: Loop) -> list[str]:
    """The plain names by which the loop adds to an older value."""
    nodes = [program.node(n) for c in distinct_carries(program.nodes, reuse.carries) for n in (c.producer, c.consumer)]
    frames = [f for node in nodes if node is not None for f in node.stack if f.user]
    here = [f for f in frames if (f.file, f.function) == (call.file, call.function) and covers(loop, f.line)]
    grown = [n for f in here if grows_at(program.sources, f) for n in bound_names(program.sources, f)]
    return [n for n in dict.fromkeys(grown) if n.isidentifier()]


def _start(source: Source, loop: Loop, name: str) -> str:
    """The number that the name is bound to before the loop; empty where it is something else."""
    before = [s for s in source.node_assignments(name, source.node_function(loop)) if s.lineno < loop.lineno]
    value = getattr(before[-1], "value", None) if before else None
    is_number = isinstance(value, ast.Constant) and isinstance(value.value, int | float)
    return ast.unparse(value) if is_number and value is not None else ""


def _only_added(source: Source, loop: Loop, branch: ast.If, name: str) -> bool:
    """Whether each statement that reads a name stands in the loop, and adds to it or makes the update; nothing outside
    of it is to tell what the sum came to, and nothing in it reads the number of the round beside the sum."""
    function = source.node_function(loop) or source.tree
    reads = _reads(function, name) if function is not None else []
    reading = [source.node_owner(n) for n in reads]
    if any(not covers(loop, n.lineno) for n in reads):
        return False
    rounds = _names(loop.target) if isinstance(loop, ast.For) else set()
    if any(s is not None and not _adds(s, name) and rounds & _names(s) for s in reading):
        return False
    return all(s is not None and (covers(branch, s.lineno) or _adds(s, name)) for s in reading)


def _names(node: ast.AST) -> set[str]:
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}


def _adds(statement: ast.stmt, name: str) -> bool:
    """Whether a statement reads the name only to add to it."""
    value = statement.value if isinstance(statement, ast.Assign) else None
    sides = [value.left, value.right] if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Add) else []
    again = [key(t) for t in targets_of(statement)] == [name] and name in map(key, sides)
    added = isinstance(statement, ast.AugAssign) and isinstance(statement.op, ast.Add)
    return (again or added) and len(_reads(statement, name)) == 1


def _reads(node: ast.AST, name: str) -> list[ast.Name]:
    """Where a name is read, as in ``x += 1`` too."""
    added = {id(n.target) for n in ast.walk(node) if isinstance(n, ast.AugAssign)}
    found = [n for n in ast.walk(node) if isinstance(n, ast.Name) and n.id == name]
    return [n for n in found if isinstance(n.ctx, ast.Load) or id(n) in added]
