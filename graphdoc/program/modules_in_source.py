"""The modules of a model as the source writes them: where each is made, kept and read."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence

from graphdoc.evidence import Frame, SourceTexts
from graphdoc.program import bindings
from graphdoc.program.observed import Program
from graphdoc.source.module import is_method_call, walked
from graphdoc.source.paths import entries_of, is_name, last_word, only, pairs, sole_target

# Where a layer of a model is made, by its name in the module tree: `heads.ner` where `self.heads` is set.

_Made = tuple[str, ast.expr]


def layers_without(idle: Iterable[str], every: Iterable[str]) -> list[str]:
    """The outermost layers all of whose parameters are idle; a parameter itself where only some of its layer's are."""
    idle, active = list(idle), set(every) - set(idle)
    found: dict[str, None] = {}
    for name in idle:
        parts = name.split(".")
        above = (".".join(parts[:n]) for n in range(1, len(parts) + 1))
        found.setdefault(next(a for a in above if a == name or not any(o.startswith(f"{a}.") for o in active)))
    return list(found)


def made_at(sources: SourceTexts, layer: str, every: Iterable[str]) -> Frame | None:
    """The expression that makes a layer, or the one around it where that cannot be told; None where no class is known
    to be the model's. ``every`` are the names of all its parameters: its class sets the first part of each of them.
    """
    firsts = {name.partition(".")[0] for name in every}
    classes = list(bindings.everywhere(sources, ast.ClassDef))
    here = only([(f, n) for f, n in classes if firsts <= {name for name, _ in _set_by(n)}])
    made: _Made | None = None
    parts = layer.split(".")
    while parts and here is not None:
        values = [v for name, v in _set_by(here[1]) if name == parts[0]]
        if len(values) != 1:
            break
        value, parts = _entry(values[0], parts[1:])
        made = here[0], value
        here = only([(f, n) for f, n in classes if isinstance(value, ast.Call) and n.name == last_word(value.func)])
    return bindings.frame_of(sources, *made) if made is not None else None


def _set_by(cls: ast.ClassDef) -> Iterator[tuple[str, ast.expr]]:
    """What the methods of a class set on their object."""
    for node in walked(cls):
        for target, value in pairs(node) if isinstance(node, ast.stmt) else ():
            if isinstance(target, ast.Attribute) and is_name(target.value, "self"):
                yield target.attr, value


def _entry(value: ast.expr, parts: Sequence[str]) -> tuple[ast.expr, list[str]]:
    """The entry of a container as it is written out, and the rest of its name: by its key or its index."""
    left = list(parts)
    while left and isinstance(value, ast.Call):
        inner = only(value.args)
        entries = inner.elts if isinstance(inner, ast.List | ast.Tuple) else value.args
        if last_word(value.func) == "ModuleDict" and isinstance(inner, ast.Dict):
            keys = [k.value if isinstance(k, ast.Constant) else None for k in inner.keys]
            found = inner.values[keys.index(left[0])] if left[0] in keys else None
        elif last_word(value.func) in ("Sequential", "ModuleList", "ParameterList") and left[0].isdigit():
            found = entries[int(left[0])] if int(left[0]) < len(entries) else None
        else:
            break
        if not isinstance(found, ast.Call) or any(isinstance(e, ast.Starred) for e in entries):
            break
        value, left = found, left[1:]
    return value, left


# Parts of a model that are built and that nothing in the program reads afterwards.

_ALL_OF_THEM = frozenset({"children", "named_children", "_modules", "modules", "named_modules"})
"""By these a part is reached without its name."""


def never_read(sources: SourceTexts, parameter: str) -> tuple[str, Frame] | None:
    """The part of the model that a parameter belongs to (``director`` of ``model.director.weight``), and the one
    statement that builds it, where no code of the program names it again; None where that cannot be told."""
    nodes = list(bindings.everywhere(sources))
    named = [(file, n) for file, n in nodes if isinstance(n, ast.Attribute)]
    if any(n.attr in _ALL_OF_THEM for _, n in named):
        return None
    words = {n.value for _, n in nodes if isinstance(n, ast.Constant) and isinstance(n.value, str)}
    for part in reversed(parameter.split(".")[1:-1]):
        if not part.isidentifier() or part in words:
            continue
        uses = [n for _, n in named if n.attr == part]
        assigned = ((file, n, sole_target(n)) for file, n in nodes if isinstance(n, ast.Assign))
        built = [(file, n) for file, n, target in assigned if any(target is u for u in uses)]
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


# Containers that a class writes into a container of its own: where each is written, and how deep it lies there.

_Levels = list[tuple[ast.expr, int]]
_Display = ast.List | ast.Tuple | ast.Dict | ast.ListComp | ast.GeneratorExp | ast.DictComp
_ADDING = {"append": 0, "appendleft": 0, "insert": 1}
"""Methods of a container that take one more thing, and the position of it among the arguments."""
_ADDING_MANY = {"extend": 0, "update": 0}


def written_into(owner: ast.ClassDef, attribute: str, value: ast.expr, depth: int) -> _Levels | None:
    """The expressions in ``owner`` that make the containers within the container ``attribute`` (``self.blocks``).

    Args:
        value: the expression that makes the outermost one.
        depth: how many levels of containers there are; 1 where it holds layers alone.

    Returns:
        each with its level, from 1; None where what is put in is not all written as something that can be named.
    """
    if depth < 2:
        return []
    found = _below(value, 0, depth)
    for node in walked(owner):
        if found is None:
            return None
        more = _added(node, attribute, depth)
        found = None if more is None else found + more
    return found if found else None


def _added(node: ast.AST, attribute: str, depth: int) -> _Levels | None:
    """What this statement or call puts into the container, or into one of those in it."""
    if is_method_call(node):
        level = _level(node.func.value, attribute)
        at = {**_ADDING, **_ADDING_MANY}.get(node.func.attr)
        if level is None or at is None:
            return []
        if len(node.args) <= at:
            return None
        adds = node.func.attr in _ADDING
        return (_made if adds else _below)(node.args[at], level + adds, depth)
    if isinstance(node, ast.Assign):
        levels = [level for t in node.targets if (level := _level(t, attribute))]
        return _made(node.value, levels[0], depth) if levels else []
    if isinstance(node, ast.AugAssign) and (level := _level(node.target, attribute)) is not None:
        return _below(node.value, level, depth)
    return []


def _level(node: ast.expr, attribute: str) -> int | None:
    """0 for ``self.blocks``, 1 for ``self.blocks[i]`` and so on; None for another expression."""
    level = 0
    while isinstance(node, ast.Subscript):
        node, level = node.value, level + 1
    return level if bindings.text_of(node) == attribute else None


def _made(value: ast.expr, level: int, depth: int) -> _Levels | None:
    """An expression of a container at this level, with those in it; nothing for a layer, below the last level."""
    if level >= depth:
        return []
    if isinstance(value, ast.Starred):
        return None
    inner = _below(value, level, depth) if isinstance(value, _Display | ast.IfExp) else []
    return None if inner is None else [(value, level), *inner]


def _below(value: ast.expr, level: int, depth: int) -> _Levels | None:
    """The containers that are written inside this one."""
    if level + 1 >= depth:
        return []
    if isinstance(value, ast.Call) and not value.args and not value.keywords:
        return []  # an empty one
    if not isinstance(value, _Display | ast.IfExp):
        return None
    found: _Levels = []
    either = isinstance(value, ast.IfExp)
    for item in [value.body, value.orelse] if isinstance(value, ast.IfExp) else entries_of(value):
        inner = _below(item, level, depth) if either else _made(item, level + 1, depth)
        if inner is None:
            return None
        found += inner
    return found
