"""Parts of a model that are built and that nothing in the program reads afterwards."""

from __future__ import annotations

import ast

from graphdoc.evidence import Frame, SourceTexts
from graphdoc.program import bindings
from graphdoc.program.observed import Program

_ALL_OF_THEM = frozenset({"children", "named_children", "_modules", "modules", "named_modules"})
"""By these a part is reached without its name."""


def never_read(sources: SourceTexts, parameter: str) -> tuple[str, Frame] | None:
    """The part of the model that a parameter belongs to (``director`` of ``model.director.weight``), and the one
    statement that builds it, where no code of the program names it again; None where that cannot be told."""
    nodes = [(file, n) for file in sources for n in ast.walk(bindings.tree(sources, file) or ast.Module([], []))]
    named = [(file, n) for file, n in nodes if isinstance(n, ast.Attribute)]
    if any(n.attr in _ALL_OF_THEM for _, n in named):
        return None
    words = {n.value for _, n in nodes if isinstance(n, ast.Constant) and isinstance(n.value, str)}
    for part in reversed(parameter.split(".")[1:-1]):
        if not part.isidentifier() or part in words:
            continue
        uses = [n for _, n in named if n.attr == part]
        built = [
            (file, n)
            for file, n in nodes
            if isinstance(n, ast.Assign) and any(t is u for t in n.targets for u in uses) and len(n.targets) == 1
        ]
        if len(uses) == 1 and len(built) == 1:
            return part, bindings.frame_of(sources, *built[0])
    return None


def left_alone(program: Program, name: str) -> tuple[str, Frame] | None:
    """The part of the model that an input of the failing ``grad`` call belongs to, where nothing reads it, and all
    other inputs that are not reached belong to such parts too."""
    asked, reached = program.evidence.extras.get("asked") or (), set(program.evidence.reaches)
    missed = {name, *(str(a) for a in asked if reached and a not in reached)}
    found = {n: never_read(program.sources, n) for n in missed}
    return found[name] if all(found.values()) else None
