"""The modules of a model as the source writes them: where each is made, kept and read."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence

from graphdoc.evidence import Frame, SourceTexts
from graphdoc.program import bindings
from graphdoc.program.observed import Program
from graphdoc.source.module import given_to, is_method_call, walked
from graphdoc.source.paths import called, elements, entries_of, is_name, only, pairs, sole_target

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
        here = only([(f, n) for f, n in classes if n.name == called(value)])
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
        entries = elements(inner) or value.args
        found: dict[object, ast.expr] = {}
        if called(value) == "ModuleDict" and isinstance(inner, ast.Dict):
            found = {k.value: v for k, v in zip(inner.keys, inner.values, strict=True) if isinstance(k, ast.Constant)}
        elif called(value) in ("Sequential", "ModuleList", "ParameterList"):
            found = {str(i): e for i, e in enumerate(entries)}
        entry = found.get(left[0])
        if not isinstance(entry, ast.Call) or any(isinstance(e, ast.Starred) for e in entries):
            break
        value, left = entry, left[1:]
    return value, left


# Parts of a model that are built and that nothing in the program reads afterwards.

_ALL_OF_THEM = frozenset({"children", "named_children", "_modules", "modules", "named_modules"})
"""By these a part is reached without its name."""


def never_read(sources: SourceTexts, parameter: str) -> tuple[str, Frame] | None:
    """The part of the model that a parameter belongs to (``director`` of ``model.director.weight``), and the one
    statement that builds it, where no code of the program names it again; None where that cannot be told."""
    named = [n for _, n in bindings.everywhere(sources, ast.Attribute)]
    words = {n.value for _, n in bindings.everywhere(sources, ast.Constant) if isinstance(n.value, str)}
    whole = any(n.attr in _ALL_OF_THEM for n in named)
    for part in (p for p in reversed(parameter.split(".")[1:-1]) if p.isidentifier() and p not in words and not whole):
        use = only([n for n in named if n.attr == part])
        assigned = bindings.everywhere(sources, ast.Assign)
        built = next((at for at in assigned if use is not None and sole_target(at[1]) is use), None)
        if built is not None:
            return part, bindings.frame_of(sources, *built)
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
    found = [_below(value, 0, depth), *(_added(node, attribute, depth) for node in walked(owner))]
    known = [levels for levels in found if levels is not None]
    return [level for levels in known for level in levels] or None if len(known) == len(found) else None


def _added(node: ast.AST, attribute: str, depth: int) -> _Levels | None:
    """What this statement or call puts into the container, or into one of those in it."""
    if is_method_call(node):
        level = _level(node.func.value, attribute)
        at, adds = {**_ADDING, **_ADDING_MANY}.get(node.func.attr), node.func.attr in _ADDING
        if level is None or at is None:
            return []
        return (_made if adds else _below)(node.args[at], level + adds, depth) if at < len(node.args) else None
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
    if level + 1 >= depth or (isinstance(value, ast.Call) and not given_to(value)):
        return []  # an empty one
    if isinstance(value, ast.IfExp):
        inner = [_below(side, level, depth) for side in (value.body, value.orelse)]
    else:
        inner = [_made(entry, level + 1, depth) for entry in entries_of(value)]
    known = [levels for levels in inner if levels is not None]
    whole = isinstance(value, _Display | ast.IfExp) and len(known) == len(inner)
    return [found for levels in known for found in levels] if whole else None
