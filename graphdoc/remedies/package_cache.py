"""A cache of an installed package that keeps a graph: to be switched off where it was switched on, or cleared."""

from __future__ import annotations

import ast

from graphdoc.evidence import Event, OlderEdge, SourceTexts
from graphdoc.evidence.lookup import package_of
from graphdoc.finding import Remedy
from graphdoc.program.bindings import tree
from graphdoc.program.installed import Switch, keepers_of, switches_of
from graphdoc.program.keeping_statements import kept_name
from graphdoc.program.loops import node_loop_of
from graphdoc.program.observed import Program
from graphdoc.program.reuse import Reuse
from graphdoc.program.spans import innermost_user, place, where
from graphdoc.source.paths import last_word


def without_cache(program: Program, reuse: Reuse) -> list[Remedy]:
    """The user's arguments by which a package keeps these values for later passes, given as off; none where a value is
    kept otherwise."""
    found: dict[tuple[int, int], Switch] = {}
    for c in reuse.carries:
        switches = _switches(program, c)
        if not switches:
            return []
        found.update({s.frame.start[1:]: s for s in switches})
    if not found:
        return []
    first = next(iter(found.values()))
    edits = [
        {"kind": "set_keyword", "args": {"place": place(s.call), "name": s.name, "value": "False"}}
        for s in found.values()
    ]
    shown = " and ".join(dict.fromkeys(where(s.frame) for s in found.values()))
    return [
        Remedy(
            "several",
            f"leave out the cache: {first.name}=False, at {shown}",
            "unsafe",
            "Each pass computes it from the weights of now.",
            {"edits": edits},
        )
    ]


def cleared_by_call(program: Program, reuse: Reuse) -> list[Remedy]:
    """The call by which the package clears what it keeps, for the user to write in each iteration; none where the
    program itself may have kept the value."""
    found = program.evidence.extras.get("clearing")
    if not isinstance(found, dict):
        return []
    held = str(found.get("held") or "")
    ways = [h.path for c in reuse.carries for h in c.tensor.holders if h.exact]
    alone = all(path == held or path.startswith(f"{held}.") for path in ways)  # else the program carries it on as well
    if not (alone and _is_bound_again(program.sources, reuse.failing, held) if held else reuse.kept_by_package):
        return []
    file = str(found.get("file"))
    package = package_of(program.packages, file)
    told, path = (package.told, package.path_of(file)) if package is not None else ("it", file)
    call = innermost_user(reuse.failing.stack) if reuse.failing is not None else None
    around = node_loop_of(program.sources, call) if call is not None else None
    when = "in each iteration, before the value is computed" if around is not None else "before it is computed again"
    return [
        Remedy(
            "clear_what_is_kept",
            f"call `{found.get('call')}` {when}: {told} then clears `{found.get('kept')}` ({path}:{found.get('line')})",
            "display",
            "What is kept there is of an earlier iteration; cleared, it is computed with the weights of now.",
        )
    ]


def _is_bound_again(sources: SourceTexts, failing: Event | None, name: str) -> bool:
    """Whether the round of the failing call has bound a name anew to what a package's function or property gave, which
    was a value of an earlier round."""
    call = innermost_user(failing.stack) if failing is not None else None
    loop = node_loop_of(sources, call) if call is not None else None
    if call is None or loop is None:
        return False
    bound = [s for s in ast.walk(loop) if isinstance(s, ast.Assign) and s.lineno <= call.line]
    given = [s.value for s in bound if any(ast.unparse(t) == name for t in s.targets)]
    return bool(given) and all(not _is_own(sources, value) for value in given)


def _is_own(sources: SourceTexts, value: ast.expr) -> bool:
    """Whether the program itself defines or sets what gives a value."""
    giving = value.func if isinstance(value, ast.Call) else value
    if not isinstance(giving, ast.Attribute) and giving is value:
        return True
    word = last_word(giving)
    every = [n for file in sources if (root := tree(sources, file)) is not None for n in ast.walk(root)]
    return any(
        (isinstance(n, ast.FunctionDef) and n.name == word)
        or (isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Store) and n.attr == word)
        for n in every
    )


def _switches(program: Program, carry: OlderEdge) -> list[Switch]:
    """What the user gave to let a package keep this value."""
    producer = program.node(carry.producer)
    if producer is None:
        return []
    for holder in carry.tensor.holders:
        for deed in keepers_of(program.packages, producer.stack, kept_name(holder)):
            switches = switches_of(program.sources, deed)
            if switches:
                return switches
    return []
