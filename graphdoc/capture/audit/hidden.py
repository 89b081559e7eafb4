"""Modules and parameters in plain containers of a module, where ``parameters()`` does not find them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from graphdoc.capture.places.code_places import is_users
from graphdoc.capture.tensors.facts import instances_of

MOST_CONTAINERS = 20
"""Containers of one module that are told."""
MOST_LEVELS = 6
"""Containers within containers that are looked into."""
MOST_ITEMS = 2000
"""Things in one container, at all levels, that are looked at."""


@dataclass
class Hidden:
    """What lies in plain containers of a module of class ``facts["class"]``.

    ``facts["containers"]`` has for each its ``attribute``, whether it holds ``parameters`` and not modules, their
    ``count``: a list of a single one may be how a program keeps a network out of ``parameters()`` on purpose; and its
    ``levels``, outermost first: ``"dict"``, ``"list"``, or ``""`` where both lie at one level.
    """

    parameters: dict[int, Any]
    facts: dict[str, Any]
    """Further ``file`` and ``line``: where the class's ``__init__`` begins, which may be in no stack of the run."""
    beside: set[int] = field(default_factory=set)
    """Ids of the parameters that an optimizer was given of the same network."""


def unregistered(torch: Any, unheld: dict[int, Any], held: set[int]) -> list[Hidden]:
    """The lists and dicts of modules, or of parameters, some of which are among ``unheld`` and none in an optimizer,
    one entry for a class.

    Those that an optimizer was given come first, then those inside what they contain. Where there are classes with a
    container of several, these alone; else one with single ones.

    Args:
        unheld: parameters that get gradients and are in no optimizer, by id.
        held: ids of those that are in one: a module with such parameters was given to it.
    """
    module = torch.nn.Module
    found: list[Hidden] = []
    every = ((owner, _hidden_in(torch, owner, unheld, held)) for owner in filter(is_users, instances_of(module)))
    waiting = [(owner, one) for owner, one in every if one is not None]
    within: set[int] = set()
    """Modules that would be found if the containers so far were."""
    for owner, one in waiting:
        one.beside = held_beside([owner], held, module)
    given = [pair for pair in waiting if pair[1].beside]
    while given:
        for owner, one in given:
            found.append(one)
            waiting.remove((owner, one))
            values = [owner.__dict__[c["attribute"]] for c in one.facts["containers"]]
            contained = [v for value in values for v in _contents(torch, value)[0] if module in type(v).__mro__]
            within.update(id(m) for v in contained for m in modules_inside(v))
        given = [pair for pair in waiting if id(pair[0]) in within]
        for _, one in given:
            one.beside = found[0].beside
    several = [one for one in found if any(c["count"] > 1 for c in one.facts["containers"])]
    return _by_class(several) if several else found[:1]


def _hidden_in(torch: Any, owner: Any, unheld: dict[int, Any], held: set[int]) -> Hidden | None:
    parameters: dict[int, Any] = {}
    containers: list[dict[str, Any]] = []
    for name, value in _attributes(torch, owner):
        items, levels = _contents(torch, value)
        mine = {i: p for i, p in _parameters_in(torch, items).items() if p.requires_grad}
        used = {i: p for i, p in mine.items() if i in unheld}
        if used and not mine.keys() & held and len(containers) < MOST_CONTAINERS:
            parameters.update(used)
            plain = type(items[0]) is torch.nn.Parameter
            containers.append({"attribute": name, "parameters": plain, "count": len(items), "levels": levels})
    if not parameters:
        return None
    writes = [(c, getattr(c.__dict__.get("__init__"), "__code__", None)) for c in type(owner).__mro__]
    own = [(c, code) for c, code in writes if code is not None]
    cls, code = next((w for w in own if containers[0]["attribute"] in w[1].co_names), own[0])
    place = {"file": code.co_filename, "line": code.co_firstlineno}
    return Hidden(parameters, {"class": cls.__qualname__, "containers": containers, **place})


def _attributes(torch: Any, owner: Any) -> list[tuple[str, Any]]:
    """What a module has beside what each module has, ``_modules`` and its like."""
    own = torch.nn.Module().__dict__
    return [(name, value) for name, value in owner.__dict__.items() if name not in own]


def _contents(torch: Any, value: Any) -> tuple[list[Any], list[str]]:
    """The modules, or the parameters, of a container of these at any level and of nothing else; and its levels."""
    module, parameter = torch.nn.Module, torch.nn.Parameter
    found: list[Any] = []
    levels: list[str] = []
    now, items = [value], 0
    while now and len(levels) < MOST_LEVELS:
        kinds, below = set(), []
        for container in now:
            kinds.add("dict" if dict in type(container).__mro__ else "list")
            for item in _within(container) or ():
                items += 1
                if module in type(item).__mro__ or type(item) is parameter:
                    found.append(item)
                elif items < MOST_ITEMS and _within(item) is not None:
                    below.append(item)
                else:
                    return [], []
        levels.append(kinds.pop() if len(kinds) == 1 else "")
        now = below
    alike = not now and len({type(v) is parameter for v in found}) == 1
    return (found, levels) if alike else ([], [])


def _within(value: Any) -> Iterable[Any] | None:
    """What lies in a container of Python's, read without a method that a class may have made its own; else None."""
    kind = next((k for k in type(value).__mro__ if k in (list, tuple, dict, deque)), None)
    if kind is None:
        return None
    return list(dict.values(value)) if kind is dict else list(kind.__iter__(value))


def _by_class(found: list[Hidden]) -> list[Hidden]:
    """One entry for each class, with the parameters of all of its modules."""
    classes: dict[tuple[str, str], Hidden] = {}
    for one in found:
        first = classes.setdefault((one.facts["file"], one.facts["class"]), one)
        first.parameters.update(one.parameters)
        known = {c["attribute"] for c in first.facts["containers"]}
        first.facts["containers"] += [c for c in one.facts["containers"] if c["attribute"] not in known]
    return list(classes.values())


def _parameters_in(torch: Any, items: list[Any]) -> dict[int, Any]:
    """The parameters among these and in these modules, by id; with those in plain containers of the modules again."""
    found: dict[int, Any] = {}
    todo, seen = list(items), set()
    for top in todo:
        if type(top) is torch.nn.Parameter:
            found[id(top)] = top
            continue
        for m in modules_inside(top):
            if id(m) in seen:
                continue
            seen.add(id(m))
            found.update((id(p), p) for p in (m.__dict__.get("_parameters") or {}).values() if p is not None)
            for _, value in _attributes(torch, m):
                todo += _contents(torch, value)[0]
    return found


def held_beside(owners: list[Any], held: set[int], module: type) -> set[int]:
    """Those of ``held``, parameters that an optimizer holds (ids), that lie in these modules; where none does, in what
    contains one of them."""
    mine = {id(p) for o in owners for p in inside(o)} & held
    if mine:
        return mine
    ids = {id(o) for o in owners}
    around = [o for o in instances_of(module) if any(id(m) in ids for m in (o.__dict__.get("_modules") or {}).values())]
    return {id(p) for o in around for p in inside(o)} & held


def inside(module: Any) -> list[Any]:
    """A module's parameters, without a method that a class may have made its own."""
    every = ((m.__dict__.get("_parameters") or {}).values() for m in modules_inside(module))
    return [p for parameters in every for p in parameters if p is not None]


def modules_inside(module: Any) -> list[Any]:
    """A module and those that are registered in it, at any depth."""
    todo, seen = [module], {id(module)}
    for m in todo:
        children = [c for c in (m.__dict__.get("_modules") or {}).values() if c is not None and id(c) not in seen]
        seen.update(map(id, children))
        todo += children
    return todo
